"""Documents of other verbs: profiles, storages, sweeps, caches, fleets, verifications, purchases.

Each is a section, whose answer in a sentence or two heads a page that has no forecast.
"""

from collections.abc import Sequence
from statistics import median

from spillcast.cache.result import CacheResult
from spillcast.fleet.result import Fleet
from spillcast.forecast.sizing.products import SizeRow, Sizing
from spillcast.lab.case import Verification
from spillcast.lab.io_size.sweep import Sweep as IoSizeSweep
from spillcast.lab.io_size.sweep import Timed
from spillcast.lab.memory_result import Point
from spillcast.lab.memory_result import Sweep as MemorySweep
from spillcast.profile.result import Profile, elapsed_words
from spillcast.recording.event_names import OPS
from spillcast.report.cache import accounts_table, runs_table
from spillcast.report.html import charts
from spillcast.report.html.axes import money_ticks
from spillcast.report.html.forecasts import place
from spillcast.report.html.inputs import Histogram
from spillcast.report.html.page import (
    MINUS,
    NOTHING,
    Figure,
    Section,
    between,
    micros,
    percent,
    percent1,
    seconds,
    size,
    table_of,
)
from spillcast.report.html.runs import events_table, histogram
from spillcast.report.size import answer as purchase_answer
from spillcast.report.size import frontier_table, knob_words, remarks
from spillcast.storage.source import Provenance
from spillcast.storage.storage import Group, Storage
from spillcast.tabular import Column, Table
from spillcast.text import sentence
from spillcast.units import format_count, interval_name

#: Bars of a chart; the tables hold more.
_PROFILE_MAX, _FLEET_MAX, _DAYS_MAX = 10, 12, 31
_GROUP = "op size_class_bytes:size depth pattern count:operations mean_us:mean"
_SAVED = "elapsed_s:elapsed temp_s:in_temp saved_text:saved saved_interval_s:interval share"


def profile(name: str, profile: Profile) -> Section:
    """The rows that take the longest as bars, and all as a table."""
    by = profile.by
    rows = [
        {**row, "event": ", ".join(NOTHING if row.get(k) is None else str(row[k]) for k in by)}
        for row in profile.rows
        if "total_us" in row
    ]
    # Lines of plans are in the order of their plan.
    busy = sorted(
        (row for row in rows if not row.get("idle")), key=lambda row: -(row["total_us"] or 0)
    )
    table, title = events_table(rows), f"Time by {', '.join(by)}"
    answer, figures = ["The profile holds no time."], []
    if busy:
        share = f", {percent(busy[0]['share'])} of the time" if busy[0].get("share") else ""
        total = micros(busy[0]["total_us"])
        answer = [f"The most time goes into {busy[0]['event']}: {total}{share}."]
        bars = [
            charts.Bar(row["event"], micros(row["total_us"]), {"time": row["total_us"] / 1e6})
            for row in busy[:_PROFILE_MAX]
        ]
        caption = f"{elapsed_words(profile.elapsed_s, rows)}."
        figures = [Figure(title, caption, charts.bars(bars, {"time": "target"}), table)]
    return Section(
        f"Where the time goes: {name}",
        figures=figures,
        tables=[(f"By {', '.join(by)}", table)],
        answer=profile.words or answer,
    )


def storage(storage: Storage, latencies: Sequence[Histogram]) -> Section:
    """Mean latency by size, and the histogram of each operation."""
    figures = [histogram(group, None, (storage.name, "")) for group in latencies]
    single = _single_operations(storage.groups)
    if len({group.size_class_bytes for group in single}) > 1:
        how = [word for word in (single[0].pattern, single[0].access) if word]
        points = {
            f"{op}s": [
                (group.size_class_bytes, group.mean_s, None, True)
                for group in single
                if group.op == op
            ]
            for op in OPS
        }
        chart = charts.lines_by_size(
            {name: of for name, of in points.items() if of},
            "size of an operation",
            "mean latency",
            logarithmic=True,
        )
        caption = ", ".join([f"{single[0].depth} at once", *how]) + "."
        table = _groups_table(single, _GROUP.replace(" pattern", ""))
        figures.insert(0, Figure("Mean latency by the size of an operation", caption, chart, table))
    return Section(
        f"Storage: {storage.name}",
        _provenance(storage.provenance),
        figures,
        [("Latency by operation and size", _groups_table(storage.groups, _GROUP))],
        answer=[_mean_latencies(storage)],
    )


def _groups_table(groups: Sequence[Group], keys: str) -> Table:
    rows = [
        vars(group) | {"mean_us": 1e6 * group.mean_s if group.count else None} for group in groups
    ]
    return table_of(rows, keys)


def _mean_latencies(storage: Storage) -> str:
    # Sizes of a grid or of the catalogue are no load's: the smallest stands for them.
    mixed = storage.source.word not in ("grid", "catalogue")
    means = []
    for op in OPS:
        of_op = [group for group in storage.groups if group.op == op]
        groups = of_op if mixed else _single_operations(of_op)[:1]
        if operations := sum(group.count for group in groups):
            mean_s = sum(group.total_ns for group in groups) / operations / 1e9
            of_size = "" if mixed else f" of {size(groups[0].size_class_bytes)}"
            means.append(f"{seconds(mean_s)} for a {op}{of_size}")
    if not means:
        return f"{storage.name} has no measured operations."
    return f"{storage.name} takes, on average, {' and '.join(means)}."


def _single_operations(groups: Sequence[Group]) -> list[Group]:
    """The groups of operations one at a time, of one way of access and one pattern."""
    first = min((group.depth for group in groups), default=1)
    kept = [group for group in groups if group.depth == first and group.count]
    kept = [group for group in kept if group.access == kept[0].access]
    kept = [group for group in kept if group.pattern == kept[0].pattern]
    return sorted(kept, key=lambda group: (group.op, group.size_class_bytes))


def _provenance(known: Provenance | None) -> list[str]:
    labels = {
        "measured_at": "on {:.10}", "host": "on host {}", "device_name": "device {}",
        "mount_options": "mounted with {}",
    }  # fmt: skip
    values = {key: getattr(known, key, None) for key in labels}
    parts = [labels[key].format(value) for key, value in values.items() if value]
    return [f"Measured {', '.join(parts)}."] if parts else []


def io_sizes(sweep: IoSizeSweep) -> Section:
    """The time with each size as stacked bars."""
    best, rows, bars = sweep.best, [], []
    for row in sweep.rows:
        setting = _setting(row)
        parts = {"reads": row.reads.total_s, "writes": row.writes.total_s}
        text = f"{seconds(row.total_s)}{', best' if row.setting == best.setting else ''}"
        bars.append(charts.Bar(setting, text, parts))
        rows.append(
            {
                "setting": setting,
                "reads_count": row.reads.count,
                "reads_us": row.reads.mean_us,
                "writes_count": row.writes.count,
                "writes_us": row.writes.mean_us,
                "total_s": row.total_s,
                "interval_s": row.interval_s,
            }
        )
    keys = "setting:size_of_an_operation reads_count:reads reads_us:mean_read writes_count:writes"
    keys += " writes_us:mean_write total_s:total interval_s:interval"
    table, chart = table_of(rows, keys), charts.bars(bars, {"reads": "read", "writes": "write"})
    title = f"Time of all temp I/O by the size of an operation, on {sweep.storage}"
    answer = (
        f"On {sweep.storage} temp I/O is fastest in operations of {_setting(best)}: about "
        f"{seconds(best.total_s)} for all of it"
    )
    worst = max(sweep.rows, key=lambda row: row.total_s)
    if worst.total_s > best.total_s > 0:
        times = f"{worst.total_s / best.total_s:.2g} times"
        answer += f", {times} as fast as with {_setting(worst)}"
    return Section(
        "Which I/O size",
        [f"{advice.engine}: {advice.text}" for advice in sweep.advice],
        [Figure(title, f"Fastest: {_setting(best)}.", chart, table)],
        [("", table)],
        answer=[f"{answer}."],
    )


def _setting(row: Timed) -> str:
    low, high = size(row.min_bytes), size(row.max_bytes)
    return low if low == high else f"{low} to {high}"


def memory(sweep: MemorySweep) -> Section:
    """The time with each size of memory as a line for each storage."""
    points = [
        {**vars(point), "how": "measured" if point.measured else "forecast"}
        for point in sweep.points
    ]
    keys = "storage memory_bytes:memory elapsed_s:elapsed interval_s:interval reads writes"
    table = table_of(points, f"{keys} spilled_bytes:spilled how:_")
    caption = "Filled points are measured, open ones forecast with their intervals."
    series: dict[str, list[charts.Point]] = {}
    for p in sweep.points:
        drawn = (p.memory_bytes, p.elapsed_s, p.interval_s, p.measured)
        series.setdefault(p.storage, []).append(drawn)
    names, figures = list(series), []
    for first in range(0, len(names), len(charts.SERIES)):
        shown = {name: series[name] for name in names[first : first + len(charts.SERIES)]}
        chart = charts.lines_by_size(shown, "work memory", "elapsed time", logarithmic=False)
        title = f"Elapsed time by memory: {sweep.engine} {sweep.workload}"
        figures.append(Figure(title, caption, chart, table))
    turns = []
    for turn in sweep.turns:
        where = f"{turn.storage} at " if turn.storage else ""
        turns.append(f"{where}{size(turn.memory_bytes)}: {turn.before} becomes {turn.after}.")
    return Section("How much memory", turns, figures, answer=[_enough(sweep.points)])


def _enough(points: Sequence[Point]) -> str:
    """The smallest memory within a tenth of the fastest time, on any storage."""
    fastest_s = min(point.elapsed_s for point in points)
    enough = [point for point in points if point.elapsed_s <= 1.1 * fastest_s]
    smallest = min(enough, key=lambda point: point.memory_bytes)
    worst = max(points, key=lambda point: point.elapsed_s)
    text = (
        f"With {size(smallest.memory_bytes)} of memory on {smallest.storage} this query "
        f"takes about {seconds(smallest.elapsed_s)}"
    )
    if any(point.memory_bytes > smallest.memory_bytes for point in points):
        text += ", and more memory hardly helps"
    if worst in enough:
        return f"{text}."
    return (
        f"{text}; with {size(worst.memory_bytes)} on {worst.storage} it takes "
        f"{seconds(worst.elapsed_s)}."
    )


def cache(result: CacheResult) -> Section:
    """The miss-ratio curve, and what a cache of the simulated size served."""
    curve, cache = result.curve, result.cache
    data, enough = size(curve.data_bytes), size(curve.enough_bytes)
    answer = [f"No flash cache helps: nothing of the {data} is read again."]
    caption = "No cache size gives any hits."
    if curve.enough_bytes is not None:
        answer = [
            f"A flash cache of {enough} would serve nine in ten of the reads that any cache of "
            f"these {data} could serve."
        ]
        caption = f"{enough} bring nine tenths of the hits of any size."
    figures, tables = [], []
    pairs = list(zip(curve.size_bytes, curve.miss_ratio, strict=True))
    if points := [(size_bytes, miss) for size_bytes, miss in pairs if size_bytes > 0]:
        marked = [("nine tenths of all hits", curve.enough_bytes)]
        marked += [("simulated", cache.size_bytes)] if cache else []
        columns = Column("size", None, "bytes"), Column("reads that miss", None, "share")
        title = "Reads that miss, by the size of an LRU cache"
        chart = charts.miss_ratio(points, marked)
        figures.append(Figure(title, caption, chart, Table(columns, pairs)))
    if cache and cache.runs:
        if curve.enough_bytes is not None:
            hits = percent(cache.runs[-1].hit_ratio)
            answer.append(f"With {size(cache.size_bytes)}, {hits} of the reads would hit.")
        title = f"Last run with {size(cache.size_bytes)}, policy {cache.policy}"
        tables = [(title, accounts_table(cache)), ("Traffic", runs_table(cache))]
    return Section("How much flash is worth buying", (), figures, tables, answer=answer)


def fleet(fleet: Fleet) -> Section:
    """Savings by statement and by database, temp I/O by day."""
    statements, databases = (
        [
            {**vars(row), "saved_text": getattr(row, "refused", None) or seconds(row.saved_s)}
            for row in rows
        ]
        for rows in (fleet.statements, fleet.databases)
    )
    by_day = [charts.Bar(day.day, seconds(day.temp_s), {"temp": day.temp_s}) for day in fleet.days]
    kinds = (
        (
            "Saving by statement, the largest first",
            [
                _saving(f"{row.sql}, {row.database}", row.saved_s, row.share)
                for row in fleet.statements
                if row.saved_s is not None
            ],
            table_of(statements, f"sql:statement database {_SAVED} cumulative_share:so_far"),
        ),
        (
            "Saving by database",
            [_saving(row.database, row.saved_s, row.share) for row in fleet.databases],
            table_of(databases, f"database statements {_SAVED}"),
        ),
        (
            "Temp I/O by day",
            by_day,
            table_of([vars(day) for day in fleet.days], "day temp_s:in_temp saved_s:saved"),
        ),
    )
    figures = []
    for title, bars, table in kinds:
        shown = bars[-_DAYS_MAX:] if bars is by_day else bars[:_FLEET_MAX]
        more = f"{len(shown)} of {len(bars):,}; the table below has more."
        if shown:
            chart = charts.bars(shown, {"saved": "target", "temp": "read"})
            figures.append(Figure(title, more if len(bars) > len(shown) else "", chart, table))
    refused = sum(row.refused is not None for row in fleet.statements)
    words = f"No forecast for {format_count(refused, 'statement')}; the table says why."
    title = f"What {fleet.target} would save"
    return Section(title, [words] if refused else [], figures, answer=_saved(fleet))


def _saved(fleet: Fleet) -> list[str]:
    statements = format_count(len(fleet.statements), "spilling statement")
    target = place(fleet.target)
    if fleet.saved_s <= 0:
        return [f"On {target} nothing would be saved for {statements}."]
    sentences = [
        f"{target} saves {seconds(fleet.saved_s)} of the time of {statements}, "
        f"{interval_name(fleet.confidence)} {between(fleet.saved_interval_s)}."
    ]
    if 0 < fleet.statements_for_most < len(fleet.statements):
        brings = "brings" if fleet.statements_for_most == 1 else "bring"
        most = percent(fleet.most)
        sentences.append(f"{fleet.statements_for_most:,} of them {brings} {most} of it.")
    return sentences


def _saving(name: str, saved_s: float, share: float) -> charts.Bar:
    return charts.Bar(name, f"{seconds(saved_s)}, {percent(share)}", {"saved": max(saved_s, 0.0)})


def verification(verifications: Sequence[Verification]) -> Section:
    """Forecast against measured time, and all cases."""
    rows, points, errors, inside = [], [], [], 0
    for case in (case for verification in verifications for case in verification.cases):
        measured_s, forecast = case.measured_to_s, case.forecast
        row = {
            "query": f"{case.engine} {case.workload} x{case.threads}",
            "from": case.source,
            "to": case.target,
            "forecast_s": forecast.forecast_s,
            "interval_s": forecast.interval_s,
            "measured_to_s": measured_s,
            "error_text": NOTHING,
        }
        if forecast.forecast_s is not None and forecast.interval_s is not None:
            error = forecast.forecast_s / measured_s - 1
            row["error_text"] = percent1(error).replace("-", MINUS)
            points.append((measured_s, forecast.forecast_s, case.direction))
            errors.append(abs(error))
            inside += forecast.interval_s[0] <= measured_s <= forecast.interval_s[1]
        rows.append(row)
    keys = "query from to forecast_s:forecast interval_s:interval measured_to_s:measured"
    table, title = table_of(rows, f"{keys} error_text:error"), "How good the forecasts are"
    if not points:
        answer = f"No forecast in {format_count(len(rows), 'case')}."
        return Section(title, tables=[("", table)], answer=[answer])
    answer = (
        f"The median error of {format_count(len(points), 'forecast')} was "
        f"{percent1(median(errors))} when the queries were then run on the target; the measured "
        f"time was inside {inside} of {format_count(len(points), 'interval')}."
    )
    caption = "Each point is a case; on the line both agree, the dashed lines are 10 % off."
    figure = Figure("Forecast against measured time", caption, charts.scatter(points), table)
    return Section(title, figures=[figure], answer=[answer])


def purchase(sizing: Sizing) -> Section:
    """The answer, the chart of all rows that cost something, and the table of all."""
    words = [*purchase_answer(sizing), *map(sentence, [*knob_words(sizing), *remarks(sizing)])]
    if not sizing.frontier:
        return Section("What to buy", words, answer=purchase_answer(sizing))
    table = frontier_table(sizing)
    bought = [row for row in sizing.frontier if row.cost_per_month]
    figures = [_frontier_chart(sizing, bought)] if len(bought) > 1 else []
    return Section("What to buy", words, figures, [("", table)], answer=purchase_answer(sizing))


def _frontier_chart(sizing: Sizing, bought: Sequence[SizeRow]) -> Figure:
    series = {"cheapest storage for its time": [_point(row) for row in bought]}
    if sizing.chosen in bought:
        series["chosen"] = [_point(row) for row in bought if row == sizing.chosen]
    title = f"price, {sizing.currency} a month"
    chart = charts.lines_by_size(
        series, title, "elapsed time", logarithmic=True, x_ticks=money_ticks
    )
    caption = "Each line across a point is its interval."
    return Figure("Price and time", caption, chart, frontier_table(sizing))


def _point(row: SizeRow) -> charts.Point:
    return row.cost_per_month or 0.0, row.elapsed_s, row.interval_s, True

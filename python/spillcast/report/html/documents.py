"""Sections of a page from documents other than forecasts: servers, profiles, sweeps.

The answer of a section, one or two sentences, is the head of a page without a forecast.
"""

from collections import Counter
from collections.abc import Sequence
from dataclasses import replace
from statistics import median
from typing import Any

from spillcast.cache.simulation import CacheResult
from spillcast.engines.ranking import Ranked, ServerRanking, SpillHistory
from spillcast.fleet import Fleet
from spillcast.forecast.sizing.products import Sizing
from spillcast.lab.case import Verification, error_of
from spillcast.lab.io_size import IoSizeSweep
from spillcast.lab.memory_result import MemoryPoint, MemorySweep
from spillcast.profile.result import FUNCTION, Profile
from spillcast.recording import OPS
from spillcast.report import Prose
from spillcast.report import fleet as fleets
from spillcast.report import servers as terminal
from spillcast.report import sizing as sizes
from spillcast.report import storage as storages
from spillcast.report import sweep as sweeps
from spillcast.report.cache import cache_parts, curve_sentences
from spillcast.report.html import (
    MINUS,
    NOTHING,
    ROWS_MAX,
    Figure,
    Section,
    charts,
    micros,
    percent,
    percent1,
    seconds,
    size,
    table_in,
    texts,
)
from spillcast.report.html.axes import fitting_sizes, money_ticks
from spillcast.report.html.inputs import StorageLatencies
from spillcast.report.html.runs import histogram
from spillcast.report.profile import functions_page, profile_page
from spillcast.storage.storage import Group, Storage
from spillcast.tabular import Column, PrintedTable
from spillcast.text import one_line, sentence
from spillcast.units import format_count, format_setting, interval_name

#: Maximum numbers of bars of a profile, a fleet and its days; the tables have all.
_PROFILE_MAX, _FLEET_MAX, _DAYS_MAX = 10, 12, 31
_CASES = (
    *(Column("query", "query"), Column("from", "source"), Column("to", "target")),
    Column("forecast", "forecast_s", "s"),
    Column("interval", "interval_s", "interval"),
    Column("measured", "measured_to_s", "s"),
    Column("error", "error_text", "raw"),
)


def profile(name: str, profile: Profile) -> Section:
    """The longest rows as bars, and all rows as a table."""
    page = functions_page(profile, None) if FUNCTION in profile.by else profile_page(profile)
    rows = [row for row in profile.rows if not row.get("idle") and row.get("total_us")]
    # Rows of plan lines are in the order of the plan, not by time.
    longest = sorted(rows, key=lambda row: -row["total_us"])[:_PROFILE_MAX]
    answer, figures = ["The profile holds no time."], []
    if longest:
        names = [
            ", ".join(NOTHING if row.get(key) is None else str(row[key]) for key in profile.by)
            for row in longest
        ]
        share = f", {percent(longest[0]['share'])} of the time" if longest[0].get("share") else ""
        total = micros(longest[0]["total_us"])
        answer = [f"The most time goes into {names[0]}: {total}{share}."]
        bars = [
            charts.Bar(name, micros(row["total_us"]), {"time": row["total_us"] / 1e6})
            for name, row in zip(names, longest, strict=True)
        ]
        title, table = f"Time by {', '.join(profile.by)}", table_in(page)
        figures = [Figure(title, "", charts.bars(bars, {"time": "target"}), table)]
    answer = list(profile.words) or answer
    return Section.of(f"Where the time goes: {name}", page.parts, figures, answer)


def storage(storage: Storage, latencies: StorageLatencies) -> Section:
    """Mean latency by size, and the histogram of each operation."""
    figures = [histogram(group, None, (storage.name, "")) for group in latencies.groups]
    single = _single_operations(storage.groups)
    if len({group.size_class_bytes for group in single}) > 1:
        points: dict[str, list[charts.ChartPoint]] = {}
        for group in single:
            point = (group.size_class_bytes, group.mean_s, None, True)
            points.setdefault(f"{group.op}s", []).append(point)
        x_title, y_title = "size of an operation", "mean latency"
        chart = charts.lines_by_size(points, x_title, y_title, logarithmic=True)
        title = "Mean latency by the size of an operation"
        conditions = f"{single[0].depth} at once", single[0].pattern, single[0].access
        caption = f"{', '.join(filter(None, conditions))}."
        figures.insert(0, Figure(title, caption, chart, storages.figures(single)))
    origins = list(filter(None, (storages.origin_text(storage), storages.provenance_text(storage))))
    _, *measured = storages.measured_parts(storage)
    return Section.of(
        f"Storage: {storage.name}", [Prose(origins), *measured], figures, [_mean_latencies(storage)]
    )


def _mean_latencies(storage: Storage) -> str:
    """The mean latency of each op in a sentence."""
    # The sizes of a grid or the catalogue are not a load; the smallest represents them.
    is_load = storage.source.name not in ("grid", "catalogue")
    means = []
    for op in OPS:
        of_op = [group for group in storage.groups if group.op == op]
        groups = of_op if is_load else _single_operations(of_op)[:1]
        if operations := sum(group.count for group in groups):
            mean_s = sum(group.total_ns for group in groups) / operations / 1e9
            of_size = "" if is_load else f" of {size(groups[0].size_class_bytes)}"
            means.append(f"{seconds(mean_s)} for a {op}{of_size}")
    if not means:
        return f"{storage.name} has no measured operations."
    return f"{storage.name} takes, on average, {' and '.join(means)}."


def _single_operations(groups: Sequence[Group]) -> list[Group]:
    """The groups of the smallest depth, with the access and pattern of the first group."""
    depth_min = min((group.depth for group in groups), default=1)
    single = [group for group in groups if group.depth == depth_min and group.count]
    single = [group for group in single if group.access == single[0].access]
    single = [group for group in single if group.pattern == single[0].pattern]
    return sorted(single, key=lambda group: (group.op, group.size_class_bytes))


def io_sizes(sweep: IoSizeSweep) -> Section:
    """The time with each size as stacked bars."""
    page = sweeps.io_size_page(sweep)
    bars = [
        charts.Bar(
            name,
            f"{seconds(row.total_s)}{', best' if row.setting == sweep.best.setting else ''}",
            {"reads": row.reads.total_s, "writes": row.writes.total_s},
            row.interval_s,
        )
        for name, row in sweeps.io_size_rows(sweep)
    ]
    chart = charts.bars(bars, {"reads": "read", "writes": "write"})
    title = f"Time of all temp I/O by the size of an operation, on {sweep.storage}"
    caption = f"The line at the end of a bar is its {interval_name(sweep.confidence)}."
    figures = [Figure(title, caption, chart, table_in(page))]
    return Section.of("Which I/O size", page.parts, figures, [sweeps.io_size_verdict(sweep)])


def memory(sweep: MemorySweep) -> Section:
    """The time with each size of memory as a line for each storage."""
    caption = "Filled points are measured, open ones forecast with their intervals."
    series: dict[str, list[charts.ChartPoint]] = {}
    for p in sweep.points:
        point = (p.memory_bytes, p.elapsed_s, p.interval_s, p.measured)
        series.setdefault(p.storage, []).append(point)
    names, figures = list(series), []
    for first in range(0, len(names), len(charts.SERIES)):
        shown = {name: series[name] for name in names[first : first + len(charts.SERIES)]}
        chart = charts.lines_by_size(shown, "work memory", "elapsed time", logarithmic=False)
        on = f" on {', '.join(shown)}" if len(names) > len(shown) else ""
        title = f"Elapsed time by memory: {sweep.engine} {sweep.workload}{on}"
        figures.append(Figure(title, caption, chart, sweeps.points_table(sweep)))
    _, *parts = sweeps.memory_page(sweep, None).parts
    return Section.of("How much memory", parts, figures, [_sufficient_memory(sweep.points)])


def _sufficient_memory(points: Sequence[MemoryPoint]) -> str:
    """The smallest memory with which the time is within 10 % of the shortest, on any storage."""
    fastest_s = min(point.elapsed_s for point in points)
    sufficient = [point for point in points if point.elapsed_s <= 1.1 * fastest_s]
    smallest = min(sufficient, key=lambda point: point.memory_bytes)
    worst = max(points, key=lambda point: point.elapsed_s)
    memory, elapsed = size(smallest.memory_bytes), seconds(smallest.elapsed_s)
    text = f"With {memory} of memory on {smallest.storage} this query takes about {elapsed}"
    if any(point.memory_bytes > smallest.memory_bytes for point in points):
        text += ", and more memory hardly helps"
    if worst not in sufficient:
        memory, elapsed = size(worst.memory_bytes), seconds(worst.elapsed_s)
        text += f"; with {memory} on {worst.storage} it takes {elapsed}"
    return f"{text}."


def cache(result: CacheResult) -> Section:
    """The miss-ratio curve, and the hits of the simulated cache."""
    curve, cache, figures = result.curve, result.cache, []
    pairs = list(zip(curve.size_bytes, curve.miss_ratio, strict=True))
    if points := [(size_bytes, miss) for size_bytes, miss in pairs if size_bytes > 0]:
        marked = [("nine tenths of all hits", curve.enough_bytes)]
        marked += [("simulated", cache.size_bytes)] if cache else []
        columns = Column("size", None, "bytes"), Column("reads that miss", None, "share")
        title = "Reads that miss, by the size of an LRU cache"
        figures.append(
            Figure(title, "", charts.miss_ratio(points, marked), PrintedTable(columns, pairs))
        )
    answer = [text.strip() for text in curve_sentences(result)[:1]]
    if cache and cache.runs and curve.enough_bytes is not None:
        hits = percent(cache.runs[-1].hit_ratio)
        answer.append(f"With {size(cache.size_bytes)}, {hits} of the reads hit.")
    parts = [*cache_parts(result), Prose(curve_sentences(result))]
    return Section.of("How much flash is worth buying", parts, figures, answer)


def fleet_sections(results: Sequence[Fleet]) -> list[Section]:
    """The targets of one dataset compared, then each target, the largest saving first."""
    ranked = sorted(results, key=lambda fleet: -fleet.saved_s)
    sections = list(map(_fleet, ranked))
    if len(ranked) < 2 or len({fleet.dataset for fleet in ranked}) > 1:
        return sections
    bars = [
        charts.Bar(
            each.target,
            seconds(each.saved_s),
            {"saved": max(each.saved_s, 0.0)},
            each.saved_interval_s,
        )
        for each in ranked
    ]
    caption = f"The line at the end of a bar is its {interval_name(ranked[0].confidence)}."
    chart = charts.bars(bars, {"saved": "target"})
    table = fleets.targets_table(ranked)
    figure = Figure("Saving of all statements by storage", caption, chart, table)
    return [Section("Storage compared", figures=[figure]), *sections]


def _fleet(fleet: Fleet) -> Section:
    """Savings by statement, temp I/O by day."""
    page = fleets.fleet_page(fleet, len(fleet.statements))
    by_statement = table_in(page)
    days = [charts.Bar(day.day, seconds(day.temp_s), {"temp": day.temp_s}) for day in fleet.days]
    statements = [
        charts.Bar(
            f"{row.sql}, {row.database}",
            f"{seconds(row.saved_s)}, {percent(row.share)}",
            {"saved": max(row.saved_s, 0.0)},
            row.saved_interval_s,
        )
        for row in fleet.statements
        if row.saved_s is not None
    ]
    figures = []
    interval = f"The line at the end of a bar is its {interval_name(fleet.confidence)}. "
    for title, about, bars, table in (
        ("Saving by statement, the largest first", interval, statements[:_FLEET_MAX], by_statement),
        ("Temp I/O by day", "", days[-_DAYS_MAX:], fleets.days_table(fleet)),
    ):
        if bars:
            extent = f"{len(bars)} of {len(table.rows):,}; the table has more."
            chart = charts.bars(bars, {"saved": "target", "temp": "read"})
            caption = about + extent * (len(table.rows) > len(bars))
            figures.append(Figure(title, caption, chart, table))
    title = f"What {fleet.target} would save"
    return Section.of(title, page.parts[1:], figures, fleets.savings(fleet))


def verification(verifications: Sequence[Verification]) -> Section:
    """Forecast against measured time, and all cases."""
    cases = [case for verification in verifications for case in verification.cases]
    rows, points, errors, inside = [], [], [], 0
    for case in cases:
        measured_s, forecast = case.measured_to_s, case.forecast
        if (error := error_of(forecast, measured_s)) is not None:
            points.append((measured_s, (1 + error) * measured_s, case.direction))
            errors.append(abs(error))
            inside += forecast.holds(measured_s)
        query = f"{case.engine} {case.workload} x{case.threads}"
        error_text = percent1(error).replace("-", MINUS)
        row: dict[str, Any] = {"query": query, "source": case.source, "target": case.target}
        shown_s = None if forecast.bounds_only else forecast.forecast_s
        row |= {"forecast_s": shown_s, "interval_s": forecast.interval_s}
        rows.append(row | {"measured_to_s": measured_s, "error_text": error_text})
    table, title = PrintedTable.of(_CASES, rows), "How good the forecasts are"
    if not points:
        answer = f"No forecast in {format_count(len(rows), 'case')}."
        return Section(title, tables=[("", table)], answer=[answer])
    forecasts, intervals = (format_count(len(points), noun) for noun in ("forecast", "interval"))
    answer = (
        f"The median error of {forecasts} was {percent1(median(errors))} when the queries were "
        f"then run on the target; the measured time was inside {inside} of {intervals}."
    )
    caption = "Each point is a case; on the line both agree, the dashed lines are 10 % off."
    figure = Figure("Forecast against measured time", caption, charts.scatter(points), table)
    return Section(title, figures=[figure], answer=[answer])


def purchase(sizing: Sizing) -> Section:
    """The answer, the chart of all rows with a price, and the table of all rows."""
    priced, figures = [row for row in sizing.frontier if row.cost_per_month], []
    # The middle of bounds would be taken for a forecast.
    if len(priced) > 1 and not sizing.bounds_only:
        drawn = [(r.cost_per_month or 0.0, r.elapsed_s, r.interval_s, True) for r in priced]
        ends = [(price, sizing.baseline_s, None, False) for price, *_ in (drawn[0], drawn[-1])]
        series: dict[str, Sequence[charts.ChartPoint]] = {"cheapest storage for its time": drawn}
        if sizing.chosen in priced:
            series["chosen"] = [drawn[priced.index(sizing.chosen)]]
        series["today's storage"] = ends
        title = f"price, {sizing.currency} a month"
        chart = charts.lines_by_size(
            series, title, "elapsed time", logarithmic=True, x_ticks=money_ticks
        )
        caption = "Each line across a point is its interval."
        figures.append(Figure("Price and time", caption, chart, sizes.frontier_table(sizing)))
    return Section.of("What to buy", sizes.size_page(sizing).parts, figures, sizes.answer(sizing))


#: Maximum numbers of statements drawn by name and listed first, and of characters of their texts.
_DRAWN_MAX, _FIRST_MAX, _TEXT_MAX = 4, 3, 60


def server(server: ServerRanking) -> list[Section]:
    """Sections: first steps, changes, all statements with their plan nodes, storage to buy."""
    verdict, *parts = terminal.ranking_page(replace(server, history=None), ROWS_MAX).parts
    assert isinstance(verdict, Prose)
    sections = [Section("What to do first", _first_steps(server), answer=verdict.sentences)]
    if server.history is not None:
        sections.append(_changes(server, server.history))
    figures = _cost_figures(server.statements)
    section = Section.of(f"Statements that spill: {server.source}", parts, figures)
    full = [(_short(s), s.query) for s in server.statements[:ROWS_MAX] if s.query]
    cut = [(name, query) for name, query in full if name != query]
    sections.append(replace(section, statements=[*section.statements, *cut]))
    rows = [
        [_short(statement), node.node, size(node.temp_bytes), node.detail]
        for statement in server.statements
        for node in statement.nodes
    ]
    if rows:
        words = ["Nodes of the plan with the most temp I/O of each statement, by the server's log."]
        table = texts(("statement", "node", "temp I/O of a call", "memory"), rows)
        sections.append(Section("Nodes that spill", words, tables=[("", table)]))
    if server.sizing is not None:
        sections.append(purchase(server.sizing))
    return sections


def _short(statement: Ranked) -> str:
    return one_line(statement.name, _TEXT_MAX)


def _first_steps(server: ServerRanking) -> list[str]:
    """The statements that gain most, each with its fixes; then new or growing spills."""
    steps = []
    if server.outlasting is not None and server.record is not None:
        steps.append("Record what spills now, by the command below.")
    gaining = [s for s in server.statements if s.no_spill is not None and s.no_spill.saved_s > 0]
    for number, statement in enumerate(gaining[:_FIRST_MAX], 1):
        fixes = terminal.fixes_text(statement, server.memory)
        memory = statement.work_mem_bytes
        step = "" if memory is None else f" Set work_mem to {format_setting(memory)} for its role."
        steps.append(f"{number}. {_short(statement)}: {fixes}.{step}")
    if server.history is not None:
        worse = [change for change in server.history.changes if change.kind != "less"]
        for change in worse[:_FIRST_MAX]:
            spills = "for the first time"
            if change.ratio:
                spills = f"{change.ratio:.2g} times as much a call"
            name, since = terminal.change_statement(change), terminal.moment(change.after_s)
            steps.append(f"Look at the plan of {name}: since {since} it spills {spills}.")
    if server.sizing is not None and server.sizing.chosen is not None:
        steps.append(f"Or buy storage for all of them. {sizes.answer_text(server.sizing)}")
    if not steps and server.statements:
        steps.append("No forecast is possible; the notes below the statements say what is missing.")
    if not steps and server.is_blind:
        steps.append("Count which statements spill, by the commands below.")
    return steps or ["Nothing: no statement spills."]


def _changes(server: ServerRanking, history: SpillHistory) -> Section:
    """The sums by time, drawn by statement, and the events."""
    words = [sentence(terminal.change_text(change)) for change in history.changes]
    words += [sentence(line.strip()) for line in terminal.history_notes(history)]
    if not history.buckets:
        return Section("What changed", words)
    names = {statement.queryid: _short(statement) for statement in server.statements}
    rows, totals = [], Counter[str]()
    queryids = {part.queryid: 0 for bucket in history.buckets for part in bucket.statements}
    for bucket in history.buckets:
        # Each bar has all statements, even with 0 bytes, because the legend is common to all bars.
        parts = Counter({names.get(queryid, queryid): 0 for queryid in queryids})
        for part in bucket.statements:
            parts[names.get(part.queryid, part.queryid)] += part.temp_bytes
        totals += parts
        rows.append(charts.Bar(bucket.start, size(bucket.temp_bytes), parts))
    longest = [name for name, _ in totals.most_common(_DRAWN_MAX)]
    colours = dict(zip(longest, charts.SERIES, strict=False))
    chart = charts.bars(rows, colours, ticks_of=fitting_sizes)
    shown = len(history.buckets)
    caption = f"Read and written, {format_count(shown, 'bar')} in UTC."
    figure = Figure("Temp I/O over time", caption, chart, terminal.bucket_table(server, history))
    return Section("What changed", words, [figure])


def _cost_figures(statements: Sequence[Ranked]) -> list[Figure]:
    """The time of each statement, with and without temp I/O; empty if no time is known."""
    rows = []
    for statement in statements:
        temp_s, elapsed_s = statement.temp_mean_s, statement.elapsed_s
        if temp_s is not None and elapsed_s:
            temp_s = min(temp_s, elapsed_s)
            text = f"{seconds(elapsed_s)}, {seconds(temp_s)} in temp I/O"
            parts = {"temp I/O": temp_s, "everything else": elapsed_s - temp_s}
            rows.append(charts.Bar(_short(statement), text, parts))
    if not rows:
        return []
    shown = sorted(rows, key=lambda row: -row.parts["temp I/O"])[: 2 * _DRAWN_MAX]
    chart = charts.bars(shown, {"temp I/O": "read", "everything else": "grid"})
    caption = "Elapsed time of all calls; a statement without temp I/O would take the grey part."
    table = texts(("statement", "time"), [[row.name, row.text] for row in rows])
    return [Figure("What spilling costs", caption, chart, table)]

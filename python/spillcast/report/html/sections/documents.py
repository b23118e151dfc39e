"""Documents of other verbs: profiles, storages, sweeps, caches, fleets, verifications, servers."""

from collections.abc import Iterable, Sequence
from statistics import median
from typing import Any

from spillcast.document import read
from spillcast.engines.ranking import ServerRanking
from spillcast.profile.result import elapsed_words
from spillcast.recording.event_names import OPS
from spillcast.report.html import charts
from spillcast.report.html.inputs import AGAIN
from spillcast.report.html.page import (
    MINUS,
    NOTHING,
    ROWS_MAX,
    Document,
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
from spillcast.report.html.sections.forecasts import place
from spillcast.report.html.sections.runs import events_table, histogram
from spillcast.report.postgres import ranking_page
from spillcast.report.table import Column, Table
from spillcast.units import format_count, interval_name

#: Bars of a chart; the tables hold more.
_PROFILE_MAX, _FLEET_MAX, _DAYS_MAX = 10, 12, 31
_GROUP = "op size_class_bytes:size depth pattern count:operations mean_us:mean"
_SAVED = "elapsed_s:elapsed temp_s:in_temp saved_text:saved saved_interval_s:interval share"


def profile_answers(profiles: Sequence[Document]) -> list[str]:
    """Where most of the time of the first goes."""
    profile = profiles[0]
    busy = [row for row in profile["rows"] if not row.get("idle")]
    if not busy:
        return ["The profile holds no time."]
    if profile.get("words"):
        return list(profile["words"])
    name = ", ".join(str(busy[0].get(key)) for key in profile["by"])
    share = f", {percent(busy[0]['share'])} of the time" if busy[0].get("share") else ""
    return [f"Most of the time goes into {name}: {micros(busy[0]['total_us'])}{share}."]


def profile(document: Document) -> Section:
    """The rows that take the longest as bars, and all as a table."""
    by = document["by"]
    rows = [
        {**row, "event": ", ".join(NOTHING if row.get(k) is None else str(row[k]) for k in by)}
        for row in document["rows"]
        if "total_us" in row
    ]
    bars = [
        charts.Bar(row["event"], micros(row["total_us"]), {"time": row["total_us"] / 1e6})
        for row in rows
        if not row.get("idle")
    ]
    table, title = events_table(rows), f"Time by {', '.join(by)}"
    caption = f"{elapsed_words(document['elapsed_s'], rows)}."
    figures = []
    if bars:
        chart = charts.bars(bars[:_PROFILE_MAX], {"time": "target"})
        figures = [Figure(title, caption, chart, table)]
    tables = [(f"By {', '.join(by)}", table)]
    return Section(f"Where the time goes: {document['name']}", (), figures, tables)


def storage_answers(storages: Sequence[Document]) -> list[str]:
    """The mean latencies of each."""
    sentences = []
    for storage in storages:
        # Sizes of a grid or of the catalogue are no load's: the smallest stands for them.
        mixed = storage["source"] not in ("grid", "catalogue")
        means = []
        for op in OPS:
            of_op = [group for group in storage["groups"] if group["op"] == op]
            groups = of_op if mixed else _single_operations(of_op)[:1]
            if operations := sum(group["count"] for group in groups):
                mean_s = sum(group["total_ns"] for group in groups) / operations / 1e9
                of_size = "" if mixed else f" of {size(groups[0]['size_class_bytes'])}"
                means.append(f"{seconds(mean_s)} for a {op}{of_size}")
        words = (
            f"takes, on average, {' and '.join(means)}" if means else "has no measured operations"
        )
        sentences.append(f"{storage['name']} {words}.")
    return sentences


def _single_operations(groups: Sequence[Document]) -> list[Document]:
    """The groups of operations one at a time, of one way of access and one pattern."""
    first = min((group["depth"] for group in groups), default=1)
    kept = [group for group in groups if group["depth"] == first and group["count"]]
    for key in ("access", "pattern"):
        kept = [group for group in kept if group.get(key) == kept[0].get(key)]
    return sorted(kept, key=lambda group: (group["op"], group["size_class_bytes"]))


def storage(document: Document, latencies: Sequence[Document]) -> Section:
    """Mean latency by size, and the histogram of each operation."""
    groups: list[dict[str, Any]] = [
        {**group, "mean_us": group["total_ns"] / group["count"] / 1e3 if group["count"] else None}
        for group in document["groups"]
    ]
    figures = [histogram(group, None, (document["name"], "")) for group in latencies]
    single = _single_operations(groups)
    if len({group["size_class_bytes"] for group in single}) > 1:
        how = [word for key in ("pattern", "access") if (word := single[0].get(key))]
        caption = ", ".join([f"{single[0]['depth']} at once", *map(str, how)]) + "."
        points = {
            f"{op}s": [
                (group["size_class_bytes"], group["mean_us"] / 1e6, None, True)
                for group in single
                if group["op"] == op
            ]
            for op in OPS
        }
        chart = charts.lines_by_size(
            {name: of for name, of in points.items() if of},
            "size of an operation",
            "mean latency",
            logarithmic=True,
        )
        table = table_of(single, _GROUP.replace(" pattern", ""))
        figures.insert(0, Figure("Mean latency by the size of an operation", caption, chart, table))
    tables = [("Latency by operation and size", table_of(groups, _GROUP))]
    return Section(f"Storage: {document['name']}", _provenance(document), figures, tables)


def _provenance(document: Document) -> list[str]:
    """When and where a storage was measured."""
    known = document.get("provenance") or {}
    when = str(known.get("measured_at") or "")[:10]
    parts = [f"on {when}" if when else "", f"on host {known['host']}" if known.get("host") else ""]
    parts += [f"device {known['device_name']}"] if known.get("device_name") else []
    parts += [f"mounted with {known['mount_options']}"] if known.get("mount_options") else []
    words = ", ".join(part for part in parts if part)
    return [f"Measured {words}."] if words else []


def sweep_answers(sweeps: Sequence[Document]) -> list[str]:
    """The best size, or the least memory that is enough."""
    return [_best_size(entry) if entry["kind"] == "io-size" else _enough(entry) for entry in sweeps]


def sweep(document: Document) -> Section:
    """I/O sizes as stacked bars; memory as a line for each storage."""
    return _io_sizes(document) if document["kind"] == "io-size" else _memory(document)


def _setting(row: Document) -> str:
    """One size, or the minimum and the maximum."""
    low, high = size(row["min_bytes"]), size(row["max_bytes"])
    return low if low == high else f"{low} to {high}"


def _best_size(sweep: Document) -> str:
    best = sweep["best"]
    worst = max(sweep["rows"], key=lambda row: row["total_s"])
    times = f"{worst['total_s'] / best['total_s']:.2g} times" if best["total_s"] else ""
    return (
        f"On {sweep['storage']} temp I/O is fastest in operations of {_setting(best)}: about "
        f"{seconds(best['total_s'])} for all of it, {times} as fast as with {_setting(worst)}."
    )


def _io_sizes(sweep: Document) -> Section:
    best, rows, bars = sweep["best"], [], []
    for row in sweep["rows"]:
        flat, times_s = {**row, "setting": _setting(row)}, []
        for part in ("reads", "writes"):
            calls = row.get(part) or {}
            flat |= {f"{part}_count": calls.get("count"), f"{part}_us": calls.get("mean_us")}
            times_s.append(calls.get("total_s") or 0.0)
        rows.append(flat)
        is_best = best and all(row[key] == best[key] for key in ("min_bytes", "max_bytes"))
        text = f"{seconds(row['total_s'])}{', best' if is_best else ''}"
        parts = dict(zip(("reads", "writes"), times_s, strict=True))
        bars.append(charts.Bar(flat["setting"], text, parts))
    keys = "setting:size_of_an_operation reads_count:reads reads_us:mean_read writes_count:writes"
    keys += " writes_us:mean_write total_s:total interval_s:interval"
    table, chart = table_of(rows, keys), charts.bars(bars, {"reads": "read", "writes": "write"})
    title = f"Time of all temp I/O by the size of an operation, on {sweep['storage']}"
    figure = Figure(title, f"Fastest: {_setting(best)}." if best else "", chart, table)
    advice = [f"{entry['engine']}: {entry['text']}" for entry in sweep.get("advice", ())]
    return Section("Which I/O size", advice, [figure], [("", table)])


def _enough(sweep: Document) -> str:
    points = [point for point in sweep["points"] if point["elapsed_s"] is not None]
    best = min(points, key=lambda point: (point["elapsed_s"], point["memory_bytes"]))
    # The least memory within a tenth of the fastest: more buys next to nothing.
    enough = [p for p in points if p["elapsed_s"] <= 1.1 * best["elapsed_s"]]
    least = min(enough, key=lambda point: point["memory_bytes"])
    worst = max(points, key=lambda point: point["elapsed_s"])
    return (
        f"With {size(least['memory_bytes'])} of memory on {least['storage']} this query takes "
        f"about {seconds(least['elapsed_s'])}, and more memory hardly helps; with "
        f"{size(worst['memory_bytes'])} on {worst['storage']} it takes "
        f"{seconds(worst['elapsed_s'])}."
    )


def _memory(sweep: Document) -> Section:
    points = [
        {**point, "how": "measured" if point["measured"] else "forecast"}
        for point in sweep["points"]
    ]
    keys = "storage memory_bytes:memory elapsed_s:elapsed interval_s:interval reads writes"
    keys += " spilled_bytes:spilled how:_"
    known = [point for point in points if point["elapsed_s"] is not None]
    workload = " ".join(str(sweep[key]) for key in ("engine", "workload") if sweep.get(key))
    caption = "Filled points are measured, open ones forecast with their intervals."
    names = list(dict.fromkeys(point["storage"] for point in known))
    figures = []
    for first in range(0, len(names), len(charts.SERIES)):
        series = {
            name: [
                (p["memory_bytes"], p["elapsed_s"], p.get("interval_s"), p["measured"])
                for p in known
                if p["storage"] == name
            ]
            for name in names[first : first + len(charts.SERIES)]
        }
        chart = charts.lines_by_size(series, "work memory", "elapsed time", logarithmic=False)
        title = f"Elapsed time by memory: {workload}"
        figures.append(Figure(title, caption, chart, table_of(points, keys)))
    turns = []
    for turn in sweep.get("turns", ()):
        where = f"{turn['storage']} at " if turn.get("storage") else ""
        turns.append(f"{where}{size(turn['memory_bytes'])}: {turn['from']} becomes {turn['to']}.")
    return Section("How much memory", turns, figures)


def cache_answers(caches: Sequence[Document]) -> list[str]:
    """The size that is worth buying, and what the simulated one would serve."""
    sentences = []
    for document in caches:
        curve, cache = document["curve"], document["cache"]
        data, enough = size(curve["data_bytes"]), size(curve["enough_bytes"])
        if curve["enough_bytes"] is None:
            sentences.append(f"No flash cache helps: nothing of the {data} is read again.")
            continue
        sentences.append(
            f"A flash cache of {enough} would serve nine in ten of the reads that any cache of "
            f"these {data} could serve."
        )
        if cache is not None and cache["runs"]:
            hits = percent(cache["runs"][-1]["hit_ratio"])
            sentences.append(f"With {size(cache['size_bytes'])}, {hits} of the reads would hit.")
    return sentences


def cache(document: Document) -> Section:
    """The miss-ratio curve, and what a cache of the simulated size served."""
    curve, cache = document["curve"], document["cache"]
    pairs = list(zip(curve["size_bytes"], curve["miss_ratio"], strict=True))
    figures, tables = [], []
    if points := [(size_bytes, miss) for size_bytes, miss in pairs if size_bytes > 0]:
        caption = "No cache size gives any hits."
        if curve["enough_bytes"]:
            caption = f"{size(curve['enough_bytes'])} bring nine tenths of the hits of any size."
        marked = [("nine tenths of all hits", curve["enough_bytes"])]
        marked += [("simulated", cache["size_bytes"])] if cache else []
        columns = Column("size", None, "bytes"), Column("reads that miss", None, "share")
        title = "Reads that miss, by the size of an LRU cache"
        chart, table = charts.miss_ratio(points, marked), Table(columns, pairs)
        figures.append(Figure(title, caption, chart, table))
    if cache and cache["runs"]:
        accounts = [
            {**entry, "share": entry["hits"] / entry["requests"] if entry["requests"] else None}
            for entry in sorted(cache["runs"][-1]["accounts"], key=lambda entry: -entry["bytes"])
        ]
        names = ["no cache", "populating", *["next run"] * len(cache["runs"])]
        traffic = zip(names, [cache["without"], *cache["runs"]], strict=False)
        keys = "name:_ flash_read_bytes:from_flash disk_read_bytes:from_disk"
        keys += " flash_write_bytes:to_flash disk_write_bytes:to_disk elapsed_s:I/O_time"
        caption = f"Last run with {size(cache['size_bytes'])}, policy {cache['policy']}"
        tables = [
            (caption, table_of(accounts, "object class requests bytes share:hits")),
            ("Traffic", table_of([{**of, "name": name} for name, of in traffic], keys)),
        ]
    return Section("How much flash is worth buying", (), figures, tables)


def fleet_answers(fleets: Sequence[Document]) -> list[str]:
    """What each target saves, and how few statements bring most of it."""
    sentences = []
    for fleet in fleets:
        statements = format_count(len(fleet["statements"]), "spilling statement")
        target = place(fleet["target"])
        if not fleet["saved_s"] or fleet["saved_s"] <= 0:
            sentences.append(f"On {target} nothing would be saved for {statements}.")
            continue
        sentences.append(
            f"{target} saves {seconds(fleet['saved_s'])} of the time of {statements}, "
            f"{interval_name(fleet['confidence'])} {between(fleet['saved_interval_s'])}."
        )
        if fleet["statements_for_most"]:
            most = percent(fleet["most"])
            sentences.append(f"{fleet['statements_for_most']:,} of them bring {most} of it.")
    return sentences


def fleet(document: Document) -> Section:
    """Savings by statement and by database, temp I/O by day."""
    statements, databases, days = (document[key] for key in ("statements", "databases", "days"))
    rows = [
        {**row, "saved_text": row.get("refused") or seconds(row["saved_s"])}
        for row in (*statements, *databases)
    ]
    answered = [entry for entry in statements if entry["saved_s"] is not None]
    by_statement = _savings((f"{row['sql']}, {row['database']}", row) for row in answered)
    by_database = _savings((str(row["database"]), row) for row in databases)
    by_day = [
        charts.Bar(str(row["day"]), seconds(row["temp_s"]), {"temp": row["temp_s"]}) for row in days
    ]
    keys, count = f"sql:statement database {_SAVED} cumulative_share:so_far", len(statements)
    tables = (
        table_of(rows[:count], keys),
        table_of(rows[count:], f"database statements {_SAVED}"),
        table_of(days, "day temp_s:in_temp saved_s:saved"),
    )
    kinds = (
        ("Saving by statement, the largest first", by_statement[:_FLEET_MAX], len(by_statement)),
        ("Saving by database", by_database[:_FLEET_MAX], len(by_database)),
        ("Temp I/O by day", by_day[-_DAYS_MAX:], len(by_day)),
    )
    figures = []
    for (title, bars, total), table in zip(kinds, tables, strict=True):
        more = f"{len(bars)} of {total:,}; the table below has more." if total > len(bars) else ""
        if bars:
            chart = charts.bars(bars, {"saved": "target", "temp": "read"})
            figures.append(Figure(title, more, chart, table))
    refused = sum(entry["refused"] is not None for entry in statements)
    words = f"No forecast for {format_count(refused, 'statement')}; the table says why."
    title = f"What {document['target']} would save"
    return Section(title, [words] if refused else [], figures)


def _savings(rows: Iterable[tuple[str, Document]]) -> list[charts.Bar]:
    return [
        charts.Bar(
            name,
            f"{seconds(row['saved_s'])}, {percent(row['share'])}",
            {"saved": max(row["saved_s"], 0.0)},
        )
        for name, row in rows
    ]


def _cases(verifications: Sequence[Document]) -> tuple[list[Document], list[Document]]:
    """All cases, and those that have a forecast."""
    cases = [case for document in verifications for case in document["cases"]]
    return cases, [case for case in cases if case["forecast"]["forecast_s"] is not None]


def verification_answers(verifications: Sequence[Document]) -> list[str]:
    """The median error, and how many intervals contain the measured time."""
    cases, given = _cases(verifications)
    if not given:
        return [f"No forecast in {format_count(len(cases), 'case')}."]
    errors = [abs(c["forecast"]["forecast_s"] / c["measured_to_s"] - 1) for c in given]
    inside = sum(
        c["forecast"]["interval_s"][0] <= c["measured_to_s"] <= c["forecast"]["interval_s"][1]
        for c in given
    )
    return [
        f"The median error of {format_count(len(given), 'forecast')} was "
        f"{percent1(median(errors))} when the queries were then run on the target; "
        f"the measured time was inside {inside} of {format_count(len(given), 'interval')}."
    ]


def verification(verifications: Sequence[Document]) -> Section:
    """Forecast against measured time, and all cases."""
    cases, given = _cases(verifications)
    rows = []
    for case in cases:
        forecast_s = case["forecast"]["forecast_s"]
        error = None if forecast_s is None else forecast_s / case["measured_to_s"] - 1
        query = f"{case['engine']} {case['workload']} x{case['threads']}"
        text = percent1(error).replace("-", MINUS)
        rows.append({**case, **case["forecast"], "query": query, "error_text": text})
    keys = "query from to forecast_s:forecast interval_s:interval measured_to_s:measured"
    table, title = table_of(rows, f"{keys} error_text:error"), "How good the forecasts are"
    if not given:
        return Section(title, tables=[("", table)])
    points = [(c["measured_to_s"], c["forecast"]["forecast_s"], c["direction"]) for c in given]
    caption = "Each point is a case; on the line both agree, the dashed lines are 10 % off."
    chart = charts.scatter(points)
    return Section(title, figures=[Figure("Forecast against measured time", caption, chart, table)])


def server_answers(servers: Sequence[Document]) -> list[str]:
    """The verdict on each server."""
    return [sentence for document in servers for sentence in _ranking(document)[0].sentences]


def server(document: Document) -> Section:
    """The ranking of a server's statements, as the terminal shows it."""
    return Section.of(f"Statements that spill: {document['name']}", _ranking(document)[1:])


def _ranking(document: Document) -> Sequence[Any]:
    ranking = read(ServerRanking, document, document["name"], AGAIN)
    return ranking_page(ranking, ROWS_MAX).parts

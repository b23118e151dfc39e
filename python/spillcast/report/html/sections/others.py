"""Documents of other verbs: profiles, storages, sweeps, caches, fleets, verifications, servers."""

from collections.abc import Sequence
from statistics import median
from typing import Any

from spillcast.document import read
from spillcast.engines.ranking import ServerRanking
from spillcast.profile.result import elapsed_words
from spillcast.recording.event_names import OPS
from spillcast.report import page as terminal
from spillcast.report import table as terminal_table
from spillcast.report.html import bars, plots
from spillcast.report.html.inputs import AGAIN
from spillcast.report.html.page import (
    MINUS,
    ROWS_MAX,
    Column,
    Document,
    Figure,
    Section,
    Table,
    between,
    count,
    micros,
    of_terminal,
    percent,
    seconds,
    sentence,
    size,
    table_of,
    text,
)
from spillcast.report.html.sections.forecasts import place
from spillcast.report.html.sections.runs import events_table, histogram
from spillcast.report.postgres import ranking_page
from spillcast.units import format_count, interval_name

#: Bars of a chart; the tables hold more.
_PROFILE_MAX, _FLEET_MAX, _DAYS_MAX = 10, 12, 31


def profile_answers(profiles: Sequence[Document]) -> list[str]:
    """Where most of the time of the first goes."""
    profile = profiles[0]
    busy = [row for row in profile["rows"] if not row.get("idle")]
    if not busy:
        return ["The profile holds no time."]
    if profile.get("words"):
        return list(profile["words"])
    name = ", ".join(str(busy[0].get(key)) for key in profile["by"])
    share = f", {percent(busy[0]['share'], 0)} of the time" if busy[0].get("share") else ""
    return [f"Most of the time goes into {name}: {micros(busy[0]['total_us'])}{share}."]


def profile(document: Document) -> Section:
    """The rows that take the longest as bars, and all as a table."""
    by = document["by"]
    rows = [
        {**row, "event": ", ".join(text(row.get(key)) for key in by)}
        for row in document["rows"]
        if "total_us" in row
    ]
    drawn = [row for row in rows if not row.get("idle")][:_PROFILE_MAX]
    table = events_table(rows, f"By {', '.join(by)}")
    chart = bars.time_bars(
        [(row["event"], row["total_us"] / 1e6, micros(row["total_us"]), "target") for row in drawn]
    )
    caption = f"{elapsed_words(document['elapsed_s'], rows)}."
    figures = [Figure(f"Time by {', '.join(by)}", caption, chart, table)] if drawn else []
    return Section(f"Where the time goes: {document['name']}", (), figures, [table])


def storage_answers(storages: Sequence[Document]) -> list[str]:
    """The mean latencies of each."""
    sentences = []
    for storage in storages:
        # Sizes of a grid or of the catalogue are no load's: the smallest stands for them.
        mixed = storage["source"] not in ("grid", "catalogue")
        means = []
        for op in OPS:
            of_op = [group for group in storage["groups"] if group["op"] == op]
            groups = of_op if mixed else plots.single_operations(of_op)[:1]
            if operations := sum(group["count"] for group in groups):
                mean_s = sum(group["total_ns"] for group in groups) / operations / 1e9
                of_size = "" if mixed else f" of {size(groups[0]['size_class_bytes'])}"
                means.append(f"a {op}{of_size} takes {seconds(mean_s)} in the mean")
        sentences.append(f"On {storage['name']} {' and '.join(means) or 'nothing was measured'}.")
    return sentences


def storage(document: Document, latencies: Sequence[Document]) -> Section:
    """Mean latency by size, and the histogram of each operation."""
    columns: tuple[Column, ...] = (
        ("op", "op", text),
        ("size", "size_class_bytes", size),
        ("depth", "depth", text),
        ("pattern", "pattern", lambda pattern: pattern or ""),
        ("operations", "count", count),
        ("mean", "mean_us", micros),
    )
    groups = [
        {**group, "mean_us": group["total_ns"] / group["count"] / 1e3 if group["count"] else None}
        for group in document["groups"]
    ]
    figures = [histogram(group, None, (document["name"], "")) for group in latencies]
    if single := plots.single_operations(groups):
        how = [word for key in ("pattern", "access") if (word := single[0].get(key))]
        caption = ", ".join([f"{single[0]['depth']} at once", *map(str, how)]) + "."
        chart = plots.latency_by_size(single)
        table = table_of(single, (*columns[:2], columns[5]))
        title = "Mean latency by the size of an operation"
        figures.insert(0, Figure(title, caption, chart, table))
    table = table_of(groups, columns, (0, 3), "Latency by operation and size")
    return Section(f"Storage: {document['name']}", _provenance(document), figures, [table])


def _provenance(document: Document) -> Sequence[str]:
    """When and where a storage was measured."""
    known = document.get("provenance") or {}
    when = str(known.get("measured_at") or "")[:10]
    parts = [f"on {when}" if when else "", f"on host {known['host']}" if known.get("host") else ""]
    parts += [str(known.get(key) or "") for key in ("device_name", "mount_options")]
    words = ", ".join(part for part in parts if part)
    return [f"Measured {words}."] if words else []


def sweep_answers(sweeps: Sequence[Document]) -> list[str]:
    """The best size, or the least memory that is enough."""
    return [_best_size(entry) if entry["kind"] == "io-size" else _enough(entry) for entry in sweeps]


def sweep(document: Document) -> Section:
    """I/O sizes as stacked bars; memory as a line for each storage."""
    return _io_sizes(document) if document["kind"] == "io-size" else _memory(document)


def _setting(row: Document) -> str:
    """One size, or the least and the most."""
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
    rows = []
    for row in sweep["rows"]:
        flat = {**row, "setting": _setting(row)}
        for part in ("reads", "writes"):
            calls = row.get(part) or {}
            flat |= {f"{part}_count": calls.get("count"), f"{part}_us": calls.get("mean_us")}
        rows.append(flat)
    table = table_of(
        rows,
        (
            ("size of an operation", "setting", text),
            ("reads", "reads_count", count),
            ("mean read", "reads_us", micros),
            ("writes", "writes_count", count),
            ("mean write", "writes_us", micros),
            ("total", "total_s", seconds),
            ("interval", "interval_s", between),
        ),
    )
    best = sweep["best"]
    chart = bars.io_sizes(sweep["rows"], [row["setting"] for row in rows], best)
    title = f"Time of all temp I/O by the size of an operation, on {sweep['storage']}"
    figure = Figure(title, f"The sweet spot is {_setting(best)}." if best else "", chart, table)
    advice = [f"{entry['engine']}: {entry['text']}" for entry in sweep.get("advice", ())]
    return Section("Which I/O size", advice, [figure], [table])


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
    points = sweep["points"]
    columns: tuple[Column, ...] = (
        ("storage", "storage", text),
        ("memory", "memory_bytes", size),
        ("elapsed", "elapsed_s", seconds),
        ("interval", "interval_s", between),
        ("reads", "reads", count),
        ("writes", "writes", count),
        ("spilled", "spilled_bytes", size),
        ("", "measured", lambda measured: "measured" if measured else "forecast"),
    )
    table = table_of(points, columns, (0, 7))
    workload = " ".join(str(sweep[key]) for key in ("engine", "workload") if sweep.get(key))
    caption = (
        "Filled points were measured, open ones are forecasts; lines through them are intervals."
    )
    names = list(dict.fromkeys(p["storage"] for p in points if p["elapsed_s"] is not None))
    figures = []
    for first in range(0, len(names), len(plots.SERIES)):
        drawn = names[first : first + len(plots.SERIES)]
        chart = plots.memory([point for point in points if point["storage"] in drawn])
        figures.append(Figure(f"Elapsed time by memory: {workload}", caption, chart, table))
    turns = []
    for turn in sweep.get("turns", ()):
        where = f"{turn['storage']} at " if turn.get("storage") else ""
        turns.append(f"{where}{size(turn['memory_bytes'])}: {turn['from']} becomes {turn['to']}.")
    return Section("How much memory", turns, figures)


def cache_answers(caches: Sequence[Document]) -> list[str]:
    """The size that is worth buying, and what the one asked for would serve."""
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
            hits = percent(cache["runs"][-1]["hit_ratio"], 0)
            sentences.append(
                f"With {size(cache['size_bytes'])}, as was asked, {hits} of the reads would hit."
            )
    return sentences


def cache(document: Document) -> Section:
    """The miss-ratio curve, and what a cache of the size that was asked for served."""
    curve, cache = document["curve"], document["cache"]
    pairs = list(zip(curve["size_bytes"], curve["miss_ratio"], strict=True))
    figures, tables = [], list[Table]()
    if any(size_bytes > 0 for size_bytes, _ in pairs):
        caption = "No cache size gives any hits."
        if curve["enough_bytes"]:
            caption = f"{size(curve['enough_bytes'])} bring nine tenths of the hits of any size."
        chart = plots.miss_ratio(curve, cache["size_bytes"] if cache else None)
        rows = [[size(size_bytes), percent(miss, 2)] for size_bytes, miss in pairs]
        table = Table(["size", "reads that miss"], rows)
        figures.append(
            Figure("Reads that miss, by the size of an LRU cache", caption, chart, table)
        )
    if cache and cache["runs"]:
        tables = [_accounts(cache), _traffic(cache)]
    return Section("How much flash is worth buying", (), figures, tables)


def _accounts(cache: Document) -> Table:
    rows = [
        {**entry, "share": entry["hits"] / entry["requests"] if entry["requests"] else None}
        for entry in sorted(cache["runs"][-1]["accounts"], key=lambda entry: -entry["bytes"])
    ]
    columns: tuple[Column, ...] = (
        ("object", "object", text),
        ("class", "class", text),
        ("requests", "requests", count),
        ("bytes", "bytes", size),
        ("hits", "share", percent),
    )
    caption = f"Last run with {size(cache['size_bytes'])}, policy {cache['policy']}"
    return table_of(rows, columns, (0, 1), caption)


def _traffic(cache: Document) -> Table:
    names = ["no cache", "populating", *["next run"] * len(cache["runs"])]
    devices = zip(names, [cache["without"], *cache["runs"]], strict=False)
    columns: tuple[Column, ...] = (
        ("", "name", text),
        ("from flash", "flash_read_bytes", size),
        ("from disk", "disk_read_bytes", size),
        ("to flash", "flash_write_bytes", size),
        ("to disk", "disk_write_bytes", size),
        ("I/O time", "elapsed_s", seconds),
    )
    rows = [{**traffic, "name": name} for name, traffic in devices]
    return table_of(rows, columns, caption="What the devices move")


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
            most = percent(fleet["most"], 0)
            sentences.append(f"{fleet['statements_for_most']:,} of them bring {most} of it.")
    return sentences


def fleet(document: Document) -> Section:
    """Savings by statement and by database, temp I/O by day."""
    statements, databases, days = (document[key] for key in ("statements", "databases", "days"))
    answered = [entry for entry in statements if entry["saved_s"] is not None]
    refused = [entry for entry in statements if entry["refused"]]
    whose: tuple[Column, ...] = (("database", "database", text),)
    times: tuple[Column, ...] = (("elapsed", "elapsed_s", seconds), ("in temp", "temp_s", seconds))
    interval: tuple[Column, ...] = (("interval", "saved_interval_s", between),)
    share: tuple[Column, ...] = (("share", "share", percent),)
    saved: tuple[Column, ...] = (("saved", "saved_s", seconds),)
    of_statements = [
        {
            **entry,
            "outcome": seconds(entry["saved_s"]) if entry["refused"] is None else entry["refused"],
        }
        for entry in statements
    ]
    figures = [
        *_savings(
            "Saving by statement, the largest first",
            [(f"{entry['sql']}, {entry['database']}", entry) for entry in answered],
            table_of(of_statements, (
                ("statement", "sql", text), *whose, *times, ("saved", "outcome", text), *interval,
                *share, ("so far", "cumulative_share", percent),
            ), (0, 1)),
        ),
        *_savings(
            "Saving by database",
            [(str(entry["database"]), entry) for entry in databases],
            table_of(databases, (
                *whose, ("statements", "statements", count), *times, *saved, *interval, *share,
            )),
        ),
        *_limited(
            "Temp I/O by day",
            [(str(entry["day"]), entry["temp_s"], seconds(entry["temp_s"]), "read")
             for entry in days[-_DAYS_MAX:]],
            len(days),
            table_of(days, (("day", "day", text), times[1], *saved)),
        ),
    ]  # fmt: skip
    words = f"No forecast for {format_count(len(refused), 'statement')}; the table says why."
    title = f"What {document['target']} would save"
    return Section(title, [words] if refused else [], figures)


def _savings(title: str, rows: Sequence[tuple[str, Document]], table: Table) -> list[Figure]:
    drawn = [
        (name, max(row["saved_s"], 0.0), f"{seconds(row['saved_s'])}, {percent(row['share'], 0)}",
         "target")
        for name, row in rows[:_FLEET_MAX]
    ]  # fmt: skip
    return _limited(title, drawn, len(rows), table)


def _limited(title: str, drawn: Any, of: int, table: Table) -> list[Figure]:
    """Bars, with a remark if the table holds more rows; none if there is nothing to draw."""
    more = f"{len(drawn)} of {count(of)}; the figures hold more." if of > len(drawn) else ""
    return [Figure(title, more, bars.time_bars(drawn), table)] if drawn else []


def _cases(verifications: Sequence[Document]) -> tuple[list[Document], list[Document]]:
    """All cases, and those that have a forecast."""
    cases = [case for document in verifications for case in document["cases"]]
    return cases, [case for case in cases if case["forecast"]["forecast_s"] is not None]


def verification_answers(verifications: Sequence[Document]) -> list[str]:
    """The median error, and how many intervals held the measured time."""
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
        f"{percent(median(errors))} when the queries were then run there; the measured time was "
        f"inside {inside} of {format_count(len(given), 'interval')}."
    ]


def verification(verifications: Sequence[Document]) -> Section:
    """Forecast against measured time, and all cases."""
    cases, given = _cases(verifications)
    rows = []
    for case in cases:
        forecast_s = case["forecast"]["forecast_s"]
        error = None if forecast_s is None else forecast_s / case["measured_to_s"] - 1
        query = f"{case['engine']} {case['workload']} x{case['threads']}"
        rows.append({**case, **case["forecast"], "query": query, "error": error})
    columns: tuple[Column, ...] = (
        ("query", "query", text),
        ("from", "from", text),
        ("to", "to", text),
        ("forecast", "forecast_s", seconds),
        ("interval", "interval_s", between),
        ("measured", "measured_to_s", seconds),
        ("error", "error", lambda error: percent(error).replace("-", MINUS)),
    )
    table, title = table_of(rows, columns, (0, 1, 2)), "How good the forecasts are"
    if not given:
        return Section(title, tables=[table])
    points = [(c["measured_to_s"], c["forecast"]["forecast_s"], c["direction"]) for c in given]
    caption = "Each point is a case; on the line they agree, the dashed ones are 10 % off."
    chart = plots.scatter(points)
    return Section(title, figures=[Figure("Forecast against measured time", caption, chart, table)])


def server_answers(servers: Sequence[Document]) -> list[str]:
    """The verdict on each server."""
    return [sentence for document in servers for sentence in _ranking(document)[0].sentences]


def server(document: Document) -> Section:
    """The ranking of a server's statements, as the terminal shows it."""
    words: list[str] = []
    tables, commands = [], []
    for part in _ranking(document)[1:]:
        if isinstance(part, terminal.Words):
            words += [sentence(line.strip()) for line in part.sentences]
        elif isinstance(part, terminal.Commands):
            commands.append((words.pop().rstrip(":."), "\n".join(part.lines)))
        elif isinstance(part, terminal_table.Table):
            tables.append(of_terminal(part))
    title = f"Statements that spill: {document['name']}"
    return Section(title, words, tables=tables, statements=commands)


def _ranking(document: Document) -> Sequence[Any]:
    ranking = read(ServerRanking, document, document["name"], AGAIN)
    return ranking_page(ranking, ROWS_MAX).parts

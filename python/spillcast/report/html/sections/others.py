"""Documents of other verbs: profiles, storages, sweeps, caches and verifications."""

from collections.abc import Mapping, Sequence
from functools import partial
from typing import Any

from spillcast.profile.result import elapsed_words
from spillcast.report.html.charts import runs as run_charts
from spillcast.report.html.charts import storages as storage_charts
from spillcast.report.html.charts import sweeps as charts
from spillcast.report.html.charts.bars import time_bars
from spillcast.report.html.page import Figure, Section, Table, figure
from spillcast.report.html.sections.runs import events_table
from spillcast.report.html.words import NOTHING, between, count, micros, percent, seconds, size
from spillcast.units import format_count

Document = Mapping[str, Any]
_DRAWN_MAX = 10


def profiles(documents: Sequence[Document]) -> list[Section]:
    """The rows that take the longest as bars, and all as a table."""
    return [_profile(document) for document in documents]


def _profile(document: Document) -> Section:
    by = document["by"]
    rows = [
        {**row, "event": ", ".join(NOTHING if row.get(k) is None else str(row[k]) for k in by)}
        for row in document["rows"]
        if "total_us" in row
    ]
    drawn = [row for row in rows if not row.get("idle")][:_DRAWN_MAX]
    bars = [
        (row["event"], row["total_us"] / 1e6, seconds(row["total_us"] / 1e6), "there")
        for row in drawn
    ]
    table = events_table(rows, f"By {', '.join(by)}")
    words = "; ".join(f"{name} {text}" for name, _, text, _ in bars)
    chart = figure(
        f"Time by {', '.join(by)}",
        f"{elapsed_words(document['elapsed_s'], rows)}.",
        f"Bars: {words}",
        partial(time_bars, bars),
        table,
    )
    title = f"Where the time goes: {document['name']}"
    return Section(title, figures=[chart] if bars else [], tables=[table])


def storages(documents: Sequence[Document], there: Sequence[Document]) -> list[Section]:
    """Latency by op; ``there`` holds the latencies of each."""
    found = []
    for document, latencies in zip(documents, there, strict=True):
        figures = [_latency(document["name"], group) for group in latencies["groups"]]
        rows = [
            [
                group["op"],
                size(group["size_class_bytes"]),
                str(group["depth"]),
                str(group.get("pattern", "")),
                count(group["count"]),
                micros(group["total_ns"] / group["count"] / 1e3 if group["count"] else None),
            ]
            for group in document["groups"]
        ]
        header = ["op", "size", "depth", "pattern", "operations", "mean"]
        table = Table(header, rows, left=(0, 3), caption="Latency by operation and size")
        if groups := storage_charts.alone(document["groups"]):
            figures.insert(0, _by_size(document["name"], groups))
        found.append(Section(f"Storage: {document['name']}", _measured(document), figures, [table]))
    return found


def _measured(document: Document) -> Sequence[str]:
    """When and where a storage was measured."""
    known = document.get("provenance") or {}
    when = str(known.get("measured_at") or "")[:10]
    parts = [f"on {when}" if when else "", f"on host {known['host']}" if known.get("host") else ""]
    parts += [str(known.get("device_name") or ""), str(known.get("mount_options") or "")]
    said = ", ".join(part for part in parts if part)
    return [f"Measured {said}."] if said else []


def _by_size(name: str, groups: Sequence[Document]) -> Figure:
    rows = [
        [
            group["op"],
            size(group["size_class_bytes"]),
            micros(group["total_ns"] / group["count"] / 1e3),
        ]
        for group in groups
    ]
    at_once, how = groups[0]["depth"], (groups[0].get(key) for key in ("pattern", "access"))
    words = ", ".join(str(word) for word in how if word)
    return figure(
        "Mean latency by the size of an operation",
        f"{at_once} at once, {words}." if words else f"{at_once} at once.",
        f"Lines of mean latency by size on {name}: "
        + "; ".join(f"{op} of {of} {latency}" for op, of, latency in rows),
        partial(storage_charts.by_size, groups),
        Table(["op", "size", "mean"], rows),
    )


def _latency(name: str, group: Document) -> Figure:
    bins = run_charts.bins(group["latency_ns"], group["latency_count"])
    rows = [
        [f"from {micros(run_charts.edge_us(at))}", percent(share, 2)]
        for at, share in sorted(bins.items())
    ]
    mean = micros(run_charts.mean_us(group["latency_ns"], group["latency_count"]))
    title = str(group["label"])
    return figure(
        f"{title[0].upper()}{title[1:]}",
        f"{format_count(sum(group['latency_count']), 'operation')}, mean {mean}.",
        f"Histogram of the latency of {title} on {name}, mean {mean}",
        partial(run_charts.latencies, group, None, (name, "")),
        Table(["latency", "share"], rows),
    )


def sweeps(documents: Sequence[Document]) -> list[Section]:
    """I/O sizes as stacked bars; memory as a line for each storage."""
    return [_sizes(one) if one["kind"] == "io-size" else _memory(one) for one in documents]


def _sizes(sweep: Document) -> Section:
    header = ["size of an operation", "reads", "mean read", "writes", "mean write", "total"]
    header.append("interval")
    rows = []
    for row in sweep["rows"]:
        cells = [charts.sizes_words(row)]
        for op in ("reads", "writes"):
            part = row.get(op) or {}
            cells += [count(part.get("count")), micros(part.get("mean_us"))]
        rows.append([*cells, seconds(row["total_s"]), between(row.get("interval_s"))])
    best = sweep["best"]
    table = Table(header, rows)
    words = "; ".join(f"{charts.sizes_words(r)} {seconds(r['total_s'])}" for r in sweep["rows"])
    chart = figure(
        f"Time of all temp I/O by the size of an operation, on {sweep['storage']}",
        f"The sweet spot is {charts.sizes_words(best)}." if best else "",
        f"Stacked bars of reads and writes by size: {words}",
        partial(charts.io_sizes, sweep["rows"], best),
        table,
    )
    advice = [f"{one['engine']}: {one['text']}" for one in sweep.get("advice", ())]
    return Section("Which I/O size", advice, [chart], [table])


def _memory(sweep: Document) -> Section:
    points = sweep["points"]
    header = ["storage", "memory", "elapsed", "interval", "reads", "writes", "spilled", ""]
    rows = [
        [
            point["storage"],
            size(point["memory_bytes"]),
            seconds(point["elapsed_s"]),
            between(point.get("interval_s")),
            count(point.get("reads")),
            count(point.get("writes")),
            size(point.get("spilled_bytes")),
            "measured" if point["measured"] else "forecast",
        ]
        for point in points
    ]
    table = Table(header, rows, left=(0, 7))
    what = " ".join(str(sweep[key]) for key in ("engine", "workload") if sweep.get(key))
    names = list(dict.fromkeys(point["storage"] for point in points))
    figures = [
        figure(
            f"Elapsed time by memory: {what}",
            "Filled points were measured, open ones are forecasts; lines through them are "
            "intervals.",
            "Lines of elapsed time over memory for " + ", ".join(names),
            partial(charts.memory, [p for p in points if p["storage"] in part]),
            table,
        )
        for part in (
            names[at : at + charts.LINES_MAX] for at in range(0, len(names), charts.LINES_MAX)
        )
    ]
    turns = [
        f"{turn.get('storage', '')} at {size(turn['memory_bytes'])}: {turn['from']} becomes "
        f"{turn['to']}."
        for turn in sweep.get("turns", ())
    ]
    return Section("How much memory", [text.removeprefix(" at ") for text in turns], figures)


def caches(documents: Sequence[Document]) -> list[Section]:
    """The miss-ratio curve, and what a cache of the size that was asked for served."""
    return [_cache(document) for document in documents]


def _cache(document: Document) -> Section:
    curve, cache = document["curve"], document["cache"]
    pairs = list(zip(curve["size_bytes"], curve["miss_ratio"], strict=True))
    enough = size(curve["enough_bytes"])
    asked = cache["size_bytes"] if cache else None
    figures = [
        figure(
            "Reads that miss, by the size of an LRU cache",
            f"{enough} bring nine tenths of the hits of any size."
            if curve["enough_bytes"]
            else "No cache size gives any hits.",
            f"Miss ratio from {percent(pairs[0][1], 0)} at {size(pairs[0][0])} to "
            f"{percent(pairs[-1][1], 0)} at {size(pairs[-1][0])}; enough is {enough}",
            partial(charts.miss_ratio, curve, asked),
            Table(["size", "reads that miss"], [[size(s), percent(m, 2)] for s, m in pairs]),
        )
    ] if any(s > 0 for s, _ in pairs) else []  # fmt: skip
    tables = [_accounts(cache), _traffic(cache)] if cache and cache["runs"] else []
    return Section("How much flash is worth buying", figures=figures, tables=tables)


def _accounts(cache: Document) -> Table:
    rows = [
        [
            str(one["object"]), str(one["class"]), count(one["requests"]), size(one["bytes"]),
            percent(one["hits"] / one["requests"] if one["requests"] else None),
        ]
        for one in sorted(cache["runs"][-1]["accounts"], key=lambda one: -one["bytes"])
    ]  # fmt: skip
    caption = f"Last run with {size(cache['size_bytes'])}, policy {cache['policy']}"
    return Table(["object", "class", "requests", "bytes", "hits"], rows, (0, 1), caption)


def _traffic(cache: Document) -> Table:
    names = ["no cache", "populating", *["next run"] * len(cache["runs"])]
    keys = ("flash_read_bytes", "disk_read_bytes", "flash_write_bytes", "disk_write_bytes")
    rows = [
        [name, *(size(one[key]) for key in keys), seconds(one.get("elapsed_s"))]
        for name, one in zip(names, [cache["without"], *cache["runs"]], strict=False)
    ]
    header = ["", "from flash", "from disk", "to flash", "to disk", "I/O time"]
    return Table(header, rows, caption="What the devices move")

"""A storage as tables of latencies, and an exported log in words."""

from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from spillcast.recording.event_names import OPS
from spillcast.report.page import Page, Part, Words
from spillcast.report.table import Column, Table
from spillcast.storage import Group, Storage
from spillcast.storage.iolog import Iolog
from spillcast.storage.source import GRID
from spillcast.units import format_bytes, format_count, format_duration

#: From this size on a rate is one of bytes.
BYTES_FROM = 64 << 10


_COLUMNS = (
    Column("op", "op"),
    Column("size", "size_class_bytes", "bytes"),
    Column(None, "depth", "count"),
    Column(None, "pattern"),
    Column(None, "access"),
    Column("count", "count", "count"),
    Column(None, "bytes", "bytes"),
    Column(None, "total_ns", "count"),
    Column("mean", "mean_s", "s"),
    Column("p50", "p50_s", "s"),
    Column("p95", "p95_s", "s", spare=2),
    Column("p99", "p99_s", "s"),
    Column("max", "max_s", "s", spare=1),
    Column(None, "operations_per_s", "per_s"),
)
QUANTILES = (0.5, 0.95, 0.99, 1.0)


def figures(storage: Storage) -> Table:
    """One row per op and size, and of a grid per depth, pattern and access."""
    rows = [
        [
            *(g.op, g.size_class_bytes, g.depth, g.pattern, g.access),
            *(g.count, g.bytes, g.total_ns, g.mean_s, *(g.quantile_s(q) for q in QUANTILES)),
            g.count / g.elapsed_ns * 1e9 if g.elapsed_ns else None,
        ]
        for op in OPS
        for g in storage.of(op)
        if g.count
    ]
    return Table(_COLUMNS, rows)


def storage_page(storage: Storage) -> Page:
    """A storage as it was measured: by replay or by a grid."""
    return Page(measured_parts(storage), figures(storage))


def measured_parts(storage: Storage) -> list[Part]:
    """Its figures as tables: by size and depth where it was measured with a grid."""
    return _grid_parts(storage) if storage.source == GRID else _replay_parts(storage)


def _replay_parts(storage: Storage) -> list[Part]:
    """One row per op and size."""
    facts = storage.facts
    title = f"{storage.name} ({storage.source.word}"
    if "filesystem" in facts:
        title += f", {facts['filesystem']}"
    if "threads" in facts:
        title += f", {facts['threads']} at once"
    parts: list[Part] = [Words([f"{title})"]), figures(storage)]
    if facts.get("steps_skipped"):
        done = facts.get("steps_replayed", 0)
        all_steps = done + facts["steps_skipped"]
        parts.append(
            Words([f"  {done:,} of {format_count(all_steps, 'operation')} fitted the budget"])
        )
    return parts


def _grid_parts(storage: Storage) -> list[Part]:
    """One table for each op, access and pattern: sizes down, depths across, median and rate."""
    facts = storage.facts
    where = f", {facts['filesystem']}" if "filesystem" in facts else ""
    parts: list[Part] = [Words([f"{storage.name} ({storage.source.word}{where})"])]
    depths = sorted({g.depth for g in storage.groups})
    for op in OPS:
        for access in ("direct", "buffered"):
            for pattern in ("random", "sequential"):
                groups = [g for g in storage.of(op) if (g.access, g.pattern) == (access, pattern)]
                if groups:
                    title = f"{op}, {access}, {pattern}: median latency and rate by depth"
                    parts += [Words([title]), _grid_table(groups, depths)]
    if "cells" in facts:
        parts.append(Words(list(_grid_facts(facts)), "  "))
    return parts


def _grid_table(groups: Sequence[Group], depths: Sequence[int]) -> Table:
    cells = {(g.size_class_bytes, g.depth): g for g in groups}
    rows: list[list[Any]] = []
    for size in sorted({g.size_class_bytes for g in groups}):
        row = [cells.get((size, depth)) for depth in depths]
        medians = [None if g is None else format_duration(g.quantile_s(0.5)) for g in row]
        rows.append([format_bytes(size), *medians])
        rows.append(["", *("" if g is None else _rate(g) for g in row)])
    columns = [Column("size", None), *(Column(str(depth), None, "raw") for depth in depths)]
    return Table(columns, rows)


def _rate(group: Group) -> str:
    """Operations a second where they are small, bytes where they are large."""
    if not group.elapsed_ns:
        return ""
    per_s = group.count / group.elapsed_ns * 1e9
    if group.size_class_bytes < BYTES_FROM:
        return f"{per_s / 1e3:.1f}k/s" if per_s >= 1e3 else f"{per_s:.0f}/s"
    bytes_per_s = per_s * group.bytes / group.count
    return (
        f"{bytes_per_s / 1e9:.2f} GB/s" if bytes_per_s >= 1e9 else f"{bytes_per_s / 1e6:.0f} MB/s"
    )


def _grid_facts(facts: Mapping[str, Any]) -> Iterator[str]:
    """What a reader of the tables should know."""
    if facts.get("direct_refusal") is not None:
        yield f"  no direct I/O here: {facts['direct_refusal']}"
    elif facts.get("io_uring_refusal") is not None:
        yield f"  direct I/O by threads, for there was no io_uring: {facts['io_uring_refusal']}"
    for key, why in (("time", "time: give a larger --budget"), ("room", "room in the file")):
        count = facts.get(f"cells_without_{key}")
        if count:
            yield f"  {count} of {format_count(facts['cells'], 'cell')} found no {why}"
    written = facts.get("sustained")
    if written is None:
        return
    burst = f"{written['burst_bytes_per_s'] / 1e6:,.0f} MB/s"
    limit = written.get("dirty_limit_bytes")
    dirty = "" if limit is None else f"; the page cache takes {format_bytes(limit)} of writes"
    if written["reached"]:
        later = f"{written['sustained_bytes_per_s'] / 1e6:,.0f} MB/s"
        first = format_bytes(written["burst_bytes"])
        yield f"  writing on and on: {burst} for {first}, then {later}{dirty}"
    else:
        yield f"  writing on and on: {burst} for all of {format_bytes(written['bytes'])}{dirty}"


def iolog_text(log: Iolog) -> str:
    """The exported log, and the fio command that replays it."""
    files = ", ".join(f"{name} ({format_bytes(size)})" for name, size in log.files.items())
    lay = "".join(f"  truncate -s {log.files[name]} {name}\n" for name in log.laid_before)
    return (
        f"{log.path}: {format_count(log.reads, 'read')} of {format_bytes(log.read_bytes)}, "
        f"{format_count(log.writes, 'write')} of {format_bytes(log.write_bytes)}\n"
        f"  replay it in a directory of the storage; it leaves {files} there:\n"
        f"{lay}"
        f"  fio --name=spill --ioengine=psync --read_iolog={Path(log.path).absolute()}"
    )

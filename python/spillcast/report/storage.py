"""Pages of one storage: its figures, distributions and limits; its emulation; its fio log."""

from collections.abc import Iterator, Mapping, Sequence
from itertools import product
from pathlib import Path
from typing import Any

from spillcast.recording import OPS
from spillcast.report import (
    Commands,
    Drawing,
    Page,
    PagePart,
    Prose,
    TitledTable,
    histogram,
    peak_letters,
)
from spillcast.stats import quantile
from spillcast.storage import Group, Limit, Storage
from spillcast.storage.description import Ability, ability, shape
from spillcast.storage.emulation import EmulationResult, Mount
from spillcast.storage.fio import Iolog
from spillcast.storage.model import Model
from spillcast.storage.source import GRID
from spillcast.storage.storage import nonnull_facts
from spillcast.tabular import Column, PrintedTable, paragraph
from spillcast.units import format_bytes, format_count, format_duration, format_share

#: Rates of operations of at least this size are in bytes per second.
BYTES_FROM = 64 << 10
_FIGURES = (
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


def figures(groups: Sequence[Group]) -> PrintedTable:
    """A row for each group with operations."""
    rows = [
        [
            *(g.op, g.size_class_bytes, g.depth, g.pattern, g.access),
            *(g.count, g.bytes, g.total_ns, g.mean_s, *(g.quantile_s(q) for q in QUANTILES)),
            g.count / g.elapsed_ns * 1e9 if g.elapsed_ns else None,
        ]
        for g in groups
        if g.count
    ]
    return PrintedTable(_FIGURES, rows)


def storage_page(storage: Storage, next_command: str) -> Page:
    """A storage as measured by a replay or a grid, and the next command."""
    parts = [*measured_parts(storage), Prose(["Next, forecast a run for it:"])]
    return Page([*parts, Commands([next_command])], figures(_groups(storage, OPS)))


def measured_parts(storage: Storage) -> list[PagePart]:
    """The name of a storage and its figures as tables; those of a grid by size and depth."""
    facts, is_grid = nonnull_facts(storage.facts), storage.source == GRID
    title = f"{storage.name} ({storage.source.name}"
    title += f", {facts['filesystem']}" if "filesystem" in facts else ""
    title += f", {facts['threads']} at once" if "threads" in facts and not is_grid else ""
    parts: list[PagePart] = [Prose([f"{title})"])]
    if not is_grid:
        parts.append(figures(_groups(storage, OPS)))
        if skipped := facts.get("steps_skipped"):
            done = facts.get("steps_replayed", 0)
            all_steps = format_count(done + skipped, "operation")
            parts.append(Prose([f"  {done:,} of {all_steps} fitted the budget"]))
        return parts
    depths = sorted({g.depth for g in storage.groups})
    for op, access, pattern in product(OPS, ("direct", "buffered"), ("random", "sequential")):
        groups = [g for g in storage.of(op) if (g.access, g.pattern) == (access, pattern)]
        if groups:
            title = f"{op}, {access}, {pattern}: median latency and rate by depth"
            parts.append(TitledTable(title, _grid_table(groups, depths)))
    if "cells" in facts:
        parts.append(Prose(list(_grid_facts(facts)), "  "))
    return parts


def _grid_table(groups: Sequence[Group], depths: Sequence[int]) -> PrintedTable:
    cells = {(g.size_class_bytes, g.depth): g for g in groups}
    rows: list[list[Any]] = []
    for size in sorted({g.size_class_bytes for g in groups}):
        row = [cells.get((size, depth)) for depth in depths]
        medians = [None if g is None else format_duration(g.quantile_s(0.5)) for g in row]
        rows.append([format_bytes(size), *medians])
        rows.append(["", *("" if g is None else _rate(g) for g in row)])
    columns = [Column("size", None), *(Column(str(depth), None, "raw") for depth in depths)]
    return PrintedTable(columns, rows)


def _rate(group: Group) -> str:
    """The rate of a group: operations per second if they are small, bytes per second if large."""
    if not group.elapsed_ns:
        return ""
    per_s = group.count / group.elapsed_ns * 1e9
    if group.size_class_bytes < BYTES_FROM:
        return f"{per_s / 1e3:.1f}k/s" if per_s >= 1e3 else f"{per_s:.0f}/s"
    rate = per_s * group.bytes / group.count
    return f"{rate / 1e9:.2f} GB/s" if rate >= 1e9 else f"{rate / 1e6:.0f} MB/s"


def _grid_facts(facts: Mapping[str, Any]) -> Iterator[str]:
    """The conditions of a grid: refused interfaces, unmeasured cells and sustained writes."""
    if facts.get("direct_refusal") is not None:
        yield f"  no direct I/O on this file system: {facts['direct_refusal']}"
    elif facts.get("io_uring_refusal") is not None:
        yield f"  direct I/O by threads, without io_uring: {facts['io_uring_refusal']}"
    reasons = {"time": "no time left: give a larger --budget", "room": "no room in the file"}
    for key, reason in reasons.items():
        if count := facts.get(f"cells_without_{key}"):
            yield f"  {count} of {format_count(facts['cells'], 'cell')} not measured, {reason}"
    if (sustained := facts.get("sustained")) is None:
        return
    limit = sustained.get("dirty_limit_bytes")
    dirty = "" if limit is None else f"; the page cache takes {format_bytes(limit)} of writes"
    extent = f"all {format_bytes(sustained['bytes'])}"
    if sustained["reached"]:
        rate = f"{sustained['sustained_bytes_per_s'] / 1e6:,.0f} MB/s"
        extent = f"the first {format_bytes(sustained['burst_bytes'])}, then {rate}"
    burst = f"{sustained['burst_bytes_per_s'] / 1e6:,.0f} MB/s"
    yield f"  sustained writes: {burst} for {extent}{dirty}"


def iolog_page(log: Iolog) -> Page:
    """The exported log, and the fio command that replays it."""
    files = ", ".join(f"{name} ({format_bytes(size)})" for name, size in log.files.items())
    lines = [
        f"{log.path}: {format_count(log.reads, 'read')} of {format_bytes(log.read_bytes)}, "
        f"{format_count(log.writes, 'write')} of {format_bytes(log.write_bytes)}",
        f"  replay it in a directory of the storage; it leaves {files} there:",
        *(f"  truncate -s {log.files[name]} {name}" for name in log.laid_before),
        f"  fio --name=spill --ioengine=psync --read_iolog={Path(log.path).absolute()}",
    ]
    keys = ("path", "reads", "writes", "read_bytes", "write_bytes")
    return Page(
        [Drawing(lambda _: "\n".join(lines))], PrintedTable.of_records([log.to_json()], keys)
    )


#: Maximum number of other groups with several peaks that are described.
OTHERS_MAX = 8


def show_page(storage: Storage, ops: Sequence[str], size_bytes: int | None) -> Page:
    """All figures of ``ops``; histograms of ``size_bytes``, or of the size with the most time."""
    only = Storage(storage.name, storage.source, _groups(storage, ops), storage.facts)
    parts: list[PagePart] = []
    if storage.source.unloaded:
        facts = nonnull_facts(storage.facts)
        lines = [f"{storage.name} ({origin_text(storage)})"]
        lines += [str(facts[key]) for key in ("description", "source") if key in facts]
        lines += [f"assumed: {text}" for text in facts.get("assumed", ())]
        parts += [Prose(lines, "  "), _stated(storage, ops), Prose(["  one operation at a time"])]
    else:
        parts += measured_parts(only)
        origins = filter(None, (origin_text(storage), provenance_text(storage)))
        parts.append(Prose([f"  {words}" for words in origins], "  "))
        for op in ops:
            parts += _op_parts(storage, op, size_bytes)
    if size_bytes is not None:
        lines = list(filter(None, (_size_text(storage, op, size_bytes) for op in ops)))
        parts.append(Prose(lines))
    if limits := limits_text(storage):
        parts.append(Prose([f"limits: {limits}"], "  "))
    if not storage.source.unloaded:
        abilities = (ability_text(op, ability(storage, op)) for op in ops)
        parts.append(Prose(list(filter(None, abilities)), "  "))
    return Page(parts, figures(_groups(only, OPS)))


def _shown_group(storage: Storage, op: str, size_bytes: int | None) -> Group | None:
    """The group whose histogram represents an op, of a given size or any.

    Of recorded groups it is the one with the most time. Of a grid it is the smallest size and
    depth, which show the storage's own latency best; buffered before direct, random before
    sequential.
    """
    groups = [g for g in _groups(storage, [op]) if size_bytes in (None, g.size_class_bytes)]

    def order(group: Group) -> tuple[bool, bool, int, int, int]:
        is_direct, is_sequential = group.access != "buffered", group.pattern == "sequential"
        is_recorded = group.pattern == "recorded"
        size_depth = (0, 0) if is_recorded else (group.size_class_bytes, group.depth)
        return (is_direct, is_sequential, *size_depth, -group.total_ns)

    return min(groups, key=order, default=None)


def _groups(storage: Storage, ops: Sequence[str]) -> list[Group]:
    return [group for op in ops for group in storage.of(op) if group.count]


def _op_parts(storage: Storage, op: str, size_bytes: int | None) -> list[PagePart]:
    group = _shown_group(storage, op, size_bytes)
    if group is None:
        return []
    op_shape = shape(group)
    title = f"{_group_title(group)}: {format_count(group.count, 'operation')}"
    causes = [f"  {op_shape.cause}"] if op_shape.cause else []
    lines = [
        f"  {peak_letters(op_shape.peaks)}{op_shape.text}",
        *causes,
        *_other_groups(storage, op, group),
    ]
    buckets = group.latency_ns, group.latency_count
    return [histogram(title, buckets, op_shape.peaks), Prose(lines)]


def _group_title(group: Group) -> str:
    """``read 256 KiB, random, direct, depth 4``, or the first part for a recorded group."""
    parts = [f"{group.op} {format_bytes(group.size_class_bytes)}"]
    if group.pattern != "recorded":
        parts += [group.pattern, group.access, f"depth {group.depth}"]
    return ", ".join(parts)


def _other_groups(storage: Storage, op: str, shown: Group) -> list[str]:
    """The groups of an op with several peaks, except the one whose histogram is ``shown``."""
    shapes = map(shape, (g for g in _groups(storage, [op]) if g is not shown))
    multimodal = [s for s in shapes if len(s.peaks) > 1]
    lines = [f"  {_group_title(s.group)}: {s.text}" for s in multimodal[:OTHERS_MAX]]
    if (more := len(multimodal) - OTHERS_MAX) > 0:
        lines.append(f"  and {more:,} more with several peaks, see --json")
    return lines


def _size_text(storage: Storage, op: str, size_bytes: int) -> str:
    """The estimated latency of a size, its source and its error; empty for a measured size."""
    estimate = Model(storage).latency(op, size_bytes)
    if estimate.measured:
        return ""
    sizes = "stated sizes" if storage.source.unloaded else "measured sizes"
    method = "extrapolated from" if estimate.extrapolated else "interpolated between"
    return (
        f"  {op} {format_bytes(size_bytes)}: about {format_duration(estimate.mean_s)}, "
        f"{method} {sizes}, +/- {format_share(estimate.error)}"
    )


_STATED = (
    Column("op", None),
    Column("size", None, "bytes"),
    Column("sequential", None, "s"),
    Column("random", None, "s"),
)


def _stated(storage: Storage, ops: Sequence[str]) -> PrintedTable:
    """Mean latencies by op and size, sequential and random, one operation at a time."""
    model = Model(storage)
    sizes = sorted({g.size_class_bytes for g in _groups(storage, ops)})
    rows: list[list[Any]] = []
    for op, size in product(ops, sizes):
        sequential, random = (model.latency(op, size, sequential=s) for s in (True, False))
        rows.append([op, size, sequential.mean_s, random.mean_s])
    return PrintedTable(_STATED, rows)


#: The operation size for which limits in operations per second are given: a page.
SMALL_BYTES = 4096
#: Op and pattern.
_OPERATIONS = tuple(product(OPS, ("random", "sequential")))


def origin_text(storage: Storage) -> str:
    """The source of the figures."""
    facts = nonnull_facts(storage.facts)
    where = f" on {facts['directory']}" if "directory" in facts else ""
    return storage.source.description.format(like=facts.get("like", "a recording"), where=where)


def provenance_text(storage: Storage) -> str | None:
    """Time, host and versions of the measurement, as far as known."""
    if (p := storage.provenance) is None:
        return None
    parts = [
        f"measured at {p.measured:%Y-%m-%d %H:%M} UTC" if p.measured else None,
        p.host and f"on host {p.host}",
        p.kernel and f"kernel {p.kernel}",
        p.device_name,
        p.mount_point and f"{p.filesystem} at {p.mount_point} ({p.mount_options})",
        p.spillcast and f"spillcast {p.spillcast}",
    ]
    return ", ".join(filter(None, parts)) or None


def limits_text(storage: Storage) -> str | None:
    """``3,000 operations/s, 125 MiB/s``; None if no limits are stated."""
    parts = [part for limit in storage.limits for part in _limit_text(limit)]
    if storage.servers is not None:
        parts.append(f"{storage.servers:,} at once")
    return ", ".join(parts) or None


def _limit_text(limit: Limit) -> Iterator[str]:
    """Operations a second, then bytes a second; one text if the limit is the same for all."""
    # Device time of an operation of a page; the constant parts may be 0.
    costs_ns = [
        limit.cost_ns(op, SMALL_BYTES, sequential=pattern == "sequential")
        for op, pattern in _OPERATIONS
    ]
    constant_ns = [getattr(limit, f"{op}_{pattern}_ns") for op, pattern in _OPERATIONS]
    size = f" of up to {format_bytes(limit.operation_bytes)}" if limit.operation_bytes else ""
    # Bursts of less than a second are left out.
    burst_ns = limit.burst_ns if limit.burst_ns > 1e9 else 0.0
    if any(constant_ns) and len(set(costs_ns)) == 1:
        burst = f" after {burst_ns / costs_ns[0]:,.0f} at once" if burst_ns else ""
        yield f"{1e9 / costs_ns[0]:,.0f} operations/s{size}{burst}"
    elif any(constant_ns):
        for cost_ns, base_ns, (op, pattern) in zip(costs_ns, constant_ns, _OPERATIONS, strict=True):
            if base_ns:
                yield f"{1e9 / cost_ns:,.0f} {pattern} {op}s/s{size}"
    read_ns, write_ns = limit.read_ns_per_byte, limit.write_ns_per_byte
    if read_ns == write_ns != 0:
        with_burst = burst_ns and not any(constant_ns)
        burst = f" after {format_bytes(burst_ns / read_ns)} at once" if with_burst else ""
        yield f"{format_bytes(1e9 / read_ns)}/s{burst}"
    else:
        for ns_per_byte, verb in ((read_ns, "read"), (write_ns, "written")):
            if ns_per_byte:
                yield f"{format_bytes(1e9 / ns_per_byte)}/s {verb}"


def ability_text(op: str, ability: Ability) -> str:
    """Servers and ceilings of an op, and the error of interpolated latencies; empty if unknown."""
    parts = []
    if ability.servers is not None:
        parts.append(f"about {ability.servers:.3g} served at once")
    if ability.operations_per_s is not None:
        per_s = float(f"{ability.operations_per_s:.3g}")
        parts.append(f"at most {per_s:,.0f} small operations/s")
    if ability.bandwidth_bytes_per_s is not None:
        parts.append(f"at most {format_bytes(ability.bandwidth_bytes_per_s)}/s")
    if ability.error_median is not None and ability.error_max is not None:
        parts.append(
            f"between measured sizes known to within {format_share(ability.error_median, 1)} "
            f"(median), {format_share(ability.error_max)} (maximum), "
            "by predicting each from the others"
        )
    return f"{op}s: {'; '.join(parts)}" if parts else ""


def mounted_text(mount: Mount, *, temporary: bool, end: str) -> str:
    """The description of a new mount."""
    cache = ", through the page cache" if mount.page_cache else ""
    text = (
        f"mounted at {mount.mountpoint}: {described(mount)}{cache}. {end}; the files are in "
        f"{mount.backing} and are {'deleted at the end' if temporary else 'kept'}."
    )
    warnings = (f"warning: {words}" for words in mount.too_fast().values())
    return "\n".join(map(paragraph, (text, *warnings)))


def described(mount: Mount) -> str:
    """The name of the storage, its number of servers, and its limits."""
    behaviour = mount.behaviour
    servers = [] if behaviour.servers is None else [f"{behaviour.servers} at once"]
    limits = (f"limit {limit.name}" for limit in behaviour.limits)
    return ", ".join([behaviour.name, *servers, *limits])


def mount_status(result: EmulationResult, before: EmulationResult) -> str:
    """Operations so far, and their rate since ``before``."""
    elapsed_s = max(result.elapsed_s - before.elapsed_s, 1e-3)
    parts = []
    for now, then in zip(result.operations, before.operations, strict=True):
        per_s, bytes_per_s = ((now[key] - then[key]) / elapsed_s for key in ("count", "bytes"))
        rates = f"{per_s:,.0f}/s, {format_bytes(bytes_per_s)}/s"
        parts.append(f"{now['count']:,} {now['op']}s ({rates})")
    return f"{result.mount.mountpoint}: {', '.join(parts)}"


_EMULATED = (
    Column("op", "op"),
    Column("count", "count", "count"),
    Column("bytes", "bytes", "bytes"),
    Column(None, "total_ns"),
    Column("mean", "mean_s", "s"),
    Column("p50", "p50_s", "s"),
    Column("p99", "p99_s", "s"),
    Column("sequential", None, "percent", spare=1),
    Column(None, "sequential"),
    Column("late", None, "percent1"),
    Column(None, "late"),
)


def emulation_page(result: EmulationResult) -> Page:
    """Operations with their latencies, and the latency that the mount itself adds."""
    data = PrintedTable(_EMULATED, list(map(_emulated_row, result.operations)))
    rows = [row for row in data.rows if row[1]]
    title = f"{described(result.mount)}: {format_duration(result.elapsed_s)}"
    floors = []
    for op in OPS:
        points = [point for point in result.mount.floor if point[0] == op]
        (_, small_bytes, small_ns), (_, large_bytes, large_ns) = points[0], points[-1]
        floors.append(
            f"{format_duration(small_ns / 1e9)} for a {op} of {format_bytes(small_bytes)} and "
            f"{format_duration(large_ns / 1e9)} for {format_bytes(large_bytes)}"
        )
    lines = [f"  The mount itself takes {', '.join(floors)}; this is subtracted."]
    lines += (f"  warning: {w['message']}" for w in result.warnings())
    table = PrintedTable(_EMULATED, rows) if rows else Prose(["  nothing was read or written"])
    return Page([Prose([title]), table, Prose(lines, "  ")], data)


def _emulated_row(stats: Mapping[str, Any]) -> list[Any]:
    row = [stats["op"], stats["count"], stats["bytes"], stats["total_ns"]]
    sequential, late = stats["sequential"], stats["late"]
    if not (count := stats["count"]):
        return [*row, None, None, None, None, sequential, None, late]
    buckets = stats["latency_ns"], stats["latency_count"]
    quantiles_s = (quantile(*buckets, q) / 1e9 for q in (0.5, 0.99))
    row += [stats["total_ns"] / count / 1e9, *quantiles_s]
    return [*row, sequential / count, sequential, late / count, late]

"""Pages of a storage: its figures, distributions and limits; of a mount; of an exported log."""

from collections.abc import Iterator, Mapping, Sequence
from itertools import product
from pathlib import Path
from typing import Any

from spillcast.recording import OPS
from spillcast.report.page import Commands, Drawn, Page, Part, Titled, Words, histogram, peak_marks
from spillcast.stats import quantile
from spillcast.storage import Group, Limit, Storage
from spillcast.storage.description import Ability, ability, shape
from spillcast.storage.emulation import Emulated, Mount
from spillcast.storage.fio import Iolog
from spillcast.storage.model import Model
from spillcast.storage.source import GRID
from spillcast.storage.storage import known_facts
from spillcast.tabular import Column, Table, paragraph
from spillcast.units import format_bytes, format_count, format_duration

#: From this size on, rates are in bytes.
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


def figures(groups: Sequence[Group]) -> Table:
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
    return Table(_FIGURES, rows)


def storage_page(storage: Storage, next_command: str) -> Page:
    """A storage as it was measured, by replay or by a grid, and the command that comes next."""
    parts = [*measured_parts(storage), Words(["Next, forecast a run for it:"])]
    return Page([*parts, Commands([next_command])], figures(_groups(storage, OPS)))


def measured_parts(storage: Storage) -> list[Part]:
    """The figures of a storage as tables; those of a grid by size and depth."""
    facts, grid = known_facts(storage.facts), storage.source == GRID
    title = f"{storage.name} ({storage.source.word}"
    title += f", {facts['filesystem']}" if "filesystem" in facts else ""
    title += f", {facts['threads']} at once" if "threads" in facts and not grid else ""
    parts: list[Part] = [Words([f"{title})"])]
    if not grid:
        parts.append(figures(_groups(storage, OPS)))
        if skipped := facts.get("steps_skipped"):
            done = facts.get("steps_replayed", 0)
            all_steps = format_count(done + skipped, "operation")
            parts.append(Words([f"  {done:,} of {all_steps} fitted the budget"]))
        return parts
    depths = sorted({g.depth for g in storage.groups})
    for op, access, pattern in product(OPS, ("direct", "buffered"), ("random", "sequential")):
        groups = [g for g in storage.of(op) if (g.access, g.pattern) == (access, pattern)]
        if groups:
            title = f"{op}, {access}, {pattern}: median latency and rate by depth"
            parts.append(Titled(title, _grid_table(groups, depths)))
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
    """The rate of a group: operations a second if they are small, bytes a second if large."""
    if not group.elapsed_ns:
        return ""
    per_s = group.count / group.elapsed_ns * 1e9
    if group.size_class_bytes < BYTES_FROM:
        return f"{per_s / 1e3:.1f}k/s" if per_s >= 1e3 else f"{per_s:.0f}/s"
    rate = per_s * group.bytes / group.count
    return f"{rate / 1e9:.2f} GB/s" if rate >= 1e9 else f"{rate / 1e6:.0f} MB/s"


def _grid_facts(facts: Mapping[str, Any]) -> Iterator[str]:
    if facts.get("direct_refusal") is not None:
        yield f"  no direct I/O on this file system: {facts['direct_refusal']}"
    elif facts.get("io_uring_refusal") is not None:
        yield f"  direct I/O by threads, without io_uring: {facts['io_uring_refusal']}"
    reasons = {"time": "no time left: give a larger --budget", "room": "no room in the file"}
    for key, reason in reasons.items():
        if count := facts.get(f"cells_without_{key}"):
            yield f"  {count} of {format_count(facts['cells'], 'cell')} not measured, {reason}"
    if (written := facts.get("sustained")) is None:
        return
    limit = written.get("dirty_limit_bytes")
    dirty = "" if limit is None else f"; the page cache takes {format_bytes(limit)} of writes"
    part = f"all {format_bytes(written['bytes'])}"
    if written["reached"]:
        later = f"{written['sustained_bytes_per_s'] / 1e6:,.0f} MB/s"
        part = f"the first {format_bytes(written['burst_bytes'])}, then {later}"
    burst = f"{written['burst_bytes_per_s'] / 1e6:,.0f} MB/s"
    yield f"  sustained writes: {burst} for {part}{dirty}"


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
    return Page([Drawn(lambda _: "\n".join(lines))], Table.of_records([log.to_json()], keys))


#: The most further groups with several peaks that are described.
OTHERS_MAX = 8


def show_page(storage: Storage, ops: Sequence[str], size_bytes: int | None) -> Page:
    """Everything about some ops; histograms of ``size_bytes``, or where most time went."""
    only = Storage(storage.name, storage.source, _groups(storage, ops), storage.facts)
    parts: list[Part] = []
    if storage.source.stated:
        facts = known_facts(storage.facts)
        lines = [f"{storage.name} ({origin_words(storage)})"]
        lines += [str(facts[key]) for key in ("description", "source") if key in facts]
        lines += [f"assumed: {text}" for text in facts.get("assumed", ())]
        parts += [Words(lines, "  "), _stated(storage, ops), Words(["  one operation at a time"])]
    else:
        parts += measured_parts(only)
        origins = filter(None, (origin_words(storage), provenance_words(storage)))
        parts.append(Words([f"  {words}" for words in origins], "  "))
        for op in ops:
            parts += _op_parts(storage, op, size_bytes)
    if size_bytes is not None:
        lines = list(filter(None, (_size_words(storage, op, size_bytes) for op in ops)))
        parts.append(Words(lines))
    if limits := limits_words(storage):
        parts.append(Words([f"limits: {limits}"], "  "))
    if not storage.source.stated:
        abilities = (ability_words(op, ability(storage, op)) for op in ops)
        parts.append(Words(list(filter(None, abilities)), "  "))
    return Page(parts, figures(_groups(only, OPS)))


def _shown_group(storage: Storage, op: str, size_bytes: int | None) -> Group | None:
    """The group whose histogram represents an op, of a given size or any.

    Of what was recorded that with the most time. Of a grid the smallest size and depth, which show
    the storage's own latency best; buffered before direct, random before sequential.
    """
    groups = [g for g in _groups(storage, [op]) if size_bytes in (None, g.size_class_bytes)]

    def order(group: Group) -> tuple[bool, bool, tuple[int, int], int]:
        recorded = group.pattern == "recorded"
        smallest = (0, 0) if recorded else (group.size_class_bytes, group.depth)
        ways = group.access != "buffered", group.pattern == "sequential"
        return (*ways, smallest, -group.total_ns)

    return min(groups, key=order, default=None)


def _groups(storage: Storage, ops: Sequence[str]) -> list[Group]:
    return [group for op in ops for group in storage.of(op) if group.count]


def _op_parts(storage: Storage, op: str, size_bytes: int | None) -> list[Part]:
    group = _shown_group(storage, op, size_bytes)
    if group is None:
        return []
    op_shape = shape(group)
    marks = peak_marks(op_shape.peaks)
    title = f"{_group_title(group)}: {format_count(group.count, 'operation')}"
    named = f"{', '.join(marks.values())}: " if marks else ""
    causes = [f"  {op_shape.cause}"] if op_shape.cause else []
    lines = [f"  {named}{op_shape.words}", *causes, *_others(storage, op, group)]
    return [histogram(title, (group.latency_ns, group.latency_count), marks), Words(lines)]


def _group_title(group: Group) -> str:
    """Such as ``read 256 KiB, random, direct, depth 4``, as far as it tells groups apart."""
    parts = [f"{group.op} {format_bytes(group.size_class_bytes)}"]
    if group.pattern != "recorded":
        parts += [group.pattern, group.access, f"depth {group.depth}"]
    return ", ".join(parts)


def _others(storage: Storage, op: str, shown: Group) -> list[str]:
    """Groups besides the one shown that have several peaks."""
    others = map(shape, (g for g in _groups(storage, [op]) if g is not shown))
    several = [other for other in others if len(other.peaks) > 1]
    lines = [f"  {_group_title(other.group)}: {other.words}" for other in several[:OTHERS_MAX]]
    if (more := len(several) - OTHERS_MAX) > 0:
        lines.append(f"  and {more:,} more with several peaks, see --json")
    return lines


def _size_words(storage: Storage, op: str, size_bytes: int) -> str:
    """The mean latency of a size that was not measured, where it is from, and its error."""
    estimate = Model(storage).latency(op, size_bytes)
    if estimate.measured:
        return ""
    known = "stated" if storage.source.stated else "measured"
    how = "extrapolated from" if estimate.extrapolated else "interpolated between"
    return (
        f"  {op} {format_bytes(size_bytes)}: about {format_duration(estimate.mean_s)}, "
        f"{how} {known} sizes, +/- {100 * estimate.error:.0f} %"
    )


_STATED = (
    Column("op", None),
    Column("size", None, "bytes"),
    Column("sequential", None, "s"),
    Column("random", None, "s"),
)


def _stated(storage: Storage, ops: Sequence[str]) -> Table:
    """Mean latencies by op and size, sequential and random, one operation at a time."""
    model = Model(storage)
    sizes = sorted({g.size_class_bytes for g in _groups(storage, ops)})
    rows = [
        [op, size, *(model.latency(op, size, sequential=order).mean_s for order in (True, False))]
        for op in ops
        for size in sizes
    ]
    return Table(_STATED, rows)


#: The size for which operations a second are given: that of a page.
SMALL_BYTES = 4096
_KINDS = (
    ("read", False, "random reads"),
    ("read", True, "sequential reads"),
    ("write", False, "random writes"),
    ("write", True, "sequential writes"),
)


def origin_words(storage: Storage) -> str:
    """Where the figures come from."""
    facts = known_facts(storage.facts)
    where = f" on {facts['directory']}" if "directory" in facts else ""
    return storage.source.words.format(like=facts.get("like", "a recording"), where=where)


def provenance_words(storage: Storage) -> str | None:
    """Time, host and versions of the measurement, as far as known."""
    known = storage.provenance
    if known is None:
        return None
    when = (known.measured_at or "")[:16].replace("T", " ")
    parts = [
        when and f"measured at {when}",
        known.host and f"on host {known.host}",
        known.kernel and f"kernel {known.kernel}",
        known.device_name,
        known.mount_point and f"{known.filesystem} at {known.mount_point} ({known.mount_options})",
        known.spillcast and f"spillcast {known.spillcast}",
    ]
    return ", ".join(part for part in parts if part) or None


def limits_words(storage: Storage) -> str | None:
    """``3,000 operations/s, 125 MiB/s``; None where no limits are stated."""
    parts = [part for limit in storage.limits for part in _limit_words(limit)]
    if storage.servers is not None:
        parts.append(f"{storage.servers:,} at once")
    return ", ".join(parts) or None


def _limit_words(limit: Limit) -> Iterator[str]:
    """Operations a second, then bytes a second, each once where it holds for all."""
    costs = [limit.cost_ns(op, SMALL_BYTES, sequential=s) for op, s, _ in _KINDS]
    bases = [getattr(limit, f"{op}_{'sequential' if s else 'random'}_ns") for op, s, _ in _KINDS]
    large = f" of up to {format_bytes(limit.operation_bytes)}" if limit.operation_bytes else ""
    # A burst of less than a second is not worth a word.
    burst_ns = limit.burst_ns if limit.burst_ns > 1e9 else 0.0
    if any(bases) and len(set(costs)) == 1:
        burst = f" after {burst_ns / costs[0]:,.0f} at once" if burst_ns else ""
        yield f"{1e9 / costs[0]:,.0f} operations/s{large}{burst}"
    elif any(bases):
        for cost, base, (_, _, words) in zip(costs, bases, _KINDS, strict=True):
            if base:
                yield f"{1e9 / cost:,.0f} {words}/s{large}"
    read_ns, write_ns = limit.read_ns_per_byte, limit.write_ns_per_byte
    if read_ns == write_ns != 0:
        with_burst = burst_ns and not any(bases)
        burst = f" after {format_bytes(burst_ns / read_ns)} at once" if with_burst else ""
        yield f"{format_bytes(1e9 / read_ns)}/s{burst}"
    else:
        for per_byte, word in ((read_ns, "read"), (write_ns, "written")):
            if per_byte:
                yield f"{format_bytes(1e9 / per_byte)}/s {word}"


def ability_words(op: str, ability: Ability) -> str:
    """Servers and ceilings of an op, and how far off latencies between the measured ones are.

    Empty where nothing of it is known.
    """
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
            f"between measured sizes known to within {100 * ability.error_median:.1f} % (median), "
            f"{100 * ability.error_max:.0f} % (maximum), by predicting each from the others"
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
    """The name of the storage, how many operations it serves at once, and its limits."""
    behaviour = mount.behaviour
    servers = [] if behaviour.servers is None else [f"{behaviour.servers} at once"]
    limits = (f"limit {limit.name}" for limit in behaviour.limits)
    return ", ".join([behaviour.name, *servers, *limits])


def mount_status(result: Emulated, before: Emulated) -> str:
    """Operations so far, and their rate since ``before``."""
    elapsed_s = max(result.elapsed_s - before.elapsed_s, 1e-3)
    parts = []
    for now, then in zip(result.operations, before.operations, strict=True):
        rate, moved = ((now[key] - then[key]) / elapsed_s for key in ("count", "bytes"))
        parts.append(f"{now['count']:,} {now['op']}s ({rate:,.0f}/s, {format_bytes(moved)}/s)")
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


def emulation_page(result: Emulated) -> Page:
    """Operations with their latencies, and the latency of the mount itself."""
    data = Table(_EMULATED, list(map(_emulated_row, result.operations)))
    rows = [row for row in data.rows if row[1]]
    title = f"{described(result.mount)}: {format_duration(result.elapsed_s)}"
    floors = []
    for op in OPS:
        of_op = [(size, ns) for of, size, ns in result.mount.floor if of == op]
        (small, small_ns), (large, large_ns) = of_op[0], of_op[-1]
        floors.append(
            f"{format_duration(small_ns / 1e9)} for a {op} of {format_bytes(small)} and "
            f"{format_duration(large_ns / 1e9)} for {format_bytes(large)}"
        )
    lines = [f"  The mount itself takes {', '.join(floors)}; this is subtracted."]
    lines += (f"  warning: {w['message']}" for w in result.warnings())
    table = Table(_EMULATED, rows) if rows else Words(["  nothing was read or written"])
    return Page([Words([title]), table, Words(lines, "  ")], data)


def _emulated_row(done: Mapping[str, Any]) -> list[Any]:
    row = [done["op"], done["count"], done["bytes"], done["total_ns"]]
    sequential, late = done["sequential"], done["late"]
    if not (count := done["count"]):
        return [*row, None, None, None, None, sequential, None, late]
    buckets = done["latency_ns"], done["latency_count"]
    quantiles_s = (quantile(*buckets, q) / 1e9 for q in (0.5, 0.99))
    row += [done["total_ns"] / count / 1e9, *quantiles_s]
    return [*row, sequential / count, sequential, late / count, late]

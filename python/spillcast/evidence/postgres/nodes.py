"""The nodes of a plan: temp blocks and processes of each; counts of their sums."""

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, NamedTuple

from spillcast.errors import TimesContradictory
from spillcast.evidence.counts import (
    FASTER,
    MEMORY_BYTES_PER_S,
    Bounds,
    Counts,
    OpCounts,
    middle,
    middle_processes,
)
from spillcast.evidence.numbers import amount, whole
from spillcast.evidence.postgres import BLOCK_BYTES, TEMP_BLOCKS, cte_name
from spillcast.gate import COUNT_MAX
from spillcast.recording.meta import ObservedEngine
from spillcast.units import format_duration

#: The shortest time for a block, read from or written to the page cache.
_MEMORY_BLOCK_S = BLOCK_BYTES / MEMORY_BYTES_PER_S
#: The last digit of a time in a plan.
_PRINTED_S = 1e-6
_PARTLY_TIMED = (
    "the times are in another unit, or track_io_timing was off for most calls: "
    "pg_stat_statements_reset(), then export it again after some calls"
)
_OTHER_UNIT = "if the time is in another unit, or of another run, give it with --elapsed"
#: The evidence that contains the number of processes.
_PROCESSES_REMEDY = "EXPLAIN (ANALYZE, BUFFERS) of a query shows it"
#: PostgreSQL's maximum number of workers for all queries together.
WORKERS_MAX = 1024
#: A row in the file of a hash, without its columns: its hash value and its header (nodeHashjoin.c).
HASHED_ROW_BYTES = 20
SIZES_NOTE = "a plan without BUFFERS: its sizes on disk give only bounds of temp I/O"
#: Nodes that never write temp files.
NEVER_SPILLS = frozenset((
    "Append", "Bitmap Heap Scan", "Bitmap Index Scan", "BitmapAnd", "BitmapOr", "Foreign Scan",
    "Gather", "Gather Merge", "Group", "Index Only Scan", "Index Scan", "Limit", "Memoize",
    "Merge Append", "Merge Join", "Nested Loop", "Result", "Sample Scan", "Seq Scan",
    "Subquery Scan", "Tid Scan", "Unique", "Values Scan",
))  # fmt: skip
GATHERS = frozenset(("Gather", "Gather Merge"))
#: The maximum of temp blocks, and of milliseconds: 73 TB and 104 days.
TEMP_MAX = COUNT_MAX // 1_000_000


class TempIO(NamedTuple):
    """Temp blocks of 8 KiB and their time, summed over all processes; 0 s if not timed."""

    read: int
    written: int
    read_s: float = 0.0
    write_s: float = 0.0

    @property
    def blocks(self) -> int:
        """Blocks read and written."""
        return self.read + self.written

    @property
    def total_s(self) -> float:
        """Time of reads and writes."""
        return self.read_s + self.write_s

    def less(self, others: "Sequence[TempIO]") -> "TempIO":
        """The remainder without ``others``; never below 0."""
        sums = zip(self, *others, strict=True)
        return TempIO(*(max(0, total - sum(parts)) for total, *parts in sums))


_NO_TEMP = TempIO(0, 0)


def counts_of_blocks(
    elapsed_s: float,
    temp: TempIO,
    engine: ObservedEngine,
    shared: Bounds[float],
    untimed: tuple[str, str] | None,
    *,
    other_s: float = 0.0,
    **more: Any,
) -> Counts:
    """The counts of one query, whose processes ``shared`` the I/O; ``more`` are fields of Counts.

    Times that were not measured get bounds, from the speed of memory to the run without
    ``other_s``, and all blocks take the same time. ``untimed`` is the reason for the bounds and a
    remedy; if it is None, there are no times.
    """
    processes, time_bounds, upper_s = middle_processes(shared), None, None
    is_shared = shared.lower < shared.upper
    if temp.total_s:
        _check_speed(temp.read, temp.read_s, temp.read_s + _PRINTED_S, _PARTLY_TIMED)
        _check_speed(temp.written, temp.write_s, temp.write_s + _PRINTED_S, _PARTLY_TIMED)
    if elapsed_s and not temp.total_s:
        upper_s = max(elapsed_s - other_s, 0.1 * elapsed_s) * processes
    if untimed is not None and upper_s is not None:
        _check_speed(temp.blocks, elapsed_s, elapsed_s * shared.upper, _OTHER_UNIT)
        time_bounds = Bounds(min(temp.blocks * _MEMORY_BLOCK_S, upper_s), upper_s, *untimed)
        block_s = middle(time_bounds) / temp.blocks
        temp = TempIO(temp.read, temp.written, temp.read * block_s, temp.written * block_s)
    return Counts(
        elapsed_s=elapsed_s,
        reads=OpCounts.timed(temp.read, temp.read * BLOCK_BYTES, temp.read_s),
        writes=OpCounts.timed(temp.written, temp.written * BLOCK_BYTES, temp.write_s),
        source="explain",
        engine=engine,
        processes=round(processes, 6),
        processes_bounds=replace(shared, remedy=_PROCESSES_REMEDY) if is_shared else None,
        time_bounds=time_bounds,
        time_max_s=upper_s,
        buffered=True,
        **{"held_bytes": temp.written * BLOCK_BYTES, **more},
    )


def _check_speed(blocks: int, elapsed_s: float, max_s: float, hint: str) -> None:
    """TimesContradictory if no memory moves the blocks in ``max_s``, the sum over processes."""
    if blocks * _MEMORY_BLOCK_S > FASTER * max_s:
        run = f"{blocks:,} temp blocks in {format_duration(elapsed_s)}"
        raise TimesContradictory(f"{run}: no memory is as fast", hint)


@dataclass(frozen=True)
class Node:
    """One node of a plan. ``values`` are those of FORMAT JSON."""

    kind: str
    values: Mapping[str, Any]
    #: Temp I/O of the node and all below it.
    all_temp: TempIO
    #: Temp I/O of the node alone.
    temp: TempIO
    #: Processes that ran it in parallel.
    processes: int
    #: All temp I/O over that of the process with the most: at most ``processes``.
    spread: float
    #: Kind of the parent node; empty at the top.
    above: str
    children: "Sequence[Node]"

    @property
    def loops(self) -> float:
        """Executions in all processes."""
        return float(self.values.get("Actual Loops", self.processes))

    @property
    def inputs(self) -> "Sequence[Node]":
        """Its children without subplans."""
        return [child for child in self.children if "Subplan Name" not in child.values]

    @property
    def rows(self) -> float:
        """Rows of one execution in one process, on average."""
        return float(self.values.get("Actual Rows", 0.0))

    @property
    def rows_in_all(self) -> float:
        """Rows of all executions in all processes."""
        return self.rows * self.loops

    @property
    def is_abridged(self) -> bool:
        """Whether it has temp I/O that must belong to child nodes that are left out."""
        return self.temp.blocks > 0 and (self.kind in NEVER_SPILLS or self._sorted_in_memory)

    @property
    def _sorted_in_memory(self) -> bool:
        """Whether each process sorted once, or one process sorted groups, and in memory."""
        groups = str([self.values.get(f"{name} Groups") for name in ("Full-sort", "Pre-sorted")])
        if "Sort Method" in groups:
            return self.processes == 1 and "Disk" not in groups
        types = Counter(process.get("Sort Space Type") for process in sized(self.values))
        return types == {"Memory": max(1, int(self.loops))}

    @property
    def shows_no_spill(self) -> bool:
        """Whether a node without sizes on disk, but with its inputs, shows that nothing spilled."""
        names = "HashAgg Batches", "Hash Batches"
        batches = {each[name] for each in by_process(self.values) for name in names if name in each}
        fits = batches == {1} or self._sorted_in_memory or self.values.get("Actual Loops") == 0
        is_leaf = self.kind.endswith(("Result", "Scan")) and self.kind != "Subquery Scan"
        inputs_min = 0 if is_leaf else 1 + self.kind.endswith(("Join", "Loop"))
        has_inputs = len(self.children) >= inputs_min and self._holds_parts
        return has_inputs and (fits or self.kind in (*NEVER_SPILLS, "Hash Join"))

    @property
    def _holds_parts(self) -> bool:
        """Whether an Append, which creates no rows, has all the children that returned its rows."""
        if not self.kind.endswith("Append"):
            return True
        # Each node's rows per execution are rounded.
        off = sum(node.loops for node in (self, *self.children)) / 2
        if sum(child.rows_in_all for child in self.children) < self.rows_in_all - off:
            return False
        # Processes share the rows of some children; the estimate includes removed children.
        is_sum = not any(map(self.values.get, ("Parallel Aware", "Subplans Removed")))
        planned = [each.values.get("Plan Rows", 0) for each in (self, *self.children)]
        return not is_sum or sum(planned[1:]) >= planned[0] - len(planned) / 2

    def walk(self) -> "Iterator[Node]":
        """The node and all its descendants."""
        yield self
        for child in self.children:
            yield from child.walk()


def by_process(values: Mapping[str, Any]) -> list[Mapping[str, Any]]:
    """The figures of the leader and of each worker of a node."""
    return [values, *values.get("Workers", ())]


def sized(values: Mapping[str, Any]) -> list[Mapping[str, Any]]:
    """The processes whose sort or hash the plan shows: only the leader before version 11."""
    sizes = {"Sort Space Type", "Disk Usage", "HashAgg Batches"}
    return [process for process in by_process(values) if sizes & process.keys()]


def sorts_kib(values: Mapping[str, Any]) -> list[float]:
    """The sizes (KiB) of the sorts on disk, by process."""
    on_disk = [each for each in by_process(values) if each.get("Sort Space Type") == "Disk"]
    return [each.get("Sort Space Used", 0) for each in on_disk]


def sizes_kib(values: Mapping[str, Any]) -> list[float]:
    """The sizes (KiB) of the files of a sort or a hash aggregate, by process."""
    usages = [process.get("Disk Usage", 0) for process in by_process(values)]
    return sorts_kib(values) or usages


def count_disk_sizes(plan: dict[str, Any]) -> bool:
    """Adds temp blocks from sizes on disk to a plan without BUFFERS; returns whether it has any.

    Segments of Greenplum have their own files, which the plan does not sum.
    """
    nodes = list(all_nodes(plan))
    if any("Temp Written Blocks" in node or "Motion" in node["Node Type"] for node in nodes):
        return False
    spills = any(_size_blocks(node) or node.get("Storage") == "Disk" for node in nodes)
    return spills and _add_blocks(plan, set()) > 0


def _add_blocks(values: dict[str, Any], scanned: set[str]) -> int:
    """Adds the temp blocks of all nodes; returns those written. ``scanned`` collects CTE names."""
    written = read = _size_blocks(values)
    if values.get("Storage") == "Disk":
        read, written = _kept_blocks(values, scanned)
    for child in values.get("Plans", ()):
        written += _add_blocks(child, scanned)
        read += child["Temp Read Blocks"]
    values["Temp Read Blocks"], values["Temp Written Blocks"] = read, written
    return written


def _kept_blocks(values: Mapping[str, Any], scanned: set[str]) -> tuple[int, int]:
    """Blocks read and written by a node that stores rows on disk.

    Rows are stored as they pass, and read when they are needed again: if Materialize is executed
    more often than its input, or for another scan of a common table expression.
    """
    size = -(-1024 * int(values.get("Maximum Storage", 0)) // BLOCK_BYTES)
    # A scan that never ran shows the size that others stored.
    runs = made = int(values.get("Actual Loops", 1))
    if values["Node Type"] == "Materialize":
        loops = [int(child.get("Actual Loops", 1)) for child in values.get("Plans", ())]
        made = max(loops, default=1)
    elif values["Node Type"] == "CTE Scan":
        name = str(values.get("CTE Name"))
        made = min(runs, int(name not in scanned))
        scanned.update([name] * made)
    else:
        return size * runs, size * runs
    return size * max(runs - made, 0), size * made


def _size_blocks(values: Mapping[str, Any]) -> int:
    """Blocks that a node wrote, from the sizes of its files, or of the rows of a hash join."""
    size_kib = sum(sizes_kib(values))
    shown = len(sized(values)) or len(by_process(values))
    # Lines of workers may be missing: each execution counts as the mean of those shown.
    runs = max(1.0, values.get("Actual Loops", 1) / shown)
    size_bytes: float = 1024.0 * size_kib * runs
    inputs = [child for child in values.get("Plans", ()) if "Subplan Name" not in child]
    batches: int = max((child.get("Hash Batches", 1) for child in inputs), default=1)
    if batches > 1 and (len(inputs) > 2 or not values["Node Type"].endswith("Hash Join")):
        place = f"below {values['Node Type']}, which has {len(inputs)} inputs"
        missing = "lines or their indentation are missing"
        raise ValueError(f"a hash is {place}, and not in a join of two: {missing}")
    for child in inputs if batches > 1 else ():
        rows: float = child.get("Actual Rows", 0) * child.get("Actual Loops", 1)
        row_bytes: int = child["Plan Width"] + HASHED_ROW_BYTES if "Plan Width" in child else 0
        size_bytes += (1 - 1 / batches) * rows * row_bytes
    return -int(-size_bytes // BLOCK_BYTES)


def nodes_of(plan: Mapping[str, Any]) -> Node:
    """The tree of the document's ``Plan``.

    The figures of a node include those of its descendants. A common table expression is executed,
    and therefore counted, in the node that scans it.
    """
    ctes = {name: _temp(child) for child in all_nodes(plan) if (name := cte_name(child))}
    return _node(plan, 1, "", ctes, _NO_TEMP)


def _node(
    values: Mapping[str, Any], processes: int, above: str, ctes: Mapping[str, TempIO], timed: TempIO
) -> Node:
    kind = values["Node Type"]
    # At most its loops and its parent's processes: a single process may run a part of Parallel
    # Append, or an InitPlan. A pasted plan may lack the Gather above workers.
    processes = max(processes, len(by_process(values)))
    processes = min(processes, max(1, int(values.get("Actual Loops", processes) or 1)))
    below = processes_below(values, processes)
    temp = _temp(values, timed)
    timed = temp if temp.total_s else timed
    children = [_node(plan, below, kind, ctes, timed) for plan in values.get("Plans", ())]
    inside = [child.all_temp for child in children if not cte_name(child.values)]
    if kind in GATHERS and temp.less(inside).blocks:
        # Nodes below the Gather are left out; its processes ran them.
        processes = below
    producer = ctes.get(values.get("CTE Name", "")) if kind == "CTE Scan" else None
    # One of a common table expression's scans executed it: one with at least as much temp I/O.
    if producer is not None and temp.read >= producer.read and temp.written >= producer.written:
        inside.append(producer)
    spread = _spread(values, processes)
    return Node(kind, values, temp, temp.less(inside), processes, spread, above, children)


def processes_below(values: Mapping[str, Any], processes: int) -> int:
    """The processes of the nodes below: for a Gather, its workers and usually the leader."""
    if values["Node Type"] not in GATHERS:
        return processes
    if "Workers Launched" not in values:
        # The line was omitted: each process ran the node below once.
        loops = [1, *(child.get("Actual Loops", 1) for child in values.get("Plans", ()))]
        return int(min(max(loops) / max(1, values.get("Actual Loops", 1)), WORKERS_MAX)) or 1
    launched = int(amount(values["Workers Launched"], "Workers Launched", WORKERS_MAX))
    return max(1, launched if values.get("Single Copy") else launched + 1)


def _spread(values: Mapping[str, Any], processes: int) -> float:
    """``Node.spread`` from each worker's blocks (VERBOSE) or from sizes on disk; otherwise even."""
    workers = values.get("Workers", ())
    counted = [worker for worker in workers if "Temp Written Blocks" in worker]
    parts = [float(_temp(worker).blocks) for worker in counted]
    if counted:
        # The rest belongs to the leader and to workers whose lines are missing. A worker's line
        # without buffers means that it used none.
        others = max(1, processes - len(workers))
        parts += [max(0.0, _temp(values).blocks - sum(parts)) / others] * others
        shown = processes
    else:
        # Workers whose lines are missing count as the mean of those shown.
        parts, shown = sizes_kib(values), len(sized(values))
    if processes == 1 or not any(parts) or shown < 2:
        return float(processes)
    return min(float(processes), sum(parts) / max(parts) * max(1.0, processes / shown))


def _temp(values: Mapping[str, Any], timed: TempIO = _NO_TEMP) -> TempIO:
    """Temp I/O; without times as fast as that of the ``timed`` node above, as in abridged plans."""
    read, written = (whole(values.get(name, 0), name, TEMP_MAX) for name in TEMP_BLOCKS)
    # A text plan omits both times of 0 and times that were not measured.
    times = (f"Temp I/O {name} Time" for name in ("Read", "Write"))
    read_s, write_s = (amount(values.get(name) or 0.0, name, TEMP_MAX) / 1e3 for name in times)
    if not read_s + write_s:
        read_s = timed.read_s * read / max(1, timed.read)
        write_s = timed.write_s * written / max(1, timed.written)
    return TempIO(read, written, read_s, write_s)


def all_nodes(values: Mapping[str, Any]) -> Iterator[Mapping[str, Any]]:
    """The values of a node and of all its descendants."""
    yield values
    for child in values.get("Plans", ()):
        yield from all_nodes(child)

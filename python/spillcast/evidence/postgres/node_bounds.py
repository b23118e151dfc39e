"""The fewest and the most temp blocks of each node, from what a plan without BUFFERS shows of it.

Each factor follows from PostgreSQL's sources; its comment names the file. Hash values are taken to
be spread evenly over batches and partitions.
"""

import re
from collections.abc import Callable, Iterator, Mapping
from dataclasses import astuple, dataclass, replace
from math import ceil, log, log2
from typing import Any

from spillcast.evidence.postgres import BLOCK_BYTES, cte_name
from spillcast.evidence.postgres.nodes import (
    HASHED_ROW_BYTES,
    Node,
    by_process,
    sized,
    sizes_kib,
)
from spillcast.evidence.postgres.spills import inner_sorts, input_of, sort_spill, tuple_bytes
from spillcast.evidence.postgres.work_memory import (
    SLOT_BYTES,
    merge_order,
    merge_passes,
    sorted_runs,
)
from spillcast.gate import COUNT_MAX

#: A row in the file of a sort or a store, without its columns: its length, a part of its header,
#: and its length again if the file is read backwards (tuplestore.c).
_STORED_ROW_BYTES = 14
#: The most memory of a stored row over its place in a file: headers of 16 and 8 bytes, and a
#: pointer in an array that may be twice as long, over 10 bytes (tuplestore.c).
_MEMORY_TIMES = 4
#: How much longer the headers of a row in the table of a hash are than in its file (hashjoin.h).
_HASHED_MORE_BYTES = 12
#: The header of an allocation, up to version 16.
_ALLOCATION_BYTES = 16
#: The fewest runs that are merged at once (tuplesort.c).
_MERGED_MIN = 6
#: How much alignment to 8 bytes may widen columns: at most if each second one has a single byte.
_PADDING = 16 / 9
#: Read positions of a window function: the current row, its own, and the head, the tail and the
#: peers of its frame. Each may read a block for each row (nodeWindowAgg.c).
_WINDOW_POSITIONS = 5
#: Blocks that a tape of a hash aggregate reserves at first, and at most at once (logtape.c).
_RESERVED_MIN, _RESERVED_MAX = 8, 128
#: The fewest partitions into which a hash aggregate splits its rows (nodeAgg.c).
_PARTITIONS_MIN = 4
#: Blocks of a chunk of a shared file; a chunk is written in full (sharedtuplestore.c).
_CHUNK_BLOCKS = 4
#: In the output of a node: a call that sorts its input, and a call of a window.
_SORTING_CALL = re.compile(r"\(DISTINCT |\bORDER BY ")
_WINDOW_CALL = re.compile(r"(?<!\w)(\w++)\([^()]*+\) OVER ")
#: Groups of an incremental sort in a text plan.
_TEXT_GROUPS = re.compile(r"(\d++)[^\n]*?Average Disk: (\d++)kB  ?Peak Disk: (\d++)kB")
#: Window functions that need only a few rows around the current one, which stay in memory.
_NEAR_ROWS = {"row_number", "rank", "dense_rank", "lag", "lead"}
#: Nodes that take all their input before they return a row, and those that may leave some of it.
_TAKES_ALL = frozenset(("Hash", "Sort"))
_STOPS = frozenset(("Limit", "Merge Join", "Nested Loop"))


@dataclass(frozen=True)
class BlockBounds:
    """The fewest and the most blocks read and written."""

    reads_min: float = 0.0
    reads_max: float = 0.0
    writes_min: float = 0.0
    writes_max: float = 0.0

    def __add__(self, other: "BlockBounds") -> "BlockBounds":
        return BlockBounds(*map(sum, zip(astuple(self), astuple(other), strict=True)))


@dataclass(frozen=True)
class WorkMem:
    """The bounds of work_mem, in bytes."""

    min_bytes: int
    max_bytes: float


def plan_bounds(top: Node, memory: WorkMem) -> BlockBounds:
    """The sum over all nodes."""
    return sum(_parts(top, memory, {}, set(), may_stop=False), BlockBounds())


def _parts(
    node: Node, memory: WorkMem, outer: Mapping[str, Node], scanned: set[int], *, may_stop: bool
) -> Iterator[BlockBounds]:
    """The bounds of a node and of all below it.

    ``outer`` are the common table expressions of the queries around it; ``scanned`` collects the
    identities of those whose first scan was visited. ``may_stop``: the node above may leave rows.
    """
    inner = {name: child for child in node.children if (name := cte_name(child.values))}
    tables = {**outer, **inner} if inner else outer
    if node.kind == "CTE Scan" and node.loops:
        table = tables.get(str(node.values.get("CTE Name")), node)
        yield _common_table(node, table, memory, stores=id(table) not in scanned)
        scanned.add(id(table))
    elif node.loops:
        kind = "Hash Join" if node.kind.endswith("Hash Join") else node.kind
        if any("Disk Usage" in values for values in by_process(node.values)):
            kind = "Aggregate"
        bounds = _OF_KIND[kind](node, memory) if kind in _OF_KIND else BlockBounds()
        yield _less_unread(bounds, node) if may_stop else bounds
    takes_all = node.kind in _TAKES_ALL or node.values.get("Strategy") in {"Plain", "Hashed"}
    stops = node.kind in _STOPS or (may_stop and not takes_all)
    for child in node.children:
        # The query of a common table expression does not see its own name, but an outer one.
        name = cte_name(child.values)
        seen = {**tables, name: outer.get(name, child)} if name else tables
        # EXISTS takes a single row of a subplan.
        may_end = stops or ("Subplan Name" in child.values and not name)
        yield from _parts(child, memory, seen, scanned, may_stop=may_end)


def _blocks(size_bytes: float) -> int:
    return ceil(size_bytes / BLOCK_BYTES)


def _columns_bytes(node: Node) -> float:
    """The most bytes of the columns of a row, by the planner's estimate."""
    return _PADDING * float(node.values.get("Plan Width", 0))


def _rows_made(node: Node) -> float:
    """Rows of all executions, with those that the node's own filter removed."""
    return node.rows_in_all + node.loops * float(node.values.get("Rows Removed by Filter", 0))


def _stored_max(node: Node) -> int:
    """The most blocks of the stored rows of a node; 0 if the width of its rows is unknown."""
    if "Plan Width" not in node.values:
        return 0
    return _row_blocks(_rows_made(node), node)


def _row_blocks(rows: float, node: Node) -> int:
    """The most blocks of so many stored rows of a node."""
    return _blocks(rows * (_STORED_ROW_BYTES + _columns_bytes(node)))


def fits(node: Node, work_mem_bytes: int) -> bool:
    """Whether the rows of one execution certainly fit, each allocated as a power of 2."""
    rows = _rows_made(node) / max(node.loops, 1.0)
    return rows * 2 * _row_memory_bytes(node) <= work_mem_bytes


def _executions(node: Node, child: Node) -> float:
    """How often each size in the plan counts at most.

    The size is of the last execution. A process without a size has up to twice the mean of others.
    """
    shown, ran = len(sized(node.values)), child.loops
    missing = ran - shown if shown < ran <= node.processes else 0.0
    return max(1.0, (ran + missing) / max(shown, 1))


def _sort(node: Node, memory: WorkMem) -> BlockBounds:
    """A sort writes its rows once, and again in each merge except the last."""
    sizes = [_blocks(1024 * kib) for kib in sizes_kib(node.values)]
    if not (size := sum(sizes)):
        return BlockBounds()
    below = input_of(node)
    executions = _executions(node, below)
    total = size * executions
    if executions > 1 and node.processes == 1:
        total = max(total, _stored_max(below))
    rows = sort_spill(node, older=True).rows
    file_row_bytes = size * BLOCK_BYTES / max(below.rows_in_all, 1.0)
    # Up to version 14, and below a limit, memory is allocated in powers of 2.
    row_bytes = tuple_bytes(file_row_bytes, _ALLOCATION_BYTES, powers=True)
    runs, passes = _runs_and_passes(rows, row_bytes, memory)
    # The last block of a run may be written as zeros first (logtape.c); merges make runs as well.
    zeros = min(total, ceil(runs * len(sizes) * executions * (1 + 1 / (_MERGED_MIN - 1))))
    returned, taken = node.rows_in_all, below.rows_in_all
    again = 0.0
    if "external sort" in str([each.get("Sort Method") for each in by_process(node.values)]):
        # The last merge is stored as well, and may be read again.
        passes += 1
        again = max(0.0, returned / max(taken, 1.0) - 1)
    # The last merge reads only the rows that the node above takes.
    share = min(1.0, returned / taken) if taken else 1.0
    fewest = _fewest_passes(rows, tuple_bytes(file_row_bytes, 0), memory)
    # Merged runs have fewer blocks that are not full.
    merged = (fewest - 1) * max(0.0, size - runs * len(sizes))
    return BlockBounds(
        merged + size * share, total * (passes + again), merged + size, total * passes + zeros
    )


def _runs_and_passes(rows: float, row_bytes: float, memory: WorkMem) -> tuple[int, float]:
    """The most runs that a sort on disk writes, and how often it writes its rows."""
    runs = sorted_runs(rows, round(row_bytes), memory.min_bytes)
    passes = merge_passes(runs, memory.min_bytes)
    return runs, max(1, passes, _polyphase_passes(runs, merge_order(memory.min_bytes)))


def _polyphase_passes(runs: int, order: int) -> float:
    """How often a sort writes a row on average up to version 14, whose merges are polyphase.

    From the last merge back to the first, the runs of the fullest tape are split over the others.
    A tape is its number of runs, and the sum of how often each of them is merged (tuplesort.c).
    """
    tapes = [(1, 0)] + [(0, 0)] * order
    while (total := sum(count for count, _ in tapes)) < runs:
        (split, merged), *others = tapes
        tapes = [(count + split, merges + merged + split) for count, merges in others] + [(0, 0)]
    return sum(merges for _, merges in tapes) / total


def _row_memory_bytes(node: Node) -> float:
    """The most memory of a row: two headers and its columns."""
    return 2 * _ALLOCATION_BYTES + _columns_bytes(node)


def _fewest_passes(rows: float, row_bytes: float, memory: WorkMem) -> float:
    """How often a sort writes a row on average, with the fewest runs and the best order of merges.

    The order is a tree whose leaves are the runs; all have the least depth or one more.
    """
    runs = max(1.0, rows * (row_bytes + SLOT_BYTES) / memory.max_bytes)
    order = merge_order(int(min(memory.max_bytes, COUNT_MAX))) + 1
    depth = int(log(runs) / log(order))
    deeper = order * (runs - float(order) ** depth) / (order - 1) / runs
    return max(1.0, depth + deeper)


def _incremental_sort(node: Node, memory: WorkMem) -> BlockBounds:
    """Sorts of groups. The size of each is the largest until then (tuplesort.c)."""
    groups = [
        _groups_on_disk(values.get(f"{name} Groups"))
        for values in by_process(node.values)
        for name in ("Full-sort", "Pre-sorted")
    ]
    writes_min = sum(_blocks(1024 * peak_kib) for _, _, peak_kib in groups)
    if not writes_min:
        return BlockBounds()
    total = sum(_blocks(1024 * count * (mean_kib + 1)) for count, mean_kib, _ in groups)
    below = input_of(node)
    _, passes = _runs_and_passes(below.rows, _row_memory_bytes(below), memory)
    return BlockBounds(0.0, total * passes, writes_min, total * (passes + 1))


def _groups_on_disk(value: Any) -> tuple[float, float, float]:
    """The number of groups, their mean size and the largest (KiB); 0 if none was on disk."""
    if isinstance(value, Mapping):
        disk = value.get("Sort Space Disk", {})
        mean, peak = (disk.get(f"{name} Sort Space Used", 0) for name in ("Average", "Peak"))
        return float(value.get("Group Count", 0)), float(mean), float(peak)
    match = _TEXT_GROUPS.match(str(value))
    return (float(match[1]), float(match[2]), float(match[3])) if match else (0.0, 0.0, 0.0)


def _aggregate(node: Node, memory: WorkMem) -> BlockBounds:
    """Partitions of a hash aggregate, or rows that it sorts for sort keys and calls."""
    executions, bounds = _executions(node, input_of(node)), BlockBounds()
    for values in by_process(node.values):
        if values.get("Disk Usage"):
            size = _blocks(1024 * values["Disk Usage"])
            bounds += _partitions(size, max(1.0, values.get("HashAgg Batches", 1) - 1), executions)
    sorts = inner_sorts(node) + len(_SORTING_CALL.findall(str(node.values.get("Output", ""))))
    if bounds.writes_max or not sorts or fits(below := input_of(node), memory.min_bytes):
        return bounds
    runs, passes = _runs_and_passes(below.rows, _row_memory_bytes(below), memory)
    size = sorts * (_stored_max(below) + runs)
    return BlockBounds(reads_max=size * passes, writes_max=size * (passes + 1))


def _partitions(size: int, tapes: float, executions: float) -> BlockBounds:
    """A file of ``size`` blocks, in which ``tapes`` partitions were written.

    A tape reserves blocks and may not use all of its last reservation. Blocks before the first one
    that is written are filled with zeros. A partition that does not fit is split again.
    """
    reserving = min(tapes, size / _RESERVED_MIN)
    unused = reserving * _unused_max(size / max(reserving, 1.0))
    reads_min = max(min(tapes, size), size - unused)
    # Each partition is split into at least 4; all levels together have as many as there are tapes.
    levels = max(1.0, log(tapes * (1 - 1 / _PARTITIONS_MIN) + 1) / log(_PARTITIONS_MIN))
    reads_max = executions * (levels * size + tapes)
    writes_min = max(reads_min, size - _unused_max(size))
    return BlockBounds(reads_min, reads_max, writes_min, reads_max + executions * size)


def _unused_max(size: float) -> float:
    """The most blocks that one tape of ``size`` blocks reserved in vain: reservations double."""
    return min(_RESERVED_MAX - 1.0, (size + _RESERVED_MIN) / 2 - 1)


def _hash_join(node: Node, _memory: WorkMem) -> BlockBounds:
    """A join in batches: rows of later batches are written and, in their turn, read."""
    hashed = next((child for child in node.inputs if child.kind == "Hash"), None)
    if hashed is None or hashed.values.get("Hash Batches", 1) < 2 or not hashed.rows_in_all:
        return BlockBounds()
    outer = next((child for child in node.inputs if child is not hashed), hashed)
    batches = float(hashed.values["Hash Batches"])
    planned = max(1.0, min(batches, float(hashed.values.get("Original Hash Batches", batches))))
    shared = bool(hashed.values.get("Parallel Aware"))
    tables = 1.0 if shared else max(1.0, hashed.loops)
    inner_min, inner_max = _inner_bytes(hashed, batches * tables)
    # Columns of an outer row may be NULL.
    outer_min = outer.rows_in_all * HASHED_ROW_BYTES
    outer_max = outer_min + outer.rows_in_all * _columns_bytes(outer)
    later = 1 - 1 / max(2.0, planned)
    # Rows of equal keys may all be in later batches, and are written again as batches split.
    writes = 1 + log2(batches / planned)
    if shared:
        # All batches of the outer input are written. The file of each batch ends with a chunk, by
        # process and input, and before each split.
        least = (later * inner_min + outer_min) / BLOCK_BYTES
        chunks = 3 * batches * node.processes * _CHUNK_BLOCKS
        most = _blocks(writes * inner_max + outer_max) + chunks
    else:
        least = later * (inner_min + outer_min) / BLOCK_BYTES
        most = _blocks(writes * (inner_max + outer_max)) + _files_of_batches(node)
    # A batch is read if both inputs have rows in it, which is not known of single executions.
    is_read = shared or (tables == node.loops == 1 and outer.rows_in_all >= batches)
    bounds = BlockBounds(least, most, least, most)
    return bounds if is_read else _less_unread(bounds, node)


def _less_unread(bounds: BlockBounds, node: Node) -> BlockBounds:
    """The bounds if files may not be read; the last block of a batch is then not written either."""
    writes_min = max(0.0, bounds.writes_min - _files_of_batches(node))
    return replace(bounds, reads_min=0.0, writes_min=writes_min)


def _files_of_batches(node: Node) -> float:
    """The files of a hash join's later batches, two for each; 0 for other nodes."""
    hashes = (child for child in node.inputs if child.kind == "Hash")
    return sum(2 * (float(each.values.get("Hash Batches", 1)) - 1) * each.loops for each in hashes)


def _inner_bytes(hashed: Node, batches: float) -> tuple[float, float]:
    """The fewest and the most bytes of the rows of a hash, as they are in files.

    No batch is larger than the largest, whose size in memory is the peak.
    """
    rows = hashed.rows_in_all
    peak_bytes = batches * 1024 * float(hashed.values.get("Peak Memory Usage", 0))
    in_files = max(0.0, peak_bytes - rows * _HASHED_MORE_BYTES)
    if "Plan Width" not in hashed.values:
        return min(rows * HASHED_ROW_BYTES, in_files), in_files
    planned = rows * (HASHED_ROW_BYTES + float(hashed.values["Plan Width"]))
    return min(planned, in_files), rows * (HASHED_ROW_BYTES + _columns_bytes(hashed))


def _common_table(node: Node, table: Node, memory: WorkMem, *, stores: bool) -> BlockBounds:
    """A scan of a common table expression; the first scan of ``table`` stores its rows."""
    scans = node.loops - stores
    shown, least = _shown_storage(node)
    if not shown and ("Storage" in node.values or fits(table, memory.min_bytes)):
        return BlockBounds()
    most = 1 + (shown or _stored_max(table))
    if not stores:
        return BlockBounds(reads_max=scans * most, writes_max=1)
    return BlockBounds(0.0, max(0.0, scans) * most, least, most)


def _shown_storage(node: Node) -> tuple[float, float]:
    """The most and the fewest blocks of a file whose size the plan shows; 0 without one.

    The size may be that of the rows while they were in memory, if they took so little.
    """
    if node.values.get("Storage") != "Disk":
        return 0.0, 0.0
    size_bytes = 1024 * float(node.values.get("Maximum Storage", 0))
    return float(_blocks(size_bytes)), size_bytes / _MEMORY_TIMES / BLOCK_BYTES


def _store(node: Node, memory: WorkMem) -> BlockBounds:
    """Rows that Materialize stores as they pass, or a function before the first is read."""
    is_function = node.kind != "Materialize"
    below = node if is_function else input_of(node)
    shown, least = _shown_storage(node)
    again = 0.0
    if node.above == "Merge Join":
        # It goes back to the first of equal rows, which are stored, for each that it joins to them.
        again = max(0.0, node.rows_in_all - below.rows_in_all)
        is_small = 2 * again * _row_memory_bytes(below) <= memory.min_bytes
    else:
        is_small = fits(below, memory.min_bytes)
    if not shown and ("Storage" in node.values or is_small):
        return BlockBounds()
    most = 1 + (shown * below.loops if shown else _stored_max(below))
    scans = node.loops - (0.0 if is_function else below.loops)
    # Each time, it may begin and end in the middle of a block.
    reads_max = max(0.0, scans) * most + 2 * _row_blocks(again, below)
    return BlockBounds(least if is_function else 0.0, reads_max, least, most)


def _window(node: Node, memory: WorkMem) -> BlockBounds:
    """The rows of each partition; the size shown is that of the largest."""
    below = input_of(node)
    shown, least = _shown_storage(node)
    calls = set(_WINDOW_CALL.findall(str(node.values.get("Output", ""))))
    is_near = bool(calls) and calls <= _NEAR_ROWS
    if not shown and ("Storage" in node.values or is_near or fits(below, memory.min_bytes)):
        return BlockBounds()
    most = max(shown * node.loops, _stored_max(below) + 1)
    return BlockBounds(least, 2 * most + _WINDOW_POSITIONS * node.rows_in_all, least, most)


def _recursion(node: Node, memory: WorkMem) -> BlockBounds:
    """The rows of each step; the size shown is that of the largest steps, in two files."""
    shown, least = _shown_storage(node)
    if not shown and ("Storage" in node.values or fits(node, memory.min_bytes)):
        return BlockBounds()
    most = max(shown * node.loops, _stored_max(node) + 1)
    return BlockBounds(0.0, most, least / 2, most)


def _work_table(node: Node, _memory: WorkMem) -> BlockBounds:
    """A step of a recursion begins and ends in the middle of a block."""
    return BlockBounds(reads_max=2 * node.loops, writes_max=2 * node.loops)


_OF_KIND: Mapping[str, Callable[[Node, WorkMem], BlockBounds]] = {
    "Aggregate": _aggregate,
    "Function Scan": _store,
    "Hash Join": _hash_join,
    "Incremental Sort": _incremental_sort,
    "Materialize": _store,
    "Recursive Union": _recursion,
    "Sort": _sort,
    "Table Function Scan": _store,
    "WindowAgg": _window,
    "WorkTable Scan": _work_table,
}

"""The nodes of a PostgreSQL plan that spill, in a run or by estimates, and their work memory."""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from functools import partial
from math import ceil
from typing import Any

from spillcast.evidence.numbers import amount, quantity_of
from spillcast.evidence.postgres import BLOCK_BYTES, TEMP_BLOCKS
from spillcast.evidence.postgres.document import document_of
from spillcast.evidence.postgres.nodes import (
    HASHED_ROW_BYTES,
    SIZES_NOTE,
    Node,
    by_process,
    nodes_of,
    sorts_kib,
)
from spillcast.evidence.postgres.work_memory import (
    POINTER_BYTES,
    SLOT_BYTES,
    NodeSpill,
    PlanSpills,
    hash_batches,
    hash_bytes,
    power_of_two,
    sort_passes,
)
from spillcast.recording import OPS, Recording
from spillcast.recording.meta import Meta
from spillcast.recording.observed import meminfo_bytes
from spillcast.units import parse_bytes

#: PostgreSQL's default work_mem.
WORK_MEM = "4MB"
#: The default since PostgreSQL 15, and before. A plan made with SETTINGS shows any other value.
HASH_MEM_MULTIPLIER, _OLDER_MULTIPLIER = 2.0, 1.0
#: The header of a tuple in memory before PostgreSQL 17; since 17, only of tuples that get freed.
_CHUNK_BYTES = 16
_FREED_BYTES = 8
#: If a hash aggregate's output is wider than its input by this, states may exceed 8-byte numbers.
_ANY_STATE_WIDTH = 16
#: The least share of rows in a sort's temp file: each block ends with 16 bytes of its own, and the
#: last block of each tape is not full.
_ROWS_SHARE = 0.99
#: Values that only a node with a size of its own has.
_SIZES = {"Sort Space Used", "HashAgg Batches", "Hash Batches"}
#: How much smaller a tuple is in a temp file than in memory.
_FILE_LESS_BYTES = 6
_TUPLE_HEADER_BYTES = 16
#: The maximum fill of a table of groups, which then doubles; its entry up to version 17, and since.
_TABLE_FILL, _OLDER_ENTRY_BYTES, _ENTRY_BYTES = 0.6, 24, 16
#: A group's states, bytes: of two aggregates; per byte of results beyond the input's; per byte.
_STATES_BYTES_MIN, _STATES_PER_NEW_WIDTH, _STATES_PER_WIDTH = 32, 4, 1.5
#: The largest size of a number with its length in a temp file.
_DATUM_BYTES = 12.5


def plan_spills(top: Node, settings: Mapping[str, Any]) -> PlanSpills | None:
    """The nodes that spill in an executed plan with buffers, under the settings of its run.

    None if nodes that spilled, their rows, or the file of a sort, are missing.
    """
    if not {"Actual Loops", "Temp Written Blocks"} <= top.values.keys():
        return None
    sorts = (node for node in top.walk() if node.kind == "Sort" and node.temp.written)
    is_abridged = any(node.is_abridged or _lacks_rows(node) for node in top.walk())
    if is_abridged or not all(sorts_kib(s.values) for s in sorts):
        return None
    name = "hash_mem_multiplier"
    given = settings.get(name)
    spills = spills_of(top, None if given is None else amount(float(given), name))
    if not any(spill.weight for spill in spills):
        return None
    work_mem = settings.get("work_mem")
    return PlanSpills(spills, None if work_mem is None else size_of_setting(work_mem))


def recorded_plan(recording: Recording) -> tuple[Mapping[str, int], PlanSpills | None]:
    """Temp blocks by op, as far as the plan of a recorded run counts them, and ``plan_spills``.

    Empty without a plan.
    """
    file, read = recording.engine.plan_file, None
    if file is not None:
        read = recording.decoded(file, partial(_blocks_and_spills, recording.meta))
    return read or ({}, None)


def _blocks_and_spills(meta: Meta, value: Any) -> tuple[Mapping[str, int], PlanSpills | None]:
    document = document_of(value)
    top, settings = nodes_of(document["Plan"]), document.get("Settings", {})
    # Sizes on disk are only lower bounds of blocks.
    is_counted = SIZES_NOTE not in document.get("Notes", ())
    counts = zip(OPS, TEMP_BLOCKS, strict=True) if is_counted else ()
    blocks = {op: int(top.values[name]) for op, name in counts if name in top.values}
    spills = plan_spills(top, {**meta.engine.settings, **settings})
    if spills is not None and meta.machine.is_current:
        spills = replace(spills, available_bytes=meminfo_bytes().get("MemAvailable"))
    return blocks, spills


def size_of_setting(setting: str | int) -> int:
    """Bytes of a setting as PostgreSQL writes it: ``64MB``, ``4096kB``, or kB without a unit.

    EvidenceDamaged for another text.
    """
    text = str(setting).strip()
    return int(quantity_of(parse_bytes, f"{text}kB" if text.isdigit() else text, "work_mem"))


def spills_of(top: Node, hash_mem_multiplier: float | None = None) -> list[NodeSpill]:
    """The nodes that wrote temp files, in the order of the plan, from the top.

    If ``hash_mem_multiplier`` is None, ``needed_bytes`` suffices with the default of each version.
    """
    # PostgreSQL times temp I/O since version 15, local I/O since 17; "Disabled" exists since 18.
    balanced = "Disabled" in top.values
    older = not balanced and "Local I/O Read Time" not in top.values
    timed = top.all_temp.total_s > 0
    most = hash_mem_multiplier or HASH_MEM_MULTIPLIER
    least = hash_mem_multiplier or (most if timed or balanced else _OLDER_MULTIPLIER)
    spills = []
    for node, hashed in _pairs(top):
        temps = [node.temp, hashed.temp] if hashed else [node.temp]
        if not sum(temp.written for temp in temps):
            continue
        if hashed is not None:
            spill = replace(_hash(hashed, least, balanced=balanced), taken=most)
        elif node.kind == "Sort":
            spill = sort_spill(node, older)
        elif sorts := inner_sorts(node):
            spill = _inner_sort(node, sorts, older)
        elif "HashAgg Batches" in node.values:
            spill = replace(_aggregate(node, least, older=not balanced), taken=most)
        else:
            spill = _store(node, older)
        weight = sum(temp.total_s if timed else temp.blocks for temp in temps)
        if least < most == spill.taken:
            spill = replace(spill, least_bytes=round(spill.needed_bytes * least / most))
        taken = spill.taken * spill.processes
        spills.append(replace(spill, weight=weight, taken=taken))
    return spills


def aligned(size: float) -> int:
    """The size rounded up to 8 bytes, the unit of allocation."""
    return -(-ceil(size) // 8) * 8


def tuple_bytes(file_row_bytes: float, header_bytes: int, *, powers: bool = False) -> int:
    """Memory of a row from its size in a temp file; 0 for a number, which fits in its slot.

    ``powers``: memory is allocated in powers of 2, as it is for anything that may be freed again.
    """
    if file_row_bytes <= _DATUM_BYTES:
        return 0
    size = file_row_bytes + _FILE_LESS_BYTES
    return (power_of_two(size) if powers else aligned(size)) + header_bytes


def hash_tuple_bytes(width: float) -> int:
    """Memory of a row in a hash table, from its width: two headers and the columns."""
    return _TUPLE_HEADER_BYTES + _TUPLE_HEADER_BYTES + aligned(width)


def aggregate_bytes(groups: float, width: float, input_width: float, *, older: bool) -> int:
    """Memory of a hash aggregate: a table of entries, and a key and states for each group.

    The part of ``width`` that exceeds ``input_width`` certainly consists of states; some of the
    rest may too. ``older``: each entry, key and state takes more before PostgreSQL 18.
    """
    key = _TUPLE_HEADER_BYTES + aligned(min(width, input_width))
    states = max(
        _STATES_BYTES_MIN,
        _STATES_PER_NEW_WIDTH * (width - input_width),
        _STATES_PER_WIDTH * aligned(width),
    )
    entry, group = _ENTRY_BYTES, key + states
    if older:
        entry = _OLDER_ENTRY_BYTES
        group = power_of_two(key) + states + 2 * _CHUNK_BYTES
    return ceil(groups * group) + power_of_two(groups / _TABLE_FILL) * entry


def _lacks_rows(node: Node) -> bool:
    """Whether the rows of a node that may have spilled are left out.

    Without a size of its own, the temp I/O of a node may be of inputs that are left out.
    """
    can_spill = node.temp.written or "Hash Batches" in node.values
    is_whole = node.children or node.kind.endswith("Scan") or _SIZES & node.values.keys()
    return bool(can_spill and not ("Actual Rows" in node.values and is_whole))


def input_of(node: Node) -> Node:
    """The node that supplies a node's rows: its first child that is not a subplan, or itself.

    The figures of a child may be left out.
    """
    child = next(iter(node.inputs), node)
    return child if "Actual Rows" in child.values else node


def _pairs(top: Node) -> Iterator[tuple[Node, Node | None]]:
    """Each node; a hash join is paired with its hash, which is then not listed by itself."""
    joined: set[int] = set()
    for node in top.walk():
        hashed = next((child for child in node.children if child.kind == "Hash"), None)
        if id(node) not in joined:
            yield node, hashed
        if hashed is not None:
            joined.add(id(hashed))


def _hash(node: Node, multiplier: float, *, balanced: bool) -> NodeSpill:
    """A hash; the size of its rows is measured if its batches were not split during the run."""
    values = node.values
    shared = bool(values.get("Parallel Aware"))
    rows = node.rows_in_all if shared else node.rows
    batches = int(values.get("Hash Batches", 1))
    row = float(hash_tuple_bytes(values.get("Plan Width", 0)))
    if rows and not shared and batches == values.get("Original Hash Batches"):
        in_batch = int(values["Peak Memory Usage"]) * 1024 - 8 * int(values["Hash Buckets"])
        row = max(row, in_batch * batches / rows)
    planned = 0.0 if shared else float(values.get("Plan Rows", 0))
    needed = hash_bytes(max(rows, planned), row)
    among = multiplier * (node.processes if shared else 1)
    return NodeSpill(
        kind="hash",
        processes=node.processes,
        needed_bytes=round(needed / among),
        batches=batches,
        rows=rows,
        tuple_bytes=row,
        hash_multiplier=among,
        balanced=balanced,
    )


def sort_spill(node: Node, older: bool) -> NodeSpill:
    """The largest of the sorts of a node's processes."""
    disk = [1024 * int(kib) for kib in sorts_kib(node.values)]
    # A limit takes only some of the rows, so the rows that were sorted are counted below the sort.
    below = input_of(node)
    rows = below.rows_in_all if node.processes > 1 else below.rows
    # Below a limit, rows may be discarded during the sort, so each is freed by itself.
    limited = node.above == "Limit"
    header_bytes = _CHUNK_BYTES if older else _FREED_BYTES if limited else 0
    # ``needed_bytes`` counts all of the file as rows: better too much memory than too little.
    row, row_max = (
        tuple_bytes(share * sum(disk) / max(rows, 1.0), header_bytes, powers=limited)
        for share in (_ROWS_SHARE, 1.0)
    )
    max_rows = rows * max(disk, default=0) / max(sum(disk), 1)
    # Another run may distribute rows differently: up to twice the mean share was observed.
    next_rows = max(max_rows, rows * min(1.0, 2 / node.processes))
    written = node.temp.written * BLOCK_BYTES
    return NodeSpill(
        kind="sort",
        processes=node.processes,
        needed_bytes=round(next_rows * (SLOT_BYTES + row_max)),
        passes=max(1, round(written / max(sum(disk), 1))),
        rows=max_rows,
        tuple_bytes=row,
    )


def _aggregate(node: Node, multiplier: float, *, older: bool) -> NodeSpill:
    groups = node.rows + float(node.values.get("Rows Removed by Filter", 0))
    width = float(node.values.get("Plan Width", 0))
    below = float(input_of(node).values.get("Plan Width", width))
    needed = aggregate_bytes(groups, width, below, older=older)
    batches = int(node.values["HashAgg Batches"])
    any_state = width - below >= _ANY_STATE_WIDTH
    if any_state:
        in_batches = (
            values.get("HashAgg Batches", 0) * values.get("Peak Memory Usage", 0)
            for values in by_process(node.values)
        )
        needed = max(needed, 1024 * round(max(in_batches)))
    return NodeSpill(
        kind="hash aggregate",
        processes=node.processes,
        needed_bytes=round(needed / multiplier),
        batches=batches,
        any_state=any_state,
    )


def inner_sorts(node: Node) -> int:
    """Sorts inside an aggregate with grouping sets whose hashes all fit in memory."""
    in_memory = all(
        not values.get("Disk Usage") and values.get("HashAgg Batches", 1) <= 1
        for values in by_process(node.values)
    )
    if not in_memory:
        return 0
    sets = node.values.get("Grouping Sets")
    groupings = sets if isinstance(sets, list) else ()
    return sum("Sort Key" in grouping for grouping in groupings if isinstance(grouping, dict))


def _inner_sort(node: Node, sorts: int, older: bool) -> NodeSpill:
    """Sorts of all input rows, one after the other; the plan does not show their files."""
    below = input_of(node)
    row = tuple_bytes(float(below.values.get("Plan Width", 0)), _CHUNK_BYTES if older else 0)
    rows = max(below.rows, 1.0)
    file_bytes = rows * max(row - SLOT_BYTES, 8) * sorts
    return NodeSpill(
        kind="sort",
        processes=node.processes,
        needed_bytes=round(rows * (SLOT_BYTES + row)),
        passes=max(1, round(node.temp.written * BLOCK_BYTES / file_bytes)),
        rows=rows,
        tuple_bytes=row,
    )


def _store(node: Node, older: bool) -> NodeSpill:
    """Rows that are stored; also those that count(distinct) sorts before PostgreSQL 16."""
    below = input_of(node) if input_of(node).rows else node
    width = float(below.values.get("Plan Width", 0))
    # A node that stores the rows it reads also stores those that its own filter removes.
    removed = float(node.values.get("Rows Removed by Filter", 0)) if below is node else 0.0
    rows = max(below.rows + removed, 1.0)
    if node.kind == "Aggregate":
        needed = round(rows * (SLOT_BYTES + aligned(width) + 2 * _CHUNK_BYTES))
    else:
        # Executions of the node itself may reread rows that were written once, like those of a CTE.
        once = 0.0 if node.kind == "CTE Scan" else node.temp.written / max(node.temp.read, 1)
        share = min(1.0, once) if below is node else 1.0
        runs = max(1.0, share * below.rows_in_all / max(below.rows, 1.0))
        row_bytes = node.temp.written * BLOCK_BYTES / (rows * runs)
        header_bytes = _CHUNK_BYTES if older else _FREED_BYTES
        # Each row that is stored for rereading has a pointer in an array that may be twice as long.
        row_memory_bytes = tuple_bytes(row_bytes, header_bytes, powers=older)
        needed = ceil(rows * (2 * POINTER_BYTES + row_memory_bytes))
    return NodeSpill(kind="store", processes=node.processes, needed_bytes=needed)


#: The overhead of a row in the temp file of a sort or a store.
_SORT_ROW_BYTES = 10
#: Partitions of a hash aggregate reserve blocks of the file in advance. Blocks before the one that
#: is written are filled with zeros: a block is written twice and read once.
AGGREGATE_WRITES = 2
JOINS = {"Hash Join", "Merge Join", "Nested Loop"}


@dataclass(frozen=True)
class PlannedBytes:
    """Temp bytes of a plan that was not executed, from the estimates of its nodes."""

    written: float
    read: float
    aggregated: float
    #: The number of joins below the nodes that spill: the mean over all bytes written.
    joins: float


def planned_bytes(
    document: Mapping[str, Any], settings: Mapping[str, Any], less: int = 1
) -> PlannedBytes:
    """Temp bytes by the estimates of a plan, with the work memory divided by ``less``."""
    given = {**settings, **(document.get("Settings") or {})}
    memory = size_of_setting(given.get("work_mem") or WORK_MEM) // less
    multiplier = float(given.get("hash_mem_multiplier") or HASH_MEM_MULTIPLIER)
    written = read = aggregated = joins = 0.0
    for node, processes in _nodes(document["Plan"], 1.0):
        of_node = _node_bytes(node, memory, multiplier) * processes
        aggregate = node.get("Node Type") == "Aggregate"
        wrote = of_node * (AGGREGATE_WRITES if aggregate else 1)
        read += of_node
        written += wrote
        aggregated += wrote if aggregate else 0.0
        joins += wrote * _joins_below(node)
    return PlannedBytes(written, read, aggregated, joins / written if written else 0.0)


def _nodes(
    plan: Mapping[str, Any], processes: float, above: str = ""
) -> Iterator[tuple[Mapping[str, Any], float]]:
    """Each node and its number of processes: the plan's estimates of rows are for one process."""
    # A merge join steps back only a little in its sorted input, and stores only those rows.
    if (plan.get("Node Type"), above) != ("Materialize", "Merge Join"):
        yield plan, processes
    workers = plan.get("Workers Planned")
    below = processes if workers is None else 1.0 + amount(workers, "Workers Planned", 1024)
    for child in plan.get("Plans", ()):
        yield from _nodes(child, below, str(plan.get("Node Type")))


def _joins_below(node: Mapping[str, Any]) -> int:
    below = node.get("Plans", ())
    return sum(_joins_below(child) + (child.get("Node Type") in JOINS) for child in below)


def _rows(node: Mapping[str, Any]) -> tuple[float, float]:
    """Estimated rows, and bytes per row."""
    rows, width = (float(amount(node.get(name, 0), name)) for name in ("Plan Rows", "Plan Width"))
    return rows, width


def _node_bytes(node: Mapping[str, Any], memory: int, multiplier: float) -> float:
    """Bytes that a node spills; each is read once."""
    kind, below = node.get("Node Type"), list(node.get("Plans", ()))
    if not below:
        return 0.0
    rows, width = _rows(below[0])
    if kind in {"Sort", "Incremental Sort"}:
        row = tuple_bytes(width + _SORT_ROW_BYTES, 0)
        return rows * (width + _SORT_ROW_BYTES) * sort_passes(rows, row, memory)
    if kind == "Hash Join" and len(below) > 1 and below[1].get("Node Type") == "Hash":
        inner_rows, inner_width = _rows(below[1])
        batches = hash_batches(
            inner_rows, hash_tuple_bytes(inner_width), round(memory * multiplier), balanced=False
        )
        size = inner_rows * (inner_width + HASHED_ROW_BYTES) + rows * (width + HASHED_ROW_BYTES)
        return size * (1 - 1 / batches)
    if kind == "Aggregate" and node.get("Strategy") in {"Hashed", "Mixed"}:
        groups, group_width = _rows(node)
        needed = aggregate_bytes(groups, group_width, width, older=True)
        in_memory = memory * multiplier / max(needed, 1)
        return rows * (width + HASHED_ROW_BYTES) * max(1 - in_memory, 0.0)
    if kind == "Materialize" and rows * (width + SLOT_BYTES) > memory:
        return rows * (width + _SORT_ROW_BYTES)
    return 0.0

"""The nodes of a PostgreSQL plan that spill, in a run or by estimates, and their work memory."""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from math import ceil
from pathlib import Path
from typing import Any

from spillcast.evidence.numbers import amount, quantity_of
from spillcast.evidence.postgres import BLOCK_BYTES
from spillcast.evidence.postgres.document import document_of
from spillcast.evidence.postgres.nodes import Node, by_process, nodes_of, sorts_kib
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
from spillcast.gate import reading
from spillcast.recording.meta import Meta
from spillcast.recording.observed import meminfo_bytes
from spillcast.units import parse_bytes

#: Since PostgreSQL 15, and before; a plan made with SETTINGS names it where it is another.
HASH_MEM_MULTIPLIER, _OLDER_MULTIPLIER = 2.0, 1.0
#: Before PostgreSQL 17 a tuple in memory had a header of up to so much; now only one to be freed.
_CHUNK_BYTES = 16
_FREED_BYTES = 8
#: Results that are so much wider than what they are made of are wider than a number of 8 bytes.
_ANY_STATE_WIDTH = 16
#: Of a sort's temp file, what is rows, at least: each block ends with 16 bytes of its own, and the
#: last one of each tape is not full.
_ROWS_SHARE = 0.99
#: What a tuple in a temp file has less than in memory.
_FILE_LESS_BYTES = 6
_TUPLE_HEADER_BYTES = 16
#: A table of groups doubles at the latest when it is so full; its entries, up to 17 and since.
_TABLE_FILL, _OLDER_ENTRY_BYTES, _ENTRY_BYTES = 0.6, 24, 16
#: States of a group: those of two aggregates at least, and more the wider the results are.
_STATES_BYTES_MIN, _STATES_PER_NEW_WIDTH, _STATES_PER_WIDTH = 32, 4, 1.5
#: A number with its length in a temp file takes so much.
_DATUM_BYTES = 12.5


def plan_spills(top: Node, settings: Mapping[str, Any]) -> PlanSpills | None:
    """The nodes that spill of a plan that was run and has buffers, with the settings of its run.

    None where nodes that spilled, or the file of a sort, are left out.
    """
    if not {"Actual Loops", "Temp Written Blocks"} <= top.values.keys():
        return None
    sorts = (node for node in top.walk() if node.kind == "Sort" and node.temp.written)
    if any(node.is_abridged for node in top.walk()) or not all(sorts_kib(s.values) for s in sorts):
        return None
    name = "hash_mem_multiplier"
    given = settings.get(name)
    spills = spills_of(top, None if given is None else amount(float(given), name))
    if not any(spill.weight for spill in spills):
        return None
    work_mem = settings.get("work_mem")
    return PlanSpills(spills, None if work_mem is None else size_of_setting(work_mem))


def spills_beside(meta: Meta, value: Any, path: Path) -> PlanSpills | None:
    """The nodes that spill of a plan, ``value``, beside the recording at ``path``."""
    with reading(f"{path}: its plan"):
        document = document_of(value)
        settings = {**meta.engine.settings, **document.get("Settings", {})}
        spills = plan_spills(nodes_of(document["Plan"]), settings)
    if spills is None or not meta.machine.is_this_one:
        return spills
    return replace(spills, available_bytes=meminfo_bytes().get("MemAvailable"))


def size_of_setting(setting: str | int) -> int:
    """Bytes of a setting as PostgreSQL writes it: ``64MB``, ``4096kB``, or kB without a unit.

    EvidenceDamaged for another text.
    """
    text = str(setting).strip()
    return int(quantity_of(parse_bytes, f"{text}kB" if text.isdigit() else text, "work_mem"))


def spills_of(top: Node, hash_mem_multiplier: float | None = None) -> list[NodeSpill]:
    """The nodes that wrote temp files, as the plan has them, from the top.

    Where nothing tells ``hash_mem_multiplier``, what is needed holds for each version's default.
    """
    # PostgreSQL 15 began to time temp I/O, 17 local I/O apart, 18 to say which nodes were disabled.
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
            spill = _sort(node, older)
        elif sorts := _inner_sorts(node):
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
    """Rounded up to 8 bytes, as memory is handed out."""
    return -(-ceil(size) // 8) * 8


def tuple_bytes(file_row_bytes: float, header_bytes: int, *, powers: bool = False) -> int:
    """Memory of a row from its size in a temp file; 0 for a number, which its slot holds.

    ``powers``: memory is handed out in powers of 2, which it is to whatever may be freed again.
    """
    if file_row_bytes <= _DATUM_BYTES:
        return 0
    size = file_row_bytes + _FILE_LESS_BYTES
    return (power_of_two(size) if powers else aligned(size)) + header_bytes


def hash_tuple_bytes(width: float) -> int:
    """Memory of a row in a hash table, from its width: two headers and the columns."""
    return _TUPLE_HEADER_BYTES + _TUPLE_HEADER_BYTES + aligned(width)


def aggregate_bytes(groups: float, width: float, input_width: float, *, older: bool) -> int:
    """Memory of a hash aggregate: a table of entries, and of each group its key and its states.

    What its rows of ``width`` are wider than its input is made of states for sure; of the rest, a
    part may be. ``older``: each entry, key and state takes more before PostgreSQL 18.
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


def _input(node: Node) -> Node:
    """The node whose rows a node works on: the first below it that is no subplan, or itself."""
    return next((child for child in node.children if "Subplan Name" not in child.values), node)


def _pairs(top: Node) -> Iterator[tuple[Node, Node | None]]:
    """Each node; a hash join is paired with its hash, which then has no pair of its own."""
    joined: set[int] = set()
    for node in top.walk():
        hashed = next((child for child in node.children if child.kind == "Hash"), None)
        if id(node) not in joined:
            yield node, hashed
        if hashed is not None:
            joined.add(id(hashed))


def _hash(node: Node, multiplier: float, *, balanced: bool) -> NodeSpill:
    """The bytes of a row are measured where batches were not split while it ran."""
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


def _sort(node: Node, older: bool) -> NodeSpill:
    """The largest of the sorts that its processes did."""
    disk = [1024 * int(kib) for kib in sorts_kib(node.values)]
    # A limit above takes only some of the rows, all of which were sorted.
    below = _input(node)
    rows = below.rows_in_all if node.processes > 1 else below.rows
    # Below a limit rows may be thrown away while they are sorted, so each is freed by itself.
    limited = node.above == "Limit"
    header_bytes = _CHUNK_BYTES if older else _FREED_BYTES if limited else 0
    # For what is needed, all of the file is rows: rather more memory than too little.
    row, row_max = (
        tuple_bytes(share * sum(disk) / max(rows, 1.0), header_bytes, powers=limited)
        for share in (_ROWS_SHARE, 1.0)
    )
    max_rows = rows * max(disk, default=0) / max(sum(disk), 1)
    # Next time another process may get more: up to twice its share was seen.
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
    below = float(_input(node).values.get("Plan Width", width))
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


def _inner_sorts(node: Node) -> int:
    """Sorts inside an aggregate of grouping sets, where its hashes are all in memory."""
    in_memory = all(
        not values.get("Disk Usage") and values.get("HashAgg Batches", 1) <= 1
        for values in by_process(node.values)
    )
    if not in_memory:
        return 0
    sets = node.values.get("Grouping Sets", ())
    return sum("Sort Key" in grouping for grouping in sets if isinstance(grouping, dict))


def _inner_sort(node: Node, sorts: int, older: bool) -> NodeSpill:
    """Each sorts all rows of the input, one after the other; the plan does not show its file."""
    below = _input(node)
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
    """Rows that are kept; also those that count(distinct) sorts, before PostgreSQL 16."""
    below = _input(node) if _input(node).rows else node
    width = float(below.values.get("Plan Width", 0))
    # A node that keeps what it reads keeps also what its own filter removes.
    removed = float(node.values.get("Rows Removed by Filter", 0)) if below is node else 0.0
    rows = max(below.rows + removed, 1.0)
    if node.kind == "Aggregate":
        needed = round(rows * (SLOT_BYTES + aligned(width) + 2 * _CHUNK_BYTES))
    else:
        # Its own executions may read rows again that were written once, as those of a CTE.
        once = 0.0 if node.kind == "CTE Scan" else node.temp.written / max(node.temp.read, 1)
        share = min(1.0, once) if below is node else 1.0
        runs = max(1.0, share * below.rows_in_all / max(below.rows, 1.0))
        row_bytes = node.temp.written * BLOCK_BYTES / (rows * runs)
        header_bytes = _CHUNK_BYTES if older else _FREED_BYTES
        # Rows kept to be read again: a pointer, whose array may be twice as long, each.
        row_memory_bytes = tuple_bytes(row_bytes, header_bytes, powers=older)
        needed = ceil(rows * (2 * POINTER_BYTES + row_memory_bytes))
    return NodeSpill(kind="store", processes=node.processes, needed_bytes=needed)


#: A work_mem that no setting names.
_WORK_MEM = "4MB"
#: A row in a file beside its columns: of sorts and stores, and of hashes.
_SORT_ROW_BYTES, _HASH_ROW_BYTES = 10, 20
#: Each partition of a hash aggregate takes blocks of the file ahead of need, and zeros are written
#: to those that others are written behind: a block is written twice, and read once.
AGGREGATE_WRITES = 2
JOINS = {"Hash Join", "Merge Join", "Nested Loop"}


@dataclass(frozen=True)
class PlannedBytes:
    """Temp bytes of a plan that was not run, by the estimates of its nodes."""

    written: float
    read: float
    aggregated: float
    #: Joins below the nodes that spill, the mean of all bytes written.
    joins: float


def planned_bytes(
    document: Mapping[str, Any], settings: Mapping[str, Any], less: int = 1
) -> PlannedBytes:
    """Temp bytes by the estimates of a plan, with a share of 1 over ``less`` of the work memory."""
    given = {**settings, **(document.get("Settings") or {})}
    memory = size_of_setting(given.get("work_mem") or _WORK_MEM) // less
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
    """Each node, and the number of processes: rows of a plan are those of one."""
    # A merge join goes back in sorted rows a little, and keeps no more of them.
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
    """Estimated rows and the bytes of one."""
    rows, width = (float(amount(node.get(name, 0), name)) for name in ("Plan Rows", "Plan Width"))
    return rows, width


def _node_bytes(node: Mapping[str, Any], memory: int, multiplier: float) -> float:
    """Bytes that a node spills, each of which it reads once."""
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
        size = inner_rows * (inner_width + _HASH_ROW_BYTES) + rows * (width + _HASH_ROW_BYTES)
        return size * (1 - 1 / batches)
    if kind == "Aggregate" and node.get("Strategy") in {"Hashed", "Mixed"}:
        groups, group_width = _rows(node)
        needed = aggregate_bytes(groups, group_width, width, older=True)
        in_memory = memory * multiplier / max(needed, 1)
        return rows * (width + _HASH_ROW_BYTES) * max(1 - in_memory, 0.0)
    if kind == "Materialize" and rows * (width + SLOT_BYTES) > memory:
        return rows * (width + _SORT_ROW_BYTES)
    return 0.0

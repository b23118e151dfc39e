"""The nodes of a PostgreSQL plan that spill, and the work memory with which each would not."""

from collections.abc import Iterator, Mapping
from dataclasses import replace
from typing import Any

from spillcast.evidence.postgres.nodes import Node
from spillcast.forecast.work_memory import (
    BLOCK_BYTES,
    ROWS_SHARE,
    SLOT_BYTES,
    Spill,
    aggregate_bytes,
    aligned,
    hash_bytes,
    hash_tuple_bytes,
    store_bytes,
    tuple_bytes,
)

#: Since PostgreSQL 15; a plan made with SETTINGS names it where it is another.
HASH_MEM_MULTIPLIER = 2.0
#: Before PostgreSQL 17 a tuple in memory had a header of up to so much; now only one to be freed.
_CHUNK_BYTES = 16
_FREED_BYTES = 8
#: Results that are so much wider than what they are made of are wider than a number of 8 bytes.
_ANY_STATE_WIDTH = 16


def spills_of(top: Node, hash_mem_multiplier: float = HASH_MEM_MULTIPLIER) -> list[Spill]:
    """The nodes that wrote temp files, as the plan has them, from the top."""
    # PostgreSQL 17 began to time local I/O apart, 18 to say which nodes were disabled.
    older = "Local I/O Read Time" not in top.values
    balanced = "Disabled" in top.values
    timed = top.all_temp.total_s > 0
    spills = []
    for node, hashed in _pairs(top):
        temps = [node.temp, hashed.temp] if hashed else [node.temp]
        if not sum(temp.written for temp in temps):
            continue
        if hashed is not None:
            spill = _hash(hashed, hash_mem_multiplier, balanced=balanced)
        elif node.kind == "Sort":
            spill = _sort(node, older)
        elif sorts := _inner_sorts(node):
            spill = _inner_sort(node, sorts, older)
        elif "HashAgg Batches" in node.values:
            spill = _aggregate(node, hash_mem_multiplier, older=not balanced)
        else:
            spill = _store(node, older)
        weight = sum(temp.total_s if timed else temp.blocks for temp in temps)
        spills.append(replace(spill, weight=weight))
    return spills


def _processes(node: Node) -> list[Mapping[str, Any]]:
    """The figures of the leader and of each worker of a node."""
    return [node.values, *node.values.get("Workers", ())]


def _input(node: Node) -> Node:
    """The node whose rows a node works on."""
    return node.children[0] if node.children else node


def _pairs(top: Node) -> Iterator[tuple[Node, Node | None]]:
    """Each node; a hash join with its hash, which is then not told again."""
    joined: set[int] = set()
    for node in top.walk():
        hashed = next((child for child in node.children if child.kind == "Hash"), None)
        if id(node) not in joined:
            yield node, hashed
        if hashed is not None:
            joined.add(id(hashed))


def _hash(node: Node, multiplier: float, *, balanced: bool) -> Spill:
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
    return Spill(
        kind="hash",
        processes=node.processes,
        needed_bytes=round(needed / among),
        taken=multiplier * node.processes,
        batches=batches,
        rows=rows,
        tuple_bytes=row,
        hash_multiplier=among,
        balanced=balanced,
    )


def _sort(node: Node, older: bool) -> Spill:
    """The largest of the sorts that its processes did."""
    disk = [
        1024 * int(values["Sort Space Used"])
        for values in _processes(node)
        if values.get("Sort Space Type") == "Disk"
    ]
    # A limit above takes only some of the rows, all of which were sorted.
    below = _input(node)
    rows = below.rows_in_all if node.processes > 1 else below.rows
    # Below a limit rows may be thrown away while they are sorted, so each is freed by itself.
    limited = node.above == "Limit"
    header_bytes = _CHUNK_BYTES if older else _FREED_BYTES if limited else 0
    # For what is needed, all of the file is rows: rather more memory than too little.
    row, row_max = (
        tuple_bytes(share * sum(disk) / max(rows, 1.0), header_bytes, powers=limited)
        for share in (ROWS_SHARE, 1.0)
    )
    max_rows = rows * max(disk, default=0) / max(sum(disk), 1)
    # Next time another process may get more: up to twice its share was seen.
    next_rows = max(max_rows, rows * min(1.0, 2 / node.processes))
    written = node.temp.written * BLOCK_BYTES
    return Spill(
        kind="sort",
        processes=node.processes,
        needed_bytes=round(next_rows * (SLOT_BYTES + row_max)),
        taken=float(node.processes),
        passes=max(1, round(written / max(sum(disk), 1))),
        rows=max_rows,
        tuple_bytes=row,
    )


def _aggregate(node: Node, multiplier: float, *, older: bool) -> Spill:
    groups = node.rows + float(node.values.get("Rows Removed by Filter", 0))
    width = float(node.values.get("Plan Width", 0))
    below = float(_input(node).values.get("Plan Width", width))
    needed = aggregate_bytes(groups, width, below, older=older)
    batches = int(node.values["HashAgg Batches"])
    any_state = width - below >= _ANY_STATE_WIDTH
    if any_state:
        in_batches = (
            values.get("HashAgg Batches", 0) * values.get("Peak Memory Usage", 0)
            for values in _processes(node)
        )
        needed = max(needed, 1024 * round(max(in_batches)))
    return Spill(
        kind="hash aggregate",
        processes=node.processes,
        needed_bytes=round(needed / multiplier),
        taken=multiplier * node.processes,
        batches=batches,
        any_state=any_state,
    )


def _inner_sorts(node: Node) -> int:
    """Sorts inside an aggregate of grouping sets, where its hashes are all in memory."""
    in_memory = all(
        not values.get("Disk Usage") and values.get("HashAgg Batches", 1) <= 1
        for values in _processes(node)
    )
    if not in_memory:
        return 0
    sets = node.values.get("Grouping Sets", ())
    return sum("Sort Key" in grouping for grouping in sets if isinstance(grouping, dict))


def _inner_sort(node: Node, sorts: int, older: bool) -> Spill:
    """Each sorts all rows of the input, one after the other; the plan does not show its file."""
    below = _input(node)
    row = tuple_bytes(float(below.values.get("Plan Width", 0)), _CHUNK_BYTES if older else 0)
    rows = max(below.rows, 1.0)
    file_bytes = rows * max(row - SLOT_BYTES, 8) * sorts
    return Spill(
        kind="sort",
        processes=node.processes,
        needed_bytes=round(rows * (SLOT_BYTES + row)),
        taken=float(node.processes),
        passes=max(1, round(node.temp.written * BLOCK_BYTES / file_bytes)),
        rows=rows,
        tuple_bytes=row,
    )


def _store(node: Node, older: bool) -> Spill:
    """Rows that are kept; also those that count(distinct) sorts, before PostgreSQL 16."""
    below = _input(node)
    width = float(below.values.get("Plan Width", 0))
    rows = max(below.rows, node.rows)
    if node.kind == "Aggregate":
        needed = round(rows * (SLOT_BYTES + aligned(width) + 2 * _CHUNK_BYTES))
    else:
        row_bytes = node.temp.written * BLOCK_BYTES / max(below.rows_in_all, node.rows_in_all, 1.0)
        header_bytes = _CHUNK_BYTES if older else _FREED_BYTES
        needed = store_bytes(rows, tuple_bytes(row_bytes, header_bytes, powers=older))
    return Spill(
        kind="store",
        processes=node.processes,
        needed_bytes=needed,
        taken=float(node.processes),
    )

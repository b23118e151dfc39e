"""The nodes of a PostgreSQL plan that spill, and the work memory with which each would not."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Literal

from spillcast.evidence.postgres.nodes import Node
from spillcast.forecast.work_memory.postgres import (
    BLOCK_BYTES,
    ROWS_SHARE,
    SLOT_BYTES,
    aggregate_bytes,
    aligned,
    hash_batches,
    hash_bytes,
    hash_tuple_bytes,
    sort_passes,
    store_bytes,
    tuple_bytes,
)

#: Of all that is spilled, some is written several times, or all once; it is written, and nothing
#: tells how often; or nothing is written.
State = Literal["multi-pass", "one-pass", "spills", "none"]
#: Since PostgreSQL 15; a plan made with SETTINGS names it where it is another.
HASH_MEM_MULTIPLIER = 2.0
#: Before PostgreSQL 17 a tuple in memory had a header of up to so much; now only one to be freed.
_CHUNK_BYTES = 16
_FREED_BYTES = 8
#: Results that are so much wider than what they are made of are wider than a number of 8 bytes.
_ANY_STATE_WIDTH = 16


@dataclass(frozen=True)
class Spill:
    """One node that wrote temp files."""

    #: ``sort``, ``hash``, ``hash aggregate`` or ``store`` (rows kept to be read again).
    kind: str
    processes: int
    #: Seconds of temp I/O over all processes, or blocks where it was not timed.
    weight: float
    #: The least work_mem, in bytes, with which it stays in memory.
    needed_bytes: int
    #: What it may take for each byte of work_mem, over all its processes.
    taken: float
    #: Batches of a hash; None for others.
    batches: int | None = None
    #: How often a sort wrote all its rows; None for others.
    passes: int | None = None
    #: Rows of a sort in one process or of a hash, and the memory of one: of a sort beside its slot.
    rows: float = 0.0
    tuple_bytes: float = 0.0
    #: What a hash may take for each byte of work_mem, in the processes that share it.
    hash_multiplier: float = 1.0
    #: The server (18 or newer) trades batches against memory for their buffers.
    balanced: bool = False
    #: Whether results of a hash aggregate are of a type, such as numeric, whose states may take any
    #: size: ``needed_bytes`` is then that of all its batches at once.
    any_state: bool = False

    def passes_with(self, work_mem_bytes: int) -> int | None:
        """How often a sort would write its rows; None for others."""
        if self.passes is None:
            return None
        return sort_passes(self.rows, round(self.tuple_bytes), work_mem_bytes)

    def batches_with(self, work_mem_bytes: int) -> int | None:
        """Batches of a hash; None for others."""
        if self.kind != "hash":
            return None
        memory_bytes = round(work_mem_bytes * self.hash_multiplier)
        return hash_batches(self.rows, self.tuple_bytes, memory_bytes, balanced=self.balanced)

    def share_with(self, work_mem_bytes: int) -> float:
        """Temp I/O with so much memory, over what it was.

        A hash writes all rows but those of its first batch. Of others than sorts and hashes it is
        only known whether they fit.
        """
        if self.passes is not None:
            return (self.passes_with(work_mem_bytes) or 0) / self.passes
        batches = self.batches_with(work_mem_bytes)
        if batches is not None and (self.batches or 1) > 1:
            return (1 - 1 / batches) / (1 - 1 / (self.batches or 1))
        return float(work_mem_bytes < self.needed_bytes)


def io_share(spills: Sequence[Spill], work_mem_bytes: int) -> float:
    """Temp I/O of all of them with so much memory, over what it was."""
    parts = [spill.weight / spill.processes for spill in spills]
    shares = (spill.share_with(work_mem_bytes) for spill in spills)
    return sum(part * share for part, share in zip(parts, shares, strict=True)) / sum(parts)


def state_with(spills: Sequence[Spill], work_mem_bytes: int) -> State:
    """How the query spills with so much memory."""
    if any((spill.passes_with(work_mem_bytes) or 0) > 1 for spill in spills):
        return "multi-pass"
    return "one-pass" if io_share(spills, work_mem_bytes) else "none"


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
        weight = sum(temp.total_s if timed else temp.blocks for temp in temps)
        if hashed is not None:
            spill = _hash(hashed, weight, hash_mem_multiplier, balanced=balanced)
        elif node.kind == "Sort":
            spill = _sort(node, weight, older)
        elif "HashAgg Batches" in node.values:
            spill = _aggregate(node, weight, hash_mem_multiplier, older=not balanced)
        else:
            spill = _store(node, weight, older)
        spills.append(spill)
    return spills


def _pairs(top: Node) -> Iterator[tuple[Node, Node | None]]:
    """Each node; a hash join with its hash, which is then not told again."""
    joined: set[int] = set()
    for node in top.walk():
        hashed = next((child for child in node.children if child.kind == "Hash"), None)
        if id(node) not in joined:
            yield node, hashed
        if hashed is not None:
            joined.add(id(hashed))


def _hash(node: Node, weight: float, multiplier: float, *, balanced: bool) -> Spill:
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
        "hash",
        node.processes,
        weight,
        round(needed / among),
        multiplier * node.processes,
        batches=batches,
        rows=rows,
        tuple_bytes=row,
        hash_multiplier=among,
        balanced=balanced,
    )


def _sort(node: Node, weight: float, older: bool) -> Spill:
    """The largest of the sorts that its processes did."""
    each = [values for values in (node.values, *node.values.get("Workers", ()))]
    disk = [
        1024 * int(values["Sort Space Used"])
        for values in each
        if values.get("Sort Space Type") == "Disk"
    ]
    # A limit above takes only some of the rows, all of which were sorted.
    below = node.children[0] if node.children else node
    rows = below.rows_in_all if node.processes > 1 else below.rows
    # Below a limit rows may be thrown away while they are sorted, so each is freed by itself.
    limited = node.above == "Limit"
    header_bytes = _CHUNK_BYTES if older else _FREED_BYTES if limited else 0
    # For what is needed, all of the file is rows: rather more memory than too little.
    row, row_most = (
        tuple_bytes(share * sum(disk) / max(rows, 1.0), header_bytes, powers=limited)
        for share in (ROWS_SHARE, 1.0)
    )
    most_rows = rows * max(disk, default=0) / max(sum(disk), 1)
    # Next time another process may get more: up to twice its share was seen.
    next_rows = max(most_rows, rows * min(1.0, 2 / node.processes))
    written = node.temp.written * BLOCK_BYTES
    return Spill(
        "sort",
        node.processes,
        weight,
        round(next_rows * (SLOT_BYTES + row_most)),
        float(node.processes),
        passes=max(1, round(written / max(sum(disk), 1))),
        rows=most_rows,
        tuple_bytes=row,
    )


def _aggregate(node: Node, weight: float, multiplier: float, *, older: bool) -> Spill:
    groups = node.rows + float(node.values.get("Rows Removed by Filter", 0))
    width = float(node.values.get("Plan Width", 0))
    below = float(node.children[0].values.get("Plan Width", width)) if node.children else width
    needed = aggregate_bytes(groups, width, below, older=older)
    batches = int(node.values["HashAgg Batches"])
    any_state = width - below >= _ANY_STATE_WIDTH
    if any_state:
        each = (node.values, *node.values.get("Workers", ()))
        in_batches = (v.get("HashAgg Batches", 0) * v.get("Peak Memory Usage", 0) for v in each)
        needed = max(needed, 1024 * round(max(in_batches)))
    taken = multiplier * node.processes
    needed = round(needed / multiplier)
    return Spill(
        "hash aggregate",
        node.processes,
        weight,
        needed,
        taken,
        batches=batches,
        any_state=any_state,
    )


def _store(node: Node, weight: float, older: bool) -> Spill:
    """Rows that are kept; also those that count(distinct) sorts, before PostgreSQL 16."""
    below = node.children[0] if node.children else node
    width = float(below.values.get("Plan Width", 0))
    rows = max(below.rows, node.rows)
    if node.kind == "Aggregate":
        needed = round(rows * (SLOT_BYTES + aligned(width) + 2 * _CHUNK_BYTES))
    else:
        row_bytes = node.temp.written * BLOCK_BYTES / max(below.rows_in_all, node.rows_in_all, 1.0)
        header_bytes = _CHUNK_BYTES if older else _FREED_BYTES
        needed = store_bytes(rows, tuple_bytes(row_bytes, header_bytes, powers=older))
    return Spill("store", node.processes, weight, needed, float(node.processes))

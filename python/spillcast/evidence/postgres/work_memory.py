"""PostgreSQL's work memory: how much a node spills with a given amount of it."""

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import count
from math import ceil, log
from typing import Literal

from spillcast.document import internal, later
from spillcast.evidence.postgres import BLOCK_BYTES

#: Some rows are written several times; each row is written once; rows are written, an unknown
#: number of times; no row is written.
State = Literal["multi-pass", "one-pass", "spills", "none"]
#: Memory for a tape during a merge: a block each for reading and writing, and 32 for read-ahead.
_TAPE_BYTES = 2 * BLOCK_BYTES + 32 * BLOCK_BYTES
#: A row's entry in the array that is sorted.
SLOT_BYTES = 24
#: The least length of the array that is sorted (src/backend/utils/sort/tuplesort.c).
_SLOTS_MIN = 1024
POINTER_BYTES = 8
_BUCKETS_MIN = 1024
#: A margin: servers of versions 15 and 18 took up to a tenth more memory than is computed here.
SAFETY_FACTOR = 1.12


def merge_order(work_mem_bytes: int) -> int:
    """The number of runs that are merged at once."""
    return min(500, max(6, work_mem_bytes // _TAPE_BYTES))


def sort_passes(rows: float, tuple_bytes: int, work_mem_bytes: int) -> int:
    """How often a sort writes all its rows; 0 if they fit. The last merge writes nothing."""
    if rows <= work_mem_bytes / (SLOT_BYTES + tuple_bytes):
        return 0
    return merge_passes(sorted_runs(rows, tuple_bytes, work_mem_bytes), work_mem_bytes)


def sorted_runs(rows: float, tuple_bytes: int, work_mem_bytes: int) -> int:
    """The number of runs that a sort on disk writes before it merges them.

    A run takes the memory that is left by the slots, whose number stays as it was when memory first
    became full, and by a block for each tape, if these fit beside the slots. It ends with the row
    that exceeds this memory.
    """
    slots = work_mem_bytes / (SLOT_BYTES + tuple_bytes)
    left_bytes = work_mem_bytes - SLOT_BYTES * max(slots, _SLOTS_MIN)
    tapes_bytes = merge_order(work_mem_bytes) * BLOCK_BYTES
    if tapes_bytes < left_bytes:
        left_bytes -= tapes_bytes
    return ceil(rows / ceil(max(1.0, left_bytes) / tuple_bytes if tuple_bytes else slots))


def merge_passes(runs: int, work_mem_bytes: int) -> int:
    """How often rows in so many sorted runs are written, unless the last merge is stored."""
    # The tolerance cancels rounding errors, which may raise a whole number to the next.
    return ceil(log(max(runs, 1)) / log(merge_order(work_mem_bytes)) - 1e-9)


def hash_bytes(rows: float, tuple_bytes: float) -> int:
    """Memory (bytes) of a hash table in one batch."""
    buckets = max(_BUCKETS_MIN, power_of_two(rows))
    return ceil(rows * tuple_bytes) + buckets * POINTER_BYTES


def hash_batches(rows: float, tuple_bytes: float, memory_bytes: int, *, balanced: bool) -> int:
    """Batches of a hash table of ``rows``; 1 if it fits.

    ``balanced``: the server (18 or newer) exceeds its memory limit if the buffers of many batches
    would exceed it by more.
    """
    if hash_bytes(rows, tuple_bytes) <= memory_bytes:
        return 1
    buckets = power_of_two(memory_bytes / (tuple_bytes + POINTER_BYTES))
    left = memory_bytes - buckets * POINTER_BYTES
    batches = max(2, power_of_two(ceil(rows * tuple_bytes / max(left, 1))))
    while balanced and batches > 1 and batches * BLOCK_BYTES >= memory_bytes:
        batches //= 2
        memory_bytes *= 2
    return batches


def power_of_two(number: float) -> int:
    """The smallest power of 2 that is at least a number."""
    return 1 << max(0, ceil(number) - 1).bit_length()


def rounded_up(size: float) -> int:
    """The next usual work_mem, in bytes: 1, 1.5, 2, 3, 4, 6, 8 ... MiB."""
    sizes = (steps << half for half in count(19) for steps in (2, 3))
    return next(size_bytes for size_bytes in sizes if size_bytes >= size)


@dataclass(frozen=True, kw_only=True)
class NodeSpill:
    """One node that wrote temp files."""

    #: ``sort``, ``hash``, ``hash aggregate`` or ``store`` (rows kept to be read again).
    kind: str
    processes: int
    #: The least work_mem, in bytes, with which the node does not spill.
    needed_bytes: int
    #: The same for the newest default of hash_mem_multiplier; ``needed_bytes`` may be for an older.
    least_bytes: int | None = internal(None)
    #: Batches of a hash; None for others.
    batches: int | None = later()
    #: How often a sort wrote all its rows; None for others.
    passes: int | None = later()
    #: Seconds of temp I/O over all processes, or blocks if it was not timed.
    weight: float = internal(0.0)
    #: Bytes that all its processes together may use for each byte of work_mem.
    taken: float = internal(1.0)
    #: Rows of a hash, or of a sort in one process, and bytes per row, for a sort without its slot.
    rows: float = internal(0.0)
    tuple_bytes: float = internal(0.0)
    #: Bytes that the processes of a shared hash together may use for each byte of work_mem.
    hash_multiplier: float = internal(1.0)
    #: Whether the server (18 or newer) reduces batches if their buffers would take too much memory.
    balanced: bool = internal(False)
    #: Whether results of a hash aggregate have a type, such as numeric, whose states may have any
    #: size: ``needed_bytes`` is then the memory for all its batches at once.
    any_state: bool = internal(False)

    def passes_with(self, work_mem_bytes: int) -> int | None:
        """How often a sort would write its rows with this memory; None for other nodes."""
        if self.passes is None:
            return None
        return sort_passes(self.rows, round(self.tuple_bytes), work_mem_bytes)

    def batches_with(self, work_mem_bytes: int) -> int | None:
        """Batches of a hash with this memory; None for other nodes."""
        if self.kind != "hash":
            return None
        memory_bytes = round(work_mem_bytes * self.hash_multiplier)
        return hash_batches(self.rows, self.tuple_bytes, memory_bytes, balanced=self.balanced)

    def share_with(self, work_mem_bytes: int) -> float:
        """Temp I/O with this memory as a share of that of the run.

        A hash writes all rows except those of its first batch. Nodes other than sorts and hashes
        write all rows, or none if they fit.
        """
        if self.passes is not None:
            return (self.passes_with(work_mem_bytes) or 0) / self.passes
        batches = self.batches_with(work_mem_bytes)
        if batches is not None and (self.batches or 1) > 1:
            return (1 - 1 / batches) / (1 - 1 / (self.batches or 1))
        return float(work_mem_bytes < self.needed_bytes)


@dataclass(frozen=True)
class PlanSpills:
    """The plan nodes that spill, their work memory, and the memory available on the machine."""

    spills: Sequence[NodeSpill]
    #: None if unknown.
    current_bytes: int | None
    available_bytes: int | None = None


def io_share(spills: Sequence[NodeSpill], work_mem_bytes: int) -> float:
    """Temp I/O of all nodes with this memory as a share of that of the run."""
    parts = [spill.weight / spill.processes for spill in spills]
    shares = (spill.share_with(work_mem_bytes) for spill in spills)
    return sum(part * share for part, share in zip(parts, shares, strict=True)) / sum(parts)


def state_with(spills: Sequence[NodeSpill], work_mem_bytes: int) -> State:
    """How the query spills with this memory."""
    if any((spill.passes_with(work_mem_bytes) or 0) > 1 for spill in spills):
        return "multi-pass"
    return "one-pass" if io_share(spills, work_mem_bytes) else "none"


def enough_bytes(plan: PlanSpills, *, least: bool = False) -> int:
    """The smallest common work_mem (bytes) with which no node of a plan spills.

    With ``least``, it is for the newest default of hash_mem_multiplier if the setting is unknown.
    """
    needed = max((least and spill.least_bytes) or spill.needed_bytes for spill in plan.spills)
    # The query did spill, so it needs more work_mem than it had.
    return rounded_up(max(SAFETY_FACTOR * needed, (plan.current_bytes or 0) + 1))


#: The maximum ratio of a sort's memory to the size of its temp file. A row with an integer takes 13
#: bytes on disk; in memory 48 with its header, and up to 48 in an array that grows by doubling.
#: PostgreSQL 15 takes 2.8 to 6.8 times the file.
SORT_TIMES_MAX = 8
KIB, MIB = 1 << 10, 1 << 20


def work_mem_between(files: Sequence[tuple[int, int]]) -> tuple[int, int | None]:
    """Bounds of the work_mem (bytes) with which no call of a statement spills.

    ``files`` are the call, 0 if unknown, and the size (bytes) of each temp file. The lower bound
    is the largest file: a sort has one file and takes more memory, a hash has a file for each
    batch. The upper bound follows from all files of a call, and is None if the files of a call are
    not known.
    """
    call_bytes = Counter[int]()
    for call, size_bytes in files:
        call_bytes[call] += size_bytes
    lower_bytes = max(size_bytes for _, size_bytes in files)
    unit = MIB if lower_bytes >= MIB else KIB
    lower_bytes -= lower_bytes % unit
    if 0 in call_bytes and len(files) > 1:
        return lower_bytes, None
    return lower_bytes, rounded_up(SORT_TIMES_MAX * max(call_bytes.values()))

"""How PostgreSQL spends work memory: runs and passes of a sort, batches of a hash.

From tuplesort.c, nodeHash.c and nodeAgg.c of PostgreSQL 15 to 18; checked against servers in
tests/forecast/work_memory/test_work_memory.py.
"""

from collections.abc import Sequence
from itertools import count
from math import ceil, log
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from spillcast.evidence.postgres.logs import TempFile

BLOCK_BYTES = 8192
#: A tape being merged: a block each for reading and writing, and 32 to read ahead.
_TAPE_BYTES = 2 * BLOCK_BYTES + 32 * BLOCK_BYTES
#: A row's entry in the array that is sorted.
SLOT_BYTES = 24
#: Of a sort's temp file, what is rows, at least: each block ends with 16 bytes of its own, and the
#: last one of each tape is not full.
ROWS_SHARE = 0.99
#: What a tuple in a temp file has less than in memory.
_FILE_LESS_BYTES = 6
_TUPLE_HEADER_BYTES = 16
_POINTER_BYTES = 8
_BUCKETS_MIN = 1024
#: A table of groups doubles at the latest when it is so full; its entries, up to 17 and since.
_TABLE_FILL, _OLDER_ENTRY_BYTES, _ENTRY_BYTES = 0.6, 24, 16
_OLDER_CHUNK_BYTES = 16
#: States of a group: those of two aggregates at least, and more the wider the results are.
_STATES_BYTES_MIN, _STATES_PER_NEW_WIDTH, _STATES_PER_WIDTH = 32, 4, 1.5
#: A number with its length in a temp file takes so much.
_DATUM_BYTES = 12.5


def aligned(size: float) -> int:
    """Rounded up to 8 bytes, as memory is handed out."""
    return -(-ceil(size) // 8) * 8


def merge_order(work_mem_bytes: int) -> int:
    """Runs that are merged at once."""
    return min(500, max(6, work_mem_bytes // _TAPE_BYTES))


def tuple_bytes(file_row_bytes: float, header_bytes: int, *, powers: bool = False) -> int:
    """Memory of a row from its size in a temp file; 0 for a number, which its slot holds.

    ``powers``: memory is handed out in powers of 2, which it is to whatever may be freed again.
    """
    if file_row_bytes <= _DATUM_BYTES:
        return 0
    size = file_row_bytes + _FILE_LESS_BYTES
    return (power_of_two(size) if powers else aligned(size)) + header_bytes


def sort_passes(rows: float, tuple_bytes: int, work_mem_bytes: int) -> int:
    """How often all rows are written; 0 where they fit.

    The last merge writes nothing. Runs are as long as memory allows beside the slots, which keep
    the size they had when memory was full first, and a block for each tape.
    """
    slots = work_mem_bytes / (SLOT_BYTES + tuple_bytes)
    if rows <= slots:
        return 0
    tapes = merge_order(work_mem_bytes)
    in_run = slots
    if tapes * BLOCK_BYTES + slots * SLOT_BYTES < work_mem_bytes and tuple_bytes:
        in_run = max(1.0, slots - tapes * BLOCK_BYTES / tuple_bytes)
    runs = ceil(rows / in_run)
    # A little less than a whole number is one that rounding made larger.
    return 1 if runs <= tapes else ceil(log(runs) / log(tapes) - 1e-9)


def hash_bytes(rows: float, tuple_bytes: float) -> int:
    """Memory of a hash table in one batch."""
    buckets = max(_BUCKETS_MIN, power_of_two(rows))
    return ceil(rows * tuple_bytes) + buckets * _POINTER_BYTES


def hash_batches(rows: float, tuple_bytes: float, memory_bytes: int, *, balanced: bool) -> int:
    """Batches of a hash of ``rows``; 1 where it fits.

    ``balanced``: the server (18 or newer) takes more memory than it may where the buffers of many
    batches would take yet more.
    """
    if hash_bytes(rows, tuple_bytes) <= memory_bytes:
        return 1
    buckets = power_of_two(memory_bytes / (tuple_bytes + _POINTER_BYTES))
    left = memory_bytes - buckets * _POINTER_BYTES
    batches = max(2, power_of_two(ceil(rows * tuple_bytes / max(left, 1))))
    while balanced and batches > 1 and batches * BLOCK_BYTES >= memory_bytes:
        batches //= 2
        memory_bytes *= 2
    return batches


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
        group = power_of_two(key) + states + 2 * _OLDER_CHUNK_BYTES
    return ceil(groups * group) + power_of_two(groups / _TABLE_FILL) * entry


def store_bytes(rows: float, row_bytes: int) -> int:
    """Memory of rows kept to be read again: a pointer, whose array may be twice as long, each."""
    return ceil(rows * (2 * _POINTER_BYTES + row_bytes))


def rounded_up(size: float) -> int:
    """A work_mem that one would set, in bytes: 1, 1.5, 2, 3, 4, 6, 8 ... MiB."""
    sizes = (steps << half for half in count(19) for steps in (2, 3))
    return next(each for each in sizes if each >= size)


def power_of_two(number: float) -> int:
    """The least power of 2 that is no less."""
    return 1 << max(0, ceil(number) - 1).bit_length()


#: The memory of a sort over its temp file, at most: a row of an integer has 13 bytes on disk, and
#: in memory 48 with what precedes it, and up to 48 in an array that grows by doubling. PostgreSQL
#: 15 takes 2.8 to 6.8 times the file.
SORT_MOST = 8
KIB, MIB = 1 << 10, 1 << 20


def work_mem_between(files: "Sequence[TempFile]") -> tuple[int, int | None]:
    """For all calls of a statement: at least the largest file, at most all files of one call.

    A sort has one file, and its rows take more in memory; a hash has a file a batch. The upper
    bound is None where it is not known which files are of one call.
    """
    by_call: dict[int, int] = {}
    for file in files:
        by_call[file.call] = by_call.get(file.call, 0) + file.bytes
    least = max(file.bytes for file in files)
    unit = MIB if least >= MIB else KIB
    least -= least % unit
    if 0 in by_call and len(files) > 1:
        return least, None
    return least, rounded_up(SORT_MOST * max(by_call.values()))

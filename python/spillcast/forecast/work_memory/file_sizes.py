"""How much work_mem temp files need, by their sizes alone: bounds."""

from collections.abc import Sequence

from spillcast.evidence.postgres.logs import TempFile
from spillcast.forecast.work_memory.postgres import rounded_up

#: The memory of a sort over its temp file, at most: a row of an integer has 13 bytes on disk, and
#: in memory 48 with what precedes it, and up to 48 in an array that grows by doubling. PostgreSQL
#: 15 takes 2.8 to 6.8 times the file.
SORT_MOST = 8
KIB, MIB = 1 << 10, 1 << 20


def work_mem_between(files: Sequence[TempFile]) -> tuple[int, int | None]:
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

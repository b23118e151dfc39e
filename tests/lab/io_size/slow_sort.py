"""An external sort on a storage of a + b * size with a write cache, operation by operation.

Written from docs/method.md alone, as slow and obvious as possible.
"""

import math
from dataclasses import dataclass

K, M, G = 1 << 10, 1 << 20, 1 << 30


@dataclass
class Disk:
    """The latency of operations, and a write cache that absorbs writes until it is full."""

    read_s: float
    write_s: float
    s_per_byte: float
    cache_bytes: float
    leaves_bytes_per_s: float


def levels(data, memory, unit):
    """ceil(log_F(S/M)) with F = floor(M/u) - 1; None if nothing can be merged."""
    fan_in = memory // unit - 1
    if fan_in < 2:
        return None
    return max(1, math.ceil(round(math.log(math.ceil(data / memory), fan_in), 9)))


def unit_of(least, most, data, memory, block):
    """Of a setting's units, the largest one with the fewest levels."""
    units = [u for u in range(block, most + 1, block) if u >= least]
    units = [u for u in units if levels(data, memory, u) is not None]
    return min(units, key=lambda u: (levels(data, memory, u), -u), default=None)


def sort_s(disk, data, memory, unit):
    """The total time of its reads and writes: (reads, writes)."""
    now = filled = seen = 0.0
    spent = {"read": 0.0, "write": 0.0}

    def io(op, size):
        nonlocal now, filled, seen
        began = now
        if op == "write":
            filled = max(0.0, filled - (now - seen) * disk.leaves_bytes_per_s)
            wait = max(0.0, filled + size - disk.cache_bytes) / disk.leaves_bytes_per_s
            now += wait
            filled += size - wait * disk.leaves_bytes_per_s
            seen = now
            now += disk.write_s + size * disk.s_per_byte
        else:
            now += disk.read_s + size * disk.s_per_byte
        spent[op] += now - began

    runs = [min(memory, data - begin) for begin in range(0, data, memory)]
    for run in runs:
        for size in pieces(run, unit):
            io("write", size)
    while len(runs) > 1:
        count = math.ceil(len(runs) / (memory // unit - 1))
        merged = []
        for n in range(count):
            group = runs[len(runs) * n // count : len(runs) * (n + 1) // count]
            due, held = pieces(sum(group), unit) if count > 1 else [], 0
            for size in (size for run in group for size in pieces(run, unit)):
                io("read", size)
                held += size
                while due and held >= due[0]:
                    held -= due[0]
                    io("write", due.pop(0))
            merged.append(sum(group))
        runs = merged
    return spent["read"], spent["write"]


def pieces(length, unit):
    """A run in operations of one unit, and the remainder."""
    return [min(unit, length - at) for at in range(0, length, unit)]

"""The best setting of a sweep is the optimum by a slow search over all settings."""

import random

import pytest
from slow_sort import Disk, K, M, sort_s, unit_of

from cases import cases
from spillcast.lab.io_size import sweep_io_size
from spillcast.lab.io_size.spill import SyntheticSpill, parse_sizes, settings_of
from spillcast.storage import Group, Storage
from spillcast.storage.source import ASSUMED
from spillcast.storage.storage import write_cache_limit

BLOCK = 8 * K
SETTINGS = settings_of(
    parse_sizes("--min", "48K..1M", BLOCK), parse_sizes("--max", "48K..4M", BLOCK)
)


def storage(disk):
    """The same disk as a storage: two points of the straight line, and the cache as a limit."""
    groups = [
        Group(op, size, 1, 1, size, round(1e9 * s), [round(1e9 * s)], [1], [1], [round(1e9 * s)])
        for op, base in (("read", disk.read_s), ("write", disk.write_s))
        for size in (4 * K, 4 * M)
        for s in [base + size * disk.s_per_byte]
    ]
    limits = [write_cache_limit(disk.cache_bytes, disk.leaves_bytes_per_s)]
    return Storage("a + b * size", ASSUMED, groups, limits=limits)


def drawn(seed):
    """Storage, data size and memory, each drawn over at least an order of magnitude."""
    of = random.Random(seed)
    disk = Disk(
        read_s=10 ** of.uniform(-4, -2),
        write_s=10 ** of.uniform(-4, -2),
        s_per_byte=1 / 10 ** of.uniform(7.5, 9.3),
        cache_bytes=2 ** of.uniform(23, 28),
        leaves_bytes_per_s=10 ** of.uniform(7.3, 9),
    )
    return disk, round(2 ** of.uniform(7, 9)) * M, round(2 ** of.uniform(2, 5)) * M


def truth(disk, data, memory):
    """The time of the slow sort, by setting."""
    units = {s: unit_of(s.min_bytes, s.max_bytes, data, memory, BLOCK) for s in SETTINGS}
    times = {unit: sum(sort_s(disk, data, memory, unit)) for unit in set(units.values()) - {None}}
    return {setting: times[unit] for setting, unit in units.items() if unit}


@cases("seed", range(10))
def test_the_sweet_spot_is_the_optimum(seed):
    disk, data, memory = drawn(seed)
    sweep = sweep_io_size(storage(disk), SyntheticSpill(data, memory, BLOCK), SETTINGS)
    known = truth(disk, data, memory)
    least_s = min(known.values())
    assert known[sweep.best.setting] <= least_s * 1.0005
    assert {row.setting for row in sweep.rows} == set(known)
    for row in sweep.rows:
        assert row.total_s == pytest.approx(known[row.setting], rel=0.01)


def test_the_storages_differ_in_their_optimum():
    """Otherwise a program with a constant answer would pass the test above."""
    best = set()
    for seed in range(10):
        disk, data, memory = drawn(seed)
        best.add(
            sweep_io_size(storage(disk), SyntheticSpill(data, memory, BLOCK), SETTINGS).best.setting
        )
    assert len(best) >= 4

"""A spill on a described storage: write caches that fill up, missing figures, noise."""

import math

import pytest

from spillcast.errors import FiguresMissing
from spillcast.lab.io_size.spill import IoSizeSetting, SyntheticSpill
from spillcast.lab.io_size.trials import modelled
from spillcast.storage import Group, Storage
from spillcast.storage.source import ASSUMED, GRID
from spillcast.storage.storage import write_cache_limit

K, M = 1 << 10, 1 << 20
#: One level: everything is written before anything is read.
SORT, UNIT = SyntheticSpill(64 * M, 8 * M, 8 * K), 256 * K
LATENCY_S, RATE = 0.001, 20e6
CACHE = 8 * M


def groups(op, block_mean_ms=(1,), sizes=(4 * K, M)):
    """Latencies that do not depend on the size, in blocks with the given means."""
    means = [round(1e6 * ms) for ms in block_mean_ms]
    return [
        Group(op, size, 1, 10 * len(means), 10 * size * len(means), 10 * sum(means), means,
              [10] * len(means), [10] * len(means), means, "random", "direct")
        for size in sizes
    ]  # fmt: skip


def trial(**parts):
    storage = Storage(
        "made", **{"source": ASSUMED, "groups": groups("read") + groups("write"), **parts}
    )
    result = modelled(storage, [SORT.steps(IoSizeSetting(UNIT, UNIT))])
    return result.of[0], [warning["code"] for warning in result.warnings]


def test_without_a_cache_each_operation_takes_its_latency():
    result, warnings = trial()
    assert result.reads.count == result.writes.count == 256
    assert result.writes.total_s == pytest.approx(256 * LATENCY_S)
    assert result.interval_s == pytest.approx((512 * LATENCY_S, 512 * LATENCY_S))
    assert warnings == []


def test_a_full_cache_accepts_writes_at_its_drain_rate():
    result, _ = trial(limits=[write_cache_limit(CACHE, RATE)])
    # The last write starts when everything except the cache's content has drained.
    assert result.writes.total_s == pytest.approx((64 * M - CACHE) / RATE + LATENCY_S, rel=1e-3)
    assert result.reads.total_s == pytest.approx(256 * LATENCY_S)


def test_a_grid_with_slowed_writes_has_a_write_cache():
    seen = {"reached": True, "burst_bytes": CACHE, "sustained_bytes_per_s": RATE}
    stated, _ = trial(limits=[write_cache_limit(CACHE, RATE)])
    result, _ = trial(source=GRID, facts={"sustained": seen})
    assert result.writes.total_s == stated.writes.total_s
    never, _ = trial(source=GRID, facts={"sustained": seen | {"reached": False}})
    assert never.writes.total_s == pytest.approx(256 * LATENCY_S)


def test_the_noise_of_a_measurement_makes_the_interval():
    """Blocks of 0.8 and 1.2 ms: the error of the mean is 0.2 ms over the root of their number."""
    noisy = [g for op in ("read", "write") for g in groups(op, (0.8, 1.2) * 8, sizes=(UNIT,))]
    result, _ = trial(source=GRID, groups=noisy)
    each_s = 256 * 0.2e-3 / math.sqrt(16)
    half_s = 1.645 * math.hypot(each_s, each_s)
    low_s, high_s = result.interval_s
    assert high_s - low_s == pytest.approx(2 * half_s, rel=0.02)


def test_sizes_beyond_the_measured_ones_are_named():
    small = [g for op in ("read", "write") for g in groups(op, sizes=(4 * K, 64 * K))]
    assert trial(source=GRID, groups=small)[1] == ["extrapolated", "extrapolated"]


def test_a_storage_without_figures_for_an_op_is_refused():
    with pytest.raises(FiguresMissing):
        trial(groups=groups("read"))

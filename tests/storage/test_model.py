"""The storage model reproduces storages of a known law, and states its error."""

import math
import random

import numpy as np
import pytest

from cases import cases
from grids import DEPTHS, SIZES, Law, grid, group, spread
from spillcast.errors import FiguresMissing
from spillcast.storage import Group, Storage
from spillcast.storage.model import Model
from spillcast.storage.source import ASSUMED, GRID, PROBE, RECORDING, catalogue
from spillcast.storage.storage import bytes_limit, operations_limit

#: Standard errors that contain a normal deviate in 90 % of cases.
IN_90_PERCENT = 1.645
RENTED = catalogue(2.0, "a brochure")


def test_a_measured_cell_is_returned_unchanged():
    law = Law(100e-6, 1e9, servers=4)
    model = Model(grid(law))
    for size in SIZES:
        for depth in DEPTHS:
            result = model.latency("read", size, depth=depth)
            assert result.mean_s == pytest.approx(law(size, depth), abs=1e-9)
            assert (result.error, result.measured, result.extrapolated) == (0.0, True, False)


@cases(
    ("size", "extrapolated"),
    [*((size, False) for size in (5000, 30_000, 300_000, 700_000)), (1024, True), (4 << 20, True)],
)
def test_latency_by_size_is_a_base_and_a_bandwidth(size, extrapolated):
    """Also beyond the measured sizes, where the nearest slope continues."""
    law = Law(80e-6, 500e6)
    result = Model(grid(law, sizes=[4096, 65536, 1 << 20])).latency("read", size, depth=1)
    rel = 0.01 if extrapolated else 1e-4
    assert result.mean_s == pytest.approx(law(size, 1), rel=rel)
    assert (result.measured, result.extrapolated) == (False, extrapolated)
    assert (result.error > 0.001) == extrapolated


@cases("depth", [1.5, 3, 6, 12, 31])
def test_latency_by_depth_is_a_power_law(depth):
    # With one server latency is proportional to depth; with unlimited servers it is constant.
    for servers, power in ((1, 1), (math.inf, 0)):
        law = Law(100e-6, 1e9, servers=servers)
        result = Model(grid(law)).latency("read", 16384, depth=depth)
        assert result.mean_s == pytest.approx(law(16384, 1) * depth**power, rel=1e-4)
        assert result.error < 0.001


def test_beyond_the_measured_depths_the_last_slope_continues():
    law = Law(100e-6, 1e9, servers=4)
    result = Model(grid(law, depths=[1, 4, 8, 16])).latency("read", 4096, depth=64)
    assert result.extrapolated
    assert result.mean_s == pytest.approx(law(4096, 64), rel=1e-4)


def held_out(seed, noise):
    """True latency and estimate for an eighth of the cells of a storage with a random law."""
    rng, normal = random.Random(seed), np.random.default_rng(seed)
    base_s, bandwidth = (
        math.exp(rng.uniform(math.log(low), math.log(high)))
        for low, high in ((20e-6, 5e-3), (1e8, 5e9))
    )
    law = Law(
        base_s,
        bandwidth,
        servers=math.exp(rng.uniform(0, math.log(64))) if rng.random() < 0.7 else math.inf,
        bus=bandwidth * math.exp(rng.uniform(0, math.log(32))) if rng.random() < 0.7 else math.inf,
    )
    sizes = rng.choice([SIZES, SIZES[::2]])
    cells = [(size, depth) for size in sizes for depth in DEPTHS]
    without = rng.sample(cells, len(cells) // 8)
    left = grid(law, sizes=sizes, without=without, noise=lambda: noise * normal.normal())
    for size, depth in without:
        yield law(size, depth), Model(left).latency("read", size, depth=depth)


@cases("noise", [0.0, 0.01, 0.03])
def test_the_stated_error_covers_the_true_one(noise):
    matches = [pair for seed in range(100) for pair in held_out(seed, noise)]
    assert not any(estimate.measured for _, estimate in matches)
    covered = [
        abs(math.log(estimate.mean_s / true_s)) <= IN_90_PERCENT * estimate.error + 1e-5
        for true_s, estimate in matches
    ]
    assert np.mean(covered) >= 0.9
    # The error is informative: most values between cells have an error of a few percent.
    between = [estimate.error for _, estimate in matches if not estimate.extrapolated]
    assert np.median(between) < 0.1


@cases("servers", [1, 2, 4, 6, 8, 24, 32, 500])
def test_servers_and_operations_are_estimated_if_the_depths_saturate_them(servers):
    law = Law(200e-6, 2e9, servers=servers)
    model = Model(grid(law))
    if servers > 8:
        assert (model.servers("read"), model.operations_per_s("read")) == (None, None)
    else:
        assert model.servers("read") == pytest.approx(servers, rel=0.01)
        assert model.operations_per_s("read") == pytest.approx(servers / law(4096, 1), rel=0.01)


@cases("bus", [200e6, 1e9, 1e11])
def test_a_bandwidth_ceiling_is_estimated_if_it_is_reached(bus):
    ceiling = Model(grid(Law(100e-6, 1e9, bus=bus))).bandwidth_bytes_per_s("read")
    assert ceiling == (pytest.approx(bus, rel=0.01) if bus <= 1e9 else None)
    assert Model(grid(Law(100e-6, 1e9), depths=[1])).bandwidth_bytes_per_s("read") is None


def test_stated_servers_and_limits_apply_without_measured_depths():
    limits = [operations_limit(3000, burst=100), bytes_limit("bytes", 125 << 20, burst=1e6)]
    groups = [group("read", size, 1, 500e-6) for size in (4096, 1 << 20)]
    model = Model(Storage("rented", RENTED, groups, limits=limits))
    # Operations covered by the burst have no wait, at any depth.
    assert model.latency("read", 4096).mean_s == pytest.approx(500e-6)
    assert model.latency("read", 4096, depth=8).mean_s == pytest.approx(500e-6)
    bus = Model(Storage("bus", RENTED, groups, limits=[operations_limit(3000)]))
    assert bus.latency("read", 4096).mean_s == pytest.approx(500e-6 + 1 / 3000)
    assert bus.latency("read", 4096, depth=8).mean_s == pytest.approx(8 / 3000)
    assert not model.latency("read", 4096, depth=8).extrapolated
    assert model.operations_per_s("read") == pytest.approx(3000)
    assert model.bandwidth_bytes_per_s("read") == pytest.approx(125 << 20)
    assert model.servers("read") is None

    disk = Model(Storage("disk", ASSUMED, groups, servers=2))
    assert disk.servers("read") == 2
    assert disk.latency("read", 4096, depth=2).mean_s == pytest.approx(500e-6)
    assert disk.latency("read", 4096, depth=6).mean_s == pytest.approx(1500e-6)
    assert disk.operations_per_s("read") == pytest.approx(2 / 500e-6)


def test_the_lasting_latency_excludes_short_bursts():
    groups = [group("read", 4096, 1, 100e-6)]

    def lasting_s(burst, depth):
        limits = [operations_limit(1000, burst=burst)]
        model = Model(Storage("rented", RENTED, groups, limits=limits))
        return model.latency("read", 4096, depth=depth, lasting=True).mean_s

    assert lasting_s(1000, 1) == pytest.approx(1e-3)
    assert lasting_s(1000, 5) == pytest.approx(5e-3)
    # Credit for half an hour is not used up that soon.
    assert lasting_s(1000 * 1800, 5) == pytest.approx(100e-6)


def test_a_limit_without_burst_adds_the_cost_of_each_operation():
    groups = [group("read", 4096, 1, 50e-6)]
    bus = Model(Storage("bus", RENTED, groups, limits=[bytes_limit("bytes", 40.96e6)]))
    assert bus.latency("read", 4096).mean_s == pytest.approx(150e-6)
    assert bus.latency("read", 4096, depth=10).mean_s == pytest.approx(1000e-6)


def test_recorded_groups_apply_to_any_pattern_and_depth():
    groups = [group("write", size, 3, size / 1e9, pattern="recorded") for size in (8192, 32768)]
    model = Model(Storage("run", RECORDING, groups))
    wanted = model.latency("write", 8192)
    for sequential in (None, True, False):
        result = model.latency("write", 8192, depth=16, sequential=sequential)
        assert result.mean_s == wanted.mean_s == pytest.approx(8192 / 1e9, abs=1e-9)
        assert result.measured
        assert not result.extrapolated
    assert model.servers("write") is None


def test_patterns_and_access_are_separate():
    kinds = [("random", "direct"), ("sequential", "direct"), ("random", "buffered")]
    groups = [
        group("read", 4096, 1, 1e-4 * (at + 1), pattern=pattern, access=access)
        for at, (pattern, access) in enumerate(kinds)
    ]
    storage = Storage("grid", GRID, groups)
    direct, buffered = Model(storage, access="direct"), Model(storage)
    assert direct.latency("read", 4096, sequential=False).mean_s == pytest.approx(1e-4)
    assert direct.latency("read", 4096, sequential=True).mean_s == pytest.approx(2e-4)
    assert direct.latency("read", 4096).mean_s == pytest.approx(1e-4)
    assert buffered.latency("read", 4096, sequential=False).mean_s == pytest.approx(3e-4)
    other = buffered.latency("read", 4096, sequential=True)
    assert other.mean_s == pytest.approx(3e-4)
    assert other.extrapolated
    assert not other.measured


def test_blocks_and_quantiles_are_scaled_to_the_estimate():
    rng = np.random.default_rng(1)
    groups = [
        spread("read", size, base_s * rng.lognormal(0, 0.5, 400))
        for size, base_s in ((4096, 100e-6), (65536, 300e-6))
    ]
    result = Model(Storage("two sizes", GRID, groups)).latency("read", 50_000)
    count, mean_s = result.blocks.T
    assert (count * mean_s).sum() / count.sum() == pytest.approx(result.mean_s, rel=1e-4)
    whole = (result.latency_s * result.latency_count).sum() / result.latency_count.sum()
    assert whole == pytest.approx(result.mean_s, rel=1e-4)
    assert result.quantile_s(0.0) < result.quantile_s(0.5) < result.quantile_s(1.0)


def test_groups_of_few_operations_are_merged_or_less_certain():
    groups = [
        group("read", 4096, 1, 100e-6, pattern="recorded"),
        group("read", 8192, 1, 9e-3, pattern="recorded", count=7, blocks=1),
        group("read", 16384, 1, 100e-6, pattern="recorded"),
    ]
    result = Model(Storage("run", PROBE, groups)).latency("read", 8192)
    assert result.mean_s == pytest.approx(100e-6)
    assert not result.measured
    # No other group is as large: the figures are used, with a large error.
    groups[2] = group("read", 16384, 1, 5e-3, pattern="recorded", count=4, blocks=1)
    result = Model(Storage("run", PROBE, groups)).latency("read", 16384)
    assert result.mean_s == pytest.approx(5e-3)
    assert not result.measured
    assert result.error == pytest.approx(0.5)
    # The only group.
    result = Model(Storage("run", PROBE, [groups[2]])).latency("read", 16384)
    assert result.measured


def test_an_op_without_figures_is_refused():
    model = Model(grid(Law(100e-6, 1e9)))
    with pytest.raises(FiguresMissing):
        model.latency("write", 4096)


def test_a_storage_without_latency_takes_no_time():
    groups = [group("read", size, 1, 0.0, pattern="recorded") for size in (4096, 8192, 65536)]
    model = Model(Storage("nothing", ASSUMED, groups))
    for size in (512, 4096, 10_000, 1 << 20):
        assert model.latency("read", size).mean_s == 0.0
        assert math.isfinite(model.latency("read", size).error)


def test_a_size_with_a_single_depth_scales_like_its_neighbour():
    law = Law(100e-6, 1e9, servers=2)
    groups: list[Group] = [group("read", 4096, q, law(4096, q)) for q in DEPTHS]
    groups.append(group("read", 65536, 1, law(65536, 1)))
    result = Model(Storage("part", GRID, groups)).latency("read", 65536, depth=16)
    assert result.mean_s == pytest.approx(law(65536, 16), rel=1e-3)
    assert not result.measured
    assert result.error > 0.1

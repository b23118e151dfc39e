"""Random storages: reproducible by seed, within their bounds, and emulated as drawn."""

from dataclasses import replace

import numpy as np
import pytest

from spillcast.errors import SystemFailed
from spillcast.lab.storages import Emulated, emulated
from spillcast.recording.capture import PRELOAD
from spillcast_lab.kernel_slowed import KernelSlowed
from spillcast_lab.matrix import STORAGES, Plain, random_storages

SEEDS = range(200)


def test_a_seed_is_reproducible_and_seeds_differ():
    assert random_storages(7) == random_storages(7)
    assert random_storages(7) != random_storages(8)


def test_a_third_of_the_slow_storages_is_slowed_by_the_kernel():
    slow = [item for item in (*STORAGES, *random_storages(0)) if not isinstance(item, Plain)]
    assert 3 * sum(isinstance(item, KernelSlowed) for item in slow) == len(slow)
    assert len({item.name for item in slow}) == len(slow)


def test_parameters_are_within_the_requested_bounds():
    drawn = [item for seed in SEEDS for item in random_storages(seed)]
    for item in drawn:
        assert 0.0001 <= item.read_s <= 0.003
        assert 0.0001 <= item.write_s <= 0.003
        assert not item.s_per_byte or 0.5e-6 <= item.s_per_byte * 1024 <= 10e-6
    emulated = [item for item in drawn if isinstance(item, Emulated)]
    assert {item.servers for item in emulated} == {None, *range(1, 9)}
    assert all(0 <= item.sigma <= 0.8 for item in emulated)
    for has in (lambda o: o.s_per_byte > 0, lambda o: o.sigma > 0, lambda o: o.servers is not None):
        assert 0.3 < np.mean([has(item) for item in emulated]) < 0.8


def test_latencies_are_log_uniform_and_independent_for_reads_and_writes():
    drawn = [item for seed in SEEDS for item in random_storages(seed)]
    logs = np.log([[item.read_s, item.write_s] for item in drawn])
    middle = (np.log(0.0001) + np.log(0.003)) / 2
    # The standard error of a mean of 2,200 is 0.02.
    assert logs.mean(axis=0) == pytest.approx([middle, middle], abs=0.1)
    assert abs(np.corrcoef(logs.T)[0, 1]) < 0.1


def test_every_seed_has_a_storage_with_several_servers_and_a_cost_per_byte():
    for seed in SEEDS:
        assert any((item.servers or 0) > 1 and item.s_per_byte for item in random_storages(seed))


def test_a_spread_of_latencies_keeps_the_mean():
    item = Emulated("spread", 0.001, 0.002, sigma=0.5)
    for point in item.model.points:
        assert sum(point.latency_count) == len(point.latency_ns)
        mean_ns = {"read": 1e6, "write": 2e6}[point.op]
        assert np.mean(point.latency_ns) == pytest.approx(mean_ns, rel=1e-6)
        # A few quantiles of a distribution cover slightly less of its tails.
        assert np.log(point.latency_ns).std() == pytest.approx(0.5, rel=0.05)


def test_a_spread_of_latencies_needs_a_mount(tmp_path, monkeypatch):
    """The library that delays calls has a single latency for all reads."""

    def no_fuse(*_):
        raise SystemFailed("no FUSE here")

    monkeypatch.setattr("spillcast.lab.storages.emulate", no_fuse)
    fixed = Emulated("fixed", 0.001, 0.001)
    with emulated(fixed, tmp_path, tmp_path) as place:
        assert place.means == PRELOAD
    spread = replace(fixed, name="spread", sigma=0.5)
    with pytest.raises(SystemFailed), emulated(spread, tmp_path, tmp_path):
        pass

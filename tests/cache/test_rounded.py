"""Rounded distances give a curve within the requested error, and state their error."""

import numpy as np
import pytest
from bench.cache_traces import KINDS, write

from cases import cases
from io_made_up import access, oracle_general, requests
from spillcast import _core
from spillcast.cache.evidence import read_requests
from spillcast.cache.simulation import curve
from spillcast.errors import OptionConflict


def off(exact, result):
    """The mean difference over many sizes."""
    sizes = np.linspace(exact.lines / 20_000, exact.lines, 20_000)
    return np.abs(np.subtract(exact.miss_ratios(sizes), result.miss_ratios(sizes))).mean()


def slow_miss_ratios(keys, counts, runs):
    """Miss ratios of caches of 1, 2, ... lines, by a list with the last used line in front."""
    stack, distances = [], []
    for _ in range(runs):
        distances = []
        for key, counted in zip(keys, counts, strict=True):
            at = stack.index(key) if key in stack else None
            if at is not None:
                stack.pop(at)
            stack.insert(0, key)
            if counted:
                distances.append(at)
    hits = np.bincount([at for at in distances if at is not None], minlength=len(stack))
    return 1 - np.cumsum(hits) / len(distances)


@cases("seed", range(6))
def test_the_curve_equals_that_of_a_list(seed):
    """Alternating loops and a power law, with temp writes that use lines but do not count."""
    rng = np.random.default_rng(seed)
    pieces = []
    for _ in range(6):
        lines = int(rng.integers(50, 1000))
        loop = np.arange(1500) % lines + rng.integers(500)
        pieces.append(loop if rng.random() < 0.5 else np.minimum(rng.zipf(1.3, 1500), lines))
    keys = np.concatenate(pieces).tolist()
    temp = rng.random(len(keys)) < 0.2
    made = requests(
        [access(k, cls="temp write" if t else "read") for k, t in zip(keys, temp, strict=True)]
    )
    expected = slow_miss_ratios(keys, ~temp, runs=2)
    for error in (0.1, 0.01, 0.002):
        result = made.curve(error=error, temp_writes=True, runs=2)
        got = result.miss_ratios(range(1, len(expected) + 1))
        assert result.lines == len(expected) == len(set(keys))
        assert result.references == (~temp).sum()
        assert np.abs(expected - got).mean() <= result.error_max + 1e-9
        assert result.error_max <= error


@cases("kind", KINDS)
@pytest.mark.nightly
def test_the_stated_bound_holds_for_every_trace(tmp_path, kind):
    for seed in (20, 21):
        path = write(tmp_path / "t.oracleGeneral", kind, 300_000, seed)
        made = _core.CacheRequests.oracle_general(path)
        exact = made.curve()
        for error in (0.01, 0.002, 0.0005):
            result = made.curve(error=error)
            assert (result.references, result.lines) == (exact.references, exact.lines)
            # The slack is the half line by which straight pieces of the curve round.
            assert off(exact, result) <= result.error_max + 0.5 / exact.lines
            assert result.error_max <= error
            # Lines that are never used again have the same end as in the exact curve.
            assert result.miss_ratios([exact.lines]) == pytest.approx(
                exact.miss_ratios([exact.lines])
            )


def test_small_sizes_are_accurate(tmp_path):
    """1,000 of 300,000 lines have most uses: a cache for those counts as large enough."""
    rng = np.random.default_rng(3)
    ids = rng.integers(1, 300_001, 1_000_000)
    hot = rng.random(len(ids)) < 0.8
    ids[hot] = rng.integers(400_000, 401_000, hot.sum())
    path = oracle_general(tmp_path / "t.oracleGeneral", ids)
    made = _core.CacheRequests.oracle_general(path)
    sizes = [500, 1000, 2000, 4000]
    exact, result = made.curve(), made.curve(error=0.002)
    assert result.error_max > 0
    assert result.miss_ratios(sizes) == pytest.approx(exact.miss_ratios(sizes), abs=0.03)


def test_an_error_too_small_for_rounding_gives_the_exact_curve(tmp_path):
    result = curve(
        read_requests([str(write(tmp_path / "t.oracleGeneral", "mixed", 20_000, seed=1))]),
        error_points=0.001,
    )
    assert result.error_max == 0
    assert result.rate == 1


def test_a_rate_and_an_error_exclude_each_other(tmp_path):
    path = oracle_general(tmp_path / "t.oracleGeneral", [1, 2, 1])
    with pytest.raises(OptionConflict, match="--error follows all lines"):
        curve(read_requests([str(path)]), rate=0.1, error_points=0.2)

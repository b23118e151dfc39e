"""The CPU cost of a wait: by hand, reversed, and by the engine it was measured with."""

from dataclasses import replace
from math import exp, log

import numpy as np
import pytest

from cases import cases
from spillcast.recording.calibration import ANY, SHORT_S, MachineCalibration, WaitCost

#: A wait of 1 ms makes reading a part that takes 100 us take half as long again.
COST = WaitCost("any", 4, 0.3, [100e-6], [1e-3, 4e-3], [[0.5], [0.75]])


@cases(("warm_us", "extra_us"), [(0, 0), (100, 50 * (1 - exp(-1))), (1e5, 50)])
def test_the_cost_depends_on_the_work_after_the_wait(warm_us, extra_us):
    [result_s] = COST.extra_s(np.array([warm_us / 1e6]), 1e-3)
    assert result_s == pytest.approx(extra_us / 1e6)


def test_the_cost_grows_with_the_logarithm_of_the_wait():
    """Half way to 1 ms by log(1 + wait / 20 us) it is half; beyond 4 ms it still grows."""
    work_s = np.array([1.0])
    half_s = SHORT_S * (exp(log(1 + 1e-3 / SHORT_S) / 2) - 1)
    assert COST.extra_s(work_s, half_s) == pytest.approx(25e-6)
    assert COST.extra_s(work_s, 0.0) == pytest.approx(0.0)
    far, known = log(1 + 16e-3 / SHORT_S), [log(1 + w / SHORT_S) for w in (1e-3, 4e-3)]
    share = 0.5 + 0.25 * (far - known[0]) / (known[1] - known[0])
    assert COST.extra_s(work_s, 16e-3) == pytest.approx(100e-6 * share)


def test_the_cost_is_constant_beyond_the_longest_wait():
    work_s = np.array([1.0])
    assert COST.extra_s(work_s, 1.0) == COST.extra_s(work_s, 32e-3)


@cases("wait_s", [5e-6, 0.3e-3, 2e-3])
def test_adding_and_subtracting_the_cost_cancel_out(wait_s):
    warm_s = np.geomspace(1e-6, 1e-2, 200)
    after_s = warm_s + COST.extra_s(warm_s, wait_s)
    assert COST.warm_s(after_s, wait_s) == pytest.approx(warm_s, rel=0.01)


def test_bursts_start_from_their_own_waits():
    """Of two equal bursts, the one that had waited gets shorter, the other longer."""
    work_s = np.array([1.0 + 50e-6, 1.0])
    assert COST.moved_s(work_s, np.array([1e-3, 0.0]), 0.0) == pytest.approx(-25e-6, rel=0.01)
    assert COST.moved_s(work_s, np.array([1e-3, 0.0]), 1e-3) == pytest.approx(25e-6, rel=0.01)
    assert COST.moved_s(np.array([]), np.array([]), 1e-3) == 0.0


def cost(engine, version, queries):
    return WaitCost(engine, queries, 0.3, [1e-4], [1e-3], [[1.0]], version)


MEASURED = MachineCalibration(
    1.8e9,
    [cost("duckdb", "2.0.0", 1), cost("duckdb", "1.5.6", 2), cost("postgres", "18.6", 3),
     cost(ANY, "", 4)],
)  # fmt: skip


@cases(
    ("engine", "version", "queries"),
    [
        ("duckdb", "1.5.6", 2),
        ("duckdb", "2.0.0", 1),
        # Another version of the same engine takes precedence over other engines.
        ("duckdb", "1.4.0", 1),
        ("duckdb", None, 1),
        ("postgres", "18.6 (Debian 18.6-1.pgdg13+1)", 3),
        ("postgres", "15.18", 3),
        ("clickhouse", "25.8", 4),
    ],
)
def test_the_closest_measured_engine_is_used(engine, version, queries):
    assert MEASURED.cost_of(engine, version).queries == queries


def test_a_program_is_identified_by_its_temp_files():
    """A recorded command names no engine."""
    assert MEASURED.cost_of("process", None, "postgres").queries == 3
    assert MEASURED.cost_of("process", None, None).queries == 4
    assert MEASURED.cost_of("duckdb", "1.5.6", "postgres").queries == 2


def test_a_calibration_without_versions_applies_to_each():
    older = MachineCalibration(1.8e9, [replace(cost, version="") for cost in MEASURED.costs])
    assert older.cost_of("postgres", "18.6").queries == 3

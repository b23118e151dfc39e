"""Processes that share the work: formulas where there are any, a simulation where there is none."""

import heapq
import random

import pytest

from evidence import recording, storage
from spillcast.forecast import forecast
from spillcast.forecast.shared import Shared, repairman_s

MS = 1_000_000


@pytest.mark.parametrize("latency_s", [0.0, 1e-6, 0.001, 0.01])
def test_one_process_does_one_thing_after_the_other(latency_s):
    assert repairman_s(1, 2, 0.003, latency_s) == pytest.approx(0.003 + latency_s)


@pytest.mark.parametrize("processes", [2, 3, 8])
def test_with_a_cpu_for_each_they_go_on_side_by_side(processes):
    assert repairman_s(processes, processes, 0.003, 0.001) == pytest.approx(0.004 / processes)


@pytest.mark.parametrize(("processes", "cpus"), [(3, 2), (8, 2), (2, 4)])
def test_without_latency_only_cpus_limit(processes, cpus):
    assert repairman_s(processes, cpus, 0.003, 0.0) == 0.003 / min(processes, cpus)
    nearly = repairman_s(processes, cpus, 0.003, 1e-9)
    assert nearly == pytest.approx(0.003 / min(processes, cpus), rel=1e-3)


@pytest.mark.parametrize(
    ("processes", "cpus", "cpu_s", "latency_s"),
    [(3, 2, 0.001, 0.001), (3, 2, 0.001, 0.0003), (4, 1, 0.001, 0.002), (8, 2, 0.0005, 0.001)],
)
def test_a_simulation_agrees(processes, cpus, cpu_s, latency_s):
    expected = simulated_s(processes, cpus, cpu_s, latency_s)
    assert repairman_s(processes, cpus, cpu_s, latency_s) == pytest.approx(expected, rel=0.02)


def simulated_s(processes, cpus, cpu_s, latency_s, operations=200_000):
    """First come, first served; CPU times are random, latencies are not."""
    draw = random.Random(7).expovariate
    # When each CPU is free, and when each process comes back from its operation.
    free, back = [0.0] * cpus, [0.0] * processes
    for _ in range(operations):
        begin_s = max(heapq.heappop(back), heapq.heappop(free))
        end_s = begin_s + draw(1 / cpu_s)
        heapq.heappush(free, end_s)
        heapq.heappush(back, end_s + latency_s)
    return end_s / operations


def test_seconds_in_which_fewer_work_take_longer():
    together = Shared([(1000, 2.0)], 1000, 0.001, 4)
    in_turn = Shared([(500, 1.0), (500, 2.0)], 1000, 0.001, 4)
    assert together.elapsed_s(0.001) == pytest.approx(1.0)
    assert in_turn.elapsed_s(0.001) == pytest.approx(1.5)
    assert in_turn.processes == 1.5


def test_a_run_of_three_is_the_formula(tmp_path):
    """Three processes, a CPU for each: T_A + N * (L_B - L_A) / 3."""
    loads = [("write", 8192, 1000, MS), ("read", 8192, 1000, MS)]
    run = recording(tmp_path / "run.spill", loads, elapsed_s=4.0, cpu_s=6.0, sessions=3)
    there = storage({("read", 8192): 3 * MS, ("write", 8192): 2 * MS})
    said = forecast(run, there)
    assert said.forecast_s == pytest.approx(4.0 + 1000 * 0.002 + 1000 * 0.001)
    assert said.ceiling_s == pytest.approx(4.0 - 2000 * 0.001)
    assert sum(term.forecast_s for term in said.terms) == pytest.approx(said.forecast_s)
    assert sum(term.baseline_s for term in said.terms) == pytest.approx(4.0)

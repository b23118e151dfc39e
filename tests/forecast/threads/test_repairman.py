"""Threads that share cores: formulas, or a simulation without a formula, and a complete replay."""

import heapq
import random

import pytest

from cases import cases
from spillcast.forecast.workload.resources import repairman_s
from spillcast.forecast.workload.threads import Overlap


@cases("latency_s", [0.0, 1e-6, 0.001, 0.01])
def test_a_single_thread_alternates_work_and_waits(latency_s):
    assert repairman_s(1, 2, 0.003, latency_s) == pytest.approx(0.003 + latency_s)


@cases("threads", [2, 3, 8])
def test_with_a_core_per_thread_threads_run_in_parallel(threads):
    assert repairman_s(threads, threads, 0.003, 0.001) == pytest.approx(0.004 / threads)


@cases(("threads", "cores"), [(3, 2), (8, 2), (2, 4)])
def test_without_latency_only_cores_are_a_limit(threads, cores):
    assert repairman_s(threads, cores, 0.003, 0.0) == 0.003 / min(threads, cores)
    nearly = repairman_s(threads, cores, 0.003, 1e-9)
    assert nearly == pytest.approx(0.003 / min(threads, cores), rel=1e-3)


@cases(
    ("threads", "cores", "cpu_s", "latency_s"),
    [(3, 2, 0.001, 0.001), (3, 2, 0.001, 0.0003), (4, 1, 0.001, 0.002), (8, 2, 0.0005, 0.001)],
)
def test_the_formula_agrees_with_a_simulation(threads, cores, cpu_s, latency_s):
    expected = simulated_s(threads, cores, cpu_s, latency_s)
    assert repairman_s(threads, cores, cpu_s, latency_s) == pytest.approx(expected, rel=0.02)


def test_fractional_thread_counts_are_interpolated():
    two, three = (repairman_s(n, 2, 0.001, 0.002) for n in (2, 3))
    assert repairman_s(2.25, 2, 0.001, 0.002) == pytest.approx(0.75 * two + 0.25 * three)


def simulated_s(threads, cores, cpu_s, latency_s, operations=200_000):
    """First come, first served; CPU times are random, latencies are constant."""
    draw = random.Random(7).expovariate
    # When each core becomes free, and when each thread returns from its operation.
    free, back = [0.0] * cores, [0.0] * threads
    for _ in range(operations):
        begin_s = max(heapq.heappop(back), heapq.heappop(free))
        end_s = begin_s + draw(1 / cpu_s)
        heapq.heappush(free, end_s)
        heapq.heappush(back, end_s + latency_s)
    return end_s / operations


@cases("replayed_s", [None, 4.0, 8.5, 11.0])
def test_a_replay_does_not_choose_between_the_models(replayed_s):
    assert Overlap(1.0, 10.0, 8.0, replayed_s).elapsed_s == 8.0


def test_the_interval_covers_models_and_replay():
    assert Overlap(1.0, 10.0, 8.0).apart == pytest.approx(1.25)
    assert Overlap(1.0, 10.0, 8.0, 16.0).apart == pytest.approx(2.0)
    assert Overlap(1.0, 10.0, 8.0, 5.0).apart == pytest.approx(2.0)

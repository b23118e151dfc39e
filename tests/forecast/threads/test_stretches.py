"""A run in stretches: the threads at work in each and their times, against sampling by instants."""

import random

import numpy as np
import pytest

from cases import cases
from spillcast.forecast.workload.resources import STRETCHES, Cpus, Stretches
from spillcast.recording.thread_trace import NONE, ThreadTrace

ELAPSED_NS = 1_000_000_000
#: Samples per stretch, each in the middle of its part.
LOOKS = 200


def traced(rows):
    """Tuples (thread, start, CPU before, ready before, wait); all waits are temp I/O."""
    thread, start, cpu, ready, wait = (
        np.array(column, dtype=np.int64) for column in zip(*rows, strict=True)
    )
    none, yes = np.full(len(rows), NONE), np.ones(len(rows), dtype=bool)
    return ThreadTrace(
        thread, start, cpu, ready, wait, ~yes, none, none, yes, ~yes, yes, none,
        np.zeros_like(thread), none, np.full(len(rows), 8192), ~yes, cpu_known=True,
    )  # fmt: skip


def stretched(trace):
    """The stretches, if calls take no CPU time."""
    call_ns = np.zeros_like(trace.wait_ns)
    return Stretches(trace, ELAPSED_NS / 1e9, call_ns, Cpus(cores=2))


def random_rows(seed, threads=3):
    """Threads that work, wait for a core, block and idle, from some ns to most of a second."""
    draw = random.Random(seed)
    rows = []
    for thread in range(threads):
        now = draw.randrange(30_000_000)
        while True:
            cpu, ready, wait = (int(10 ** draw.uniform(1, 7.5)) for _ in range(3))
            if now + cpu + ready + wait >= ELAPSED_NS:
                break
            rows.append((thread, now + cpu + ready, cpu, ready, wait))
            now += cpu + ready + wait + draw.choice([0, 5_000_000])
    return sorted(rows, key=lambda row: row[1])


@cases("seed", [1, 2, 3])
def test_stretches_agree_with_sampling_by_instants(seed):
    rows = random_rows(seed)
    stretches = stretched(traced(rows))
    instants = (np.arange(STRETCHES * LOOKS) + 0.5) * ELAPSED_NS / STRETCHES / LOOKS
    at_work, waited = np.zeros(len(instants)), np.zeros(len(instants))
    for _, start, cpu, ready, wait in rows:
        at_work += (start - cpu - ready <= instants) & (instants < start + wait)
        waited += (start <= instants) & (instants < start + wait)
    by_stretch = at_work.reshape(STRETCHES, LOOKS)
    active = (by_stretch > 0).mean(axis=1)
    threads = by_stretch.sum(axis=1) / np.maximum((by_stretch > 0).sum(axis=1), 1)
    assert stretches.active_s == pytest.approx(active / STRETCHES, abs=0.02 / STRETCHES)
    assert stretches.threads[active > 0.2] == pytest.approx(threads[active > 0.2], abs=0.1)
    wait_s = np.array([row[4] for row in rows]) / 1e9
    waits_s = waited.reshape(STRETCHES, LOOKS).mean(axis=1) / STRETCHES
    assert stretches.of_waits(wait_s) == pytest.approx(waits_s, abs=0.06 / STRETCHES)
    assert stretches.of_waits(wait_s).sum() == pytest.approx(wait_s.sum())
    cpu_s = np.array([row[2] for row in rows]) / 1e9
    assert stretches.of_work(cpu_s).sum() == pytest.approx(cpu_s.sum())


def test_a_wait_without_duration_belongs_to_its_instant():
    stretches = stretched(traced([(0, ELAPSED_NS // 2 + 1, 0, 0, 0)]))
    counts = stretches.of_waits(np.ones(1))
    assert counts[STRETCHES // 2] == counts.sum() == 1


def test_time_of_other_work_on_the_cpus_does_not_grow_with_waits():
    """Two threads, each with a wait of 10 us after 1 ms on a core and 3 ms beside other work."""
    step, cpu, ready, wait = 4_010_000, 1_000_000, 3_000_000, 10_000
    rows = [(thread, at + cpu + ready, cpu, ready, wait)
            for at in range(0, ELAPSED_NS - step, step) for thread in (0, 1)]  # fmt: skip
    trace = traced(rows)
    cpus = Cpus(cores=2)
    recorded_s, slow_s = (
        stretched(trace).elapsed_s(trace.wait_ns * times, trace.cpu_ns, cpus) for times in (1, 1000)
    )
    added_s = len(rows) / 2 * wait * 999 / 1e9
    assert recorded_s == pytest.approx(ELAPSED_NS / 1e9)
    assert slow_s == pytest.approx(ELAPSED_NS / 1e9 + added_s, rel=0.01)

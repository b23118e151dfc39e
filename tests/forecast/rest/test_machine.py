"""CPU time of caches that go cold: no more than what the work between waits goes through."""

import numpy as np
import pytest

from evidence import change, recording
from spillcast.calibrated import calibrated
from spillcast.forecast.latency import Latency
from spillcast.forecast.load import temp_load
from spillcast.forecast.rest.machine import machine_change
from spillcast.recording.meta import CpuCache, Machine

US, MS = 1_000, 1_000_000
TOUCHED = calibrated().touched
#: Nothing is added after no wait, 100 us after 1 ms, 200 us after 5 ms; a pass takes 100 us.
CACHE = CpuCache(8 << 20, 100 * US, [(1 * MS, 100 * US), (5 * MS, 200 * US)])
MACHINE = Machine(caches=[CACHE])
#: A smaller one, all of which any wait makes cold.
OWN = CpuCache(1 << 20, 10 * US, [(100 * US, 20 * US), (5 * MS, 20 * US)])
COUNT = 1000


def drift_s(tmp_path, here_ns, there_ns, *, passes, machine=MACHINE):
    """Of a run that goes through so many times the cache between two waits, and waits for 60 s."""
    run = recording(
        tmp_path / "run.spill",
        [("read", 8192, COUNT, here_ns)],
        elapsed_s=60.0,
        cpu_s=COUNT * passes * 100e-6 / TOUCHED,
    )
    change(run, machine=machine)
    nothing = np.zeros((0, 2))
    there = Latency(there_ns / 1e9, nothing, 0.0, True, False)
    return machine_change(run, temp_load(run), [there]).total_s


@pytest.mark.parametrize(
    ("here_ns", "there_ns", "extra_us"),
    [(0, MS, 100), (MS, 5 * MS, 100), (5 * MS, 0, -200), (MS, 3 * MS, 50), (0, 20 * MS, 200)],
)
def test_a_thread_that_works_long_meets_all_of_it_cold(tmp_path, here_ns, there_ns, extra_us):
    found = drift_s(tmp_path, here_ns, there_ns, passes=10)
    assert found == pytest.approx(COUNT * extra_us * 1e-6)


def test_a_thread_that_works_shortly_meets_a_part(tmp_path):
    found = drift_s(tmp_path, 0, MS, passes=0.2)
    assert found == pytest.approx(COUNT * 0.2 * 100e-6)


@pytest.mark.parametrize("passes", [0.05, 0.3, 1.0])
def test_there_and_back_again(tmp_path, passes):
    """What is added on the way to slow storage is taken off on the way back from there."""
    added_s = drift_s(tmp_path, 0, 5 * MS, passes=passes)
    work_s = COUNT * passes * 100e-6 / TOUCHED + added_s
    back_s = drift_s(tmp_path, 5 * MS, 0, passes=work_s * TOUCHED / (COUNT * 100e-6))
    assert back_s == pytest.approx(-added_s)


def test_what_several_caches_cost_adds_up(tmp_path):
    """A fifth of the larger is gone through, and all of the smaller, which has a tenth of it."""
    found = drift_s(tmp_path, 0, MS, passes=0.2, machine=Machine(caches=[OWN, CACHE]))
    assert found == pytest.approx(COUNT * (0.2 * 100e-6 + 20e-6))


def test_back_from_slow_storage_what_several_cost_is_gone(tmp_path):
    both = Machine(caches=[OWN, CACHE])
    added_s = drift_s(tmp_path, 0, MS, passes=0.2, machine=both)
    # As long as 20 us of reading take the query, and what was added.
    passes = 0.2 + added_s * TOUCHED / (COUNT * 100e-6)
    assert drift_s(tmp_path, MS, 0, passes=passes, machine=both) == pytest.approx(-added_s)


def test_nothing_measured_nothing_said(tmp_path):
    assert drift_s(tmp_path, 0, MS, passes=1, machine=Machine()) == 0.0

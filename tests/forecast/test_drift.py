"""CPU time of caches that go cold: half the usual cost, and no more than the work between waits."""

import numpy as np
import pytest

from evidence import recording
from spillcast.forecast.drift import cpu_drift_s
from spillcast.forecast.latency import Latency
from spillcast.forecast.load import temp_load

US, MS = 1_000, 1_000_000
#: Nothing is added after no wait, 100 us after 1 ms, 200 us after 5 ms; the most is ten times that.
COLD_NS = [(1 * MS, 100 * US, 1000 * US), (5 * MS, 200 * US, 2000 * US)]
COUNT = 1000


def drift_s(tmp_path, here_ns, there_ns, *, cpu_s, machine):
    run = recording(
        tmp_path / "run.spill", [("read", 8192, COUNT, here_ns)], elapsed_s=60.0, cpu_s=cpu_s
    )
    run.meta["machine"].update(machine)
    nothing = np.zeros((0, 2))
    there = Latency(there_ns / 1e9, nothing, 0.0, True, False, nothing)
    likely_s, most_s = cpu_drift_s(run, temp_load(run), [there])
    return COUNT * likely_s[0], COUNT * most_s[0]


def measured(warm_ns):
    return {"cold_cache_ns": COLD_NS, "warm_cache_ns": (warm_ns, 10 * warm_ns)}


@pytest.mark.parametrize(
    ("here_ns", "there_ns", "extra_us"),
    [(0, MS, 100), (MS, 5 * MS, 100), (5 * MS, 0, -200), (MS, 3 * MS, 50), (0, 20 * MS, 200)],
)
def test_a_thread_that_works_long_meets_all_of_it_cold(tmp_path, here_ns, there_ns, extra_us):
    """30 ms of work between two waits, and a pass takes 0.1 ms."""
    drift = drift_s(tmp_path, here_ns, there_ns, cpu_s=30.0, machine=measured(100 * US))
    assert drift == pytest.approx((COUNT * extra_us * 1e-6 / 2, COUNT * extra_us * 1e-5))


def test_a_thread_that_works_shortly_meets_a_part(tmp_path):
    """20 us of work, and a pass takes 100 us: a fifth of it."""
    drift = drift_s(tmp_path, 0, MS, cpu_s=0.02, machine=measured(100 * US))
    assert drift == pytest.approx((COUNT * 20e-6 / 2, COUNT * 20e-6))


def test_work_was_longer_where_caches_were_cold_already(tmp_path):
    """20 us of work after waits of 1 ms, where a pass takes 100 + 100 us: a tenth of it."""
    usual, _ = drift_s(tmp_path, MS, 0, cpu_s=0.02, machine=measured(100 * US))
    assert usual == pytest.approx(-COUNT * 10e-6 / 2)


def test_nothing_measured_nothing_said(tmp_path):
    assert drift_s(tmp_path, 0, MS, cpu_s=1.0, machine={}) == (0.0, 0.0)

"""CPU time of caches that go cold: half the usual cost, and no more than the work between waits."""

import random

import numpy as np
import pytest

from evidence import CAPTURE, recording, seconds, table
from spillcast.forecast.drift import FELT, PASSING, cpu_drift_s, felt
from spillcast.forecast.latency import Latency
from spillcast.forecast.load import temp_load
from spillcast.recording.response import responses
from spillcast.recording.schema import WAITS_SCHEMA
from spillcast.recording.writer import RecordingWriter

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
    likely_s, most_s = cpu_drift_s(run, temp_load(run), [there], "not known")
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


def perturbed(tmp_path, extra_ns):
    """Ten groups of 64 operations in a hundred had 1 ms more, and took ``extra_ns`` more CPU."""
    delayed = [group for group in range(100) if group % 10 == 3]
    writer = RecordingWriter(tmp_path / "perturbed.spill")
    rng = random.Random(1)
    rows, windows, now_ns, cpu_ns = [], [], 0, 0
    for group in range(100):
        start_ns = now_ns
        for _ in range(64):
            rows.append(
                {
                    "start_ns": now_ns, "elapsed_ns": 1000, "session": 1, "event": "pread64",
                    "op": "read", "temp": True, "bytes": 8192, "cpu_before_ns": cpu_ns,
                }
            )  # fmt: skip
            cpu_ns = rng.randrange(90_000, 110_000) + extra_ns * (group in delayed)
            now_ns += 1000 + cpu_ns
        if group in delayed:
            windows.append([start_ns / 1e9, now_ns / 1e9, 1e-3])
    writer.add_waits(table(rows, WAITS_SCHEMA))
    writer.add_seconds(seconds([("read", 8192, 6400, 1000)], 1))
    meta = {
        "elapsed_s": 60.0,
        "cpu_s": 10.0,
        "machine": {"cold_cache_ns": COLD_NS, "warm_cache_ns": (100 * US, 1000 * US)},
        "temp": {"reads": 6400, "writes": 0},
        "capture": CAPTURE | {"method": "preload"},
        "perturbation": {
            "windows_s": windows,
            "delays": [{"delay_s": 1e-3, "operations": 640, "slept_s": 0.64, "cpu_s": 0.0}],
        },
    }
    return writer.finish(meta)


@pytest.mark.parametrize("extra_us", [0, 50, 100])
def test_the_response_to_a_delay_is_found(tmp_path, extra_us):
    (found,) = responses(perturbed(tmp_path, extra_us * US))
    assert found.delay_s == 1e-3
    assert found.extra_cpu_s == pytest.approx(extra_us * 1e-6, abs=1e-6)
    assert found.error_s < 1e-6


@pytest.mark.parametrize(("extra_us", "measured"), [(0, 0.0), (100, 1.0)])
def test_a_measured_share_counts_beside_the_assumed_one(tmp_path, extra_us, measured):
    """1 ms costs 100 us on the machine; both shares weigh as the inverse square of their errors."""
    run = perturbed(tmp_path, extra_us * US)
    weights = 1 / PASSING**2, 12.0
    share = (weights[0] * measured + weights[1] * FELT) / sum(weights)
    assert felt(run, temp_load(run)) == pytest.approx(share, abs=0.02)


def test_without_delays_half_is_taken_and_the_reason_given(tmp_path):
    run = recording(tmp_path / "run.spill", [("read", 8192, COUNT, MS)], elapsed_s=60.0)
    assert felt(run, temp_load(run)) == "the run was not perturbed"

"""The slope of CPU time over wait time, in a run whose waits differ."""

from math import log

import numpy as np
import pytest

from evidence import known, table
from spillcast.calibrated import calibrated
from spillcast.forecast.cpu import cpu_slope
from spillcast.forecast.workload.load import Load
from spillcast.recording.calibration import SHORT_S
from spillcast.recording.schema import WAITS
from spillcast.recording.writer import RecordingWriter
from spillcast.storage.model import Estimate

COUNT, SLOPE_S = 4000, 20e-6
#: The part of an operation's latency that copies its 8 KiB from memory.
COPIED_S = calibrated().memory_s + 8192 / calibrated().memory_bytes_per_s


def ran(path, waits_s, work_s, *, slope_s=SLOPE_S):
    """Reads in sequence, each followed by its work and the CPU cost of its wait."""
    rows, now_ns, before_ns = [], 0, 0
    for wait_s, each_s in zip(waits_s, work_s, strict=True):
        latency_ns = round((wait_s + COPIED_S) * 1e9)
        rows.append(
            {
                "start_ns": now_ns, "elapsed_ns": latency_ns, "session": 1,
                "event": "read", "op": "read", "temp": True, "bytes": 8192,
                "cpu_before_ns": before_ns,
            }
        )  # fmt: skip
        before_ns = round((each_s + slope_s * log(1 + wait_s / SHORT_S)) * 1e9)
        now_ns += latency_ns + before_ns
    writer = RecordingWriter(path)
    writer.add_waits(table(rows, WAITS))
    return writer.finish(known(now_ns / 1e9, len(rows), 0))


def requested(run, target_s, waits_s):
    load = Load("read", 8192, COUNT, COUNT * 8192, float(np.sum(waits_s)) + len(waits_s) * COPIED_S)
    slope = cpu_slope(run.work.bursts)
    target = Estimate(target_s + COPIED_S)
    return None if slope is None else slope.change([load], [target])


@pytest.fixture
def chance():
    return np.random.default_rng(7)


@pytest.mark.parametrize(("target_s", "most"), [(0.0, 0.35), (5e-3, 0.4)])
def test_the_cost_of_waits_is_estimated_from_the_run(tmp_path, chance, target_s, most):
    """Half of the reads are served by a cache; work of 0.1 ms varies by a tenth."""
    waits_s = np.where(chance.random(COUNT) < 0.5, 5e-6, 1e-3)
    run = ran(tmp_path / "run.spill", waits_s, chance.normal(100e-6, 10e-6, COUNT))
    result = requested(run, target_s, waits_s)
    weights = np.log1p(waits_s / SHORT_S)
    right_s = SLOPE_S * COUNT * (log(1 + target_s / SHORT_S) - weights.mean())
    assert result.total_s == pytest.approx(right_s, rel=0.03)
    # 5 ms is longer than any wait of the run; the run covers less than half of the distance.
    assert 0.3 * abs(right_s) <= result.error_s < most * abs(right_s)


def test_other_work_in_another_phase_is_not_a_cost_of_waits(tmp_path, chance):
    """The second half has longer waits and more work, for reasons unrelated to each other."""
    late = np.arange(COUNT) >= COUNT / 2
    waits_s = np.where(late, 2e-3, 0.5e-3) * chance.uniform(0.8, 1.2, COUNT) - COPIED_S
    work_s = np.where(late, 400e-6, 100e-6) + chance.normal(0, 5e-6, COUNT)
    result = requested(ran(tmp_path / "run.spill", waits_s, work_s, slope_s=0.0), 0.0, waits_s)
    # Believing it would mean 0.3 ms per read.
    assert abs(result.total_s) < 0.1 * 300e-6 * COUNT
    assert abs(result.total_s) < 3 * result.error_s


def test_equal_waits_give_no_estimate_or_a_large_error(tmp_path, chance):
    waits_s = np.full(COUNT, 1e-3)
    assert requested(ran(tmp_path / "a.spill", waits_s, np.full(COUNT, 1e-4)), 0.0, waits_s) is None
    waits_s *= chance.normal(1, 0.01, COUNT)
    result = requested(
        ran(tmp_path / "b.spill", waits_s, chance.normal(1e-4, 3e-5, COUNT)), 0.0, waits_s
    )
    assert result.error_s > SLOPE_S * COUNT * log(51)


def test_too_few_waits_give_no_estimate(tmp_path):
    assert requested(ran(tmp_path / "run.spill", [1e-3] * 100, [1e-4] * 100), 0.0, [1e-3]) is None


def test_waits_outside_the_observed_range_have_a_large_error(tmp_path, chance):
    """What goes cold in 0.2 ms costs no more in 0.4 ms: the run itself shows no slope."""
    waits_s = chance.uniform(0.2e-3, 0.4e-3, COUNT)
    work_s = 100e-6 + np.where(waits_s > 0, 30e-6, 0) + chance.normal(0, 1e-6, COUNT)
    result = requested(ran(tmp_path / "run.spill", waits_s, work_s, slope_s=0.0), 0.0, waits_s)
    right_s = -30e-6 * COUNT
    assert abs(result.total_s) < 0.1 * abs(right_s)
    assert result.error_s > 0.5 * abs(right_s)

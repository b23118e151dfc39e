"""The CPU time of cold caches, from a calibration or else from a loop over memory."""

from math import exp

import pytest

from cases import cases
from evidence import change, known, recording, storage, table
from spillcast.calibrated import calibrated
from spillcast.forecast import forecast
from spillcast.forecast.cpu import GUESS_ERROR, TOUCHED_SHARE, machine_change
from spillcast.forecast.workload.load import Load
from spillcast.forecast.workload.recorded import cpu_time, recorded_loads
from spillcast.recording.calibration import MachineCalibration, WaitCost
from spillcast.recording.meta import CpuCache, Machine
from spillcast.recording.schema import WAITS
from spillcast.recording.writer import RecordingWriter
from spillcast.storage.model import Estimate

US, MS = 1_000, 1_000_000
#: Nothing is added after no wait, 100 us after 1 ms, 200 us after 5 ms; a pass takes 100 us.
CACHE = CpuCache(8 << 20, 100 * US, [(1 * MS, 100 * US), (5 * MS, 200 * US)])
MACHINE = Machine(caches=[CACHE])
#: A smaller cache, which any wait makes entirely cold.
PRIVATE_CACHE = CpuCache(1 << 20, 10 * US, [(100 * US, 20 * US), (5 * MS, 20 * US)])
#: A part of memory that takes 1 us to read, and 100 us more after a wait of 1 ms.
COST = WaitCost("any", 9, 0.3, [1e-6], [1e-3, 3e-3], [[100.0], [150.0]])
CALIBRATED = Machine(caches=[CACHE], calibration=MachineCalibration(1.8e9, [COST]))
COUNT = 1000
#: The part of an operation's latency that copies its 8 KiB from memory.
COPIED_NS = 1e9 * (calibrated().memory_s + 8192 / calibrated().memory_bytes_per_s)


def cpu_of(run):
    return cpu_time(run, rehearsed=False)


def latency_ns(wait_ns):
    """The latency of an operation in which the thread waits for ``wait_ns``."""
    return wait_ns + COPIED_NS


def moved(tmp_path, source_ns, target_ns, *, cpu_s, machine):
    """How the CPU time of a 60 s run changes if its operations waited for ``source_ns`` each."""
    loads = [("read", 8192, COUNT, round(latency_ns(source_ns)))]
    run = recording(tmp_path / "run.spill", loads, elapsed_s=60.0, cpu_s=cpu_s)
    change(run, machine=machine)
    target = Estimate(latency_ns(target_ns) / 1e9)
    return machine_change(cpu_of(run), recorded_loads(run), [target])


def drift_s(tmp_path, source_ns, target_ns, *, passes, machine=MACHINE):
    """The change for a run that passes over the cache ``passes`` times between two waits."""
    cpu_s = COUNT * passes * 100e-6 / TOUCHED_SHARE
    return moved(tmp_path, source_ns, target_ns, cpu_s=cpu_s, machine=machine).total_s


@cases(("target_ns", "extra_us"), [(0, 0), (MS, 100), (3 * MS, 150)])
def test_the_calibrated_cost_is_added(tmp_path, target_ns, extra_us):
    result = moved(tmp_path, 0, target_ns, cpu_s=COUNT * 400e-6, machine=CALIBRATED)
    assert result.total_s == pytest.approx(COUNT * extra_us * 1e-6, rel=0.01, abs=1e-6)
    assert result.error_s == pytest.approx(0.3 * abs(result.total_s))


def test_the_calibrated_cost_on_the_source_is_subtracted_first(tmp_path):
    """400 us of work include what a wait of 1 ms added; without a wait only the rest remains."""
    result = moved(tmp_path, MS, 0, cpu_s=COUNT * 500e-6, machine=CALIBRATED)
    assert result.total_s == pytest.approx(-COUNT * 100e-6, rel=0.01)


def test_threads_that_share_cores_have_cold_caches_on_either_storage(tmp_path):
    """With four threads on two cores, half of the waits give the core to another of them."""
    run = recording(tmp_path / "run.spill", [("read", 8192, COUNT, MS)], elapsed_s=9.0, cpu_s=0.5)
    change(run, machine=CALIBRATED)
    target = [Estimate(0.0)]
    alone, shared = (
        machine_change(cpu_of(run), recorded_loads(run), target, each) for each in (1.0, 0.5)
    )
    assert shared.total_s == pytest.approx(alone.total_s / 2)
    assert shared.error_s == pytest.approx(alone.error_s / 2)


def test_the_cost_is_summed_per_burst(tmp_path):
    """Half of the work is too short for the whole cache: 0.1 us touches a tenth of the part."""
    rows = [
        {
            "start_ns": n * MS, "elapsed_ns": 10, "session": 1, "event": "pread64", "op": "read",
            "temp": True, "bytes": 8192, "cpu_before_ns": (100, 400 * US)[n % 2],
        }
        for n in range(COUNT + 1)
    ]  # fmt: skip
    writer = RecordingWriter(tmp_path / "run.spill")
    writer.add_waits(table(rows, WAITS))
    run = writer.finish(known(60.0, COUNT, 0, cpu_s=1.0))
    change(run, machine=CALIBRATED)
    load = Load("read", 8192, COUNT, COUNT * 8192, COUNT * 10e-9)
    target = Estimate(1e-3)
    result = machine_change(cpu_of(run), [load], [target])
    assert result.total_s == pytest.approx(COUNT / 2 * 100e-6 * (1 + 1 - exp(-0.1)), rel=0.02)


def test_the_estimate_from_the_loop_has_a_large_error(tmp_path):
    result = moved(tmp_path, 0, MS, cpu_s=60.0, machine=MACHINE)
    assert result.error_s == pytest.approx(GUESS_ERROR * result.total_s)
    assert GUESS_ERROR > 0.5


@cases(
    ("source_ns", "target_ns", "extra_us"),
    [(0, MS, 100), (MS, 5 * MS, 100), (5 * MS, 0, -200), (MS, 3 * MS, 50), (0, 20 * MS, 200)],
)
def test_long_work_meets_the_whole_cache_cold(tmp_path, source_ns, target_ns, extra_us):
    result = drift_s(tmp_path, source_ns, target_ns, passes=10)
    assert result == pytest.approx(COUNT * extra_us * 1e-6, rel=1e-4)


def test_short_work_meets_a_part_of_the_cache_cold(tmp_path):
    result = drift_s(tmp_path, 0, MS, passes=0.2)
    assert result == pytest.approx(COUNT * 0.2 * 100e-6, rel=1e-4)


@cases("passes", [0.05, 0.3, 1.0])
@cases("machine", [MACHINE, CALIBRATED])
def test_the_change_and_its_reverse_cancel_out(tmp_path, passes, machine):
    """What the change to slow storage adds, the change back subtracts."""
    added_s = drift_s(tmp_path, 0, 5 * MS, passes=passes, machine=machine)
    work_s = COUNT * passes * 100e-6 / TOUCHED_SHARE + added_s
    back = passes * work_s / (work_s - added_s)
    back_s = drift_s(tmp_path, 5 * MS, 0, passes=back, machine=machine)
    assert back_s == pytest.approx(-added_s, rel=1e-4)


def test_costs_of_several_caches_add_up(tmp_path):
    """Work touches a fifth of the larger cache and all of the smaller, a tenth of its size."""
    result = drift_s(tmp_path, 0, MS, passes=0.2, machine=Machine(caches=[PRIVATE_CACHE, CACHE]))
    assert result == pytest.approx(COUNT * (0.2 * 100e-6 + 20e-6), rel=1e-3)


def test_the_change_back_from_slow_storage_subtracts_the_cost_of_each_cache(tmp_path):
    both = Machine(caches=[PRIVATE_CACHE, CACHE])
    added_s = drift_s(tmp_path, 0, MS, passes=0.2, machine=both)
    # Between two waits: 20 us of reading memory, and the added cost.
    passes = 0.2 + added_s * TOUCHED_SHARE / (COUNT * 100e-6)
    assert drift_s(tmp_path, MS, 0, passes=passes, machine=both) == pytest.approx(
        -added_s, rel=1e-4
    )


def test_without_a_measured_cache_nothing_is_added(tmp_path):
    assert drift_s(tmp_path, 0, MS, passes=1, machine=Machine()) == 0.0


def answer(tmp_path, machine, target_ns):
    run = recording(
        tmp_path / "run.spill", [("read", 8192, COUNT, 5 * MS)], elapsed_s=7.0, cpu_s=2.0
    )
    change(run, machine=machine)
    return forecast(run, storage({("read", 8192): target_ns}))


def test_a_forecast_says_that_the_machine_was_never_calibrated(tmp_path):
    """By the loop, 200 us of each 2 ms operation disappear, a tenth of the forecast."""
    guessed, known = (answer(tmp_path, machine, 10 * US) for machine in (MACHINE, CALIBRATED))
    (warning,) = [item.next_step for item in guessed.warnings if item.code == "uncalibrated"]
    assert "spillcast calibrate" in warning
    assert "uncalibrated" not in [item.code for item in known.warnings]


def test_equal_waits_give_no_calibration_warning(tmp_path):
    assert "uncalibrated" not in [item.code for item in answer(tmp_path, MACHINE, 5 * MS).warnings]


@cases("size", [8192, 65536, 1 << 20])
def test_a_call_that_copies_data_is_not_a_wait(tmp_path, size):
    """However large operations are, answers from memory leave the caches as they are."""
    run = recording(tmp_path / "run.spill", [("read", size, COUNT, MS)], elapsed_s=9.0, cpu_s=0.5)
    change(run, machine=CALIBRATED)
    in_memory_s = calibrated().memory_s + size / calibrated().memory_bytes_per_s
    none, copied = (
        machine_change(cpu_of(run), recorded_loads(run), [Estimate(s)]) for s in (0.0, in_memory_s)
    )
    assert none.total_s < 0
    assert copied.total_s == pytest.approx(none.total_s)

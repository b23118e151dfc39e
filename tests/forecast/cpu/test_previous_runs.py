"""The CPU time of an earlier run on other storage as an estimate, checked by hand."""

from dataclasses import replace

import pytest

from cases import cases
from evidence import change, change_on_disk, storage
from forecast.threads.test_overlap import MS, US, recorded, turn
from spillcast.forecast import forecast
from spillcast.forecast.cpu import previous_runs_change, spinning_s
from spillcast.forecast.previous_runs import reason_against
from spillcast.forecast.remaining import hints_of
from spillcast.forecast.workload import CpuTime, PreviousRun
from spillcast.forecast.workload.load import NO_LATENCY, Load
from spillcast.recording.calibration import WaitCost
from spillcast.recording.meta import ObservedEngine

COUNT = 1000
LOADS = [Load("read", 8192, COUNT, 8192 * COUNT, COUNT * 1.5e-3)]
PREVIOUS = PreviousRun(1.8, {"read": 10e-6})


def at(mean_s):
    return [replace(NO_LATENCY, mean_s=mean_s)]


def test_the_storage_of_the_earlier_run_gives_its_cpu_time():
    cpu = CpuTime(total_s=2.0, previous_runs=[PREVIOUS])
    previous = previous_runs_change([PREVIOUS], cpu, LOADS, at(10e-6))
    assert previous.total_s == pytest.approx(-0.2)
    # Each of the two runs of 2 s has an error of 2 %.
    assert previous.error_s == pytest.approx(2**0.5 * 0.02 * 2.0)
    assert previous_runs_change([PREVIOUS], cpu, LOADS, at(1.5e-3)).total_s == pytest.approx(0.0)
    beyond = previous_runs_change([PREVIOUS], cpu, LOADS, at(6e-3))
    assert 0 < beyond.total_s < 0.2
    # Neither run has waits this long, so CPU time may change more than the line says.
    assert beyond.error_s > beyond.total_s
    between = previous_runs_change([PREVIOUS], cpu, LOADS, at(0.3e-3))
    # Monotone between -0.2 s and 0 s, closer to the recording.
    assert previous.error_s < between.error_s < -between.total_s * 1.2 < 0.12


def test_cpu_time_beyond_the_cost_of_waits_is_spinning():
    cpu = CpuTime(total_s=4.1, wait_cost=WaitCost("any", 4, 0.3, [1e-3], [1.5e-3], [[0.1]]),
                  between_s=4.1e-3)  # fmt: skip
    run = replace(PREVIOUS, cpu_s=1.4)
    spun_s = spinning_s([run], cpu, LOADS, 1.0)
    # At most 0.1 ms of each 4.1 ms is the cost of a wait.
    assert spun_s == pytest.approx(4.1 - 0.1 - 1.4, abs=0.02)
    assert previous_runs_change([run], replace(cpu, spun_s=spun_s), LOADS, at(10e-6)) is None
    # No spinning if the runs differ only by chance, or if the earlier storage was slower.
    assert spinning_s([replace(PREVIOUS, cpu_s=4.0)], cpu, LOADS, 1.0) == 0
    assert spinning_s([PreviousRun(1.4, {"read": 9e-3})], cpu, LOADS, 1.0) == 0


def run_of(path, read_ns, cpu_s, turns=300):
    rows = [turn(1, (n + 1) * MS + n * read_ns, read_ns, MS, n) for n in range(turns)]
    run = recorded(path, rows, elapsed_ns=turns * (MS + read_ns), latency_ns=read_ns)
    change(run, cpu_s=cpu_s)
    change_on_disk(run, cpu_s=cpu_s)
    return run


def test_a_recording_is_forecast_with_the_cpu_time_of_an_earlier_one(tmp_path):
    """CPU time is 0.3 s on storage of 2 ms and 0.2 s in memory; so is the forecast for memory."""
    slow, fast = (
        run_of(tmp_path / "a.spill", 2 * MS, 0.3),
        run_of(tmp_path / "b.spill", 10 * US, 0.2),
    )
    memory = storage({("read", 4096): 10 * US})
    known = hints_of([fast.path])
    answer, alone = forecast(slow, memory, known=known), forecast(slow, memory)
    assert answer.forecast_s == pytest.approx(0.203, abs=0.02)
    assert alone.forecast_s > answer.forecast_s + 0.05
    only = forecast(slow, memory, known=known, without=["history"])
    assert only.forecast_s == pytest.approx(alone.forecast_s)


@cases(("read_ns", "turns"), [(2 * MS, 300), (10 * US, 200)])
def test_an_equally_fast_or_different_earlier_run_is_ignored_for_cpu(tmp_path, read_ns, turns):
    slow, other = run_of(tmp_path / "a.spill", 2 * MS, 0.3), tmp_path / "b.spill"
    run_of(other, read_ns, 0.2, turns)
    memory = storage({("read", 4096): 10 * US})
    answer = forecast(slow, memory, known=hints_of([other]))
    assert answer.forecast_s == forecast(slow, memory).forecast_s


@cases(
    ("before", "now", "differs"),
    [({"work_mem": "4MB"}, {"work_mem": "64MB"}, True), ({"work_mem": "4MB"}, {}, False),
     ({}, {"work_mem": "4MB"}, False), ({"work_mem": "4MB"}, {"work_mem": "4MB"}, False)],
)  # fmt: skip
def test_runs_are_comparable_unless_known_work_memory_differs(tmp_path, before, now, differs):
    runs = [run_of(tmp_path / f"{at}.spill", 2 * MS, 0.3, turns=3) for at in "ab"]
    for run, settings in zip(runs, (before, now), strict=True):
        change(run, engine=ObservedEngine("PostgreSQL", query="select 1", settings=settings))
    previous, recorded = runs
    assert (reason_against(previous, recorded.engine) is not None) == differs

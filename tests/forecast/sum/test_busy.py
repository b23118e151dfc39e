"""Only time that other processes took makes a forecast uncertain, not the query's own threads."""

from dataclasses import replace

import pytest

from cases import cases
from evidence import change, recording, storage
from spillcast.forecast import forecast
from spillcast.forecast.project import _terms as terms_of
from spillcast.forecast.projection import baseline_of, projection
from spillcast.forecast.query import workload_of_recording
from spillcast.forecast.result import RUN_QUEUE
from spillcast.recording.meta import Machine

MS = 1_000_000
LOADS = [("write", 8192, 100, MS), ("read", 8192, 100, MS)]
TARGET = storage({("write", 8192): MS, ("read", 8192): MS})
#: Three processes on two CPUs: in 2 s they use 3.4 s of CPU time and wait 1.6 s for a CPU.
SESSIONS, ELAPSED_S, CPU_S, DELAY_S = 3, 2.0, 3.4, 1.6


def made(path, *, others_s, cpus=2):
    run = recording(
        path, LOADS, elapsed_s=ELAPSED_S, cpu_s=CPU_S, sessions=SESSIONS, run_queue_delay_s=DELAY_S
    )
    capture = replace(run.meta.capture, run_queue_others_s=others_s)
    change(run, machine=Machine(cpus=cpus), capture=capture)
    return run


def codes(answer):
    return [warning.code for warning in answer.warnings]


def test_waiting_for_its_own_workers_is_not_a_busy_machine(tmp_path):
    quiet = recording(tmp_path / "q.spill", LOADS, elapsed_s=ELAPSED_S, cpu_s=CPU_S, sessions=3)
    change(quiet, machine=Machine(cpus=2))
    private = forecast(made(tmp_path / "own.spill", others_s=0.0), TARGET)
    assert private.interval_s == pytest.approx(forecast(quiet, TARGET).interval_s)
    assert "run-queue" not in codes(private)
    busy = forecast(made(tmp_path / "busy.spill", others_s=DELAY_S), TARGET)
    assert busy.interval_s[0] < 0.9 * private.interval_s[0]
    [reported] = [item.message for item in busy.warnings if item.code == "run-queue"]
    assert "runnable but not scheduled for 1.60 s" in reported


@cases(
    ("cpus", "others_s"),
    [
        # Two CPUs for 2 s, minus the 3.4 s of CPU time that it used.
        (2, 0.6),
        # Others could have used all four CPUs.
        (4, DELAY_S),
        (None, DELAY_S),
    ],
)
def test_without_a_measurement_others_used_at_most_the_remaining_cpu_time(tmp_path, cpus, others_s):
    run = made(tmp_path / "run.spill", others_s=None, cpus=cpus)
    assert run.meta.run_queue_others_s == pytest.approx(others_s)


#: In 2 s one thread computes for 0.5 s; otherwise it waits for memory or for other processes.
@cases(
    ("stalled_s", "spared_s"),
    [
        (0.05, 0.0),
        (1.0, 1.0),
        # Temp I/O and CPU time are not waits for memory.
        (1.9, ELAPSED_S - 0.2 - 0.5),
    ],
)
def test_waits_for_memory_may_disappear_with_the_storage(tmp_path, stalled_s, spared_s):
    usual = recording(tmp_path / "usual.spill", LOADS, elapsed_s=ELAPSED_S, cpu_s=0.5)
    short = recording(tmp_path / "short.spill", LOADS, elapsed_s=ELAPSED_S, cpu_s=0.5)
    change(short, memory=replace(short.meta.memory, stalled_s=stalled_s))
    expected, answer = forecast(usual, TARGET), forecast(short, TARGET)
    assert answer.forecast_s == pytest.approx(expected.forecast_s)
    assert ("memory-stalled" in codes(answer)) == (spared_s > 0)
    if not spared_s:
        assert answer.interval_s == expected.interval_s
        return
    # The saving is uniform between none and all; one draw in twenty saves all but a twentieth.
    low_s = min(answer.interval_s[0], answer.ceiling_interval_s[0])
    assert low_s < expected.forecast_s - 0.75 * spared_s
    assert answer.interval_s[0] < expected.interval_s[0]
    assert answer.ceiling_interval_s[0] < expected.ceiling_interval_s[0]
    # One draw in twenty saves less than a twentieth.
    assert answer.interval_s[1] > expected.forecast_s - 0.25 * spared_s


@cases(("others_s", "shown"), [(1.0, True), (0.05, False)])
def test_waiting_for_a_cpu_is_a_separate_term(tmp_path, others_s, shown):
    run = recording(
        tmp_path / "run.spill", LOADS, elapsed_s=ELAPSED_S, cpu_s=0.5, run_queue_delay_s=1.0
    )
    change(run, capture=replace(run.meta.capture, run_queue_others_s=others_s))
    answer = forecast(run, TARGET)
    times_s = {term.name: term.baseline_s for term in answer.terms}
    assert (RUN_QUEUE in times_s) == shown == ("run-queue" in codes(answer))
    # 2 s minus 0.2 s of temp I/O, 0.5 s of CPU time and the wait for a CPU.
    assert times_s.get(RUN_QUEUE, 0.0) == pytest.approx(1.0 if shown else 0.0)
    assert times_s["other waits"] == pytest.approx(0.3 if shown else 1.3)
    assert sum(times_s.values()) == pytest.approx(ELAPSED_S)


def test_cpu_time_of_several_threads_is_not_waiting_for_a_cpu(tmp_path):
    run = made(tmp_path / "run.spill", others_s=3 * ELAPSED_S)
    on_target = forecast(run, TARGET)
    times_s = {term.name: term.baseline_s for term in on_target.terms}
    # Of 2 s minus 0.2 s of temp I/O, three parallel threads had 3.4 s of CPU time.
    assert times_s["CPU and other waits"] == pytest.approx(CPU_S / SESSIONS, rel=0.05)
    assert times_s[RUN_QUEUE] == pytest.approx(1.8 - CPU_S / SESSIONS, rel=0.1)
    assert on_target.ceiling_interval_s[0] > 0.5 * CPU_S / SESSIONS


def test_a_reduction_beyond_all_cpu_time_shortens_waits_for_a_cpu(tmp_path):
    run = made(tmp_path / "run.spill", others_s=DELAY_S)
    usual = baseline_of(workload_of_recording(run))
    cpu, ready = usual.with_run_queue(usual.rest)
    assert ready.name == RUN_QUEUE
    for less_s in (0.1, cpu.forecast_s + 0.1):
        projected = replace(projection(usual, TARGET), cpu_change_s=-less_s)
        [cpu_then, ready_then, *_] = terms_of(projected)
        assert cpu_then.forecast_s == pytest.approx(max(cpu.forecast_s - less_s, 0.0))
        saved_s = cpu.forecast_s - cpu_then.forecast_s + ready.forecast_s - ready_then.forecast_s
        assert saved_s == pytest.approx(less_s)


def test_waiting_for_a_cpu_is_not_waiting_for_memory(tmp_path):
    run = recording(
        tmp_path / "run.spill", LOADS, elapsed_s=ELAPSED_S, cpu_s=0.5, run_queue_delay_s=1.0
    )
    capture = replace(run.meta.capture, run_queue_others_s=1.0)
    change(run, capture=capture, memory=replace(run.meta.memory, stalled_s=1.0))
    baseline = baseline_of(workload_of_recording(run))
    assert baseline.run_queue_s == pytest.approx(1.0)
    assert baseline.memory_stalled_s == pytest.approx(ELAPSED_S - 0.2 - 0.5 - 1.0)

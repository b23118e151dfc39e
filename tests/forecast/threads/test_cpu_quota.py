"""Forecasts under a CPU quota, against a slow simulation that moves the clock by 0.1 ms."""

import json
from dataclasses import replace

import pytest

from cases import cases, nightly
from evidence import change, known, seconds, storage, table, warned
from harness import EXACT, spillcast
from spillcast.errors import OptionInvalid
from spillcast.forecast import forecast
from spillcast.forecast.projection import baseline_of
from spillcast.forecast.query import workload_of_recording
from spillcast.forecast.result import QUOTA
from spillcast.forecast.workload.resources import Cpus
from spillcast.recording import Recording
from spillcast.recording.meta import KeptWaits, Machine
from spillcast.recording.observed import CpuLimits
from spillcast.recording.schema import WAITS
from spillcast.recording.writer import RecordingWriter

US, MS = 1_000, 1_000_000
#: The step of the slow simulation; all times are multiples of it.
STEP_NS = 100 * US
PERIOD_NS = 100 * MS
TURNS = 2_000
CPU_NS, SLOW_NS, FAST_NS = 600 * US, 5 * MS, 200 * US
#: CPU time within a wait: reading 4 KiB from memory, at 20 us and 3 GB/s.
CALL_NS = 20 * US + 1365


def slowly(threads, latency_ns, *, quota_cpus=None, cores=2):
    """The time of threads that burn CPU_NS and wait, TURNS times; first come, first served."""
    elapsed, left = 0, 0
    burn, wait, turns = [CPU_NS] * threads, [0] * threads, [TURNS] * threads
    ready = list(range(threads))
    while any(turns):
        if elapsed % PERIOD_NS == 0:
            # CPU time beyond the quota is a debt.
            left = min(left, 0) + round((quota_cpus or 2 * cores) * PERIOD_NS)
        burning = []
        for thread in ready[:cores]:
            if left > 0:
                burning.append(thread)
                left -= STEP_NS
        for thread in [item for item in range(threads) if wait[item]]:
            wait[thread] -= STEP_NS
            if wait[thread] == 0:
                burn[thread], turns[thread] = CPU_NS, turns[thread] - 1
                ready += [thread] * (turns[thread] > 0)
        for thread in burning:
            burn[thread] -= STEP_NS
            if burn[thread] == 0:
                wait[thread], left = latency_ns, left - CALL_NS
                ready.remove(thread)
        elapsed += STEP_NS
    return elapsed


def recorded(path, threads, latency_ns, *, quota_cpus=None, elapsed_ns=None, cpu_known=True):
    """Threads that burn CPU time and read in turns, independent of each other, as in slowly()."""
    rows, counted = [], TURNS * threads
    for thread in range(threads):
        for turn in range(TURNS):
            rows.append({
                "start_ns": turn * (CPU_NS + latency_ns) + CPU_NS, "elapsed_ns": latency_ns,
                "session": thread, "event": "pread64", "op": "read", "temp": True, "file": "/t/x",
                "offset": turn * 4096, "bytes": 4096, "blocked": True,
                "cpu_before_ns": CPU_NS if cpu_known else None,
            })  # fmt: skip
    writer = RecordingWriter(path)
    writer.add_waits(table(sorted(rows, key=lambda row: row["start_ns"]), WAITS))
    writer.add_seconds(seconds([("read", 4096, counted, latency_ns)], 1))
    if elapsed_ns is None:
        elapsed_ns = slowly(threads, latency_ns, quota_cpus=quota_cpus)
    cpu_s = counted * CPU_NS / 1e9 if cpu_known else None
    run = writer.finish(known(elapsed_ns / 1e9, counted, 0, cpu_s=cpu_s))
    period_s = None if quota_cpus is None else PERIOD_NS / 1e9
    limits = CpuLimits(2, quota_cpus, period_s, None if quota_cpus is None else 0.0)
    change(run, machine=Machine(cpus=2), cpu_limits=limits)
    return run


def on(latency_ns):
    return storage({("read", 4096): latency_ns})


def quota_said(answer):
    return [warning.message for warning in answer.warnings if warning.code == "quota"]


@pytest.mark.parametrize("threads", [1, 4])
@pytest.mark.parametrize("quota_cpus", [0.4, 1.5, *nightly(0.2, 1.0)])
def test_a_quota_limits_the_query_on_fast_storage(tmp_path, threads, quota_cpus):
    run = recorded(tmp_path / "r.spill", threads, SLOW_NS, quota_cpus=quota_cpus)
    answer = forecast(run, on(FAST_NS))
    measured_s = slowly(threads, FAST_NS, quota_cpus=quota_cpus) / 1e9
    assert answer.forecast_s == pytest.approx(measured_s, rel=0.05)
    assert sum(term.forecast_s for term in answer.terms) == pytest.approx(answer.forecast_s)
    assert sum(term.baseline_s for term in answer.terms) == pytest.approx(answer.baseline_s)
    if quota_cpus < min(threads, 2) * CPU_NS / (CPU_NS + FAST_NS):
        [reported] = quota_said(answer)
        assert reported.endswith(
            "hardly throttled; the forecast keeps it, which throttles the query there"
        )
    # All CPU time passes at that rate, whatever the storage.
    least_s = threads * TURNS * CPU_NS / 1e9 / min(quota_cpus, threads)
    assert answer.ceiling_s == pytest.approx(least_s, rel=0.05)


@cases("threads", [1, 4])
def test_a_throttled_run_takes_no_longer_on_slightly_slower_storage(tmp_path, threads):
    run = recorded(tmp_path / "r.spill", threads, FAST_NS, quota_cpus=0.2)
    change(run, cpu_limits=replace(run.meta.cpu_limits, throttled_s=4.5))
    for latency_ns in (FAST_NS, 5 * FAST_NS):
        measured_s = slowly(threads, latency_ns, quota_cpus=0.2) / 1e9
        answer = forecast(run, on(latency_ns))
        assert answer.forecast_s == pytest.approx(measured_s, rel=0.05)
    [reported] = quota_said(answer)
    assert (
        reported == "a CPU quota of 0.2 CPUs was in force, throttled 4.50 s; the forecast keeps it"
    )


@cases(("threads", "requested"), [(1, 0.4), (1, 2.0), (4, 0.4), (4, 2.0)])
def test_another_quota_can_be_requested(tmp_path, threads, requested):
    run = recorded(tmp_path / "r.spill", threads, FAST_NS, quota_cpus=0.2)
    answer = forecast(run, on(FAST_NS), cpu_quota=requested)
    measured_s = slowly(threads, FAST_NS, quota_cpus=requested) / 1e9
    assert answer.forecast_s == pytest.approx(measured_s, rel=0.05)
    assert sum(term.forecast_s for term in answer.terms) == pytest.approx(answer.forecast_s)
    assert sum(term.baseline_s for term in answer.terms) == pytest.approx(answer.baseline_s)


def test_another_number_of_cpus_can_be_requested(tmp_path):
    run = recorded(tmp_path / "r.spill", 4, SLOW_NS)
    for cpus in (1, 2, 4):
        measured_s = slowly(4, FAST_NS, cores=cpus) / 1e9
        assert forecast(run, on(FAST_NS), cpus=cpus).forecast_s == pytest.approx(
            measured_s, rel=0.05
        )


def test_a_part_of_the_waits_represents_the_whole_quota(tmp_path):
    run = recorded(tmp_path / "r.spill", 1, FAST_NS, quota_cpus=0.2)
    whole = forecast(run, on(FAST_NS), cpu_quota=0.4)
    half = TURNS // 2
    kept = KeptWaits(half, TURNS, [(0.0, half * (CPU_NS + FAST_NS) / 1e9)])
    cut = Recording(run.path, replace(run.meta, raw=kept))
    cut.waits = run.waits.take(slice(half))
    answer = forecast(cut, on(FAST_NS), cpu_quota=0.4)
    assert answer.forecast_s == pytest.approx(whole.forecast_s, rel=0.05)
    assert whole.forecast_s < 0.6 * run.elapsed_s


def test_a_quota_that_is_never_reached_changes_nothing(tmp_path):
    without = recorded(tmp_path / "without.spill", 1, SLOW_NS)
    run = recorded(tmp_path / "r.spill", 1, SLOW_NS, quota_cpus=1.5)
    assert forecast(run, on(FAST_NS)).forecast_s == pytest.approx(
        forecast(without, on(FAST_NS)).forecast_s, rel=0.01
    )
    assert quota_said(forecast(run, on(FAST_NS))) == []
    assert QUOTA not in {term.name for term in forecast(without, on(FAST_NS)).terms}


def test_without_cpu_times_a_quota_that_may_matter_is_a_refusal(tmp_path):
    run = recorded(tmp_path / "r.spill", 1, SLOW_NS, quota_cpus=0.4, cpu_known=False)
    assert forecast(run, on(SLOW_NS)).refused is None
    refused = forecast(run, on(FAST_NS)).refused
    assert (
        "a CPU quota of 0.4 CPUs may throttle it there, and the recording does not contain the "
        "CPU time" in refused
    )
    assert "--cpu-quota differ" in forecast(run, on(SLOW_NS), cpu_quota=0.1).refused
    change(run, cpu_limits=replace(run.meta.cpu_limits, throttled_s=5.0))
    assert "throttled it for 5 s" in forecast(run, on(SLOW_NS)).refused


@cases("requested", [{"cpus": 0}, {"cpu_quota": 0.0}, {"cpu_quota": float("nan")}])
def test_impossible_quotas_and_cpus_are_refused(tmp_path, requested):
    run = recorded(tmp_path / "r.spill", 1, FAST_NS, elapsed_ns=2 * 10**9)
    with pytest.raises(OptionInvalid):
        forecast(run, on(FAST_NS), **requested)


@cases(
    "given, cores, quota_cpus",
    # A quota of at least the number of CPUs limits nothing.
    [((None, None), 4, 2.0), ((1, None), 1, None), ((3, None), 3, 2.0), ((None, 0.4), 4, 0.4)],
)
def test_unspecified_limits_are_unchanged(given, cores, quota_cpus):
    cpus = Cpus(4, 2.0).adjusted(*given)
    assert (cpus.cores, cpus.quota_cpus) == (cores, quota_cpus)


@cases("threads", [1, 4])
def test_a_quota_that_was_not_in_force_is_ignored(tmp_path, threads):
    """A process moved into its group at the end had far more CPU time than the quota."""
    free = recorded(tmp_path / "free.spill", threads, FAST_NS)
    moved = recorded(tmp_path / "moved.spill", threads, FAST_NS)
    change(moved, cpu_limits=CpuLimits(2, 0.01, PERIOD_NS / 1e9, 0.0, 0))
    answer, without = (forecast(run, on(SLOW_NS)) for run in (moved, free))
    assert answer.forecast_s == pytest.approx(without.forecast_s)
    assert quota_said(answer) == [
        "a CPU quota of 0.01 CPUs was seen, but the query had more CPU time: the forecast is "
        "without one"
    ]


@cases(("threads", "throttled_s"), [(1, 4.5), (4, 2.25)])
def test_throttled_time_is_not_a_busy_machine(tmp_path, threads, throttled_s):
    """A quota that stops two CPUs stops four threads."""
    run = recorded(tmp_path / "r.spill", threads, FAST_NS, quota_cpus=0.2)
    limits = replace(run.meta.cpu_limits, throttled_s=throttled_s)
    capture = replace(run.meta.capture, run_queue_delay_s=4.6, run_queue_others_s=4.6)
    change(run, cpu_limits=limits, capture=capture)
    assert baseline_of(workload_of_recording(run)).others_s == pytest.approx(0.1)
    assert "run-queue" not in warned(forecast(run, on(FAST_NS)))


@pytest.mark.skipif(EXACT == "preload", reason="the preload library sees no CPU time")
def test_the_command_line_takes_another_quota(spilled):
    requested = ("forecast", spilled.path, "--to", "factor:1", "--json")
    now = json.loads(spillcast(*requested).stdout)
    # A quarter of its CPU usage.
    quota = Recording.open(spilled.path).meta.cpu_s / now["baseline_s"] / 4
    held = json.loads(spillcast(*requested, "--cpu-quota", f"{quota:.6f}").stdout)
    assert held["forecast_s"] > 3 * now["forecast_s"]
    assert "quota" in {warning["code"] for warning in held["warnings"]}
    assert QUOTA in {term["name"] for term in held["terms"]}

"""Weights of waits where threads overlap and wait for each other, against simple arithmetic."""

from dataclasses import replace

import pytest

from cases import cases
from evidence import known, recording, seconds, storage, table, warned
from spillcast.forecast import forecast
from spillcast.forecast.projection import baseline_of, projection
from spillcast.forecast.query import workload_of_recording
from spillcast.forecast.workload.counted import counted_trace
from spillcast.forecast.workload.load import Load
from spillcast.forecast.workload.recorded import recorded_loads, recorded_threads
from spillcast.forecast.workload.resources import Cpus
from spillcast.forecast.workload.threads import Threads
from spillcast.recording import Recording
from spillcast.recording.meta import KeptWaits, Machine
from spillcast.recording.schema import WAITS
from spillcast.recording.writer import RecordingWriter

US, MS = 1_000, 1_000_000
TURNS = 500


def turn(session, start_ns, latency_ns, cpu_ns, offset):
    return {
        "start_ns": start_ns, "elapsed_ns": latency_ns, "session": session, "event": "pread64",
        "op": "read", "temp": True, "file": "/t/x", "offset": offset * 4096, "bytes": 4096,
        "blocked": True, "cpu_before_ns": cpu_ns,
    }  # fmt: skip


def waited(session, start_ns, elapsed_ns, woken_by):
    return {
        "start_ns": start_ns, "elapsed_ns": elapsed_ns, "session": session, "event": "blocked",
        "temp": False, "blocked": True, "cpu_before_ns": 0, "woken_by": woken_by,
    }  # fmt: skip


def recorded(path, rows, *, elapsed_ns, latency_ns, cpus=2):
    writer = RecordingWriter(path)
    writer.add_waits(table(sorted(rows, key=lambda row: row["start_ns"]), WAITS))
    count = sum(row["temp"] for row in rows)
    writer.add_seconds(seconds([("read", 4096, count, latency_ns)], 1))
    cpu_ns = sum(row["cpu_before_ns"] for row in rows)
    meta = known(elapsed_ns / 1e9, count, 0, cpu_s=cpu_ns / 1e9)
    return writer.finish(replace(meta, machine=Machine(cpus=cpus)))


def independent(path, *, threads, cpu_ns, latency_ns, elapsed_ns, cpus):
    rows = []
    for thread in range(threads):
        now_ns = 0
        for number in range(TURNS):
            now_ns += cpu_ns
            rows.append(turn(thread, now_ns, latency_ns, cpu_ns, number))
            now_ns += latency_ns
    return recorded(path, rows, elapsed_ns=elapsed_ns, latency_ns=latency_ns, cpus=cpus)


def alternating(path, *, cpu_ns, latency_ns, elapsed_ns=None):
    """Two threads in turns: each works and reads while the other waits for it."""
    rows, now_ns = [], 0
    for number in range(TURNS):
        for thread in (0, 1):
            if now_ns:
                waits_ns = cpu_ns + latency_ns
                rows.append(waited(thread, now_ns - waits_ns, waits_ns, 1 - thread))
            rows.append(turn(thread, now_ns + cpu_ns, latency_ns, cpu_ns, number))
            now_ns += cpu_ns + latency_ns
    return recorded(path, rows, elapsed_ns=elapsed_ns or now_ns, latency_ns=latency_ns)


def test_the_ceiling_is_the_cpu_time_of_all_threads_over_the_cpus(tmp_path):
    # Shorter than the turns of its threads: some of these waits were not for each other.
    elapsed_ns = TURNS * 500 * US
    run = alternating(
        tmp_path / "run.spill", cpu_ns=100 * US, latency_ns=300 * US, elapsed_ns=elapsed_ns
    )
    forecast_of_run = forecast(run, storage({("read", 4096): US}))
    assert TURNS * 2 * 100e-6 / 2 <= forecast_of_run.ceiling_s <= forecast_of_run.forecast_s
    assert forecast_of_run.forecast_s < elapsed_ns / 1e9


@cases("target_us", [0, 200, 5000])
def test_threads_with_enough_cores_overlap(tmp_path, target_us):
    run = independent(
        tmp_path / "run.spill", threads=2, cpu_ns=300 * US, latency_ns=MS,
        elapsed_ns=TURNS * 1300 * US, cpus=2,
    )  # fmt: skip
    answer = forecast(run, storage({("read", 4096): target_us * US}))
    assert answer.forecast_s == pytest.approx(TURNS * (300 + target_us) * 1e-6, rel=0.01)
    assert answer.ceiling_s == pytest.approx(TURNS * 300e-6, rel=0.01)


def test_threads_that_take_turns_add_up(tmp_path):
    run = alternating(tmp_path / "run.spill", cpu_ns=300 * US, latency_ns=MS)
    assert run.elapsed_s == pytest.approx(2 * TURNS * 1300e-6)
    answer = forecast(run, storage({("read", 4096): 5 * MS}))
    assert answer.forecast_s == pytest.approx(2 * TURNS * 5300e-6, rel=0.01)
    assert "dependent" not in warned(answer)
    faster = forecast(run, storage({("read", 4096): 100 * US}))
    assert faster.forecast_s == pytest.approx(2 * TURNS * 400e-6, rel=0.01)


def test_on_fast_storage_the_cores_are_the_limit(tmp_path):
    """Four threads on one core: 4 * 300 us of work per turn, however fast the storage."""
    run = independent(
        tmp_path / "run.spill", threads=4, cpu_ns=300 * US, latency_ns=3 * MS,
        elapsed_ns=TURNS * 3300 * US, cpus=1,
    )  # fmt: skip
    answer = forecast(run, storage({("read", 4096): 300 * US}))
    assert answer.forecast_s == pytest.approx(TURNS * 1200e-6, rel=0.02)


def test_a_part_of_the_run_has_the_weights_of_the_whole(tmp_path):
    run = independent(
        tmp_path / "run.spill", threads=2, cpu_ns=300 * US, latency_ns=MS,
        elapsed_ns=TURNS * 1300 * US, cpus=2,
    )  # fmt: skip
    answer = forecast(run, storage({("read", 4096): 2 * MS}), elapsed_s=10 * run.elapsed_s)
    assert answer.forecast_s == pytest.approx(10 * TURNS * 2300e-6, rel=0.01)


def test_a_sample_of_the_waits_has_the_weights_of_all(tmp_path):
    run = independent(
        tmp_path / "run.spill", threads=2, cpu_ns=300 * US, latency_ns=MS,
        elapsed_ns=TURNS * 1300 * US, cpus=2,
    )  # fmt: skip
    kept = KeptWaits(TURNS, 2 * TURNS, [(0.0, run.elapsed_s / 2)])
    half = Recording(run.path, replace(run.meta, raw=kept))
    half.waits = run.waits.take(slice(TURNS))
    threads = workload_of_recording(half).threads
    # Half of two parallel waits adds to the elapsed time.
    assert threads.io_weight == pytest.approx(0.5, rel=0.01)
    for latency_us in (0, 200, 5000):
        target = storage({("read", 4096): latency_us * US})
        assert forecast(half, target).forecast_s == pytest.approx(
            TURNS * (300 + latency_us) * 1e-6, rel=0.02
        )


@cases(("cores", "per_thread"), [(2, 0.5), (8, 1.0), (None, 1.0)])
def test_threads_known_only_by_counts_wait_in_parallel(cores, per_thread):
    reads, writes = (
        Load("read", 8192, 3000, 3000 * 8192, 6.0),
        Load("write", 1 << 20, 40, 40 << 20, 1.0),
    )
    trace = counted_trace([reads, writes], 4, think_s=2.0)
    threads = Threads(
        trace=trace, elapsed_s=10.0, number=4, in_flight=4.0, operations=3040,
        source=Cpus(8), target=Cpus(cores), counted=True,
    )  # fmt: skip
    assert threads.io_weight == threads.recorded.cpu_weight == 1 / 4
    assert threads.cores_per_thread == per_thread
    assert threads.recorded.elapsed_s == 10.0
    for load in (reads, writes):
        of_op = trace.write == (load.op == "write")
        assert (int(of_op.sum()), int(trace.bytes[of_op].sum())) == (load.count, load.bytes)
    # The work between a thread's operations adds up to its whole CPU time.
    for thread in range(4):
        cpu_ns = trace.cpu_ns[trace.thread == thread].sum()
        assert cpu_ns == pytest.approx(2e9, rel=1e-3)


def test_the_terms_add_up_to_the_forecast(tmp_path):
    run = alternating(tmp_path / "run.spill", cpu_ns=300 * US, latency_ns=MS)
    answer = forecast(run, storage({("read", 4096): 2 * MS}))
    assert sum(term.forecast_s for term in answer.terms) == pytest.approx(answer.forecast_s)
    assert sum(term.baseline_s for term in answer.terms) == pytest.approx(answer.baseline_s)


@cases(
    "cut", [{}, {"steps_skipped": 1}, {"think_scale": 0.5}, {"like": "x"}, {"closed_loop": False}]
)
def test_only_a_replay_of_the_whole_run_is_compared_with_its_time(tmp_path, cut):
    run = alternating(tmp_path / "r.spill", cpu_ns=MS, latency_ns=MS)
    facts = {
        "closed_loop": True, "like": "r.spill", "steps_skipped": 0, "byte_share": 1.0,
        "think_scale": 1.0, "prefilled_bytes": 0, "elapsed_ns": 20 * 10**9,
    }  # fmt: skip
    probed = storage({("read", 4096): 9 * MS})
    target = replace(probed, facts={**facts, **cut})
    overlap = projection(baseline_of(workload_of_recording(run)), target).overlap
    assert overlap.replayed_s == (None if cut else 20.0)
    # The threads take turns, so both models serialise them; the rest is not storage time.
    assert overlap.elapsed_s == pytest.approx(2 * TURNS * 10 / 1e3, rel=0.01)
    # A replay that contradicts the model widens the interval.
    answer, without = (forecast(run, to, confidence=0.95) for to in (target, probed))
    assert cut or _relative_width(answer) > 1.5 * _relative_width(without)
    assert cut or answer.interval_s[1] > without.interval_s[1]


def _relative_width(answer):
    low_s, high_s = answer.interval_s
    return (high_s - low_s) / answer.forecast_s


def test_threads_without_any_time_count_as_one(tmp_path):
    run = recording(tmp_path / "run.spill", [("read", 4096, 1, 0)], elapsed_s=1e-6, sessions=2)
    assert recorded_threads(run, recorded_loads(run)).at_work == 1.0


def test_loads_of_the_entire_query_do_not_change_its_threads(tmp_path):
    """Also for counts, for which a trace is synthesised from the recorded loads."""
    writer = RecordingWriter(tmp_path / "counts.spill")
    writer.add_seconds(seconds([("write", 4096, 300, MS), ("read", 4096, 300, 2 * MS)], 2))
    recording = writer.finish(known(1.5, 600, 600, cpu_s=0.2))
    loads = recorded_loads(recording)
    threads = recorded_threads(recording, loads)
    assert len(threads.trace.temp) == 1200
    whole = [replace(load, count=7 * load.count) for load in loads]
    assert threads.cpu_delays(whole) == threads.cpu_delays(loads) == (0.0, 0.0, 0.0)
    simulated = threads.on(None, 1, {})
    assert threads.mean_s(simulated, whole) == threads.mean_s(simulated, loads) == [0.0, 0.0]

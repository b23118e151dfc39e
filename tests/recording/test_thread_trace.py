"""Traces of threads, from waits whose order and wakers are known."""

from dataclasses import replace

import pytest

from evidence import known, seconds, table
from spillcast import _core
from spillcast.recording.meta import Machine
from spillcast.recording.schema import WAITS
from spillcast.recording.thread_trace import NONE
from spillcast.recording.writer import RecordingWriter
from spillcast.tables import Table

US = 1_000
A, B = 41, 42


def io(session, start_us, elapsed_us, cpu_us=0, *, op="read", blocked=True, temp=True):
    return {
        "start_ns": start_us * US, "elapsed_ns": elapsed_us * US, "session": session,
        "event": "pread64", "op": op, "temp": temp, "file": "/t/x", "offset": 0, "bytes": 4096,
        "blocked": blocked, "cpu_before_ns": cpu_us * US,
    }  # fmt: skip


def waited(session, start_us, elapsed_us, cpu_us=0, *, woken_by=None):
    return {
        "start_ns": start_us * US, "elapsed_ns": elapsed_us * US, "session": session,
        "event": "blocked", "temp": False, "blocked": True, "cpu_before_ns": cpu_us * US,
        "woken_by": woken_by,
    }  # fmt: skip


def recorded(path, rows):
    writer = RecordingWriter(path)
    writer.add_waits(table(rows, WAITS))
    writer.add_seconds(seconds([("read", 4096, len(rows), 100 * US)], 1))
    return writer.finish(replace(known(1.0, 1, 0), machine=Machine(cpus=2)))


def simulated_us(trace):
    outcome, _ = _core.simulate(Table(trace.columns), 2)
    assert outcome["forced"] == 0
    return outcome["elapsed_ns"] / US


def by_source(trace, values):
    return {int(source): int(value) for source, value in zip(trace.source, values, strict=True)}


def test_a_woken_thread_continues_at_the_work_of_its_waker(tmp_path):
    """B waits from 15 to 140; A reads until 110 and wakes it after 30 us of work."""
    rows = [
        io(A, 10, 100, cpu_us=10),
        waited(B, 15, 125, cpu_us=15, woken_by=A),
        io(A, 160, 40, cpu_us=50),
        io(B, 150, 100, cpu_us=10),
    ]
    trace = recorded(tmp_path / "run.spill", rows).work.trace
    # Sorted by start, the rows are 0, 1, 3, 2, after the starts of A and B.
    assert trace.source.tolist() == [NONE, NONE, 0, 1, 2, 3]
    after = by_source(trace, trace.after)
    assert trace.source[after[1]] == 0
    assert by_source(trace, trace.after_cpu_ns)[1] == 30 * US
    assert simulated_us(trace) == 250


def test_a_wait_with_an_unobserved_waker_keeps_its_length(tmp_path):
    """B sleeps from 120 to 220, while A is idle; then A waits for B's read."""
    rows = [io(A, 10, 100, 10), waited(B, 120, 100, 120), io(B, 230, 50, 10)]
    rows.append(waited(A, 115, 170, 5, woken_by=B))
    trace = recorded(tmp_path / "run.spill", rows).work.trace
    # By start, A's wait comes before B's.
    assert by_source(trace, trace.after)[2] == NONE
    assert by_source(trace, trace.wait_ns)[2] == 100 * US
    assert simulated_us(trace) == 280


def test_a_polling_thread_follows_the_thread_it_polls(tmp_path):
    """B polls every 50 us, woken by a timer, until A has read."""
    rows = [io(A, 10, 100, 10), *(waited(B, 50 * n, 50) for n in range(1, 3)), io(B, 160, 10, 5)]
    rows.append(waited(A, 115, 60, 5, woken_by=B))
    trace = recorded(tmp_path / "run.spill", rows).work.trace
    after = by_source(trace, trace.after)
    assert after[1] == NONE
    assert trace.source[after[2]] == 0


def test_without_wakers_the_last_row_of_another_thread_ended_the_wait(tmp_path):
    rows = [io(A, 10, 100, 10), waited(B, 15, 105, 15), io(A, 160, 40, 50), io(B, 130, 70, 10)]
    trace = recorded(tmp_path / "run.spill", rows).work.trace
    assert trace.source[by_source(trace, trace.after)[1]] == 0
    assert by_source(trace, trace.after_cpu_ns)[1] == 10 * US


def test_a_thread_that_starts_late_follows_what_had_ended_by_then(tmp_path):
    rows = [io(A, 10, 100, 10), io(B, 170, 30, 10), io(A, 160, 20, 50)]
    trace = recorded(tmp_path / "run.spill", rows).work.trace
    beginning = [
        row
        for row in range(len(trace.thread))
        if trace.source[row] == NONE and trace.thread[row] == 1
    ]
    assert trace.source[trace.after[beginning[0]]] == 0
    assert simulated_us(trace) == 200


def test_io_that_does_not_block_uses_a_core(tmp_path):
    rows = [io(session, 0, 100, blocked=False) for session in (A, B, 43, 44)]
    trace = recorded(tmp_path / "run.spill", rows).work.trace
    assert trace.on_core.sum() == 4
    assert simulated_us(trace) == pytest.approx(200)


def test_without_cpu_times_all_time_between_waits_is_cpu_time(tmp_path):
    rows = [io(A, 10, 100) | {"cpu_before_ns": None}, io(A, 150, 50) | {"cpu_before_ns": None}]
    trace = recorded(tmp_path / "run.spill", rows).work.trace
    assert not trace.cpu_known
    assert by_source(trace, trace.cpu_ns) == {NONE: 0, 0: 10 * US, 1: 40 * US}
    assert simulated_us(trace) == 200


def test_threads_without_dependence_on_temp_io_are_left_out(tmp_path):
    """43 waits for A; 44 only sleeps, for much longer than everything else."""
    rows = [io(A, 10, 100, 10), waited(43, 5, 105, 5, woken_by=A), waited(44, 0, 900_000)]
    trace = recorded(tmp_path / "run.spill", rows).work.trace
    assert trace.threads == 2
    assert simulated_us(trace) == 110


def test_overlapping_requests_count_once_for_their_thread(tmp_path):
    # The thread waits for both together: 100 us, not 90 us plus 80 us.
    both = [
        io(A, start_us, elapsed_us, blocked=None, temp=False) | {"event": "io_uring_read"}
        for start_us, elapsed_us in ((1, 90), (2, 80))
    ]
    rows = [*both, waited(A, 5, 100, 5), io(A, 110, 50, 5), io(A, 165, 20, 5, temp=False)]
    trace = recorded(tmp_path / "run.spill", rows).work.trace
    assert by_source(trace, trace.wait_ns) == {NONE: 0, 2: 100 * US, 3: 50 * US, 4: 20 * US}
    assert by_source(trace, trace.temp) == {NONE: 0, 2: 0, 3: 1, 4: 0}
    assert simulated_us(trace) == 185

"""CPU time between two temp operations of a thread, whatever else it did meanwhile."""

import pytest

from evidence import change, known, recording, table
from spillcast.recording.meta import KeptWaits
from spillcast.recording.schema import WAITS
from spillcast.recording.thread_trace import READ, WRITE
from spillcast.recording.writer import RecordingWriter

MS = 1_000_000


def row(start_ms, op, *, session=1, temp=True, cpu_ms=0.0, size=8192, elapsed_ms=2):
    return {
        "start_ns": round(start_ms * MS), "elapsed_ns": elapsed_ms * MS, "session": session,
        "event": "call", "op": op, "temp": temp, "bytes": size,
        "cpu_before_ns": None if cpu_ms is None else round(cpu_ms * MS),
    }  # fmt: skip


def recorded(path, rows, slices_s=None):
    writer = RecordingWriter(path)
    writer.add_waits(table(rows, WAITS))
    run = writer.finish(known(1.0, 1, 1))
    change(run, raw=KeptWaits(len(rows), len(rows), slices_s))
    return run


def test_all_that_a_thread_does_between_counts(tmp_path):
    """A table read, a wait for nothing that moved: their CPU time is of the burst between."""
    run = recorded(
        tmp_path / "run.spill",
        [
            row(0, "write", cpu_ms=9),
            row(4, "read", temp=False, cpu_ms=1),
            row(8, None, temp=False, cpu_ms=0.5, size=None),
            row(12, "read", cpu_ms=0.25),
            row(20, "read", cpu_ms=7),
        ],
    )
    result = run.work.bursts
    assert result.cpu_s.tolist() == pytest.approx([1.75e-3, 7e-3])
    assert result.wait_s.tolist() == pytest.approx([2e-3, 2e-3])
    assert result.op.tolist() == [WRITE, READ]
    assert result.next_op.tolist() == [READ, READ]
    assert result.end_s.tolist() == pytest.approx([2e-3, 14e-3])


def test_threads_are_apart(tmp_path):
    rows = [row(n, "read", session=n % 2, cpu_ms=1 + n % 2) for n in range(6)]
    kept = recorded(tmp_path / "run.spill", rows).work.bursts
    assert sorted(zip(kept.session.tolist(), kept.cpu_s.tolist(), strict=True)) == [
        (0, 1e-3), (0, 1e-3), (1, 2e-3), (1, 2e-3),
    ]  # fmt: skip


def test_what_was_not_kept_is_no_burst(tmp_path):
    rows = [row(start_ms, "read", cpu_ms=1) for start_ms in (0, 4, 500, 504)]
    run = recorded(tmp_path / "run.spill", rows, slices_s=[(0.0, 0.1), (0.5, 0.6)])
    assert run.work.bursts.end_s.tolist() == pytest.approx([2e-3, 502e-3])


def test_nothing_is_known_without_cpu_time(tmp_path):
    rows = [row(n, "read", cpu_ms=None) for n in range(3)]
    assert recorded(tmp_path / "run.spill", rows).work.bursts is None
    made_up = recording(tmp_path / "other.spill", [("read", 8192, 5, 1000)], elapsed_s=1.0)
    assert made_up.work.bursts is None

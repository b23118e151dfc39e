"""Recordings cut to windows contain what the windows saw, in the form that all readers expect."""

import numpy as np
import pytest

from evidence import change, storage
from spillcast.errors import NotSpilled
from spillcast.forecast import forecast
from spillcast.forecast.workload.recorded import recorded_loads
from spillcast.recording.meta import CaptureAccount, Meta, OtherIO, Temp
from spillcast.recording.schema import SECONDS, WAITS
from spillcast.recording.writer import RecordingWriter
from spillcast.storage.probe import plan
from spillcast.tables import Table
from spillcast_lab.partial_runs import cut, first_fifth, ten_slices

MS = 1_000_000
CAPTURE = CaptureAccount("perf", tracer_cpu_s=0.1, overhead_s=0.1, run_queue_delay_s=1.0)
SIZE = 8192
TARGET = storage({("read", SIZE): 100_000, ("write", SIZE): 100_000})


@pytest.fixture
def recording(tmp_path):
    """20 s: 10 s of writes of 3 ms, then 10 s of reads of 1 ms, each at a hundred per second.

    Each follows 2 ms of CPU time, and every fiftieth comes with a read of a table.
    """
    rows = []
    for number in range(2000):
        op, latency_ms = ("write", 3) if number < 1000 else ("read", 1)
        begin_ns = number * 10 * MS + 5 * MS
        rows.append((begin_ns, latency_ms * MS, op, True, "/t/spill", number % 1000 * SIZE, 2 * MS))
        if number % 50 == 0:
            rows.append((begin_ns + 4 * MS, MS // 2, "read", False, "/data/t", 0, 0))
    writer = RecordingWriter(tmp_path / "run.spill")
    waits = [
        dict(start_ns=start, elapsed_ns=elapsed, session=7, event="x", op=op, temp=temp, file=file,
             offset=offset, bytes=SIZE, cpu_before_ns=cpu)
        for start, elapsed, op, temp, file, offset, cpu in rows
    ]  # fmt: skip
    writer.add_waits(Table.from_rows(waits, WAITS))
    writer.add_seconds(Table.from_rows([], SECONDS))
    temp = Temp(1000, 1000, 2000 * SIZE, 4.0)
    other = OtherIO(40, 0.02)
    return writer.finish(
        Meta(elapsed_s=20.0, cpu_s=4.0, temp=temp, other_io=other, capture=CAPTURE)
    )


def test_ten_slices_see_both_phases_in_proportion(recording):
    left = ten_slices(recording)
    assert left.elapsed_s == pytest.approx(3.0)
    # Five windows lie in the writes and five in the reads; 30 operations each.
    loads = {load.op: load for load in recorded_loads(left)}
    assert {op: (load.count, load.bytes) for op, load in loads.items()} == {
        "read": (150, 150 * SIZE), "write": (150, 150 * SIZE)
    }  # fmt: skip
    assert loads["write"].mean_s == pytest.approx(0.003)
    assert loads["read"].mean_s == pytest.approx(0.001)
    temp = left.meta.temp
    assert (temp.reads, temp.writes, temp.bytes) == (150, 150, 300 * SIZE)
    assert temp.total_s == pytest.approx(0.6)
    assert left.meta.cpu_s == pytest.approx(0.6)
    assert left.meta.capture.run_queue_delay_s == pytest.approx(0.15)


def test_windows_are_joined_without_pauses(recording):
    left = ten_slices(recording)
    start = left.waits["start_ns"].to_numpy()
    assert start.min() >= 0
    assert start.max() < 3e9
    assert (np.diff(start) >= 0).all()
    assert plan(left)["delay_ns"].to_numpy().max() < 20 * MS
    assert left.work.in_flight == 1.0
    assert left.meta.raw.slices_of_all
    assert left.meta.raw.slices_s[1] == pytest.approx((0.3, 0.6))


def test_the_first_fifth_has_only_the_first_phase(recording):
    left = first_fifth(recording)
    assert left.elapsed_s == pytest.approx(4.0)
    assert [(load.op, load.count) for load in recorded_loads(left)] == [("write", 400)]
    assert left.meta.other_io.count == 8


def test_a_forecast_from_slices_and_history_equals_that_of_the_whole(recording):
    """By hand: 2,000 operations of 0.1 ms instead of 4 s leave 16 s and 0.2 s."""
    answer = forecast(ten_slices(recording), TARGET, elapsed_s=20.0)
    assert answer.forecast_s == pytest.approx(16.2, rel=1e-3)


def test_the_original_recording_is_unchanged(recording):
    before = recording.waits.to_pylist()
    cut(recording, [(1.0, 2.0)], "x")
    assert recording.waits.to_pylist() == before
    assert recording.elapsed_s == 20.0
    assert not any("run-x" in path.name for path in recording.path.parent.iterdir())


def test_seconds_add_up_to_the_waits(recording):
    left = cut(recording, [(2.5, 4.75), (11.0, 12.0)], "x")
    assert left.seconds.column_names == [field.name for field in SECONDS]
    counts = sum(map(sum, left.seconds["latency_count"].to_pylist()))
    assert counts == sum(left.seconds["count"].to_pylist()) == left.waits.num_rows
    assert set(left.seconds["second"].to_pylist()) == {0, 1, 2, 3}


def blocked(tmp_path, rows):
    """A recording of 10 s in which one thread waits for others: start and end in s."""
    writer = RecordingWriter(tmp_path / "blocked.spill")
    waits = [
        dict(start_ns=round(start * 1e9), elapsed_ns=round((end - start) * 1e9), session=8,
             event="blocked", temp=False, blocked=True, cpu_before_ns=MS, woken_by=7)
        for start, end in rows
    ]  # fmt: skip
    writer.add_waits(Table.from_rows(waits, WAITS))
    return writer.finish(Meta(elapsed_s=10.0, cpu_s=1.0, capture=CAPTURE))


def test_a_long_wait_is_divided_among_windows(tmp_path):
    """One reaches from before the first window into the second, one lies within, one leaves it."""
    whole = blocked(tmp_path, [(0.5, 4.5), (4.6, 4.7), (4.9, 8.0)])
    left = cut(whole, [(1.0, 2.0), (4.0, 5.0)], "x")
    rows = left.waits.select(["start_ns", "elapsed_ns", "cpu_before_ns", "woken_by"]).to_pylist()
    assert [tuple(row.values()) for row in rows] == [
        (0, 1000 * MS, 0, None),
        (1000 * MS, 500 * MS, 0, 7),
        (1600 * MS, 100 * MS, MS, 7),
        (1900 * MS, 100 * MS, MS, None),
    ]
    assert left.seconds.num_rows == 0


def test_a_short_run_has_no_slices(recording):
    change(recording, elapsed_s=5.9)
    assert ten_slices(recording) is None
    change(recording, elapsed_s=6.1)
    assert ten_slices(recording) is not None


def test_a_window_without_temp_io_cannot_be_forecast(recording):
    left = cut(recording, [(0.0, 0.004)], "x")
    assert left.waits.num_rows == 0
    with pytest.raises(NotSpilled):
        forecast(left, TARGET)

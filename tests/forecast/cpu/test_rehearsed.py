"""CPU time of a rehearsal's operations against that of the same recorded operations, by hand."""

from dataclasses import replace

import numpy as np
import pytest

from cases import cases
from evidence import known, seconds, table, waits
from spillcast.forecast.cpu import rehearsed_change
from spillcast.forecast.workload.load import rehearsed
from spillcast.forecast.workload.recorded import cpu_time, recorded_loads
from spillcast.recording.schema import WAITS
from spillcast.recording.writer import RecordingWriter
from spillcast.storage.model import Estimate
from spillcast.storage.observed import Rehearsal

US = 1_000
SIZE = 8192


def run(path, loads, cpu_us, *, threads=1, ended_by="duration", cpu_s=9.0, first_us=0, slices=None):
    """Loads are (op, count, latency in us); ``cpu_us`` is the CPU time after each operation."""
    rows, cpu_ns = [], []
    for thread in range(threads):
        now_ns, before_ns = first_us * US, first_us * US
        for op, count, latency_us in loads:
            for _ in range(count):
                rows.append((thread, op, SIZE, now_ns, latency_us * US))
                cpu_ns.append(before_ns)
                before_ns = cpu_us[op] * US
                now_ns += latency_us * US + before_ns
    batch = waits(rows).to_pylist()
    batch = [{**row, "cpu_before_ns": ns} for row, ns in zip(batch, cpu_ns, strict=True)]
    writer = RecordingWriter(path)
    writer.add_waits(table(batch, WAITS))
    of_threads = [(op, SIZE, count, latency_us * US) for op, count, latency_us in loads]
    writer.add_seconds(seconds(of_threads, threads))
    sums = (threads * sum(n for op, n, _ in loads if op == kind) for kind in ("read", "write"))
    meta = known(10.0, *sums, cpu_s=cpu_s)
    made = writer.finish(replace(meta, ended_by=ended_by))
    if slices is not None:
        made.meta = replace(made.meta, raw=replace(made.meta.raw, slices_s=slices))
    return made


def cpu_of(recording):
    return cpu_time(recording, rehearsed=True)


def test_each_op_is_compared_separately(tmp_path):
    """Reads take 30 us more on the target and writes 10 us; 10,000 reads and 1,000 writes."""
    loads = [("write", 1000, 100), ("read", 10_000, 100)]
    source = run(tmp_path / "a", loads, {"write": 50, "read": 70})
    target = run(
        tmp_path / "b", [("write", 1000, 900), ("read", 500, 900)], {"write": 60, "read": 100}
    )
    result = rehearsed_change(cpu_of(source), recorded_loads(source), Rehearsal.of(target))
    by_op = dict(zip((load.op for load in recorded_loads(source)), result.each_s, strict=True))
    assert by_op["read"] == pytest.approx(30e-6, rel=0.01)
    assert by_op["write"] == pytest.approx(10e-6, rel=0.01)
    assert result.total_s == pytest.approx(10_000 * 30e-6 + 1000 * 10e-6, rel=0.01)


def test_only_the_same_prefix_is_compared(tmp_path):
    """Later operations took another CPU time, which the rehearsal does not cover."""
    first = run(tmp_path / "a", [("write", 400, 100)], {"write": 50})
    rows = first.waits.to_pylist()
    later = [
        {**row, "start_ns": row["start_ns"] + 10**9, "cpu_before_ns": 500 * US} for row in rows
    ]
    writer = RecordingWriter(tmp_path / "c")
    writer.add_waits(table([*rows, *later], WAITS))
    writer.add_seconds(seconds([("write", SIZE, 800, 100 * US)], 1))
    source = writer.finish(known(10.0, 0, 800, cpu_s=9.0))
    target = run(tmp_path / "b", [("write", 400, 900)], {"write": 60})
    result = rehearsed_change(cpu_of(source), recorded_loads(source), Rehearsal.of(target))
    assert result.each_s == pytest.approx([10e-6], rel=0.15)


@cases("threads", [1, 3])
def test_cpu_time_before_the_first_operation_is_ignored(tmp_path, threads):
    """The run first reads a table for one or two seconds, which is no cost of temp I/O."""
    loads = [("write", 300, 100)]
    source = run(tmp_path / "a", loads, {"write": 50}, threads=threads, first_us=10**6)
    target = run(tmp_path / "b", loads, {"write": 80}, threads=threads, first_us=2 * 10**6)
    result = rehearsed_change(cpu_of(source), recorded_loads(source), Rehearsal.of(target))
    assert result.each_s == pytest.approx([30e-6], rel=0.02)


def test_a_shorter_rehearsal_has_a_larger_error(tmp_path):
    errors = []
    source = run(tmp_path / "a", [("write", 4000, 100), ("read", 4000, 100)],
               {"write": 50, "read": 50})  # fmt: skip
    for number, done in enumerate(
        ([("write", 200, 9)], [("write", 4000, 9)], [("write", 4000, 9), ("read", 4000, 9)])
    ):
        target = run(tmp_path / f"{number}", done, {"write": 20, "read": 20})
        errors.append(
            rehearsed_change(cpu_of(source), recorded_loads(source), Rehearsal.of(target)).error_s
        )
    # 8,000 operations take 30 us less each.
    assert 8000 * 30e-6 > errors[0] > errors[1] > errors[2] > 0


def test_too_few_operations_give_no_estimate(tmp_path):
    source = run(tmp_path / "a", [("write", 400, 100)], {"write": 50})
    target = run(tmp_path / "b", [("write", 99, 100)], {"write": 50})
    assert rehearsed_change(cpu_of(source), recorded_loads(source), Rehearsal.of(target)) is None


def test_a_recording_in_slices_is_compared_up_to_the_end_of_its_first(tmp_path):
    """Its first slice holds 300 operations of 150 us each, however far the rehearsal got."""
    source = run(tmp_path / "a", [("write", 2000, 100)], {"write": 50}, slices=[(0.0, 0.045)])
    target = run(tmp_path / "b", [("write", 1000, 100)], {"write": 75})
    result = rehearsed_change(cpu_of(source), recorded_loads(source), Rehearsal.of(target))
    assert result.total_s == pytest.approx(2000 * 25e-6, rel=0.02)


def test_without_cpu_times_the_gaps_of_a_single_thread_are_used(tmp_path):
    loads = [("write", 300, 100)]
    source = run(tmp_path / "a", loads, {"write": 50}, cpu_s=None)
    target = run(tmp_path / "b", loads, {"write": 80})
    result = rehearsed_change(cpu_of(source), recorded_loads(source), Rehearsal.of(target))
    assert result.each_s == pytest.approx([30e-6], rel=0.02)
    source = run(tmp_path / "c", loads, {"write": 50}, cpu_s=None, threads=2)
    assert rehearsed_change(cpu_of(source), recorded_loads(source), Rehearsal.of(target)) is None


def test_the_cost_of_compression_is_not_counted_twice(tmp_path):
    loads = [("write", 300, 100)]
    source = run(tmp_path / "a", loads, {"write": 50})
    target = run(tmp_path / "b", loads, {"write": 80})
    result = rehearsed_change(cpu_of(source), recorded_loads(source), Rehearsal.of(target), 0.006)
    assert result.total_s + 0.006 == pytest.approx(300 * 30e-6, rel=0.02)


@cases(("done", "expected_us"), [(99, 100), (200, 120), (1000, 200)])
def test_rehearsed_latencies_are_weighted_by_their_count(tmp_path, done, expected_us):
    """1,000 writes, probed at 100 us; those rehearsed took 200 us."""
    source = run(tmp_path / "a", [("write", 1000, 50)], {"write": 50})
    target = run(tmp_path / "b", [("write", done, 200)], {"write": 50})
    probed = Estimate(100e-6, blocks=np.array([[1000.0, 100e-6]]))
    [result] = rehearsed([probed], recorded_loads(source), Rehearsal.of(target))
    assert result.mean_s == pytest.approx(expected_us * 1e-6)

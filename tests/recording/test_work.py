"""The work of threads, against a slow reduction of the same rows, and by hand."""

import itertools
import random
from collections import defaultdict

import pytest

from cases import cases
from evidence import change, known, recording, table
from spillcast import _core
from spillcast.calibrated import calibrated
from spillcast.recording.meta import KeptWaits
from spillcast.recording.schema import WAITS
from spillcast.recording.thread_trace import READ, WRITE
from spillcast.recording.writer import RecordingWriter

ELAPSED_S, STRETCHES = 0.5, 10
SLICES_S = [(0.05, 0.15), (0.2, 0.22), (0.4, 0.5)]


def drawn_rows(seed, slices_s):
    """Rows of four threads in order of their start, some with unknown values."""
    rng = random.Random(seed)
    rows = []
    for number in range(800):
        begin_s, end_s = rng.choice(slices_s or [(0.0, ELAPSED_S)])
        temp, op = rng.random() < 0.6, rng.choice(["read", "write", None])
        moves = op is not None
        rows.append(
            {
                "start_ns": rng.randrange(round(begin_s * 1e9), round(end_s * 1e9)),
                "elapsed_ns": rng.randrange(10, 900_000),
                "session": rng.choice([-3, 7, 8, 9]),
                "event": rng.choice(["pread64", "fsync", "futex"]),
                "op": op,
                "temp": temp,
                "file": rng.choice(["/t/a", "/t/duckdb_temp_storage_DEFAULT-0.tmp", None]),
                "offset": rng.choice([None, *range(0, 5 * 8192, 8192)]) if moves else None,
                "bytes": rng.choice([None, 0, 5000, 8192, 8192, 8192]) if moves else None,
                "blocked": rng.choice([None, True, False]),
                "cpu_before_ns": rng.choice([None, rng.randrange(200_000)]),
                "woken_by": None if number else 7,
            }
        )
    return sorted(rows, key=lambda row: row["start_ns"])


def recorded(path, rows, slices_s=None, elapsed_s=1.0):
    writer = RecordingWriter(path)
    writer.add_waits(table(rows, WAITS))
    run = writer.finish(known(elapsed_s, 1, 1))
    change(run, raw=KeptWaits(len(rows), len(rows), slices_s))
    return run


def slice_of(row, slices_s):
    return sum(round(begin_s * 1e9) <= row["start_ns"] for begin_s, _ in slices_s or ())


def covered_ns(spans, begin=float("-inf"), end=float("inf")):
    """The time between two instants that at least one span covers."""
    edges = sorted({min(max(edge, begin), end) for span in spans for edge in span})
    pairs = itertools.pairwise(edges)
    return sum(b - a for a, b in pairs if any(s[0] <= a and b <= s[1] for s in spans))


def sequential_shares(rows, slices_s):
    known_rows, following, last = defaultdict(int), defaultdict(int), {}
    for row in rows:
        if not row["temp"] or None in (row["op"], row["offset"], row["bytes"]):
            continue
        stream, slice_ = (row["file"], row["op"]), slice_of(row, slices_s)
        end, its_slice = last.get(stream, (row["offset"], slice_))
        if its_slice == slice_:
            key = row["op"], _core.size_class_bytes(row["bytes"])
            known_rows[key] += 1
            following[key] += end == row["offset"]
        last[stream] = row["offset"] + row["bytes"], slice_
    return {key: following[key] / count for key, count in known_rows.items()}


def bursts(rows, slices_s):
    matches = []
    for session in sorted({row["session"] for row in rows}):
        its = [row for row in rows if row["session"] == session]
        at = [n for n, row in enumerate(its) if row["temp"] and row["op"] and row["bytes"]]
        for first, second in itertools.pairwise(at):
            if slice_of(its[first], slices_s) == slice_of(its[second], slices_s):
                between = its[first + 1 : second + 1]
                cpu_ns = sum(row["cpu_before_ns"] or 0 for row in between)
                matches.append((session, its[first], its[second], cpu_ns / 1e9))
    return matches


def data_reads(rows):
    """Number, bytes and elapsed time of cold reads, and active threads."""
    memory = calibrated()
    spans = [
        (row["start_ns"] - (row["cpu_before_ns"] or 0),
         row["start_ns"] + (row["elapsed_ns"] if row["op"] or row["file"] else 0))
        for row in rows
    ]  # fmt: skip
    cold = [
        row for row in rows
        if not row["temp"] and row["op"] == "read" and row["blocked"] is not False
        and row["elapsed_ns"] / 1e9
        > memory.memory_s + (row["bytes"] or 0) / memory.memory_bytes_per_s
    ]  # fmt: skip
    wide_ns, elapsed_s, worked, covered = ELAPSED_S * 1e9 / STRETCHES, 0.0, 0, 0
    for stretch in range(STRETCHES):
        begin = float("-inf") if stretch == 0 else stretch * wide_ns
        end = float("inf") if stretch == STRETCHES - 1 else (stretch + 1) * wide_ns
        its = [n for n, row in enumerate(rows) if begin <= row["start_ns"] < end]
        works = sum(spans[n][1] - spans[n][0] for n in its)
        covers = covered_ns(spans, stretch * wide_ns, (stretch + 1) * wide_ns)
        waited_s = sum(row["elapsed_ns"] for row in cold if begin <= row["start_ns"] < end) / 1e9
        elapsed_s += waited_s / max(works / max(covers, 1), 1)
        worked, covered = worked + works, covered + covers
    return len(cold), sum(row["bytes"] or 0 for row in cold), elapsed_s, max(worked / covered, 1)


@cases("slices_s", [None, SLICES_S])
@cases("seed", range(3))
def test_each_sum_follows_its_definition(tmp_path, seed, slices_s):
    rows = drawn_rows(seed, slices_s)
    work = recorded(tmp_path / "run.spill", rows, slices_s, ELAPSED_S).work
    temp_io = [row for row in rows if row["temp"] and row["op"]]
    assert work.sequential == pytest.approx(sequential_shares(rows, slices_s))
    assert work.threads == len({row["session"] for row in temp_io})
    spans = [(row["start_ns"], row["start_ns"] + row["elapsed_ns"]) for row in temp_io]
    total_ns = sum(row["elapsed_ns"] for row in temp_io)
    assert work.in_flight == pytest.approx(total_ns / covered_ns(spans))
    blocked = [row["blocked"] for row in temp_io if row["blocked"] is not None]
    assert work.blocked_share == pytest.approx(sum(blocked) / len(blocked))
    changes = defaultdict(list)
    for row in rows:
        if row["temp"] and row["op"] is None:
            changes[row["event"]].append(row["elapsed_ns"])
    expected = [(event, len(ns), sum(ns)) for event, ns in sorted(changes.items())]
    assert sorted(map(tuple, work.changes)) == expected
    assert work.wakings_seen
    assert work.temp_owner == "duckdb"


@cases("slices_s", [None, SLICES_S])
def test_bursts_are_those_of_each_thread(tmp_path, slices_s):
    rows = drawn_rows(5, slices_s)
    result, expected = (
        recorded(tmp_path / "run.spill", rows, slices_s, ELAPSED_S).work.bursts,
        bursts(rows, slices_s),
    )
    assert result.session.tolist() == [session for session, *_ in expected]
    assert result.cpu_s.tolist() == pytest.approx([cpu_s for *_, cpu_s in expected])
    first, second = [burst[1] for burst in expected], [burst[2] for burst in expected]
    numbers = {"read": READ, "write": WRITE}
    assert result.op.tolist() == [numbers[row["op"]] for row in first]
    assert result.next_op.tolist() == [numbers[row["op"]] for row in second]
    assert result.bytes.tolist() == [row["bytes"] for row in first]
    end_s = [(row["start_ns"] + row["elapsed_ns"]) / 1e9 for row in first]
    assert result.end_s.tolist() == pytest.approx(end_s)


def test_data_reads_share_the_time_with_active_threads(tmp_path):
    rows = drawn_rows(6, None)
    result = recorded(tmp_path / "run.spill", rows, None, ELAPSED_S).work.data_reads
    count, size, elapsed_s, threads = data_reads(rows)
    assert (result.cold, result.cold_bytes) == (count, size)
    assert result.cold_elapsed_s == pytest.approx(elapsed_s)
    assert result.threads_at_once == pytest.approx(threads)


def test_without_rows_there_is_no_work(tmp_path):
    work = recorded(tmp_path / "run.spill", [], None, ELAPSED_S).work
    assert (work.threads, work.sequential, list(work.changes)) == (0, {}, [])
    assert work.bursts is None
    assert len(work.trace.thread) == 0


MS = 1_000_000


def row(start_ms, op, *, session=1, temp=True, cpu_ms=0.0, size=8192, elapsed_ms=2):
    return {
        "start_ns": round(start_ms * MS), "elapsed_ns": elapsed_ms * MS, "session": session,
        "event": "call", "op": op, "temp": temp, "bytes": size,
        "cpu_before_ns": None if cpu_ms is None else round(cpu_ms * MS),
    }  # fmt: skip


def test_a_burst_includes_rows_that_move_no_temp_data(tmp_path):
    """A table read and a wait without bytes: their CPU time belongs to the burst around them."""
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


def test_threads_have_separate_bursts(tmp_path):
    rows = [row(n, "read", session=n % 2, cpu_ms=1 + n % 2) for n in range(6)]
    kept = recorded(tmp_path / "run.spill", rows).work.bursts
    assert sorted(zip(kept.session.tolist(), kept.cpu_s.tolist(), strict=True)) == [
        (0, 1e-3), (0, 1e-3), (1, 2e-3), (1, 2e-3),
    ]  # fmt: skip


def test_a_gap_between_slices_is_not_a_burst(tmp_path):
    rows = [row(start_ms, "read", cpu_ms=1) for start_ms in (0, 4, 500, 504)]
    run = recorded(tmp_path / "run.spill", rows, slices_s=[(0.0, 0.1), (0.5, 0.6)])
    assert run.work.bursts.end_s.tolist() == pytest.approx([2e-3, 502e-3])


def test_without_cpu_times_there_are_no_bursts(tmp_path):
    rows = [row(n, "read", cpu_ms=None) for n in range(3)]
    assert recorded(tmp_path / "run.spill", rows).work.bursts is None
    made_up = recording(tmp_path / "other.spill", [("read", 8192, 5, 1000)], elapsed_s=1.0)
    assert made_up.work.bursts is None

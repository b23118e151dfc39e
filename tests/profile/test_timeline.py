"""Time lines of any evidence contain the time of each wait once."""

import json
import random
from dataclasses import replace

import pytest

from cases import cases
from evidence import change, recording, table
from large_recording import write_large_recording
from oracle_files import READ, WRITE, blocks, make_example, write_trace
from spillcast.evidence.oracle.trace import profile_traces
from spillcast.profile import timeline
from spillcast.recording import Recording
from spillcast.recording.schema import SAMPLES, WAITS
from spillcast.tables import Table


def test_samples_are_classified_as_in_the_published_case(tmp_path):
    """418 of 773 s are temp reads, 12 temp writes, and 338 on a CPU, which come first."""
    line = timeline.of_ash([make_example(tmp_path) / "ash.csv"])
    totals = {name: pytest.approx(seconds) for name, seconds in line.totals_s.items()}
    assert totals == {
        timeline.CPU: 338, timeline.READ: 418, timeline.WRITE: 12, timeline.WAITS: 5,
    }  # fmt: skip
    cpu, reads = line.busy[timeline.CPU], line.busy[timeline.READ]
    assert cpu[0] == reads[-1] == 1.0
    # A single session is in some state in every slice.
    for each in zip(*line.busy.values(), strict=True):
        assert sum(each) == pytest.approx(1.0, abs=0.21)


def test_samples_are_at_their_time_within_the_run():
    """The session was first sampled in the fifth second of eight."""
    row = dict.fromkeys(field.name for field in SAMPLES) | {"session": 1, "weight_us": 1_000_000}
    rows = [row | {"time_ns": second * 10**9} for second in (5, 6, 7)]
    line = timeline.of_samples(Table.from_rows(rows, SAMPLES), 8.0)
    assert line.busy == {timeline.CPU: [0, 0, 0, 0, 0, 1, 1, 1]}


def test_a_trace_by_the_second(tmp_path):
    """Two seconds of reads, then one of writes, then a latch."""
    waits = [(READ, 10_000, blocks(31))] * 200 + [(WRITE, 5_000, blocks(31))] * 200
    waits += [("latch: cache buffers chains", 500_000, "address=1 number=2 tries=0")]
    path = write_trace(tmp_path / "t.trc", waits)
    read = profile_traces([path], ["event", "second"])
    line = timeline.of_traces(read, 3.5)
    result = {name: pytest.approx(seconds) for name, seconds in line.totals_s.items()}
    assert result == {timeline.READ: 2.0, timeline.WRITE: 1.0, timeline.WAITS: 0.5}
    assert len(line.busy[timeline.READ]) == 4


def test_slices_follow_from_the_seconds(tmp_path):
    """Where raw waits were thinned out, the seconds contain all of the I/O."""
    loads = [("read", 8192, 300, 2_000_000), ("write", 4096, 100, 1_000_000)]
    made = recording(tmp_path / "cut.spill", loads, elapsed_s=2.0)
    meta = json.loads((made.path / "meta.json").read_text())
    meta["raw"]["slices_s"] = [[0.0, 0.3]]
    (made.path / "meta.json").write_text(json.dumps(meta))
    line = timeline.of_recording(Recording.open(made.path))
    assert line.totals_s == {timeline.READ: pytest.approx(0.6), timeline.WRITE: pytest.approx(0.1)}
    assert line.length_s == 1


def test_a_run_that_begins_late_keeps_its_length(tmp_path):
    """Times count from the beginning of the recording; the last slice is as full as the others."""
    path = write_large_recording(tmp_path / "some.spill", 4000)
    meta = json.loads((path / "meta.json").read_text())
    meta |= {"recorded_s": meta["elapsed_s"], "elapsed_s": meta["elapsed_s"] * 0.7}
    (path / "meta.json").write_text(json.dumps(meta))
    line = timeline.of_recording(Recording.open(path))
    slices = zip(*line.busy.values(), strict=True)
    # Two sessions: never more than two in any state.
    assert max(sum(each) for each in slices) < 2.1


def test_waits_and_the_cpu_time_before_them_are_in_the_slices_that_they_overlap(tmp_path):
    """Against a loop over rows and slices; session 3 does no temp I/O, and may be idle.

    Time that is neither a wait nor the CPU time between waits is time in the run queue.
    """
    draws, rows = random.Random(7), []
    for session in (1, 2, 3):
        now_ns = 0
        while now_ns < 1_000_000_000:
            cpu_ns, wait_ns = draws.randrange(30_000_000), draws.randrange(60_000_000)
            ready_ns = draws.choice([0, 0, draws.randrange(2_000, 20_000_000)]) if now_ns else 0
            now_ns += ready_ns
            op, temp = draws.choice([("read", True), ("write", True), ("read", False),
                                     (None, True), (None, False)])  # fmt: skip
            if session == 3:
                op, temp = None, False
            rows.append(
                {"start_ns": now_ns + cpu_ns, "elapsed_ns": wait_ns, "session": session,
                 "event": "e", "op": op, "temp": temp, "bytes": 1, "cpu_before_ns": cpu_ns,
                 "ready_ns": ready_ns}
            )  # fmt: skip
            now_ns += cpu_ns + wait_ns
    made = recording(tmp_path / "some.spill", [("read", 8192, 1, 1000)], elapsed_s=1.2)
    capture = replace(made.meta.capture, run_queue_delay_s=1.0)
    change(made, capture=capture)
    made.waits = table([{k: v for k, v in row.items() if k != "ready_ns"} for row in rows], WAITS)
    states = {("read", True): timeline.READ, ("write", True): timeline.WRITE,
              ("read", False): timeline.OTHER_IO, (None, True): timeline.OTHER_IO,
              (None, False): timeline.WAITS}  # fmt: skip
    line = timeline.of_recording(made)
    expected = {state: [0.0] * len(line.busy[timeline.CPU]) for state in timeline.STATES}
    length_ns = line.length_s * 1e9
    for row in rows:
        begin_ns, end_ns = row["start_ns"], row["start_ns"] + row["elapsed_ns"]
        on_cpu_ns = begin_ns - row["cpu_before_ns"]
        pieces = [(on_cpu_ns, begin_ns, timeline.CPU)]
        pieces.append((on_cpu_ns - row["ready_ns"], on_cpu_ns, timeline.RUN_QUEUE))
        if row["session"] != 3:
            pieces.append((begin_ns, end_ns, states[row["op"], row["temp"]]))
        for low_ns, high_ns, state in pieces:
            for at in range(len(expected[state])):
                within = min(high_ns, (at + 1) * length_ns) - max(low_ns, at * length_ns)
                expected[state][at] += max(within, 0.0) / length_ns
    assert line.sessions == 3
    for state, busy in expected.items():
        assert line.busy[state] == pytest.approx(busy, abs=1e-9)


@cases("elapsed_s", [0.02, 0.7, 5.15, 773, 36_000, 5e6])
def test_slices_have_round_lengths_and_are_few(elapsed_s):
    length_s = timeline.slice_s(elapsed_s)
    assert elapsed_s / length_s <= timeline.SLICES_MAX
    assert length_s >= 0.01

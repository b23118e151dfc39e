"""Chrome trace events that nest, with every wait, its CPU time and the thread that woke it."""

import json
import shutil
import subprocess
import sys
from dataclasses import replace

import pyarrow.parquet as pq
import pytest

from cases import cases
from evidence import change, known, table
from harness import completed, only_line, spillcast, spillcast_command
from large_recording import write_large_recording
from spillcast.recording.meta import Meta, ObservedEngine
from spillcast.recording.schema import SAMPLES, SECONDS, WAITS
from spillcast.recording.writer import RecordingWriter
from spillcast.report.export import trace_text

PHASES = {"X", "M", "C", "s", "f", "i"}


def wait(session, start_ns, elapsed_ns, cpu_before_ns, **more):
    known = {"event": "pread64", "op": "read", "temp": True, "file": "/t/spill", "offset": 0}
    return {
        "session": session, "start_ns": start_ns, "elapsed_ns": elapsed_ns,
        "cpu_before_ns": cpu_before_ns, "bytes": 8192, **known, **more,
    }  # fmt: skip


BLOCKED = {
    "event": "blocked", "op": None, "temp": False, "file": None, "offset": None, "bytes": None,
}  # fmt: skip
#: Thread 2 waits until thread 1 wakes it at 30 us; all in ns.
ROWS = [
    wait(1, 1_000, 9_000, 1_000),
    wait(2, 5_000, 25_000, 4_000, woken_by=1, **BLOCKED),
    wait(1, 40_000, 2_000, 22_000, file='/t/a "quoted" name'),
    wait(2, 33_000, 10_000, 2_500),
]
SECOND = {
    "second": 0, "op": "read", "temp": True, "size_class_bytes": 8192, "count": 3,
    "bytes": 24_576, "total_ns": 21_000, "latency_ns": [7_000], "latency_count": [3],
}  # fmt: skip


def write(path, rows, *, elapsed_s=5e-5):
    writer = RecordingWriter(path)
    writer.add_waits(table(rows, WAITS))
    writer.add_seconds(table([SECOND], SECONDS))
    return writer.finish(replace(known(elapsed_s, 3, 0), engine=ObservedEngine("duckdb", pid=4711)))


@pytest.fixture(scope="module")
def made_up(tmp_path_factory):
    return write(tmp_path_factory.mktemp("perfetto") / "run.spill", ROWS)


def events_of(recording, where=None):
    return json.loads("".join(trace_text(recording, where)))["traceEvents"]


def slices(events, **wanted):
    """Thread, name, start and end in ns of the slices that match ``keys``."""
    return sorted(
        (e["tid"], e["name"], round(e["ts"] * 1e3), round((e["ts"] + e["dur"]) * 1e3))
        for e in events
        if e["ph"] == "X" and all(e[key] == value for key, value in wanted.items())
    )


def assert_nested(events):
    """Asserts that slices of a thread are nested or disjoint, as the format requires."""
    for thread in {e["tid"] for e in events if e["ph"] == "X"}:
        ends = []
        spans = [(start, -end) for _, _, start, end in slices(events, tid=thread)]
        for start, end in sorted(spans):
            while ends and ends[-1] <= start:
                ends.pop()
            assert not ends or -end <= ends[-1]
            ends.append(-end)


def assert_valid(events):
    for event in events:
        assert event["ph"] in PHASES
        assert isinstance(event["name"], str)
        assert isinstance(event["pid"], int)
        if event["ph"] != "M":
            assert event["ts"] >= 0
    threads = {e["tid"] for e in events if e["ph"] in "Xsfi"}
    named = {e["tid"] for e in events if e["name"] == "thread_name"}
    assert threads == named
    assert [e["ph"] for e in events if e["name"] == "process_name"] == ["M"]
    assert_nested(events)


def test_a_made_up_run(made_up):
    events = events_of(made_up)
    assert_valid(events)
    assert {e["pid"] for e in events} == {4711}
    assert slices(events, cat="temp") == [
        (1, "temp read", 1_000, 10_000),
        (1, "temp read", 40_000, 42_000),
        (2, "temp read", 33_000, 43_000),
    ]
    assert slices(events, cat="wait") == [(2, "blocked", 5_000, 30_000)]
    # Thread 1 was 30 us between its reads: 22 us on a core, so 8 us in the run queue. The 3 us of
    # thread 2 are known to half a us, which is within the resolution of the clocks.
    assert slices(events, cat="cpu") == [
        (1, "CPU", 0, 1_000),
        (1, "CPU", 18_000, 40_000),
        (1, "ready", 10_000, 18_000),
        (2, "CPU", 1_000, 5_000),
        (2, "CPU", 30_000, 33_000),
    ]


def test_an_arrow_leads_from_the_waker_to_the_woken_thread(made_up):
    events = events_of(made_up)
    begin, end = (e for e in events if e["ph"] in "sf")
    assert (begin["tid"], end["tid"], end["bp"]) == (1, 2, "e")
    assert begin["id"] == end["id"]
    for arrow in (begin, end):
        at = round(arrow["ts"] * 1e3)
        held = slices(events, tid=arrow["tid"])
        assert any(first <= at < last for _, _, first, last in held), "no slice holds its end"
    wakes = slices(events, cat="wake")
    assert wakes == [(1, "wake", 29_999, 30_000)]


def test_arguments_of_a_slice(made_up):
    args = next(e["args"] for e in events_of(made_up) if "quoted" in str(e.get("args")))
    assert args == {"event": "pread64", "bytes": 8192, "offset": 0, "file": '/t/a "quoted" name'}


def test_bytes_per_second_are_a_counter(made_up):
    counters = [(e["ts"], e["args"]) for e in events_of(made_up) if e["ph"] == "C"]
    assert counters == [(0, {"read": 24_576, "write": 0}), (1e6, {"read": 0, "write": 0})]


def test_a_part_of_the_run(made_up):
    events = events_of(made_up, "session = 1")
    assert_valid(events)
    assert len(slices(events, cat="temp")) == 2
    assert slices(events, name="ready") == [], "what lies between waits that are left out?"


@cases("changed", [{"method": "preload"}, {"lost": 3}])
def test_no_run_queue_time_where_waits_are_not_observed(tmp_path, changed):
    """The preload library observes only waits for files; lost waits are in no row."""
    recording = write(tmp_path / "run.spill", ROWS)
    change(recording, capture=replace(recording.meta.capture, **changed))
    events = events_of(recording)
    assert slices(events, name="ready") == []
    assert (1, "CPU", 18_000, 40_000) in slices(events, cat="cpu")


def test_overlapping_waits_are_cut(tmp_path):
    rows = [wait(1, 1_000, 9_000, 500), wait(1, 9_990, 1_000, 0), wait(1, 9_995, 100, 0)]
    events = events_of(write(tmp_path / "run.spill", rows))
    assert_valid(events)
    assert slices(events, cat="temp")[:2] == [
        (1, "temp read", 1_000, 10_000),
        (1, "temp read", 10_000, 10_990),
    ]


def test_a_real_recording_has_all_its_waits(spilled):
    result = completed("export", spilled.path, "--format", "perfetto")
    events = json.loads(result.stdout)["traceEvents"]
    assert_valid(events)
    waits = pq.read_table(spilled.path / "waits.parquet")
    assert len([e for e in events if e.get("cat") in {"temp", "other", "wait"}]) == waits.num_rows
    drawn_s = sum(e["dur"] for e in events if e.get("cat") == "temp") / 1e6
    temp = waits.filter(waits["temp"])
    assert drawn_s == pytest.approx(sum(temp["elapsed_ns"].to_pylist()) / 1e9, rel=1e-6)


def test_to_a_file(spilled, tmp_path):
    output = tmp_path / "run.json"
    arguments = ("export", spilled.path, "--format", "perfetto", "-o", output)
    document = json.loads(spillcast(*arguments, "--json").stdout)
    assert document == {
        "schema": "spillcast.export/1", "format": "perfetto", "path": str(output),
        "bytes": output.stat().st_size,
    }  # fmt: skip
    assert list(tmp_path.iterdir()) == [output]


@pytest.mark.nightly
def test_memory_does_not_grow_with_the_recording(tmp_path):
    """200,000 waits are 50 MB of JSON, and more as rows in memory."""
    peaks = []
    for waits in (25_000, 200_000):
        recording = write_large_recording(tmp_path / f"{waits}.spill", waits)
        command = spillcast_command("export", recording, "--format", "perfetto")
        measured = (
            "import resource, subprocess, sys; "
            "subprocess.run(sys.argv[1:], stdout=subprocess.DEVNULL, check=True); "
            "print(resource.getrusage(resource.RUSAGE_CHILDREN).ru_maxrss // 1024)"
        )
        done = subprocess.run(
            [sys.executable, "-c", measured, *command], capture_output=True, text=True, check=True
        )
        peaks.append(int(done.stdout))
    assert peaks[1] < peaks[0] + 75


@cases(
    ("arguments", "words"),
    [
        (("--where", "no_such = 1"), "--where: Binder Error"),
        (("--where", "session = -1"), "no row of waits meets 'session = -1'"),
        (("--where", "event::int = 1"), "--where: Conversion Error"),
        (("--where", f"session * {(1 << 63) - 1} > 1"), "--where: "),
        (("--where", "strptime(event, '%Y') is null"), "--where: Invalid Input Error"),
        (("--by", "event"), "--by is for --format openmetrics"),
        (("-o", "none/run.json"), "there is no directory"),
    ],
)
def test_bad_input(made_up, tmp_path, arguments, words):
    result = spillcast("export", made_up.path, "--format", "perfetto", *arguments, cwd=tmp_path)
    assert words in only_line(result, 2)
    assert list(tmp_path.iterdir()) == []


def test_a_document_and_the_export_cannot_both_be_on_stdout(made_up):
    result = spillcast("export", made_up.path, "--format", "perfetto", "--json")
    assert result.returncode == 2
    assert "traceEvents" not in result.stdout
    assert json.loads(result.stdout)["exit_status"] == 2


def test_samples_are_instants(tmp_path):
    writer = RecordingWriter(tmp_path / "run.spill")
    rows = [
        {"time_ns": at * 1_000_000, "session": 815, "event": event, "weight_us": 1000}
        for at, event in ((1, "BufFileRead"), (2, None))
    ]
    writer.add_samples(table(rows, SAMPLES))
    events = events_of(writer.finish(Meta(elapsed_s=0.002)))
    assert_valid(events)
    seen = [(e["tid"], e["ts"], e["name"], e["s"]) for e in events if e["ph"] == "i"]
    assert seen == [(815, 1000, "BufFileRead", "t"), (815, 2000, "on CPU", "t")]


def test_a_cut_recording_is_refused(made_up, tmp_path):
    cut = tmp_path / "cut.spill"
    shutil.copytree(made_up.path, cut)
    waits = cut / "waits.parquet"
    waits.write_bytes(waits.read_bytes()[:500])
    output = tmp_path / "run.json"
    result = spillcast("export", cut, "--format", "perfetto", "-o", output)
    assert f"{waits}: cut or damaged" in only_line(result, 2)
    assert list(tmp_path.iterdir()) == [cut]


def test_a_trace_has_no_perfetto_export(tmp_path):
    (tmp_path / "a.trc").write_text("WAIT #7: nam='x' ela= 5 p1=0 obj#=5 tim=5\n")
    result = spillcast("export", "a.trc", "--format", "perfetto", cwd=tmp_path)
    assert "is for one recording" in only_line(result, 2)

"""A capture source made of paper goes from the recorder to a profile, a forecast and a page."""

import gc
import os
import runpy
import typing
from dataclasses import replace

import pyarrow as pa
import pytest

from spillcast.cli import record as record_verb
from spillcast.errors import CaptureUnavailable, ChoiceUnknown
from spillcast.forecast import forecast
from spillcast.profile import profile
from spillcast.recording.absent import AbsentCapture
from spillcast.recording.begin import record_command, record_pid
from spillcast.recording.capture_cost import CaptureCost
from spillcast.recording.choice import Choice
from spillcast.recording.meta import CaptureAccount
from spillcast.recording.options import RecordOptions
from spillcast.recording.schema import SECONDS_SCHEMA, WAITS_SCHEMA
from spillcast.recording.source import AUTO, SOURCES, Source
from spillcast.report.recording import cost_sentence, recording_text
from spillcast.storage.target import resolve

US = 1_000
READS, READ_NS, BYTES = 500, 100 * US, 8192
#: Calls and switches that were observed, and what one costs: about, and quartiles.
CALLS, SWITCHES = 700, 30
COST = CaptureCost(2e-6, 1e-6, 3e-6, 4e-6, 3e-6, 6e-6)
#: What a paper call does not say.
NOTHING = {field.name: None for field in WAITS_SCHEMA if field.nullable}


class PaperCapture(AbsentCapture):
    """Made-up reads of one temp file, all in the first second, told once."""

    def __init__(self):
        super().__init__()
        self.told = False

    def take(self):
        if self.told:
            return super().take()
        self.told = True
        wait = {"elapsed_ns": READ_NS, "session": 1, "event": "io_uring read", "op": "read"} | {
            "temp": True, "file": "/spill/1", "bytes": BYTES, "blocked": True,
        }  # fmt: skip
        waits = [
            NOTHING | wait | {"start_ns": at * 2 * READ_NS, "offset": at * BYTES}
            for at in range(READS)
        ]
        second = {
            "second": 0, "op": "read", "temp": True, "size_class_bytes": BYTES, "count": READS,
            "bytes": READS * BYTES, "total_ns": READS * READ_NS, "latency_ns": [READ_NS],
            "latency_count": [READS],
        }  # fmt: skip
        return (
            pa.RecordBatch.from_pylist(waits, WAITS_SCHEMA),
            pa.RecordBatch.from_pylist([second], SECONDS_SCHEMA),
        )

    def status(self):
        seen = {
            "calls": CALLS,
            "switches": SWITCHES,
            "temp_reads": READS,
            "temp_bytes": READS * BYTES,
            "temp_ns": READS * READ_NS,
        }
        return super().status() | seen | {"cpu_ns": READS * READ_NS}


class Paper(Source):
    """A source that watches nothing."""

    name = "paper"
    title = "what was written on paper"
    blind_spots = "all that really happened"
    refusal = None

    def __init__(self, _calls):
        if self.refusal is not None:
            raise self.refusal

    def start(self, _pid, _temp_dirs):
        return PaperCapture()

    def environment(self):
        return {"PAPER": "1"}

    def measure_cost(self):
        return COST


@pytest.fixture
def paper(monkeypatch):
    monkeypatch.setitem(SOURCES, Paper.name, Paper)
    return RecordOptions(capture=Paper.name)


@pytest.fixture
def recording(paper, tmp_path):
    command = ["sh", "-c", "test $PAPER = 1"]
    recorder, target = record_command(command, tmp_path / "paper.spill", paper)
    while not recorder.poll():
        pass
    assert target.exit_status == 0
    return recorder.finish(elapsed_s=0.2)


def test_a_recording_says_what_it_was_made_by(recording):
    capture = recording.meta.capture
    assert capture.method == "paper"
    assert (capture.calls, capture.switches) == (CALLS, SWITCHES)
    assert (capture.call_cost_s, capture.switch_cost_s) == (2e-6, 4e-6)
    assert capture.overhead_s == pytest.approx(1400e-6 + 120e-6)
    assert capture.overhead_low_s == pytest.approx(700e-6 + 90e-6)
    assert capture.overhead_high_s == pytest.approx(2100e-6 + 180e-6)
    assert recording.meta.temp.reads == READS
    assert recording.waits.num_rows == READS


def test_it_is_profiled_and_forecast(recording):
    (read,) = [row for row in profile(str(recording.path)).rows if row["event"] == "io_uring read"]
    assert (read["count"], read["total_us"]) == (READS, READS * READ_NS / US)
    slower = forecast(recording, resolve("latency:1ms", recording))
    assert slower.forecast_s > recording.elapsed_s


def test_what_it_cost_is_said_in_a_sentence(recording):
    capture = replace(recording.meta.capture, tracer_cpu_s=0.41, recorder_memory_bytes=58 << 20)
    assert cost_sentence(capture) == (
        "Overhead: the query ran about 1.52 ms (790 us to 2.28 ms) longer; the recorder used "
        "410 ms of CPU and 58 MiB of memory."
    )
    assert cost_sentence(capture) in recording_text(replace_capture(recording, capture))
    unmeasured = cost_sentence(replace(capture, overhead_s=None))
    assert unmeasured.startswith("Overhead: not measured")
    earlier = CaptureAccount("perf", tracer_cpu_s=0.014, overhead_s=0.001)
    assert cost_sentence(earlier) == (
        "Overhead: the query ran about 1 ms longer; the thread that reads events used 14 ms of CPU."
    )


def replace_capture(recording, capture):
    recording.meta = replace(recording.meta, capture=capture)
    return recording


def test_a_page_names_it_and_what_it_does_not_see(recording, tmp_path):
    pytest.importorskip("jinja2")
    from spillcast.evidence.find import Evidence
    from spillcast.report.html.inputs import Inputs
    from spillcast.report.html.runs import add_runs
    from spillcast.report.html.write import write_report

    page = Inputs()
    add_runs(page, Evidence(recordings=[recording.path]), lenient=False)
    write_report(page, tmp_path / "paper.html", redact=False)
    page = (tmp_path / "paper.html").read_text()
    assert Paper.title in page
    assert f"What is missing is {Paper.blind_spots}." in page


def test_the_command_line_offers_it(paper):
    with_paper = runpy.run_path(record_verb.__file__)
    assert typing.get_args(with_paper["CaptureName"]) == ("auto", "bpf", "perf", "preload", "paper")
    assert typing.get_args(record_verb.CaptureName) == ("auto", "bpf", "perf", "preload")


def test_auto_takes_the_best_that_works(monkeypatch):
    class Unable(Paper):
        name = "unable"
        refusal = OSError(38, "Function not implemented")

    known = {"unable": Unable}
    monkeypatch.setattr("spillcast.recording.source.SOURCES", known)
    with pytest.raises(CaptureUnavailable):
        Choice(AUTO)
    known["paper"] = Paper
    assert type(Choice(AUTO).source) is Paper
    with pytest.raises(CaptureUnavailable):
        Choice("unable")


class Failing(Paper):
    """A source that is ready, and then may not observe."""

    name = "failing"
    title = "what fails"
    started = ()

    def start(self, pid, _temp_dirs):
        type(self).started += (pid,)
        raise OSError(24, "Too many open files")

    def environment(self):
        return {}


def test_a_command_is_started_anew_for_the_source_that_comes_next(monkeypatch, tmp_path):
    monkeypatch.setattr("spillcast.recording.source.SOURCES", {"failing": Failing, "paper": Paper})
    mark = tmp_path / "ran"
    command = ["sh", "-c", f"echo $PAPER >> {mark}"]
    recorder, target = record_command(command, None)
    while not recorder.poll():
        pass
    recorder.abandon()
    assert target.exit_status == 0
    assert mark.read_text() == "1\n"
    assert recorder.new_notices() == [
        f"cannot use what fails (Too many open files): {Paper.title} instead"
    ]
    (tried,) = Failing.started
    assert tried != target.pid
    with pytest.raises(ChildProcessError):
        os.waitpid(tried, os.WNOHANG)


def test_what_is_asked_for_by_name_is_not_replaced(monkeypatch):
    known = {"failing": Failing, "paper": Paper}
    monkeypatch.setattr("spillcast.recording.source.SOURCES", known)
    with pytest.raises(CaptureUnavailable) as refused:
        record_command(["true"], None, RecordOptions(capture="failing"))
    assert refused.value.hint.startswith("raise ulimit -n")
    del known["paper"]
    with pytest.raises(CaptureUnavailable):
        record_command(["true"], None)


def test_a_source_that_joins_nothing_is_refused_for_what_runs(paper, monkeypatch, tmp_path):
    monkeypatch.setattr(Paper, "attaches", False)
    with pytest.raises(
        CaptureUnavailable,
        match="--capture paper cannot observe process 1, which is already running",
    ):
        record_pid(1, tmp_path / "x.spill", paper)


def test_a_name_that_is_none_is_refused():
    with pytest.raises(ChoiceUnknown, match="--capture magic: there is no such source") as refused:
        Choice("magic")
    assert refused.value.hint == "give one of auto, bpf, perf, preload"


@pytest.mark.parametrize("of_command", [True, False])
def test_a_recording_that_cannot_begin_leaves_nothing_running(monkeypatch, paper, of_command):
    """The capture has begun when what watches the CPU limits fails."""
    ended, started = [], []
    monkeypatch.setattr(PaperCapture, "stop", lambda capture: ended.append(capture))

    def fail(pid):
        started.append(pid)
        raise PermissionError(1, "no look at the control group")

    monkeypatch.setattr("spillcast._core.CpuWatch", fail)
    begin, what = (record_command, ["true"]) if of_command else (record_pid, os.getpid())
    with pytest.raises(PermissionError):
        begin(what, None, paper)
    assert len(ended) == len(started) == 1
    if of_command:
        with pytest.raises(ChildProcessError):
            os.waitpid(started[0], os.WNOHANG)


def test_a_recording_leaves_no_descriptor_open(paper):
    def record_both():
        command, _ = record_command(["true"], None, paper)
        process = record_pid(os.getpid(), None, paper)
        while not command.poll():
            pass
        for recorder in (command, process):
            recorder.abandon()

    record_both()
    gc.collect()
    before = len(os.listdir("/proc/self/fd"))
    for _ in range(5):
        record_both()
    gc.collect()
    assert len(os.listdir("/proc/self/fd")) == before

"""Capture sources by name: each is offered, described, and refused where it cannot observe."""

import gc
import os
import runpy
import typing
from contextlib import nullcontext
from dataclasses import replace
from pathlib import Path

import pytest

from cases import cases
from evidence import recording as made_up_recording
from harness import until
from spillcast import _core
from spillcast.cli import record as record_verb
from spillcast.errors import CaptureUnavailable, ChoiceUnknown, ProgramMissing
from spillcast.recording.capture import AUTO, PRELOAD, SOURCES, RecordOptions
from spillcast.recording.meta import CaptureAccount
from spillcast.recording.record import Recorder, record_command, record_pid
from spillcast.report.recording import overhead_text, recording_text


def test_the_cost_is_described_in_a_sentence(tmp_path):
    recording = made_up_recording(tmp_path / "run.spill", [("read", 8192, 9, 1000)], elapsed_s=1)
    capture = CaptureAccount(
        "perf", calls=700, tracer_cpu_s=0.41, recorder_memory_bytes=58 << 20,
        overhead_s=1.52e-3, overhead_low_s=790e-6, overhead_high_s=2.28e-3,
    )  # fmt: skip
    assert overhead_text(capture) == (
        "the query ran about 1.52 ms (790 us to 2.28 ms) longer; the recorder used "
        "410 ms of CPU and 58 MiB of memory"
    )
    recording.meta = replace(recording.meta, capture=capture)
    assert overhead_text(capture) in recording_text(recording)
    unmeasured = overhead_text(replace(capture, overhead_s=None))
    assert unmeasured.startswith("not measured")
    earlier = CaptureAccount("perf", tracer_cpu_s=0.014, overhead_s=0.001)
    assert overhead_text(earlier) == (
        "the query ran about 1 ms longer; the recorder used 14 ms of CPU"
    )


def test_the_command_line_offers_the_sources_of_the_core():
    options = runpy.run_path(record_verb.__file__)
    assert typing.get_args(options["CaptureName"]) == (AUTO, *SOURCES)
    # The core lists the names if it does not know the given one.
    with pytest.raises(ChoiceUnknown) as refused:
        Recorder(None, RecordOptions(capture="magic")).prepare()
    assert refused.value.hint == f"give one of {', '.join((AUTO, *SOURCES))}"


@cases("name", SOURCES)
def test_python_and_rust_agree_on_sources_that_attach(name):
    attaches = nullcontext() if SOURCES[name].attaches else pytest.raises(CaptureUnavailable)
    with attaches:
        _core.check_attaches(name, "a server", "")


def test_a_source_that_cannot_attach_is_refused_for_running_processes(tmp_path):
    with pytest.raises(CaptureUnavailable):
        record_pid(1, tmp_path / "x.spill", RecordOptions(capture=PRELOAD))
    _core.check_attaches(AUTO, "a server", "")


def test_a_missing_preload_library_is_named(monkeypatch):
    monkeypatch.setattr("spillcast.recording.record.preload_value", lambda: None)
    with pytest.raises(ProgramMissing):
        record_command(["true"], None, RecordOptions(capture=PRELOAD))


@pytest.mark.parametrize("of_command", [True, False])
def test_a_recording_that_fails_to_start_leaves_nothing_running(monkeypatch, tmp_path, of_command):
    """The capture has already started when the recording fails."""
    started = []

    def children():
        return set(Path(f"/proc/self/task/{os.getpid()}/children").read_text().split())

    def fail(_source, _calls=None):
        started.append((list(tmp_path.iterdir()), children()))
        raise PermissionError(1, "no look at the cache")

    before = children()

    monkeypatch.setattr("spillcast.recording.record.kept_cost", fail)
    begin, subject = (record_command, ["true"]) if of_command else (record_pid, os.getpid())
    with pytest.raises(PermissionError):
        begin(subject, tmp_path / "run.spill")
    [(folders, during)] = started
    assert len(folders) == 1
    # The command, and the shell that removes the folder of a killed recorder.
    assert len(during - before) == 1 + of_command
    assert list(tmp_path.iterdir()) == []
    assert children() == before


def test_a_recording_leaves_no_descriptor_open(tmp_path):
    def record_both():
        command, _ = record_command(["true"], tmp_path / "run.spill")
        process = record_pid(os.getpid(), None)
        while not command.poll():
            pass
        for recorder in (command, process):
            recorder.abandon()

    record_both()
    gc.collect()
    before = len(os.listdir("/proc/self/fd"))
    for _ in range(2):
        record_both()
    gc.collect()
    # The kernel takes a moment to close what a source has open, in its own thread.
    until(lambda: len(os.listdir("/proc/self/fd")) <= before, "the descriptors")

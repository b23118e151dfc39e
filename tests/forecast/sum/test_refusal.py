"""Evidence that carries no number is refused; evidence that is damaged is bad input."""

import json
import shutil
from dataclasses import replace

import pytest

from cases import cases
from evidence import change, recording, storage
from harness import completed, only_line, spillcast
from spillcast.errors import EvidenceContradictory
from spillcast.evidence.open import find_evidence, open_evidence
from spillcast.evidence.selection import Selection
from spillcast.forecast import forecast
from spillcast.forecast.workload.counted import workload_of_counts
from spillcast.recording.meta import Temp
from spillcast.recording.observed import MissedIo, RecordedQuery, Worker
from spillcast.report.recording import recording_text

BIG = 256 * 1024
LOADS = [("read", BIG, 90, 2_000_000), ("write", BIG, 10, 2_000_000)]
TARGET = {("read", BIG): 300_000, ("write", BIG): 300_000}


@cases(
    ("capture", "words"),
    [
        ({"lost": 30}, "30 capture events lost"),
        ({"unknown_file": 30}, "30 calls on files"),
        ({"threads_sampled": (3, 4)}, "3 of 4 threads"),
        ({"temp_copies": 1, "temp_copied_bytes": 30 * BIG}, "sendfile"),
        ({"io_uring": True}, "io_uring"),
        ({"io_uring_depth": 32}, "up to 32 at once"),
        ({"io_uring_busy_s": 0.1}, "other work for 100 ms"),
        ({"mapped_temp_files": ["/t/spill"]}, "memory-mapped"),
    ],
)
def test_recordings_with_too_much_missing_are_refused(tmp_path, capture, words):
    run = recording(tmp_path / "run.spill", LOADS, elapsed_s=1.0, **capture)
    answer = forecast(run, storage(TARGET))
    assert words in answer.refused
    assert answer.forecast_s is None
    assert answer.interval_s is None
    assert answer.speedup is None
    # The ceiling is known all the same.
    assert answer.ceiling_s == pytest.approx(0.8)


@cases("method, helps", [("bpf", False), ("perf", False), ("preload", True)])
def test_another_capture_method_is_advised_only_where_it_observes_more(tmp_path, method, helps):
    capture = {"method": method, "unobserved_processes": 1}
    run = recording(tmp_path / "run.spill", LOADS, elapsed_s=1.0, **capture)
    assert run.meta.unseen.excessive
    assert ("--capture" in run.meta.unseen.remedy) == helps


@cases("method, helps", [("bpf", False), ("perf", True), ("preload", False)])
def test_preload_is_advised_where_files_were_closed_too_early(tmp_path, method, helps):
    """Inside the process, a file has its name when it is opened."""
    capture = {"method": method, "unknown_file": 90}
    run = recording(tmp_path / "run.spill", LOADS, elapsed_s=1.0, **capture)
    assert ("--capture preload" in run.meta.unseen.remedy) == helps


@cases("unseen", [{"lost": 10}, {"unknown_file": 10}, {"lost": 4, "unknown_file": 6}])
def test_possibly_missing_calls_widen_the_interval(tmp_path, unseen):
    whole = forecast(recording(tmp_path / "run.spill", LOADS, elapsed_s=1.0), storage(TARGET))
    run = recording(tmp_path / "less.spill", LOADS, elapsed_s=1.0, **unseen)
    assert run.meta.unseen.calls_share == pytest.approx(10 / 110)
    answer = forecast(run, storage(TARGET))
    assert [warning.code for warning in answer.warnings] == ["unseen"]
    # The missing calls would be faster on the target, too.
    assert answer.interval_s[0] < whole.interval_s[0]


def test_a_single_lost_event_of_a_thousand_is_not_a_warning(tmp_path):
    run = recording(tmp_path / "run.spill", [("read", BIG, 999, 500_000)], elapsed_s=1.0, lost=1)
    assert forecast(run, storage(TARGET)).warnings == []
    assert "0.1 % of the temp I/O is missing: 1 capture event lost" in recording_text(run)
    assert "missing" not in recording_text(
        recording(tmp_path / "whole.spill", LOADS, elapsed_s=1.0)
    )


@cases(
    ("worker", "calls"),
    [
        (Worker(1, 0.5, 0.51, MissedIo(60, 0, 200_000)), 0),
        (Worker(1, 0.5, 0.51, MissedIo(60, 0, 200_000), temp_files=1), 60),
        # It has closed its temp files; it was forked in the clock tick in which the run started.
        (Worker(1, 0.5, 0.51, MissedIo(3, 7, 80_000)), 10),
        (Worker(1, -0.002, 0.51, MissedIo(3, 7, 80_000)), 10),
        (Worker(1, -0.5, 0.0, MissedIo(3, 7, 80_000)), 0),
        # Nothing is known about it: at most as much as each of the two processes did.
        (Worker(1, 0.5, 0.51, None), 50),
    ],
)
def test_calls_of_a_worker_before_it_was_attached_may_be_missing(tmp_path, worker, calls):
    run = recording(tmp_path / "run.spill", LOADS, elapsed_s=1.0)
    query = RecordedQuery(7, None, 1.0, 0.0, "query", None, [worker], 0, [])
    change(run, server=query, temp=Temp(90, 10, total_s=0.2))
    assert run.meta.unseen.calls_share == pytest.approx(calls / (100 + calls))


def test_page_faults_that_may_take_long_are_a_warning(tmp_path):
    # 50 reads of 2 ms are a tenth of the second.
    run = recording(tmp_path / "run.spill", LOADS, elapsed_s=1.0, file_faults=50)
    change(run, temp=Temp(90, 10, total_s=0.2))
    answer = forecast(run, storage(TARGET))
    assert [warning.code for warning in answer.warnings] == ["file-faults"]
    assert "50 page faults read files" in str(answer.warnings[0])
    run = recording(tmp_path / "few.spill", LOADS, elapsed_s=1.0, file_faults=5)
    change(run, temp=Temp(90, 10, total_s=0.2))
    assert forecast(run, storage(TARGET)).warnings == []


def test_counts_with_zero_elapsed_time_are_refused():
    figures = "figures:elapsed=10s,io=4s,reads=1000,read-bytes=8M,threads=1"
    counts = open_evidence(find_evidence([figures]), Selection())
    assert workload_of_counts(counts).total_s == 10.0
    with pytest.raises(EvidenceContradictory):
        workload_of_counts(replace(counts, elapsed_s=0.0))


def test_an_op_without_figures_on_the_target_is_refused(tmp_path):
    run = recording(tmp_path / "run.spill", LOADS, elapsed_s=1.0)
    answer = forecast(run, storage({("read", BIG): 300_000}, name="nvme"))
    assert "nvme" in answer.refused
    assert "writes" in answer.refused


def test_temp_io_that_takes_longer_than_the_run_is_refused(tmp_path):
    run = recording(tmp_path / "run.spill", LOADS, elapsed_s=0.1)
    answer = forecast(run, storage(TARGET))
    assert answer.refused == (
        "its temp I/O takes 200 ms, longer than the elapsed time of 100 ms: give the time of the "
        "whole query with --elapsed"
    )


def test_terms_sum_to_the_elapsed_time_where_temp_io_takes_a_little_longer(tmp_path):
    # 100 operations of 2 ms in 160 ms: 1.6 ms each, and on the target 0.24 ms instead of 0.3 ms.
    run = recording(tmp_path / "run.spill", LOADS, elapsed_s=0.16)
    forecasts = forecast(run, storage(TARGET))
    assert sum(term.baseline_s for term in forecasts.terms) == pytest.approx(0.16)
    assert sum(term.forecast_s for term in forecasts.terms) == pytest.approx(forecasts.forecast_s)
    assert forecasts.forecast_s == pytest.approx(0.024)


def test_a_run_of_only_temp_io_has_nothing_left_without_latency(tmp_path):
    run = recording(tmp_path / "run.spill", [("write", 8192, 1000, 1_000_000)], elapsed_s=1.0)
    done = completed("forecast", run.path, "--to", "latency:0", "--to", "latency:500us")
    assert "all of the time recorded was temp I/O: nothing is left of it" in " ".join(
        done.stdout.split()
    )


def test_a_refusal_exits_with_3_and_says_why(tmp_path):
    run = recording(tmp_path / "run.spill", LOADS, elapsed_s=1.0, lost=50)
    result = spillcast("forecast", run.path, "--to", "factor:2", "--json")
    assert result.returncode == 3
    assert "50 capture events lost" in json.loads(result.stdout)["refused"]
    result = spillcast("forecast", run.path, "--to", "factor:2")
    assert result.returncode == 3
    assert "50 capture events lost" in result.stdout + result.stderr


def damaged(path, kind):
    """Damages a recording in one way; returns the words that name the damage."""
    meta = path / "meta.json"
    if kind == "no folder":
        shutil.rmtree(path)
        return "no such recording"
    if kind == "no meta":
        meta.unlink()
        return "it has no meta.json"
    if kind == "cut meta":
        meta.write_text(meta.read_text()[:40])
        return "cut or damaged"
    if kind == "other version":
        meta.write_text(meta.read_text().replace("spillcast.recording/1", "spillcast.recording/9"))
        return "'spillcast.recording/9'"
    if kind == "a list":
        meta.write_text("[]")
        return "cut or damaged"
    name, _, how = kind.partition(" ")
    file = path / f"{name}.parquet"
    content = file.read_bytes()
    if how == "missing":
        file.unlink()
    else:
        file.write_bytes(content[: len(content) // 2] if how == "cut" else b"")
    return "cut or damaged"


@cases(
    "kind",
    [
        "no folder", "no meta", "cut meta", "other version", "a list",
        "waits cut", "waits empty", "waits missing",
        "seconds cut", "seconds empty", "seconds missing",
    ],
)  # fmt: skip
def test_a_damaged_recording_is_bad_input(tmp_path, kind):
    path = recording(tmp_path / "run.spill", LOADS, elapsed_s=1.0).path
    words = damaged(path, kind)
    result = spillcast("forecast", path, "--to", "factor:2")
    text = only_line(result, 2)
    assert str(path) in text
    assert words in text


def test_a_meta_without_required_fields_is_bad_input(tmp_path):
    path = recording(tmp_path / "run.spill", LOADS, elapsed_s=1.0).path
    (path / "meta.json").write_text('{"schema": "spillcast.recording/1"}')
    text = only_line(spillcast("forecast", path, "--to", "factor:2"), 2)
    assert str(path) in text


def test_a_file_instead_of_a_recording_is_bad_input(tmp_path):
    path = tmp_path / "run.spill"
    path.touch()
    text = only_line(spillcast("forecast", path, "--to", "factor:2"), 2)
    assert "not a recording" in text

"""A recording of a known part of a run: the forecast says so, or the whole time is known."""

import json
from dataclasses import replace

import pytest

from cases import cases
from evidence import change, recording, storage
from harness import completed, spillcast
from spillcast.forecast import forecast
from spillcast.forecast.query import read_workload
from spillcast.forecast.question import Question
from spillcast.recording import Recording
from spillcast.recording.completeness import unspilled
from spillcast.recording.meta import Temp
from spillcast.recording.observed import EarlierWork, RecordedQuery
from spillcast.report.forecast import forecast_page
from spillcast.units import format_duration

MS = 1_000_000
LOADS = [("write", 8192, 200, 2 * MS), ("read", 8192, 200, 2 * MS)]
TARGET = storage({("write", 8192): MS, ("read", 8192): MS})


def whole(folder):
    """A recording of 1.6 s, of which 0.8 s are temp I/O."""
    return recording(folder / "run.spill", LOADS, elapsed_s=1.6)


@pytest.fixture
def run(tmp_path):
    return whole(tmp_path)


def query(ended_by="query", before_s=0.0, whole_s=1.6):
    return RecordedQuery(4711, None, whole_s, before_s, ended_by, None, [], 0, [])


def codes(answer):
    return [warning.code for warning in answer.warnings]


@cases("because", ["duration", "interrupt", "failure"])
@cases("by_server", [False, True])
def test_the_sentence_starts_with_the_part(tmp_path, because, by_server):
    run = whole(tmp_path)
    if by_server:
        change(run, server=query(because, whole_s=15.5, before_s=2.0))
    else:
        change(run, ended_by=because)
    answer = forecast(run, TARGET)
    did = "had already run for 2 s and went on" if by_server else "went on"
    begins = f"1.60 s were recorded of a run that {did}: on target this part would take about "
    assert answer.sentence().startswith(begins)
    document = json.loads(json.dumps(answer.to_json()))
    before_s = 2.0 if by_server else None
    assert document["part"] == {
        "recorded_s": 1.6, "because": because, "before_s": before_s, "what": "run",
    }  # fmt: skip
    assert answer.baseline_s == 1.6
    assert "part-only" in codes(answer)


def test_an_elapsed_time_makes_the_forecast_one_of_the_whole(run):
    change(run, ended_by="duration")
    answer = forecast(run, TARGET, elapsed_s=15.5)
    assert answer.part is None
    assert answer.baseline_s == 15.5
    assert answer.sentence().startswith("On target this run would take about")
    assert "part" in codes(answer)
    assert "part-only" not in codes(answer)


def test_a_part_of_weeks_takes_as_little_memory_as_one_of_minutes(tmp_path):
    """A draw for each second of it would take gigabytes."""
    month_s = 30 * 86_400.0
    loads = [("write", 8192, 1000, 1_000_000), ("read", 8192, 1000, 3_000_000)]
    run = recording(tmp_path / "month.spill", loads, elapsed_s=month_s)
    io_ns = read_workload(run, Question(elapsed_s=2 * month_s))[0].io_ns_by_stretch
    assert len(io_ns) <= 1000
    assert io_ns.sum(axis=0).tolist() == [3e9, 1e9]
    assert forecast(run, TARGET, elapsed_s=2 * month_s).baseline_s == 2 * month_s


def test_a_wait_that_starts_before_the_first_slice_counts_in_it(tmp_path):
    run = recording(tmp_path / "run.spill", [("write", 8192, 2, 2 * MS)], elapsed_s=1.6)
    # The first wait is from 0 to 2 ms.
    slices_s = [(0.001, 0.1), (1.0, 1.1)]
    change(run, raw=replace(run.meta.raw, slices_of_all=True, slices_s=slices_s))
    io_ns = read_workload(run, Question(elapsed_s=16.0))[0].io_ns_by_stretch
    assert io_ns.sum(axis=1).tolist() == [4 * MS, 0]


def test_a_query_attached_late_has_a_known_whole(run):
    change(run, server=query(before_s=3.2, whole_s=4.8), ended_by="end")
    answer, requested = forecast(run, TARGET), forecast(run, TARGET, elapsed_s=4.8)
    assert answer.to_json() == requested.to_json()
    assert (answer.baseline_s, answer.part) == (4.8, None)


def test_the_sentence_names_the_part_of_a_known_whole(run):
    change(run, server=query(before_s=3.2, whole_s=4.8), ended_by="end")
    answer = forecast(run, TARGET)
    seen = " instead of 4.80 s, judging by the 1.60 s recorded, 90 % interval "
    assert seen in answer.sentence()
    document = json.loads(json.dumps(answer.to_json()))
    assert document["recorded_s"] == 1.6
    several = forecast_page([answer, answer]).text(200)
    assert " % of this query, judging by the 1.60 s recorded" in several
    change(run, server=query(whole_s=1.6))
    whole = forecast(run, TARGET)
    assert whole.recorded_s is None
    assert "recorded" not in whole.sentence()


def test_a_late_recording_with_an_unknown_end_names_both(run):
    change(run, server=query(before_s=3.2, whole_s=None))
    answer = forecast(run, TARGET)
    begins = "1.60 s were recorded of a run that had already run for 3.20 s: on "
    assert answer.sentence().startswith(begins)
    assert answer.to_json()["part"]["because"] == "late"


#: A process that had worked for 3.61 s when it was attached.
WORKED = EarlierWork(3.61, 1.2, 900 << 20)


@cases(
    ("before", "ended_by", "begins"),
    [
        (WORKED, "end", "1.60 s were recorded of a process that had already run for 3.61 s: on "),
        (
            WORKED,
            "duration",
            "1.60 s were recorded of a process that had already run for 3.61 s and went on: on ",
        ),
        # It waited for I/O all the time, as its byte counts show.
        (
            replace(WORKED, cpu_s=0.01),
            "end",
            "1.60 s were recorded of a process that had already run for 3.61 s",
        ),
        (
            replace(WORKED, bytes=None),
            "end",
            "1.60 s were recorded of a process that had already run for 3.61 s",
        ),
        # A shell that waited for its query: nothing was missed.
        (EarlierWork(600.0, 0.02, 3000), "end", "On target this run would take about "),
        (
            EarlierWork(600.0, 0.02, 3000),
            "interrupt",
            "1.60 s were recorded of a run that went on: ",
        ),
    ],
)
def test_a_process_attached_late_names_its_earlier_time(tmp_path, before, ended_by, begins):
    run = whole(tmp_path)
    change(run, before=before, ended_by=ended_by, temp=Temp(200, 200, 400 * 8192))
    answer = forecast(run, TARGET)
    assert answer.sentence().startswith(begins)
    estimated = forecast_page([answer]).text(200)
    assert estimated.startswith(begins.removesuffix(" on ")) == (answer.part is not None)
    if "of a process" in begins and ended_by == "end":
        assert answer.part.before_s == 3.61
        [estimated] = [item.message for item in answer.warnings if item.code == "part-only"]
        assert "--elapsed 5.2s if the query started with its process" in estimated
    requested = forecast(run, TARGET, elapsed_s=5.21)
    assert (requested.part, requested.baseline_s, requested.recorded_s) == (None, 5.21, 1.6)


@cases("ended_by", [None, "end"])
def test_other_recordings_are_not_taken_for_a_part(tmp_path, ended_by):
    run = whole(tmp_path)
    change(run, ended_by=ended_by, server=query())
    answer = forecast(run, TARGET)
    assert (answer.baseline_s, answer.part, answer.to_json()["part"]) == (1.6, None, None)
    assert answer.sentence().startswith("On target this run would take about")


def test_the_command_line_names_the_part_for_each_number_of_targets(spilled, tmp_path):
    folder = tmp_path / "run.spill"
    folder.mkdir()
    for file in spilled.path.iterdir():
        (folder / file.name).write_bytes(file.read_bytes())
    meta = json.loads((folder / "meta.json").read_text())
    assert meta["ended_by"] == "end"
    (folder / "meta.json").write_text(json.dumps(meta | {"ended_by": "duration"}))
    for targets in (["latency:20us"], ["latency:20us", "latency:30us"]):
        requested = ("forecast", folder, *(word for to in targets for word in ("--to", to)))
        result = completed(*requested, "--details")
        assert " were recorded of a run that went on: " in result.stdout.replace("\n", " ")
        assert "--elapsed TIME gives one for the whole run" in " ".join(result.stdout.split())
        assert "of a run that went on" not in spillcast(*requested, "--elapsed", "60").stdout


def test_recordings_without_the_reason_of_their_end_are_read(run):
    path = run.path / "meta.json"
    meta = json.loads(path.read_text())
    assert "ended_by" not in meta
    assert Recording.open(run.path).meta.ended_by is None


def test_a_late_recording_without_temp_io_may_have_spilled_before(tmp_path):
    """Only for entire runs does the text say that temp storage does not matter."""
    run = recording(tmp_path / "run.spill", [], elapsed_s=2.0)
    entire = unspilled(run.meta)
    assert format_duration(2.0) not in entire
    late = unspilled(replace(run.meta, before=WORKED))
    assert format_duration(2.0) in late
    assert "--temp" in entire
    assert "--temp" in late

"""Shares of time have the same denominator everywhere, and the text names it."""

from dataclasses import replace

import pytest

from cases import cases
from evidence import change, change_on_disk, recording
from oracle_files import READ, blocks, write_trace
from spillcast.document import written
from spillcast.evidence.open import find_evidence
from spillcast.profile import profile, timeline
from spillcast.recording.live import Running, Tally
from spillcast.recording.observed import RecordedQuery
from spillcast.recording.schema import WAITS
from spillcast.report.html import TableCells, runs
from spillcast.report.html.evidence import add_runs
from spillcast.report.html.inputs import Inputs
from spillcast.report.html.write import compose
from spillcast.report.live import LiveSnapshot, live_text
from spillcast.report.profile import profile_page
from spillcast.tables import Table

#: 3 x 11 s of temp reads in 11.8 s.
SIDE_BY_SIDE = [("read", 8192, 1000, 11_000_000)]


def page_of(path):
    """The inputs of a run, and the section on where its time goes."""
    inputs = Inputs()
    add_runs(inputs, find_evidence([path]), None, lenient=False)
    return inputs, runs.sections(inputs.runs, None)[0]


def shares(table):
    """Shares in percent, by name."""
    table = TableCells.of(table)
    at = table.header.index("share")
    return {row[0]: float(row[at].removesuffix(" %")) for row in table.rows}


def shown_live(running, elapsed_s, **options):
    """The state of a process that a live view shows."""
    counters = dict.fromkeys(("lost", "dropped", "tracer_cpu_ns", "switches"), 0)
    status = {**counters, "elapsed_ns": round(elapsed_s * 1e9), "cpu_ns": None, "calls": 3000}
    return LiveSnapshot("process 7", running, status, None, 0.1, **options)


def test_a_chart_and_the_table_below_it_agree(tmp_path):
    """Temp reads are 384 ms of 1 s; of the time that is not idle they would be 61.5 %."""
    waits = [
        (READ, 184_000, blocks(31)),
        ("SQL*Net message from client", 376_000, "p1=1"),
        ("log file sync", 240_000, "p1=1"),
        (READ, 200_000, blocks(31)),
    ]
    path = write_trace(tmp_path / "one.trc", waits)
    inputs, section = page_of(path)
    [chart] = section.figures
    assert chart.title == "Time by what sessions did, of 1 s elapsed"
    assert shares(section.tables[0][1])[READ] == 38.4
    drawn = shares(chart.table)
    assert drawn == {"temp reads": 38.4, "other waits": 24.0, runs.REST: 37.6}
    assert compose(inputs).answer == ["This run took 1 s, and 38 % of it went into temp files."]
    [row] = [row for row in profile(path).rows if row["event"] == READ]
    assert row["share"] == pytest.approx(0.384)
    # Beside other runs, the text must name the run.
    beside = [*inputs.runs, replace(inputs.runs[0], name="other")]
    [answer] = (answer for part in runs.sections(beside, None) for answer in part.answer)
    assert path.name in answer


def test_time_of_several_threads_is_labelled_as_theirs(tmp_path):
    run = recording(tmp_path / "run.spill", SIDE_BY_SIDE, elapsed_s=11.8, sessions=3)
    inputs, section = page_of(run.path)
    [chart] = section.figures
    assert chart.title == "Time by what threads did, of 33 s in 3 threads"
    assert shares(chart.table) == {"temp reads": 100.0}
    assert compose(inputs).answer == [
        "This run took 11.8 s, and 100 % of the 33 s of its 3 threads went into temp files."
    ]
    words = profile_page(profile(run.path)).text(200).splitlines()[0]
    assert words == ("11.8 s of elapsed time; parallel sessions spent 33 s; shares are of the 33 s")
    [row] = [row for row in profile(run.path).rows if row["count"]]
    assert (row["files"], row["share"]) == ("temp", pytest.approx(1.0))


def test_threads_of_a_server_are_called_processes(tmp_path):
    run = recording(tmp_path / "run.spill", SIDE_BY_SIDE, elapsed_s=11.8, sessions=3)
    change_on_disk(run, server=written(RecordedQuery(7, None, None, 2.4, "end", None, [], 0, [])))
    _, section = page_of(run.path)
    assert section.figures[0].title == "Time by what processes did, of 33 s in 3 processes"


def test_the_rest_of_a_single_thread_is_shown(tmp_path):
    """4 s of reads in 10 s, and the rest is unknown: shares are of the 10 s."""
    loads = [("read", 8192, 400, 10_000_000)]
    run = recording(tmp_path / "run.spill", loads, elapsed_s=10.0)
    _, section = page_of(run.path)
    [chart] = section.figures
    assert chart.title == "Time by what threads did, of 10 s elapsed"
    assert shares(chart.table) == {"temp reads": 40.0, runs.REST: 60.0}


def test_thinned_out_waits_keep_the_number_of_threads(tmp_path):
    """Where single waits were thinned out, the seconds give the time, the waits the threads."""
    run = recording(tmp_path / "run.spill", SIDE_BY_SIDE, elapsed_s=11.8, sessions=3)
    change(run, raw=run.meta.raw.__class__(3000, 9000, [(0.0, 1.0)]))

    line = timeline.of_recording(run)
    assert line.sessions == 3
    assert sum(line.totals_s.values()) == pytest.approx(33.0)


@cases(("spent_s", "answer"), [(33.0, True), (11.0, False)])
def test_the_live_view_names_the_denominator_of_its_shares(spent_s, answer):
    running = Running()
    tally = Tally(count=3000, total_ns=round(spent_s * 1e9), bytes=1 << 20)
    tally.recent[5] = 3000, tally.total_ns
    running.tallies["pread64", "read", True] = tally
    text = live_text(shown_live(running, 11.8), 80)
    assert "pread64 (temp)" in text
    words = "shares are of the 33 s that all sessions together spent in 11.8 s"
    assert (words in text) is answer


@cases("width", [39, 49, 59, 79])
def test_the_live_view_shows_its_answer_on_a_short_screen(width):
    """The text about the forecast is above all tables, and no line is longer than the screen."""
    running, words = Running(), [f"word{number}" for number in range(12)]
    for number in range(9):
        running.tallies[f"call{number}", "read", False] = Tally(count=9, total_ns=10**9, bytes=1)
    running.tallies["pread64", "read", True] = tally = Tally(count=9, total_ns=10**9, bytes=1)
    tally.recent[5] = 9, 10**9
    snapshot = shown_live(running, 11.8, because=" ".join(words))
    lines = live_text(snapshot, width).splitlines()
    assert max(map(len, lines)) <= width
    assert all(word in " ".join(lines[:11]).split() for word in words)


def test_temp_files_are_separate_and_idle_threads_excluded(tmp_path):
    """Thread 1 reads temp files and data, and waits; thread 2 waits all the time."""
    run = recording(tmp_path / "run.spill", [("read", 8192, 100, 1_000_000)], elapsed_s=1.0)
    running = Running()
    temp = run.waits.take(slice(100))
    mine, other = temp["session"][0], 77
    values = temp.take(slice(1)).to_pylist()[0]
    waits = [
        {**values, "event": "blocked", "op": None, "temp": False, "bytes": None, "file": None,
         "elapsed_ns": ns, "session": session}
        for session, ns in ((mine, 200_000_000), (other, 900_000_000))
    ]  # fmt: skip
    data = {**values, "temp": False, "elapsed_ns": 50_000_000}
    for rows in (temp.to_pylist(), [data], waits):
        running.add_waits(Table.from_rows(rows, WAITS))
    rows = shown_live(running, 1.0).rows()
    reported = {(row["event"], row["temp"]): row["total_us"] for row in rows}
    name = values["event"]
    assert reported == {("blocked", None): 200_000, (name, True): 100_000, (name, False): 50_000}
    assert sum(row["share"] for row in rows) == pytest.approx(0.35)


@cases("event", ["BufFileRead", "BuffileRead"])
def test_reads_of_temp_files_are_recognised_in_all_versions_of_postgresql(event):
    """Version 17 changed the capitalisation."""
    assert timeline.state_of(event) == timeline.READ

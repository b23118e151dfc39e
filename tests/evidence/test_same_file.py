"""Files given twice, by any name, as copies and packed: each counts once, which is reported."""

import gzip
import os
import shutil
import subprocess
import sys

import pytest

from ash_files import execution, write_ash
from cases import cases
from harness import spillcast
from oracle_files import HEADER, READ, blocks, write_trace
from spillcast.errors import EvidenceMixed, EvidenceUnsuited, PathMissing
from spillcast.evidence.open import find_evidence
from spillcast.evidence.oracle.ash import read_ash
from spillcast.evidence.oracle.trace_recording import recording_of_traces
from spillcast.evidence.text import distinct
from spillcast.fleet.ingest import ingest
from spillcast.forecast.ask import ask
from spillcast.profile import profile
from spillcast.profile.sql import run_sql

WAITS = [(READ, 3_000, blocks(31)), (READ, 200, blocks(15))] * 20


@pytest.fixture
def trace(tmp_path):
    return write_trace(tmp_path / "once.trc", WAITS)


def again_by(way, trace, folder):
    """Another path of the same trace."""
    other = folder / f"again_{way}.trc"
    if way == "name":
        return trace
    if way == "gzip":
        other = other.with_suffix(".trc.gz")
        other.write_bytes(gzip.compress(trace.read_bytes()))
    elif way == "copy":
        shutil.copy(trace, other)
    else:
        {"link": os.link, "symlink": os.symlink}[way](trace, other)
    return other


def test_an_early_copy_of_a_trace_is_ignored(trace, tmp_path):
    lines = trace.read_text().splitlines(keepends=True)
    (early := tmp_path / "early.trc").write_text("".join(lines[: len(lines) // 2]))
    alone, both = profile(trace), profile(early, trace)
    assert (both.rows, both.elapsed_s) == (alone.rows, alone.elapsed_s)
    assert any(str(early) in warning for warning in both.warnings)


@cases("way", ["name", "link", "symlink", "copy", "gzip"])
def test_a_trace_given_twice_counts_once(way, trace, tmp_path):
    again = again_by(way, trace, tmp_path)
    once, twice = profile(trace), profile(trace, again)
    assert (twice.rows, twice.elapsed_s) == (once.rows, once.elapsed_s)
    [answer] = twice.warnings
    assert str(again) in answer
    assert "counts once" in answer
    words = []
    requested = "select count(*) from waits"
    assert run_sql(requested, [str(trace), str(again)], notify=words.append)[1] == [[40]]
    assert len(words) == 1
    assert profile(trace, again, where="true").rows[0]["count"] == 40


@cases("waits", [20, 4])
@cases("times", [1, 2, 3])
def test_a_trace_with_repeated_lines_is_refused(tmp_path, times, waits):
    text = write_trace(
        path := tmp_path / "pasted.trc", [(READ, 90_000, blocks(31))] * waits
    ).read_text()
    path.write_text(text.replace("tim=", "tim=7000") * times)
    whole = ingest([str(path)], str(tmp_path / "dataset"))
    if times == 1:
        assert (profile(path).elapsed_s, whole.set_aside) == (pytest.approx(0.09 * waits), [])
        return
    for ask_for in (
        profile,
        lambda trace: ask([trace], ["factor:2"]),
        lambda trace: recording_of_traces([trace], 8192),
    ):
        with pytest.raises(EvidenceMixed):
            ask_for(path)
    assert len(whole.set_aside) == 1


def test_equal_calls_by_a_coarse_clock_are_not_repetitions(tmp_path):
    """The calls are in a loop within a tick of 15.6 ms; pasted twice, the trace is refused."""
    path = tmp_path / "loop.trc"
    calls = "EXEC #7:c=0,e=0,p=0,cr=0,cu=0,mis=0,r=0,dep=1,og=1,plh=0,tim=1000000\n" * 5
    write_trace(path, [(READ, 15_625, blocks(31))] * 4, header=HEADER + calls)
    path.write_text(text := path.read_text().replace("tim=", "tim=7000"))
    assert profile(path, where="true").rows
    path.write_text(text * 2)
    with pytest.raises(EvidenceMixed):
        profile(path)


@cases("times", [1, 2])
def test_waits_that_contradict_their_session_are_named(tmp_path, times):
    """The clock goes back by less than a second, as it does between the lines of a call."""
    text = write_trace(path := tmp_path / "short.trc", [(READ, 9_000, blocks(31))] * 20).read_text()
    path.write_text(text * times)
    [(forecast, _)] = ask([path], ["factor:2"])
    assert [w.code for w in forecast.warnings].count("excess-time") == times - 1
    assert len(profile(path).warnings) == times - 1


def test_a_forecast_reports_repeated_files(trace, tmp_path):
    again = again_by("copy", trace, tmp_path)
    [(once, _)] = ask([trace], ["factor:2"])
    [(twice, _)] = ask([trace, again], ["factor:2"])
    assert (twice.forecast_s, twice.interval_s) == (once.forecast_s, once.interval_s)
    assert [w.message for w in twice.warnings if w.code == "repeated"] == [
        f"{again} holds only what {trace} holds, and counts once"
    ]


def test_different_files_count_separately(trace, tmp_path):
    other = write_trace(tmp_path / "other.trc", [(READ, 2_999, blocks(31)), *WAITS[1:]])
    assert other.stat().st_size == trace.stat().st_size
    result = profile(trace, other)
    assert result.rows[0]["count"] == 80
    assert result.warnings == []


def test_an_export_given_twice_counts_once(tmp_path):
    path = tmp_path / "ash.csv"
    path.write_text("SAMPLE_TIME,EVENT\n" + "".join(
        f"2024-10-14 12:00:{second:02d},{READ}\n" for second in range(30)
    ))  # fmt: skip
    ash = read_ash([path, again_by("copy", path, tmp_path)])
    assert ash.samples.num_rows == 30
    assert len(ash.notes) == 1


def test_samples_that_two_exports_share_count_once(tmp_path):
    """A wait that was not over when the first export was made has its length in the second."""
    seconds = execution(60)
    first = write_ash(tmp_path / "first.csv", seconds[:39], [seconds[39] | {"TIME_WAITED": 0}])
    second = write_ash(tmp_path / "second.csv", seconds[20:], execution(60, session_id=36))
    ash = read_ash([first, second])
    assert ash.samples.num_rows == 120
    assert ["20 " in note for note in ash.notes] == [True]


def test_the_command_reports_repeated_files_on_stderr(trace):
    result = spillcast("profile", trace, trace, "--sql", "select count(*) as n from waits")
    assert result.stdout.split()[-1] == "40"
    assert result.stderr == f"spillcast: {trace} is given twice and counts once\n"


def test_a_dangling_link_to_a_trace_is_refused(tmp_path):
    (tmp_path / "run.json").symlink_to("none")
    with pytest.raises(PathMissing, match=r"run\.json"):
        find_evidence([tmp_path / "run.json"])


def test_empty_and_missing_files_are_left_to_their_reader(tmp_path):
    empty = [tmp_path / name for name in ("a", "b")]
    for path in empty:
        path.write_text("")
    given = [*empty, tmp_path / "none"]
    assert distinct(given) == (given, [])


@cases("name", ["run[1].trc", "*.trc", "?.trc"])
def test_a_name_with_wildcards_is_a_file_first(tmp_path, name):
    for beside in ("run1.trc", "other.trc"):
        write_trace(tmp_path / beside, WAITS)
    trace = write_trace(tmp_path / name, WAITS)
    assert find_evidence([str(trace)]).traces == [trace]


@cases("text", ["postgresql://u@db/x", "postgres://db", "host=db dbname=x", "mysql://u@db/x"])
def test_a_connection_string_as_evidence_is_refused(text):
    with pytest.raises(EvidenceUnsuited):
        find_evidence([text])


SNAPSHOTS = """\
at,queryid,calls,total_exec_time,temp_blks_read,temp_blks_written
2026-11-28 10:00:00,77,4,1002,600,800
2026-11-28 {time},77,8,2004,1200,1600
"""


def test_counts_of_two_snapshots_are_not_added(rows_of):
    """The later counts contain the earlier ones; rows of one snapshot are of two users."""
    with pytest.raises(EvidenceMixed):
        rows_of(SNAPSHOTS.format(time="10:05:00"))
    assert [row.calls for row in rows_of(SNAPSHOTS.format(time="10:00:00"))] == [12]


def test_an_unreadable_folder_may_have_more_traces(tmp_path):
    """A target beside such a folder, such as the root of a file system, has no traces."""
    closed = tmp_path / "a" / "closed"
    closed.mkdir(parents=True)
    closed.chmod(0)
    target = "from spillcast.evidence.open import traces_below; import pathlib, sys; " + (
        "print(traces_below(pathlib.Path(sys.argv[1])))"
    )
    drop = ["setpriv", "--bounding-set", "-dac_override,-dac_read_search"]
    listed = [*(drop if os.geteuid() == 0 else []), sys.executable, "-c", target, str(tmp_path)]
    if os.geteuid() == 0:
        os.chown(closed, 65534, 65534)
    assert subprocess.run(listed, capture_output=True, text=True, check=True).stdout == "[]\n"
    write_trace(tmp_path / "a.trc", [])
    refused = subprocess.run(listed, capture_output=True, text=True, check=False)
    assert "PermissionDenied" in refused.stderr
    assert str(closed) in refused.stderr

"""Spills that are not recognised: kept, their directory proposed, told apart when it is asked."""

import json
import random
import shutil
import subprocess
from dataclasses import replace

import pytest

from harness import account_of, environment, expected_rows, only_line, rows, spillcast, target
from spillcast.errors import InputError, Refusal
from spillcast.recording import Recording
from spillcast.recording.likely_temp import likely_temp

CAPTURES = ["perf", "preload"]
#: Two threads, and work memory for a tenth of the lines.
SORT = ("sort", "-S", "1M", "--parallel=2")
LINES = 200_000


@pytest.fixture(scope="module")
def sorted_elsewhere(tmp_path_factory):
    """A directory with two recordings of GNU sort spilling to where nobody expects it.

    ``unknown.spill`` was made without a word, ``told.spill`` with ``--temp``.
    """
    if shutil.which("sort") is None:
        pytest.skip("there is no sort")
    root = tmp_path_factory.mktemp("sorted")
    (root / "scratch").mkdir()
    (root / "tmpdir").mkdir()
    draw = random.Random(27)
    with (root / "lines").open("w") as file:
        file.writelines(f"{draw.random()}\n" for _ in range(LINES))
    command = (*SORT, "-T", root / "scratch", "-o", root / "sorted", root / "lines")
    env = environment(TMPDIR=root / "tmpdir", LC_ALL="C")
    for name, asked in (("unknown", ()), ("told", ("--temp", root / "scratch"))):
        words = ("record", *asked, "-o", root / f"{name}.spill", "--", *command)
        result = spillcast(*words, env=env)
        assert result.returncode == 0, result.stderr
        (root / f"{name}.txt").write_text(result.stdout)
    assert subprocess.run(["sort", "-c", root / "sorted"], env=env).returncode == 0
    return root


def test_gnu_sort_is_kept_and_its_directory_is_proposed(sorted_elsewhere):
    root = sorted_elsewhere
    unknown = Recording.open(root / "unknown.spill")
    assert unknown.meta.temp.operations == 0
    [likely] = likely_temp(unknown)
    assert likely.directory == root / "scratch"
    # All lines go to temp files at least once, and all that is there is read.
    assert likely.written_bytes == likely.read_bytes >= (root / "lines").stat().st_size
    said = (root / "unknown.txt").read_text()
    assert "no temp I/O was seen" in said
    command = f"spillcast forecast {root / 'unknown.spill'} --temp {root / 'scratch'} --to TARGET"
    assert command in said
    assert command in only_line(spillcast("forecast", unknown.path, "--to", "latency:1ms"), 2)


def test_a_forecast_is_that_of_a_recording_that_was_told(sorted_elsewhere):
    root = sorted_elsewhere
    told = Recording.open(root / "told.spill")
    again = told.with_temp([root / "scratch"])
    assert again.meta.temp == told.meta.temp
    assert again.meta.other_io == told.meta.other_io
    assert again.waits["temp"].to_pylist() == told.waits["temp"].to_pylist()

    def forecast(*words):
        result = spillcast("forecast", *words, "--to", "latency:1ms", "--json")
        assert result.returncode == 0, result.stderr
        return json.loads(result.stdout)

    plain = forecast(told.path)
    assert forecast(told.path, "--temp", root / "scratch") == plain
    # Two runs of sort write the same files in I/Os of the same sizes.
    other = forecast(root / "unknown.spill", "--temp", root / "scratch")
    io = [[(t["name"], t["bytes"], t["count"]) for t in said["terms"] if t["op"]]
          for said in (plain, other)]  # fmt: skip
    assert io[0] == io[1]


def test_profile_and_report_tell_temp_apart(sorted_elsewhere, tmp_path):
    root = sorted_elsewhere
    temp = ("--temp", root / "scratch")
    words = ("profile", root / "unknown.spill", "--where", "temp", "--json")
    assert "no wait meets" in only_line(spillcast(*words), 2)
    result = spillcast(*words, "--by", "op", *temp)
    assert result.returncode == 0, result.stderr
    counts = {row["op"]: row["count"] for row in json.loads(result.stdout)["rows"]}
    meta = Recording.open(root / "unknown.spill").with_temp([root / "scratch"]).meta
    assert counts == {"read": meta.temp.reads, "write": meta.temp.writes}
    pytest.importorskip("altair")
    result = spillcast("report", root / "unknown.spill", *temp, "-o", tmp_path / "page.html")
    assert result.returncode == 0, result.stderr
    assert "temp reads" in (tmp_path / "page.html").read_text()


@pytest.mark.parametrize("capture", CAPTURES)
def test_an_unknown_engine(places, capture):
    """Row for row, temp is what the program says that it did to its temp file."""
    output, scratch = places.root / "run.spill", places.data / "deep" / "scratch"
    scratch.mkdir(parents=True)
    command = target(
        *("spill", "--file", scratch / "part", "--base", places.base, "--remove"),
        *("--threads", 2),
    )
    words = ("record", "--capture", capture, "-o", output, "--", *command)
    result = spillcast(*words, env=places.env)
    assert result.returncode == 0, result.stderr
    account = account_of(result.stdout)
    expected = expected_rows(account, base=places.base)
    unlabelled = rows(output, files={row[5] for row in expected})
    assert not any(row[-1] for row in unlabelled)
    recording = Recording.open(output)
    assert [one.directory for one in likely_temp(recording)] == [scratch]
    temp = recording.with_temp([scratch]).temp_waits
    names = ("session", "event", "op", "bytes", "offset", "file", "temp")
    found = sorted(zip(*(temp[name].to_pylist() for name in names), strict=True))
    assert found == sorted(row for row in expected.elements() if row[-1])
    # The recording on disk is as it was.
    assert rows(output, files={row[5] for row in expected}) == unlabelled


def test_where_nothing_lies(sorted_elsewhere, tmp_path):
    root = sorted_elsewhere
    words = ("forecast", root / "unknown.spill", "--temp", tmp_path, "--to", "latency:1ms")
    said = only_line(spillcast(*words), 2)
    assert f"none of the recorded I/O was under {tmp_path}" in said
    assert f"--temp {root / 'scratch'}" in said


def test_slices_cannot_be_told_apart(sorted_elsewhere):
    whole = Recording.open(sorted_elsewhere / "unknown.spill")
    raw = replace(whole.meta.raw, slices_s=[(0.0, 0.3)])
    with pytest.raises(Refusal, match="parts of the run only"):
        Recording(whole.path, replace(whole.meta, raw=raw)).with_temp([sorted_elsewhere])


def test_only_recordings_are_told_apart(tmp_path):
    from spillcast.forecast.question import Question
    from spillcast.recording.evidence import Evidence

    with pytest.raises(InputError, match="--temp is for recordings"):
        Question(temp_dirs=[tmp_path]).check(Evidence(traces=[tmp_path]), events=True)

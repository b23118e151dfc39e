"""Recordings and ASH exports as evidence, and files that cannot be evidence."""

import json
import os
import shutil

import pyarrow.compute as pc
import pyarrow.parquet as pq
import pytest

import spillcast as package
from cases import cases
from evidence import known, table
from harness import EXACT, completed, only_line, spillcast
from oracle_files import READ, WRITE
from spillcast.cache.evidence import read_requests
from spillcast.errors import OptionConflict, QueryInvalid
from spillcast.evidence.open import find_evidence
from spillcast.profile import profile
from spillcast.profile.sql import run_sql
from spillcast.recording.schema import WAITS
from spillcast.recording.writer import RecordingWriter
from spillcast.report.html.evidence import add_runs
from spillcast.report.html.inputs import Inputs
from spillcast.storage.source import ASSUMED
from text_plan import TEXT_PLAN


def test_ash_has_the_columns_of_the_usual_query(example):
    rows = {row["event"]: row for row in profile(example / "ash.csv").rows}
    assert {event: (row["count"], round(100 * row["share"], 2)) for event, row in rows.items()} == {
        "ASM IO for non-blocking poll": (5, 0.65),
        WRITE: (12, 1.55),
        "(on CPU)": (338, 43.73),
        READ: (418, 54.08),
    }
    read = rows[READ]
    assert (read["min_us"], read["max_us"], read["mean_us"]) == (2_595, 415_850, 19_305)
    # The mean of sampled waits is twice that of all waits, which the trace has.
    assert read["latency_us"] == pytest.approx(8_999, abs=2 * read["latency_error_us"])
    assert profile(example / "ash.csv").elapsed_s == 773
    assert "9.08 ms" in spillcast("profile", example / "ash.csv").stdout


def test_ash_in_sql(example):
    requested = "select event, count(*) from samples group by event order by 2 desc limit 1"
    assert run_sql(requested, [str(example / "ash.csv")])[1] == [[READ, 418]]


@cases("query", ["select nope from samples", "select 1 from nowhere", "select from"])
def test_names_in_a_query_are_checked(example, query):
    with pytest.raises(QueryInvalid, match=r"nope|nowhere|Parser"):
        run_sql(query, [str(example / "ash.csv")])


@cases(
    "read",
    [
        lambda path: profile(path, lenient=True),
        lambda path: run_sql("from waits", [path], lenient=True),
        lambda path: read_requests([path], lenient=True),
        lambda path: add_runs(Inputs(), find_evidence([path]), lenient=True),
    ],
)
def test_lenient_reading_is_refused_without_a_trace(read, spilled):
    with pytest.raises(OptionConflict):
        read(str(spilled.path))


def test_profiles_of_a_recording_sum_to_its_waits(spilled):
    waits = pq.read_table(spilled.path / "waits.parquet")
    for by in ("event", "op", "size", "file", "session", "second"):
        rows = [r for r in profile(spilled.path, by=[by]).rows if r.get("event") != "CPU"]
        assert sum(row["count"] for row in rows) == waits.num_rows
        total_us = pc.sum(waits["elapsed_ns"]).as_py() / 1e3
        assert sum(row["total_us"] for row in rows) == pytest.approx(total_us, abs=len(rows))
    temp = profile(spilled.path, by=["op"], where="temp").rows
    expected = waits.filter(waits["temp"])
    assert sum(row["count"] for row in temp) == expected.num_rows
    # The preload library sees no CPU time.
    shows_cpu = any(row["event"] == "CPU" for row in profile(spilled.path).rows)
    assert shows_cpu == (EXACT != "preload")


def test_waits_of_a_thread_without_temp_io_are_idle(tmp_path):
    """Threads of a pool wait all the time, each as long as the query takes."""
    blocked = {"start_ns": 0, "event": "blocked", "op": None, "temp": False}
    read = {"start_ns": 40_000, "event": "pread64", "op": "read", "temp": True, "bytes": 8192}
    rows = [
        {**blocked, "session": 1, "elapsed_ns": 30_000},
        {**read, "session": 1, "elapsed_ns": 10_000},
        {**blocked, "session": 2, "elapsed_ns": 50_000},
        {**blocked, "session": 3, "elapsed_ns": 49_000},
    ]
    writer = RecordingWriter(tmp_path / "run.spill")
    writer.add_waits(table(rows, WAITS))
    path = writer.finish(known(5e-5, 1, 0)).path
    matches = [(row["event"], row["idle"], row["total_us"]) for row in profile(path).rows]
    assert matches == [("blocked", False, 30), ("pread64", False, 10), ("blocked", True, 99)]
    shown = spillcast("profile", path).stdout
    assert "30 us" in shown
    assert "99 us" not in shown
    assert [row["share"] for row in profile(path).rows] == [pytest.approx(0.6), 0.2, None]
    by_session = {row["session"]: row["idle"] for row in profile(path, by=["session"]).rows}
    assert by_session == {1: False, 2: True, 3: True}


def test_recordings_of_one_name_in_two_folders_are_profiled_together(tmp_path, spilled):
    paths = [tmp_path / folder / "run.spill" for folder in ("first", "second")]
    for path in paths:
        shutil.copytree(spilled.path, path)
    alone, together = profile(paths[0]), profile(*paths)
    assert {row["recording"] for row in together.rows} == set(map(str, paths))
    assert len(together.rows) == 2 * len(alone.rows)
    expected, counted = (
        [
            (row["event"], row["total_us"], counts)
            for row, counts in zip(p.rows, p.histograms, strict=True)
        ]
        for p in (alone, together)
    )
    assert all(row in expected for row in counted)


def test_a_printed_profile_of_a_recording(spilled):
    result = completed("profile", spilled.path, "--by", "event,size", "--histogram")
    assert "pwrite64" in result.stdout
    assert "|█" in result.stdout
    document = json.loads(spillcast("profile", spilled.path, "--json").stdout)
    assert document["schema"] == "spillcast.profile/1"


def test_python_functions_are_not_shadowed_by_imported_packages(example, spilled):
    import spillcast.forecast.result
    import spillcast.profile.result  # noqa: F401

    assert package.profile(example / "hdd.trc").rows[0]["event"] == READ
    assert callable(package.forecast)
    target = package.Storage("none", ASSUMED, [])
    assert isinstance(target, package.Storage)
    assert package.Recording.open(spilled.path).elapsed_s > 0


@pytest.fixture
def folder(example, tmp_path):
    (tmp_path / "empty").mkdir()
    (tmp_path / "full").mkdir()
    (tmp_path / "full" / "plan.txt").write_text(TEXT_PLAN)
    (tmp_path / "bad.csv").write_text("A,B\n1,2\n")
    for name in ("hdd.trc", "ash.csv"):
        (tmp_path / name).symlink_to(example / name)
    return tmp_path


@cases(("arguments", "answer"), [
        (["profile", "hdd.trc", ""], "an argument is empty, and names no evidence"),
        (["profile", "empty"], "empty: the folder holds no traces"),
        (["profile", "full"], "full/plan.txt"),
        (["profile", "full/plan.txt"], "spillcast forecast full/plan.txt --to "),
        (["profile", "absent.trc"], "absent.trc: there is no such file or folder"),
        (["profile", "bad.csv"], "bad.csv: not evidence of a known kind"),
        (["profile", "hdd.trc", "--event", "nope"], "no event is like 'nope'"),
        (["profile", "ash.csv", "--event", "nope"], "no event is like 'nope'"),
        (["profile", "hdd.trc", "--by", "op", "--event", "d*"], "--event goes with --by event"),
        (["profile", "hdd.trc", "--by", "call", "--event", "d*"], "--event goes with --by event"),
        (["profile", "hdd.trc", "--by", "colour"], "--by colour: unknown"),
        (["profile", "hdd.trc", "--where", "colour = 1"], '--where: Binder Error: Referenced col'),
        (["profile", "hdd.trc", "--where", "(("], "--where: Parser Error"),
        (["profile", "hdd.trc", "--where", "temp group by all"], "--where: Parser Error"),
        (["profile", "hdd.trc", "--where", "temp limit 5"], "--where: Parser Error"),
        (["profile", "hdd.trc", "--by", "call", "--where", "dep = 0 or"], "--where: Parser Error"),
        (["profile", "ash.csv", "--by", "event", "--where", "true group by all"], "Parser Error"),
        (["profile", "hdd.trc", "--where", " "], "--where: the condition is empty"),
        (["profile", "hdd.trc", "--by", ""], "--by: a name is empty"),
        (["profile", "hdd.trc", "--by", "event,"], "--by: a name is empty"),
        (["profile", "hdd.trc", "--where", "blocks = -1"], "no wait meets 'blocks = -1'"),
        (["profile", "hdd.trc", "ash.csv"], "traces and ASH exports are mixed"),
        (["profile", "ash.csv", "--by", "file"], "--by file: this evidence has only samples"),
        (["profile", "ash.csv", "--histogram"], "samples are no single waits"),
        (["profile", "hdd.trc", "--sql", "selct 1"], "the query: Parser Error"),
        (["profile", "hdd.trc", "--sql", "from nowhere"], "Table with name nowhere does not exist"),
        (["profile", "hdd.trc", "--sql", ""], "the query returns nothing"),
    ])  # fmt: skip
def test_bad_input(folder, arguments, answer):
    assert answer in only_line(spillcast(*arguments, cwd=folder), 2)


@cases("name", ["run[1].spill", "ru*.spill", "~x.spill", "q'\"\n.spill"])
def test_a_recording_is_read_by_its_exact_name(tmp_path, monkeypatch, name):
    """DuckDB would take the first two as patterns of the other folder, and expand the third's ~."""
    monkeypatch.chdir(tmp_path)
    read = {"event": "pread64", "op": "read", "temp": True, "bytes": 8192, "session": 1}
    for folder, count in ((name, 3), ("run1.spill", 8)):
        rows = [{**read, "start_ns": 20 * n, "elapsed_ns": 10} for n in range(count)]
        writer = RecordingWriter(tmp_path / folder)
        writer.add_waits(table(rows, WAITS))
        writer.finish(known(1, count, 0))
    assert run_sql("select count(*) from waits", [name])[1] == [[3]]
    assert [row["count"] for row in profile(name, by=["op"], where="bytes > 0").rows] == [3]
    line = spillcast("export", name, "--format", "perfetto", cwd=tmp_path).stdout
    assert line.count('"bytes":8192') == 3


def test_only_files_of_a_folder_are_read(tmp_path, example):
    """Reading a pipe without a writer would block."""
    (tmp_path / "dir.trc").mkdir()
    os.mkfifo(tmp_path / "pipe.trc")
    os.mkfifo(tmp_path / "dir.trc" / "pipe.trc")
    (tmp_path / "dir.trc" / "flash.trc").write_bytes((example / "flash.trc").read_bytes())
    [row] = profile(tmp_path, by=["temp"], where="temp").rows
    assert row["count"] == 738
    done = spillcast("ingest", tmp_path, "-o", tmp_path / "fleet", "--database", "x", "--json")
    assert json.loads(done.stdout)["files"] == 1


def test_a_name_that_is_not_utf_8_is_read_or_refused(tmp_path, example):
    odd = tmp_path / "f\udcff"
    odd.mkdir()
    (odd / "flash.trc").write_bytes((example / "flash.trc").read_bytes())
    (odd / "ash.csv").write_bytes((example / "ash.csv").read_bytes())
    to = ["--to", "latency:5us", "--elapsed", "773"]
    assert not spillcast("forecast", odd / "flash.trc", *to).returncode
    assert not spillcast("forecast", odd / "ash.csv", odd / "flash.trc", *to).returncode
    page = tmp_path / "page.html"
    assert not spillcast("report", odd / "flash.trc", *to, "-o", page).returncode
    assert "f\ufffd" in page.read_text()
    done = json.loads(spillcast("ingest", odd, "-o", tmp_path / "fleet", "--json").stdout)
    assert (done["files"], done["set_aside"][0]["file"][-10:]) == (1, "ff/ash.csv")
    assert "UTF-8" in only_line(spillcast("ingest", odd, "-o", odd / "fleet"), 2)
    assert "UTF-8" in only_line(spillcast("record", "-o", odd / "a.spill", "--", "true"), 2)
    RecordingWriter(tmp_path / "a.spill").finish(known(1, 0, 0))
    (tmp_path / "a.spill").rename(odd / "a.spill")
    assert "UTF-8" in only_line(spillcast("profile", odd / "a.spill"), 2)

"""Spills outside of TMPDIR: recognised by use, or relabelled when a directory is named."""

import importlib.util
import os
import random
import shutil
import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import pytest

from cases import nightly
from evidence import table
from harness import (
    account_of,
    completed,
    environment,
    expected_rows,
    json_of,
    only_line,
    rows,
    spillcast,
    target,
)
from spillcast.errors import OptionConflict, TimesUnknown
from spillcast.forecast import forecast
from spillcast.recording import WRITEBACK, Recording
from spillcast.recording.capture import RecordOptions
from spillcast.recording.derived import with_temp
from spillcast.recording.meta import CaptureAccount, Meta, OtherIO, Temp
from spillcast.recording.schema import WAITS, seconds_of
from spillcast.recording.writer import RecordingWriter
from spillcast.storage.target import resolve
from spillcast.tables import Table

#: Two threads, and work memory for a tenth of the lines.
SORT = ("sort", "-S", "1M", "--parallel=2")
LINES = 200_000


@pytest.fixture(scope="module")
def sorted_elsewhere(tmp_path_factory):
    """A directory with recordings of GNU sort spilling to a directory that is not for temp files.

    ``plain.spill`` was made without ``--temp``, ``named.spill`` with it, ``unknown.spill`` with
    another directory.
    """
    if shutil.which("sort") is None:
        pytest.skip("there is no sort")
    if os.geteuid() != 0:
        pytest.skip("perf events show an ordinary user no names of files that are closed at once")
    root = tmp_path_factory.mktemp("sorted")
    (root / "scratch").mkdir()
    (root / "tmpdir").mkdir()
    draw = random.Random(27)
    with (root / "lines").open("w") as file:
        file.writelines(f"{draw.random()}\n" for _ in range(LINES))
    command = (*SORT, "-T", root / "scratch", "-o", root / "sorted", root / "lines")
    env = environment(TMPDIR=root / "tmpdir", LC_ALL="C")
    directories = {"plain": (), "named": (root / "scratch",), "unknown": (root / "tmpdir",)}
    for name, requested in directories.items():
        option = [word for directory in requested for word in ("--temp", directory)]
        words = ("record", *option, "-o", root / f"{name}.spill", "--", *command)
        result = completed(*words, env=env)
        (root / f"{name}.txt").write_text(result.stdout)
    assert subprocess.run(["sort", "-c", root / "sorted"], env=env).returncode == 0
    return root


def test_gnu_sort_is_recognised(sorted_elsewhere):
    root = sorted_elsewhere
    plain = Recording.open(root / "plain.spill")
    # All lines are written to temp files at least once, and all temp files are read.
    assert plain.written_bytes.temp >= (root / "lines").stat().st_size
    assert plain.meta.temp.bytes == 2 * plain.written_bytes.temp
    assert plain.other_files.keys() >= {str(root / "lines"), str(root / "sorted")}


def test_unrecognised_io_is_kept_and_the_option_is_named(sorted_elsewhere):
    root = sorted_elsewhere
    unknown = Recording.open(root / "unknown.spill")
    assert unknown.meta.temp.operations == 0
    for answer in (
        (root / "unknown.txt").read_text(),
        only_line(spillcast("forecast", unknown.path, "--to", "latency:1ms"), 3),
    ):
        assert "--temp" in answer


def test_the_forecast_equals_that_of_a_named_directory(sorted_elsewhere):
    root = sorted_elsewhere
    named = Recording.open(root / "named.spill")
    for same in (named, Recording.open(root / "plain.spill")):
        again = with_temp(same, [root / "scratch"])
        assert again.meta.temp == same.meta.temp
        assert again.meta.other_io == same.meta.other_io
        assert again.waits["temp"].to_pylist() == same.waits["temp"].to_pylist()

    def requested(*words):
        return json_of("forecast", *words, "--to", "latency:1ms")

    plain = requested(named.path)
    assert requested(named.path, "--temp", root / "scratch") == plain
    # Two threads of sort split the lines slightly differently each time.
    other = requested(root / "unknown.spill", "--temp", root / "scratch")
    temp_s = [sum(t["forecast_s"] for t in answer["terms"] if t["op"]) for answer in (plain, other)]
    assert temp_s[1] == pytest.approx(temp_s[0], rel=0.01)


def test_profile_and_report_relabel_temp_files(sorted_elsewhere, tmp_path):
    root = sorted_elsewhere
    temp = ("--temp", root / "scratch")
    words = ("profile", root / "unknown.spill", "--where", "temp")
    assert "no wait meets" in only_line(spillcast(*words), 2)
    counts = {row["op"]: row["count"] for row in json_of(*words, "--by", "op", *temp)["rows"]}
    meta = with_temp(Recording.open(root / "unknown.spill"), [root / "scratch"]).meta
    assert counts == {"read": meta.temp.reads, "write": meta.temp.writes}
    pytest.importorskip("jinja2")
    completed("report", root / "unknown.spill", *temp, "-o", tmp_path / "page.html")
    assert "temp reads" in (tmp_path / "page.html").read_text()


@pytest.mark.parametrize("capture", ["bpf", "preload", *nightly("perf")])
def test_temp_io_of_an_unknown_engine_equals_its_account(places, capture):
    """Row for row, temp I/O is what the program reports for its temp file."""
    output, scratch = places.root / "run.spill", places.data / "deep" / "scratch"
    scratch.mkdir(parents=True)
    command = target(
        *("spill", "--file", scratch / "part", "--base", places.base, "--remove"),
        *("--threads", 2),
    )
    words = ("record", "--capture", capture, "-o", output, "--", *command)
    result = completed(*words, env=places.env)
    account = account_of(result.stdout)
    expected = expected_rows(account, base=places.base)
    files = {row[5] for row in expected}
    assert rows(output, files=files) == expected
    again = with_temp(Recording.open(output), [scratch])
    assert again.meta.temp == Recording.open(output).meta.temp


def test_a_directory_without_io_is_refused(sorted_elsewhere, tmp_path):
    root = sorted_elsewhere
    words = ("forecast", root / "unknown.spill", "--temp", tmp_path, "--to", "latency:1ms")
    message = only_line(spillcast(*words), 2)
    assert f"none of the recorded I/O was under {tmp_path}" in message


def test_sliced_recordings_cannot_be_relabelled(sorted_elsewhere):
    whole = Recording.open(sorted_elsewhere / "unknown.spill")
    raw = replace(whole.meta.raw, slices_s=[(0.0, 0.3)])
    with pytest.raises(TimesUnknown):
        with_temp(Recording(whole.path, replace(whole.meta, raw=raw)), [sorted_elsewhere])


def test_only_recordings_can_be_relabelled(tmp_path):
    from spillcast.evidence.open import EvidenceFiles
    from spillcast.forecast.question import Question

    with pytest.raises(OptionConflict, match="--temp "):
        Question(temp_dirs=[tmp_path]).check(EvidenceFiles(traces=[tmp_path]))


SCRATCH = "/nowhere/scratch"


def made_up(path, operations, **parts):
    """A recording of 10 s: (op, file, bytes) in sequence, 10 ms each; none is labelled temp I/O.

    Only a write of 59 bytes is.
    """
    writer = RecordingWriter(path)
    waits = [
        {
            "start_ns": number * 20_000_000, "elapsed_ns": 10_000_000, "session": 1,
            "event": op, "op": op, "temp": False, "file": file, "offset": 0, "bytes": size,
        }
        for number, (op, file, size) in enumerate(operations)
    ]  # fmt: skip
    stray = {
        "start_ns": 0, "elapsed_ns": 10_000, "session": 1, "event": "write", "op": "write",
        "temp": True, "file": "/nowhere/log", "offset": 0, "bytes": 59,
    }  # fmt: skip
    batch = table([stray, *waits], WAITS)
    writer.add_waits(batch)
    writer.add_seconds(seconds_of(batch))
    other = OtherIO(len(operations), len(operations) * 0.01)
    meta = Meta(
        elapsed_s=10.0, temp=Temp(0, 1, 59, 1e-5), other_io=other, capture=CaptureAccount("perf"),
        **parts,
    )  # fmt: skip
    return writer.finish(meta)


def spilling(count, folder=SCRATCH, size=1 << 20):
    files = [f"{folder}/part{number}" for number in range(count)]
    return [*(("write", file, size) for file in files), *(("read", file, size) for file in files)]


def warned(recording):
    answer = forecast(recording, resolve("latency:1ms", recording))
    return {warning.code: warning.message for warning in answer.warnings}


def test_a_single_temp_write_is_not_all_temp_io(tmp_path):
    count = 100
    recording = made_up(tmp_path / "run.spill", spilling(count))
    result = warned(recording)
    assert "little-io" not in result
    assert f"spillcast forecast {recording.path} --temp DIR --to TARGET" in result["other-io"]
    reported = with_temp(recording, [SCRATCH])
    assert reported.meta.temp == Temp(count, count, count << 21, pytest.approx(count * 0.02))
    assert reported.meta.other_io.count == 1
    assert "other-io" not in warned(reported)
    assert forecast(reported, resolve("latency:1ms", reported)).forecast_s == pytest.approx(
        10 - count * 0.02 + count * 0.002
    )


def test_writeback_belongs_to_the_files_with_more_preceding_writes(tmp_path):
    """A writeback row names no file."""
    writes = [("write", f"{SCRATCH}/part", 1 << 20)] * 3 + [("write", "/nowhere/table", 9)] * 3
    recording = made_up(tmp_path / "run.spill", writes)
    # After the first scratch write and the stray one, after the third scratch write, and at the
    # end.
    waits = [
        {"start_ns": at_ms * 1_000_000, "elapsed_ns": 1_000_000, "session": 1,
         "event": WRITEBACK, "temp": True}
        for at_ms in (15, 55, 115)
    ]  # fmt: skip
    rows = [dict.fromkeys(column.name for column in WAITS) | wait for wait in waits]
    recording.waits = Table.concat([recording.waits, table(rows, WAITS)]).sort_by("start_ns")
    changes = with_temp(recording, [SCRATCH]).temp_changes
    assert changes["start_ns"].to_pylist() == [55_000_000]


def test_much_other_io_is_a_warning(tmp_path):
    reads = [("read", "/nowhere/table", 1 << 20)] * 100
    result = warned(made_up(tmp_path / "run.spill", reads))
    assert "little-io" not in result
    assert "I/O on other files took 1 s: the forecast keeps that unchanged" in result["other-io"]


def test_little_io_of_any_kind_is_a_warning(tmp_path):
    result = warned(made_up(tmp_path / "run.spill", [("read", "/nowhere/table", 100)]))
    assert "no storage for temp files can help much" in result["little-io"]
    assert "other-io" not in result


def test_named_directories_suppress_the_warning(tmp_path):
    requested = RecordOptions(temp_dirs=[Path("/nowhere")])
    result = warned(made_up(tmp_path / "run.spill", spilling(2), asked=requested))
    assert "other-io" not in result


ENGINES = {
    "polars": (
        "import polars as pl; "
        "frame = pl.LazyFrame({'k': pl.arange(0, 2_000_000, eager=True)}); "
        "frame = frame.with_columns(v=pl.col('k').hash(1), s=pl.col('k').cast(pl.String)); "
        "print(frame.sort('v').collect(engine='streaming').shape)"
    ),
    "chdb": (
        "from chdb.session import Session; "
        "print(Session('{scratch}').query('select count() from (select number, cityHash64(number) "
        "as h, toString(number) as s from numbers(3000000) order by h limit 2900000, 10) settings "
        "max_bytes_before_external_sort=20000000, max_bytes_ratio_before_external_sort=0, "
        "max_threads=2, max_block_size=65536'))"
    ),
}


@pytest.mark.parametrize("engine", ["chdb", *nightly("polars")])
def test_spills_of_other_engines_are_recognised(places, engine):
    if importlib.util.find_spec(engine) is None:
        pytest.skip(f"there is no {engine}")
    scratch, output = places.data / "scratch", places.root / "run.spill"
    scratch.mkdir()
    spills = {"POLARS_OOC_MEMORY_BUDGET_MB": "20", "POLARS_OOC_SPILL_DIR": str(scratch)}
    code = ENGINES[engine].replace("{scratch}", str(scratch))
    command = ("record", "-o", output, "--", sys.executable, "-c", code)
    completed(*command, env={**places.env, "POLARS_OOC_SPILL_POLICY": "spill", **spills})
    recording = Recording.open(output)
    assert recording.written_bytes.temp > 10 << 20
    files = recording.temp_waits.group_by("file")
    moved = files.sum(recording.temp_waits["bytes"].values)
    spilled = [Path(file).is_relative_to(scratch) for file in files.keys["file"].to_pylist()]
    assert moved[spilled].sum() > 0.99 * moved.sum()

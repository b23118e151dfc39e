"""Calls that create, resize, sync and remove temp files are rows, exactly as many as were made."""

import json
import os
import shutil
import signal
import sys
from pathlib import Path

import pyarrow.parquet as pq
import pytest

from emulator import Emulator, skip_without_fuse
from harness import compiled, completed, ordinary_user
from spillcast.recording import Recording
from spillcast.recording.derived import with_temp

COUNT = 30
BY_PATH = {"truncate", "unlink", "unlinkat"}
#: Changes that perf events show to root alone.
SYNCS = {"fsync", "fdatasync", "sync_file_range"}
#: Offsets and sizes that tests/targets/changes.c uses on its first file.
OFFSETS = {"ftruncate": 4096, "fallocate": 8192, "truncate": 100}


@pytest.fixture(scope="module")
def changes(tmp_path_factory):
    """The program of tests/targets/changes.c."""
    return compiled("changes", tmp_path_factory.mktemp("changes"))


def record(places, program, *options, temp=None, under=()):
    """The program's output (count and ns by call), and the recording."""
    output = places.root / "run.spill"
    requested = ("record", "--temp", temp or places.temp, *options, "-o", output)
    env = places.env | {"HOME": str(places.root)}
    result = completed(*requested, "--", program, places.temp, COUNT, under=under, env=env)
    stdout = next(line for line in result.stdout.splitlines() if line.startswith('{"openat"'))
    return json.loads(stdout), output


def check(answer, output, blind=frozenset()):
    waits = pq.read_table(output / "waits.parquet").to_pylist()
    on_temp = [row for row in waits if row["temp"] and row["op"] is None]
    for call, (count, total_ns) in answer.items():
        rows = [row for row in on_temp if row["event"] == call]
        assert len(rows) == (0 if call in blind else count), call
        assert sum(row["elapsed_ns"] for row in rows) <= total_ns
        first = [row["offset"] for row in rows if row["file"].endswith("/file0")]
        assert first in ([], [OFFSETS.get(call)])
    assert {row["event"] for row in on_temp} <= set(answer)
    assert all(row["elapsed_ns"] > 0 and row["bytes"] is None for row in on_temp)
    meta = json.loads((output / "meta.json").read_text())
    assert (meta["temp"]["reads"], meta["temp"]["writes"]) == (0, COUNT)
    seconds = pq.read_table(output / "seconds.parquet").to_pylist()
    of_changes = [row for row in seconds if row["temp"] and row["op"] is None]
    assert sum(row["count"] for row in of_changes) == len(on_temp)
    assert sum(row["total_ns"] for row in of_changes) == sum(r["elapsed_ns"] for r in on_temp)
    return on_temp


@pytest.mark.parametrize("capture", ["bpf", "preload"])
def test_all_changes_are_recorded(places, changes, capture):
    answer, output = record(places, changes, "--capture", capture)
    rows = check(answer, output)
    assert {row["file"] for row in rows} == {f"{places.temp}/file{i}" for i in range(COUNT)}


def test_perf_events_record_changes_by_descriptor(places, changes):
    answer, output = record(places, changes, "--capture", "perf")
    # Perf may miss the name of a file that is opened and closed at once.
    waits = pq.read_table(output / "waits.parquet").to_pylist()
    seen = {row["file"] for row in waits if row["temp"] and row["event"] == "pwrite64"}
    assert len(seen) == COUNT
    check(answer, output, blind=BY_PATH if os.geteuid() == 0 else BY_PATH | SYNCS)


def test_an_ordinary_user_records_truncations(open_places, changes):
    open_places.root.chmod(0o777)
    program = shutil.copy(changes, open_places.root)
    answer, output = record(open_places, program, "--capture", "perf", under=ordinary_user())
    events = pq.read_table(output / "waits.parquet")["event"].to_pylist()
    assert events.count("ftruncate") == answer["ftruncate"][0]
    assert events.count("openat") == answer["openat"][0]


@pytest.mark.parametrize("capture", ["bpf", "perf", "preload"])
def test_changes_of_other_files_are_not_rows(places, changes, capture):
    elsewhere = places.root / "elsewhere"
    elsewhere.mkdir()
    _, output = record(places, changes, "--capture", capture, temp=elsewhere)
    waits = pq.read_table(output / "waits.parquet").to_pylist()
    assert all(row["op"] for row in waits if row["file"])
    assert sum(row["event"] == "pwrite64" for row in waits) == COUNT


def test_changes_are_relabelled_with_their_files(places, changes):
    _, output = record(places, changes, "--capture", "preload")
    recording = Recording.open(output)
    again = with_temp(recording, [places.temp])
    assert again.waits["temp"].to_pylist() == recording.waits["temp"].to_pylist()
    assert again.meta.temp == recording.meta.temp
    count = sum(again.seconds["count"].to_pylist())
    assert count == sum(recording.seconds["count"].to_pylist())


@pytest.mark.parametrize("capture", ["bpf", "preload"])
def test_changes_through_a_symbolic_link_are_of_the_same_file(places, changes, capture):
    link = places.root / "link"
    link.symlink_to(places.temp)
    output = places.root / "linked.spill"
    requested = ("record", "--capture", capture, "--temp", places.temp, "-o", output)
    completed(*requested, "--", changes, link, 3, env=places.env)
    waits = Recording.open(output).temp_changes.to_pylist()
    of_file = [row["event"] for row in waits if row["file"] == f"{places.temp}/file1"]
    assert of_file.count("truncate") == of_file.count("unlink") == of_file.count("openat") == 1


SPILLING = """
import sys, duckdb
connection = duckdb.connect()
connection.execute(f"set temp_directory='{sys.argv[1]}'")
connection.execute("set memory_limit='80MB'")
connection.execute("set threads=1")
print(connection.execute(
    "select sum(h) from (select row_number() over (order by b) h"
    " from (select hash(range) b from range(5000000)))"
).fetchall())
"""


@pytest.mark.nightly
def test_duckdb_truncates_and_removes_its_temp_files(tmp_path):
    """On an emulated storage, where only the preload library sees the removals."""
    skip_without_fuse()
    output = tmp_path / "run.spill"
    with Emulator(tmp_path, "--read", "200us", "--write", "200us").ready() as emulator:
        command = (sys.executable, "-c", SPILLING, emulator.mountpoint)
        completed("record", "--capture", "preload", "-o", output, "--", *command)
        emulator.end(signal.SIGTERM)
    files = {}
    for row in Recording.open(output).temp_changes.to_pylist():
        assert Path(row["file"]).name.startswith("duckdb_temp_")
        files.setdefault(row["file"], []).append(row["event"])
    storage = [made for file, made in files.items() if "storage" in file]
    assert storage
    for made in storage:
        assert (made[0], made[-1]) == ("openat", "unlink")
    assert any("ftruncate" in made for made in storage)


LOOKING = """
import os, sys
temp, elsewhere, count = *sys.argv[1:3], int(sys.argv[3])
for folder in (temp, elsewhere):
    for number in range(count):
        assert not os.path.exists(f"{folder}/missing{number}")
path = f"{temp}/file"
with open(path, "w+b", buffering=0) as file:
    file.write(bytes(8192))
    os.pread(file.fileno(), 8192, 0)
os.unlink(path)
"""
LOOKUPS = {"newstat", "newfstatat", "statx"}


def lookups(capture, output, *arguments):
    command = (sys.executable, "-c", LOOKING, *arguments, COUNT)
    completed("record", "--capture", capture, "-o", output, "--temp", arguments[0], "--", *command)
    waits = Recording.open(output).waits.to_pylist()
    return [row for row in waits if row["event"] in LOOKUPS]


@pytest.mark.parametrize("capture", ["bpf"])
def test_names_looked_up_by_a_process_are_rows_of_the_temp_folder(tmp_path, capture):
    """DuckDB looks up a file of its own name before each block that it reads."""
    skip_without_fuse()
    plain = tmp_path / "plain"
    plain.mkdir()
    with Emulator(tmp_path, "--read", "200us", "--write", "200us").ready() as emulator:
        temp = str(emulator.mountpoint)
        rows = lookups(capture, tmp_path / "slow.spill", temp, str(plain))
        assert 0.9 * COUNT <= len(rows) <= COUNT
        for row in rows:
            assert row["temp"]
            assert row["blocked"]
            assert (row["file"], row["op"], row["bytes"]) == (temp, None, None)
        # Other folders have no such rows, and cached lookups have no wait.
        assert lookups(capture, tmp_path / "fast.spill", str(plain), temp) == []
        emulator.end(signal.SIGTERM)

"""A probe replays a recording in a real directory, and leaves nothing there."""

import json
import os
import random
import signal
import subprocess
import threading
import time
from collections import Counter
from itertools import pairwise
from pathlib import Path

import duckdb
import pytest

from cases import cases
from harness import (
    compiled,
    completed,
    json_of,
    only_line,
    ordinary_user,
    spill_in,
    spillcast,
    spillcast_command,
    started,
    target,
    until,
)
from kills import KILLS
from spillcast._core import scratch_prefix
from spillcast.recording import Recording
from spillcast.storage import Storage
from spillcast.storage.probe import named_files_removed, probe

SHARED_MEMORY = Path("/dev/shm")


@pytest.fixture(params=["disk", "shared memory"])
def directory(request, tmp_path):
    """An empty directory on each kind of storage that every machine has."""
    if request.param == "disk":
        made = tmp_path / "probed"
    else:
        if not os.access(SHARED_MEMORY, os.W_OK):
            pytest.skip("no /dev/shm")
        made = SHARED_MEMORY / f"spillcast-test-{os.getpid()}"
    made.mkdir()
    yield made
    made.rmdir()  # Fails unless the probe left it empty.


def recorded_groups(path):
    """Count and bytes of the recorded temp I/O by op and size class, computed without Python."""
    query = f"""
        select op, size_class_bytes, sum("count")::bigint, sum(bytes)::bigint
        from '{path}/seconds.parquet' where temp and size_class_bytes > 0 group by all
    """
    rows = duckdb.sql(query).fetchall()
    return {(op, size): (count, moved) for op, size, count, moved in rows}


def test_every_recorded_operation_is_replayed(spilled, directory, tmp_path):
    output = tmp_path / "storage.json"
    document = json_of("probe", directory, "--like", spilled.path, "-o", output)
    assert document == json.loads(output.read_text())
    groups = document["groups"]
    replayed = {(g["op"], g["size_class_bytes"]): (g["count"], g["bytes"]) for g in groups}
    assert replayed == recorded_groups(spilled.path)
    assert document["facts"]["threads"] == 2
    assert document["facts"]["steps_skipped"] == 0
    for group in groups:
        assert group["total_ns"] > 0
        assert sum(group["latency_count"]) == group["count"]
        assert sum(group["block_count"]) == group["count"]


def test_a_storage_is_unchanged_by_saving_and_loading(spilled, tmp_path):
    measured = probe(tmp_path, Recording.open(spilled.path))
    path = tmp_path / "storage.json"
    measured.save(path)
    read = Storage.load(path)
    assert read.to_json() == measured.to_json() == json.loads(path.read_text())
    assert [path.name for path in tmp_path.iterdir()] == ["storage.json"]


def test_progress_ends_with_all_steps_done(spilled, tmp_path):
    seen = []
    recording = Recording.open(spilled.path)
    storage = probe(tmp_path, recording, on_progress=lambda *state: seen.append(state))
    steps = storage.facts["steps_replayed"]
    assert steps == sum(count for count, _ in recorded_groups(spilled.path).values())
    done = [state[0] for state in seen]
    # On a busy machine the replay restarts.
    assert all(after >= before or after == 0 for before, after in pairwise(done))
    assert seen[-1][:2] == (steps, steps)


@pytest.fixture(scope="module")
def slow(tmp_path_factory):
    """A recording with pauses, so that its replay takes a while."""
    root = tmp_path_factory.mktemp("slow")
    base = root / "table.db"
    base.write_bytes(bytes(512 * 101))
    plan = ("--file", root / "spill", "--base", base, "--unlink", "--pause", 0.02)
    completed("record", "-o", root / "run.spill", "--", *target("spill", *plan))
    return root / "run.spill"


@pytest.mark.parametrize("death", [signal.SIGKILL, signal.SIGTERM, signal.SIGINT])
def test_a_killed_probe_leaves_nothing(slow, directory, death):
    rng = random.Random(death)
    for _ in range(max(KILLS // 3, 1)):
        process = started("probe", directory, "--like", slow, stderr=subprocess.PIPE)
        until(lambda: holds_files_in(process.pid, directory), "the replay")  # noqa: B023
        time.sleep(rng.uniform(0, 0.2))
        process.send_signal(death)
        _, stderr = process.communicate()
        assert process.returncode != 0
        assert b"Traceback" not in stderr
        assert list(directory.iterdir()) == []


def holds_files_in(pid, directory):
    """Whether a process has a file open that was created in a directory."""
    opened = Counter()
    for link in Path(f"/proc/{pid}/fd").iterdir():
        try:
            opened[os.readlink(link).startswith(f"{directory}/")] += 1
        except FileNotFoundError:
            continue
    return opened[True] > 0


def probe_fails(spilled, directory, words, **options):
    result = spillcast("probe", directory, "--like", spilled.path, **options)
    text = only_line(result, 2)
    assert str(directory) in text
    assert words in text


def test_a_thread_does_not_remove_files_of_another(tmp_path):
    path = tmp_path / f"{scratch_prefix()}1"

    def other():
        with named_files_removed(tmp_path):
            pass

    thread = threading.Thread(target=other)
    with named_files_removed(tmp_path):
        path.touch()
        thread.start()
        thread.join(timeout=0.5)
        assert path.exists()
    thread.join()
    assert not [*tmp_path.iterdir()]


def test_a_missing_directory_is_refused(spilled, tmp_path):
    probe_fails(spilled, tmp_path / "missing", "no such directory")


def test_a_file_instead_of_a_directory_is_refused(spilled, tmp_path):
    (tmp_path / "file").touch()
    probe_fails(spilled, tmp_path / "file", "directory")


def test_a_directory_that_is_not_writable_is_refused(spilled, tmp_path):
    directory = tmp_path / "read-only"
    directory.mkdir(mode=0o555)
    if os.geteuid() == 0:
        pytest.skip("root may write everywhere: tried as an ordinary user")
    probe_fails(spilled, directory, "not writable")


def test_a_directory_of_another_user_is_refused(open_places):
    if os.geteuid() != 0:
        pytest.skip("only root can make a directory of another user")
    recording = open_places.root / "run.spill"
    words = ("record", "--share", "-o", recording, "--", *spill_in(open_places))
    completed(*words, env=open_places.env)
    result = spillcast("probe", open_places.data, "--like", recording, under=ordinary_user())
    text = only_line(result, 2)
    assert f"{open_places.data} is not writable" in text


def test_a_directory_that_is_too_small_is_refused(spilled, tmp_path):
    small = tmp_path / "small"
    small.mkdir()
    mounted = subprocess.run(
        ["mount", "-t", "tmpfs", "-o", "size=1m", "tmpfs", small], capture_output=True
    )
    if mounted.returncode != 0:
        pytest.skip("mounting a small tmpfs needs root")
    try:
        probe_fails(spilled, small, "free")
        assert list(small.iterdir()) == []
    finally:
        subprocess.run(["umount", small], check=True)


def test_the_output_must_have_a_directory(spilled, tmp_path):
    output = tmp_path / "missing" / "storage.json"
    result = spillcast("probe", tmp_path, "--like", spilled.path, "-o", output)
    assert "there is no directory" in only_line(result, 2)


@cases(
    ("text", "words"),
    [
        ("", "is not a storage"),
        ('{"schema": "spillcast.stor', "cut or damaged: not JSON"),
        ("[]", "is not a storage"),
        ('{"schema": "spillcast.storage/2"}', "'spillcast.storage/2'"),
        ('{"schema": "spillcast.storage/1"}', "damaged"),
        ('{"schema": "spillcast.storage/1", "name": "", "source": "", "facts": {}, "groups": [1]}',
         "damaged"),
    ],
)  # fmt: skip
def test_a_damaged_document_is_refused_in_one_line(spilled, tmp_path, text, words):
    path = tmp_path / "storage.json"
    path.write_text(text)
    result = spillcast("forecast", spilled.path, "--to", path)
    complaint = only_line(result, 2)
    assert str(path) in complaint
    assert words in complaint


def test_a_directory_name_that_is_not_utf8_is_probed(spilled, tmp_path):
    odd = tmp_path / os.fsdecode(b"odd \xff")
    odd.mkdir()
    kept = odd / "storage.json"
    assert spillcast("probe", odd, "--like", spilled.path, "-o", kept).returncode == 0
    for place in (odd, kept):
        completed("forecast", spilled.path, "--to", place, "--json")


COUNT = 12

#: Calls that a replay makes by the same name; it also truncates and removes by other calls.
SAME = ("fallocate", "fsync", "fdatasync", "sync_file_range")


@pytest.fixture(scope="module")
def recorded(tmp_path_factory):
    """A recording of tests/targets/changes.c, which makes each call on each of its files."""
    root = tmp_path_factory.mktemp("changes")
    program = compiled("changes", root)
    temp, output = root / "temp", root / "run.spill"
    temp.mkdir()
    requested = ("record", "--capture", "preload", "--temp", temp, "-o", output)
    completed(*requested, "--", program, temp, COUNT)
    return Recording.open(output)


def observed_probe(recorded, tmp_path, capture):
    """The storage of a probe, and the counts of the calls that it made."""
    place, itself, measured = tmp_path / "place", tmp_path / "probe.spill", tmp_path / "s.json"
    place.mkdir()
    command = spillcast_command("probe", place, "--like", recorded.path, "-o", measured)
    requested = ("record", "--capture", capture, "--temp", place, "-o", itself)
    completed(*requested, "--", *command)
    assert os.listdir(place) == []
    issued = Counter(Recording.open(itself).temp_changes["event"].to_pylist())
    return Storage.load(measured), issued


def test_each_recorded_call_is_made_in_the_directory(recorded, tmp_path):
    storage, issued = observed_probe(recorded, tmp_path, "perf")
    made = Counter(recorded.temp_changes["event"].to_pylist())
    assert sum(made.values()) == 8 * COUNT
    assert {item.event: item.count for item in storage.changes} == made
    assert all(sum(item.latency_count) == item.count for item in storage.changes)
    # Perf events show syncs to root alone.
    same = SAME if os.geteuid() == 0 else SAME[:1]
    assert {name: issued[name] for name in same} == {name: made[name] for name in same}
    assert issued["ftruncate"] == made["ftruncate"] + made["truncate"]


def test_files_of_a_probe_are_removed(recorded, tmp_path):
    _, issued = observed_probe(recorded, tmp_path, "preload")
    made = Counter(recorded.temp_changes["event"].to_pylist())
    # Files that were opened only to be timed are removed, too.
    assert issued["unlink"] >= made["unlink"] + made["unlinkat"] + made["openat"]


def test_a_storage_without_changes_is_read(recorded, tmp_path):
    measured = tmp_path / "s.json"
    completed("probe", tmp_path, "--like", recorded.path, "-o", measured)
    document = json.loads(measured.read_text())
    assert document.pop("changes")
    measured.write_text(json.dumps(document))
    assert Storage.load(measured).changes == ()

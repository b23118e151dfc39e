"""A probe makes the calls that changed temp files, as a recording of the probe itself shows."""

import json
import os
import shutil
import subprocess
from collections import Counter

import pytest

from harness import TARGETS, completed, spillcast_command
from spillcast.recording import Recording
from spillcast.storage.storage import Storage

COUNT = 12
#: Those that a replay makes by a call of the same name; it truncates and removes by others too.
SAME = ("fallocate", "fsync", "fdatasync", "sync_file_range")


@pytest.fixture(scope="module")
def recorded(tmp_path_factory):
    """A recording of tests/targets/changes.c, which makes each call on each of its files."""
    if shutil.which("cc") is None:
        pytest.skip("needs a C compiler (cc)")
    root = tmp_path_factory.mktemp("changes")
    subprocess.run(["cc", "-O1", "-o", root / "changes", TARGETS / "changes.c"], check=True)
    temp, output = root / "temp", root / "run.spill"
    temp.mkdir()
    requested = ("record", "--capture", "preload", "--temp", temp, "-o", output)
    completed(*requested, "--", root / "changes", temp, COUNT)
    return Recording.open(output)


def observed_probe(recorded, tmp_path, capture):
    """What a probe of a directory found, and how often it made each call there."""
    place, itself, measured = tmp_path / "place", tmp_path / "probe.spill", tmp_path / "s.json"
    place.mkdir()
    command = spillcast_command("probe", place, "--like", recorded.path, "-o", measured)
    requested = ("record", "--capture", capture, "--temp", place, "-o", itself)
    completed(*requested, "--", *command)
    assert os.listdir(place) == []
    issued = Counter(Recording.open(itself).temp_changes["event"].to_pylist())
    return Storage.load(measured), issued


def test_each_call_is_made_on_the_directory(recorded, tmp_path):
    storage, issued = observed_probe(recorded, tmp_path, "perf")
    made = Counter(recorded.temp_changes["event"].to_pylist())
    assert sum(made.values()) == 8 * COUNT
    assert {item.event: item.count for item in storage.changes} == made
    assert all(sum(item.latency_count) == item.count for item in storage.changes)
    assert {name: issued[name] for name in SAME} == {name: made[name] for name in SAME}
    assert issued["ftruncate"] == made["ftruncate"] + made["truncate"]


def test_files_are_removed(recorded, tmp_path):
    _, issued = observed_probe(recorded, tmp_path, "preload")
    made = Counter(recorded.temp_changes["event"].to_pylist())
    # What was opened for its time alone is removed again.
    assert issued["unlink"] >= made["unlink"] + made["unlinkat"] + made["openat"]


def test_a_storage_without_them_reads_as_before(recorded, tmp_path):
    measured = tmp_path / "s.json"
    completed("probe", tmp_path, "--like", recorded.path, "-o", measured)
    document = json.loads(measured.read_text())
    assert document.pop("changes")
    measured.write_text(json.dumps(document))
    assert Storage.load(measured).changes == ()

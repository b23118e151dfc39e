"""Recordings on a full disk or with a removed folder: what can be kept is kept."""

import json
import os
import shutil
import subprocess
from contextlib import contextmanager, suppress
from functools import cache

import numpy as np
import pytest

from cases import cases, nightly
from evidence import known
from harness import only_line, partial_folders, spill_in, spillcast, started, succeeded
from spillcast.recording import Recording, schema
from spillcast.recording.schema import WAITS
from spillcast.recording.writer import RecordingWriter
from spillcast.tables import Table

pytestmark = pytest.mark.skipif(os.geteuid() != 0, reason="only root mounts a disk that is full")
SECONDS, A_SECOND = 64, 5_000
S = 1_000_000_000


@contextmanager
def small(room, mib):
    """A file system of this size in MiB."""
    place = room / "small"
    place.mkdir()
    size = f"size={mib}m"
    subprocess.run(["mount", "-t", "tmpfs", "-o", size, "tmpfs", place], check=True)
    try:
        yield place
    finally:
        subprocess.run(["umount", "--lazy", place], check=True)


def fill(place):
    """Fills the file system to the last page."""
    with (place / "hog").open("ab", buffering=0) as hog, suppress(OSError):
        while True:
            hog.write(bytes(4096))


@cache
def waits(second):
    """The waits of a second, each of 512 bytes, which do not compress well."""
    rows = [
        {
            "start_ns": second * S + (at * 7919) % S, "elapsed_ns": 1 + (at * 104_729) % 1_000_003,
            "session": 1, "event": "pread64", "op": "read", "temp": True, "file": "/t/spill",
            "offset": (at * 15_485_863) % (1 << 40), "bytes": 512,
        }
        for at in range(A_SECOND)
    ]  # fmt: skip
    return Table.from_rows(rows, WAITS)


def sums(second):
    """The sums over those waits."""
    row = {
        "second": second, "op": "read", "temp": True, "size_class_bytes": 512,
        "count": A_SECOND, "bytes": 512 * A_SECOND, "total_ns": second,
        "latency_ns": [100], "latency_count": [A_SECOND],
    }  # fmt: skip
    return Table.from_rows([row], schema.SECONDS)


def written(writer, meanwhile):
    for second in range(SECONDS):
        meanwhile(second)
        writer.add_waits(waits(second))
        writer.add_seconds(sums(second))
    return Recording.open(writer.finish(known(SECONDS, 1, 1)).path)


def check_whole(recording):
    """All seconds are there, in order; waits only of whole seconds, as stated."""
    seconds, raw = recording.seconds, recording.meta.raw
    assert seconds["second"].to_pylist() == list(range(SECONDS))
    assert seconds["total_ns"].to_pylist() == list(range(SECONDS))
    assert raw.rows_seen == SECONDS * A_SECOND
    assert not partial_folders(recording.path)
    if raw.slices_s is None:
        assert raw.because is None
        assert raw.rows == raw.rows_seen
        return raw
    assert raw.rows == recording.waits.num_rows == A_SECOND * len(raw.slices_s)
    kept = np.unique(recording.waits["start_ns"].values // S).tolist()
    assert kept == [round(begin_s) for begin_s, _ in raw.slices_s]
    return raw


def test_a_small_disk_keeps_fewer_waits(tmp_path):
    with small(tmp_path, 17) as place:
        (place / "others").write_bytes(bytes(1 << 19))
        writer = RecordingWriter(place / "run.spill")
        # During the recording they take about 9 MB, and then the Parquet file in addition.
        raw = check_whole(written(writer, lambda second: second == 1 and shrink(place, 8)))
        assert raw.because == "the disk was full"
        assert 1 < len(raw.slices_s) < SECONDS


def shrink(place, mib):
    size = f"remount,size={mib}m"
    subprocess.run(["mount", "-o", size, place], check=True)


@cases("when", [0, 3, SECONDS - 1])
def test_a_full_disk_keeps_no_waits(tmp_path, when):
    with small(tmp_path, 24) as place:
        writer = RecordingWriter(place / "run.spill")
        raw = check_whole(written(writer, lambda second: second >= when and fill(place)))
        assert raw.because == "the disk was full"
        result = spillcast("forecast", place / "run.spill", "--to", "latency:1ms", "--json")
        assert result.returncode in (0, 3), result.stderr
        assert "Traceback" not in result.stderr


@pytest.mark.parametrize("when", [0, 30, *nightly(1, SECONDS - 1)])
@pytest.mark.parametrize("parent", [False, True])
def test_a_removed_folder_keeps_what_comes_later(tmp_path, when, parent):
    room = tmp_path / "room"
    room.mkdir()
    writer = RecordingWriter(room / "run.spill")

    def remove(second):
        if second == when:
            shutil.rmtree(room if parent else partial_folders(room / "run.spill")[0])

    raw = check_whole(written(writer, remove))
    if when == 0:
        assert raw.slices_s is None
    else:
        assert raw.because == "its folder was removed meanwhile"
        assert len(raw.slices_s) >= SECONDS - when - 5


def test_a_command_runs_to_its_end_if_its_recording_cannot_be_kept(places):
    with small(places.root, 20) as place:
        output = place / "run.spill"
        program = spill_in(places, "--gate", "--pause", 0.02)
        words = ("record", "-o", output, "--json", "--", *program)
        pipes = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE, "stderr": subprocess.PIPE}
        with started(*words, env=places.env, text=True, **pipes) as recorder:
            assert recorder.stdout.readline() == "ready\n"
            fill(place)
            stdout, stderr = succeeded(recorder, "go\n")
        assert "not all single waits could be kept: the disk was full" in stderr
        account, answer = stdout.split("\n", 1)
        assert json.loads(account)["result"] is not None
        document = json.loads(answer)
        assert document["temp"]["writes"] > 0
        assert document["raw"]["because"] == "the disk was full"


def test_a_full_disk_is_reported_before_the_command_starts(places):
    ran = places.root / "ran"
    with small(places.root, 8) as place:
        words = ("record", "-o", place / "run.spill", "--", "touch", ran)
        assert "no space" in only_line(spillcast(*words, env=places.env), 2)
    assert not ran.exists()

"""A recording's folder: nothing of anybody else is replaced, removed or followed."""

import os
import subprocess
import sys
import time

import pyarrow as pa
import pytest

from evidence import known
from harness import only_line, spillcast
from spillcast.errors import InputError
from spillcast.recording import Recording
from spillcast.recording.folder import NEW_S, check_output, partial_folders
from spillcast.recording.schema import WAITS_SCHEMA
from spillcast.recording.writer import RecordingWriter


def finish(writer, elapsed_s=1):
    return writer.finish(known(elapsed_s, 1, 1)).path


def everything(folder):
    return {str(path): path.read_bytes() for path in folder.rglob("*") if path.is_file()}


@pytest.mark.parametrize("meta", ["", "{}", "[1]", '{"spillcast": "0.1"}', "[" * 100_000])
def test_a_folder_of_the_users_is_not_replaced(tmp_path, meta):
    project = tmp_path / "proj"
    project.mkdir()
    (project / "meta.json").write_text(meta)
    (project / "thesis.txt").write_text("years of work")
    before = everything(tmp_path)
    with pytest.raises(InputError, match="proj"):
        RecordingWriter(project)
    assert everything(tmp_path) == before


def test_what_was_put_into_a_recording_is_not_lost(tmp_path):
    path = finish(RecordingWriter(tmp_path / "run.spill"))
    (path / "notes.txt").write_text("why it was slow")
    with pytest.raises(InputError, match=r"holds notes\.txt"):
        check_output(path)


def test_an_old_recording_is_replaced(tmp_path):
    path = tmp_path / "run.spill"
    for elapsed_s in (1, 2):
        assert finish(RecordingWriter(path), elapsed_s) == path
    assert Recording.open(path).elapsed_s == 2
    assert [one.name for one in tmp_path.iterdir()] == ["run.spill"]


def test_folders_that_are_called_partial_are_the_users(tmp_path):
    for name in ("b.partial", "b.spill.partial", "b.spill.0123abcd.partial"):
        (tmp_path / name).mkdir()
        (tmp_path / name / "keep").write_text(name)
        os.utime(tmp_path / name, (0, 0))
    before = everything(tmp_path)
    finish(RecordingWriter(tmp_path / "b.spill"))
    assert {name: it for name, it in everything(tmp_path).items() if name in before} == before


def test_no_link_is_followed(places):
    elsewhere = places.root / "elsewhere"
    elsewhere.mkdir()
    (elsewhere / "keep").write_text("kept")
    for name in ("run.spill", "other.spill.partial"):
        (places.root / name).symlink_to(elsewhere)
    ran = places.root / "ran"
    words = ("record", "-o", places.root / "run.spill", "--", "touch", ran)
    assert "symbolic link" in only_line(spillcast(*words, env=places.env), 2)
    assert not ran.exists()
    finish(RecordingWriter(places.root / "other.spill"))
    assert [path.name for path in elsewhere.iterdir()] == ["keep"]


def test_two_recorders_of_one_name_keep_both(tmp_path):
    path = tmp_path / "run.spill"
    one, other = RecordingWriter(path), RecordingWriter(path)
    one.add_waits(pa.RecordBatch.from_pylist([], WAITS_SCHEMA))
    assert finish(other, 2) == path
    assert finish(one, 1) == tmp_path / "run-2.spill"
    assert [Recording.open(each).elapsed_s for each in (path, tmp_path / "run-2.spill")] == [2, 1]
    assert not partial_folders(path)


def test_the_name_may_be_taken_by_anything_meanwhile(tmp_path):
    path = tmp_path / "run.spill"
    writer = RecordingWriter(path)
    path.write_text("a file")
    assert finish(writer).name == "run-2.spill"
    assert path.read_text() == "a file"


def test_what_a_killed_recorder_left_goes_with_the_next(tmp_path):
    path = tmp_path / "run.spill"
    begin = (
        "import os, signal, sys; from pathlib import Path; "
        "from spillcast.recording.writer import RecordingWriter; "
        "writer = RecordingWriter(Path(sys.argv[1])); os.kill(os.getpid(), signal.SIGKILL)"
    )
    subprocess.run([sys.executable, "-c", begin, path], check=False)
    [left] = partial_folders(path)
    living = RecordingWriter(path)
    assert left in partial_folders(path), "it might be that of one that has just begun"
    for folder in partial_folders(path):
        then = time.time() - 2 * NEW_S
        os.utime(folder, (then, then))
    finish(RecordingWriter(path))
    assert left not in partial_folders(path)
    assert finish(living).name == "run-2.spill"

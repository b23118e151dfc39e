"""Recordings never replace, remove or follow files of others; a notice is new once."""

import os
import signal
import subprocess
import sys

import pytest

from cases import cases
from evidence import known
from harness import (
    completed,
    only_line,
    ordinary_user,
    partial_folders,
    spill_in,
    spillcast,
    started,
    until,
)
from spillcast._core import check_output, unused_name
from spillcast.errors import InUse, OutputExists, PathUnusable
from spillcast.recording import Recording
from spillcast.recording.meta import is_recording
from spillcast.recording.server import RecordingsFolder
from spillcast.recording.writer import RecordingWriter
from spillcast.workspace import is_new


def finish(writer, elapsed_s=1):
    return writer.finish(known(elapsed_s, 1, 1)).path


def everything(folder):
    return {str(path): path.read_bytes() for path in folder.rglob("*") if path.is_file()}


def modes(folder):
    """The permissions of a folder and of all files in it."""
    inside = {path.stat().st_mode & 0o777 for path in folder.rglob("*") if path.is_file()}
    return folder.stat().st_mode & 0o777, inside


@cases("meta", ["", "{}", "[1]", '{"spillcast": "0.1"}', '{"schema": "app/1"}', "[" * 100_000])
def test_a_folder_of_the_user_is_not_replaced(tmp_path, meta):
    project = tmp_path / "proj"
    project.mkdir()
    (project / "meta.json").write_text(meta)
    before = everything(tmp_path)
    with pytest.raises(OutputExists, match="proj"):
        RecordingWriter(project)
    assert everything(tmp_path) == before


def test_a_foreign_file_in_a_recording_prevents_its_replacement(tmp_path):
    path = finish(RecordingWriter(tmp_path / "run.spill"))
    writer = RecordingWriter(path, force=True)
    (path / "notes.txt").write_text("why it was slow")
    assert finish(writer) == tmp_path / "run-2.spill"
    assert (path / "notes.txt").read_text() == "why it was slow"
    with pytest.raises(OutputExists, match=r"holds notes\.txt"):
        check_output(path, force=True)


def test_an_existing_recording_is_replaced_only_on_request(tmp_path):
    path = tmp_path / "run.spill"
    for elapsed_s in (1, 2):
        assert finish(RecordingWriter(path, force=elapsed_s > 1), elapsed_s) == path
    with pytest.raises(OutputExists, match="exists"):
        RecordingWriter(path)
    assert Recording.open(path).elapsed_s == 2
    assert [item.name for item in tmp_path.iterdir()] == ["run.spill"]


def test_default_names_are_unused(tmp_path):
    path = tmp_path / "run.spill"
    writer = RecordingWriter(unused_name(path))
    # While the first is being written, its name is already taken.
    second = unused_name(path)
    assert second == tmp_path / "run-2.spill"
    second.symlink_to(tmp_path / "nowhere")
    assert unused_name(path) == tmp_path / "run-3.spill"
    # A folder that someone else creates meanwhile stays.
    path.mkdir()
    (path / "theirs").touch()
    assert finish(writer) == tmp_path / "run-3.spill"
    assert (path / "theirs").exists()


def test_partial_folders_of_the_user_are_kept(tmp_path):
    for name in ("b.partial", "b.spill.partial", "b.spill.0123abcd.partial"):
        (tmp_path / name).mkdir()
        (tmp_path / name / "keep").write_text(name)
    before = everything(tmp_path)
    finish(RecordingWriter(tmp_path / "b.spill"))
    assert {name: it for name, it in everything(tmp_path).items() if name in before} == before


def test_symbolic_links_are_not_followed(places):
    elsewhere = places.root / "elsewhere"
    elsewhere.mkdir()
    (elsewhere / "keep").write_text("kept")
    for name in ("run.spill", "other.spill.partial", "other.spill.0123abcd.partial"):
        (places.root / name).symlink_to(elsewhere)
    ran = places.root / "ran"
    words = ("record", "-o", places.root / "run.spill", "--", "touch", ran)
    assert "symbolic link" in only_line(spillcast(*words, env=places.env), 2)
    assert not ran.exists()
    finish(RecordingWriter(places.root / "other.spill"))
    assert [path.name for path in elsewhere.iterdir()] == ["keep"]


def test_the_second_recorder_of_the_same_name_is_refused_before_its_command(places):
    output, ran = places.root / "run.spill", places.root / "ran"
    words = ("record", "-o", output, "--", *spill_in(places, "--gate"))
    pipes = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE, "stderr": subprocess.PIPE}
    with started(*words, env=places.env, text=True, **pipes) as first:
        assert first.stdout.readline() == "ready\n"
        second = spillcast("record", "-o", output, "--", "touch", ran, env=places.env)
        assert "another spillcast" in only_line(second, 2)
        assert not ran.exists()
        first.communicate("go\n")
    assert first.returncode == 0
    assert Recording.open(output).meta.temp.writes > 0


def test_two_recorders_of_a_server_do_not_share_a_folder(tmp_path):
    path = tmp_path / "server.spills"
    first, second = RecordingsFolder(path), RecordingsFolder(path)
    rows = first.make()
    for refused in (second.check, second.make):
        with pytest.raises(InUse):
            refused()
    assert rows.is_dir()
    first.leave()
    assert not path.exists()


def test_recordings_of_a_server_follow_no_link(tmp_path):
    (tmp_path / "elsewhere").mkdir()
    (tmp_path / "server.spills").symlink_to(tmp_path / "elsewhere")
    with pytest.raises(PathUnusable):
        RecordingsFolder(tmp_path / "server.spills").check()
    (tmp_path / "mine").mkdir()
    (tmp_path / "mine" / "rows.partial").mkdir()
    with pytest.raises(OutputExists, match=r"holds rows\.partial"):
        RecordingsFolder(tmp_path / "mine").check()


def test_the_next_free_name_is_used_if_the_name_is_taken_meanwhile(tmp_path):
    path = tmp_path / "run.spill"
    writer = RecordingWriter(path)
    path.write_text("a file")
    (tmp_path / "run-2.spill").mkdir()
    assert finish(writer).name == "run-3.spill"
    assert path.read_text() == "a file"


def test_a_killed_recorder_leaves_nothing(tmp_path):
    path = tmp_path / "run.spill"
    begin = (
        "import sys, time; from pathlib import Path; "
        "from spillcast.recording.writer import RecordingWriter; "
        "writer = RecordingWriter(Path(sys.argv[1])); print('there', flush=True); time.sleep(600)"
    )
    words = [sys.executable, "-c", begin, path]
    with subprocess.Popen(words, stdout=subprocess.PIPE) as recorder:
        assert recorder.stdout.readline() == b"there\n"
        assert len(partial_folders(path)) == 1
        recorder.kill()
    until(lambda: not list(tmp_path.iterdir()), "the janitor")


def test_the_next_recording_removes_the_rest_of_a_killed_one(tmp_path):
    path = tmp_path / "run.spill"
    left = tmp_path / "run.spill.0123abcd.partial"
    (left / "parts").mkdir(parents=True)
    (left / "seconds.packed").touch()
    (tmp_path / "other.spill.0123abcd.partial" / "parts").mkdir(parents=True)
    finish(RecordingWriter(path))
    assert not left.exists()
    assert (tmp_path / "other.spill.0123abcd.partial").exists()


def test_other_users_may_read_only_shared_recordings(places):
    for requested, expected in (((), (0o700, {0o600})), (("--share",), (0o755, {0o644}))):
        output = places.root / "run.spill"
        words = ("record", "--force", *requested, "-o", output, "--", *spill_in(places))
        completed(*words, env=places.env)
        assert modes(output) == expected


@pytest.mark.skipif(not ordinary_user(), reason="only root becomes another user")
def test_another_user_is_advised_of_the_share_option(open_places):
    path = finish(RecordingWriter(open_places.root / "run.spill"))
    for words in (
        ("profile", path),
        ("forecast", path, "--to", "latency:1ms"),
        ("profile", path, "--sql", "x"),
    ):
        result = spillcast(*words, under=ordinary_user(), env=open_places.env)
        assert "record with --share" in result.stderr
        assert result.returncode == 2


def test_a_recording_is_private_while_it_is_written(tmp_path):
    umask = os.umask(0)
    try:
        writer = RecordingWriter(tmp_path / "run.spill", share=True)
        [folder] = partial_folders(tmp_path / "run.spill")
        assert folder.stat().st_mode & 0o777 == 0o700
        writer.discard()
        folder = RecordingsFolder(tmp_path / "server.spills")
        assert folder.make().parent.stat().st_mode & 0o777 == 0o700
        folder.leave()
    finally:
        os.umask(umask)
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT, signal.SIGHUP])
def test_a_signal_leaves_a_complete_recording(places, signals_by_default, number):
    output = places.root / "run.spill"
    words = ("record", "-o", output, "--", "sleep", "600")
    with started(*words, stderr=subprocess.PIPE, env=places.env) as recorder:
        until(lambda: partial_folders(output), "the recording")
        recorder.send_signal(number)
        recorder.communicate()
    assert recorder.returncode == 128 + number
    assert not partial_folders(output)
    assert is_recording(output)


@pytest.fixture
def state(monkeypatch, tmp_path):
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "state"))
    return tmp_path / "state"


def test_each_notice_is_new_once(state):
    assert [is_new(notice) for notice in ("a", "b a", "a", "b a", "b")] == [
        True, True, False, False, True,
    ]  # fmt: skip


@pytest.mark.parametrize("content", [None, b"\xff\xfe\n"])
def test_a_notice_is_new_if_nothing_can_be_stored(state, content):
    if content is None:
        state.write_bytes(b"no folder")
    else:
        (state / "spillcast").mkdir(parents=True)
        (state / "spillcast" / "notices").write_bytes(content)
    assert is_new("a")
    assert is_new("a")


def test_no_program_on_the_path_is_needed(tmp_path):
    command = ("record", "-o", "run.spill", "--", sys.executable, "-c", "")
    completed(*command, cwd=tmp_path, env=os.environ | {"PATH": str(tmp_path)})
    assert os.listdir(tmp_path) == ["run.spill"]

"""Output files are written completely or not at all, and special files stay special files."""

import os
import signal
import stat
import subprocess
import threading
from contextlib import suppress
from pathlib import Path

import pytest

from cases import cases
from harness import only_line, spillcast, spillcast_command
from oracle_files import READ, blocks, write_trace
from spillcast._core import check_output
from spillcast.errors import PathUnusable, WriteFailed
from spillcast.workspace import undone_by, whole_file, workspace


@pytest.fixture
def trace(tmp_path_factory):
    return write_trace(tmp_path_factory.mktemp("traces") / "a.trc", [(READ, 500, blocks(31))] * 9)


def test_a_folder_goes_also_if_the_process_that_removes_it_was_killed(tmp_path):
    children = Path(f"/proc/self/task/{os.getpid()}/children")
    before = children.read_text().split()
    with workspace(tmp_path) as folder:
        (folder / "file").write_text("old")
        (janitor,) = set(children.read_text().split()) - set(before)
        os.kill(int(janitor), signal.SIGKILL)
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("word", ['it\'s "a"', "a\nb", " -n $HOME `pwd` *", "a\\nb", "\udcff"])
def test_the_shell_that_undoes_a_block_gets_its_words_as_they_are(word, tmp_path):
    with undone_by('printf %s "$1" > "$2"/word', "test", word, tmp_path):
        pass
    assert (tmp_path / "word").read_bytes() == os.fsencode(word)


@pytest.mark.parametrize("path", ["", "/nowhere"])
def test_a_folder_goes_also_without_programs_on_the_path(path, tmp_path, monkeypatch):
    monkeypatch.setenv("PATH", path)
    with workspace(tmp_path) as folder:
        (folder / "file").write_text("text")
    assert list(tmp_path.iterdir()) == []


def test_only_an_interrupted_block_waits_for_servers(tmp_path):
    """A short block ends before the shell has started."""
    script = 'printf "%s" "${ended:-interrupted}" > "$1"'
    with undone_by(script, "test", tmp_path / "whole"):
        pass
    with suppress(KeyError), undone_by(script, "test", tmp_path / "interrupted"):
        raise KeyError
    texts = {file.name: file.read_text() for file in tmp_path.iterdir()}
    assert texts == {"whole": "1", "interrupted": "interrupted"}


def test_a_file_is_replaced_only_by_a_complete_one(tmp_path):
    path = tmp_path / "page.html"
    path.write_text("old")
    with suppress(KeyError), whole_file(path) as partial:
        partial.write_text("half")
        raise KeyError
    assert [file.name for file in tmp_path.iterdir()] == ["page.html"]
    assert path.read_text() == "old"
    with whole_file(path) as partial:
        partial.write_text("new")
    assert [file.read_text() for file in tmp_path.iterdir()] == ["new"]


def test_links_and_pipes_are_written_through(tmp_path):
    link, pipe = tmp_path / "link", tmp_path / "pipe"
    link.symlink_to(tmp_path / "page.html")
    os.mkfifo(pipe)
    read = []
    reader = threading.Thread(target=lambda: read.append(pipe.read_text()), daemon=True)
    reader.start()
    for path in (link, pipe):
        with whole_file(path) as partial:
            partial.write_text("new")
    reader.join(10)
    assert read == ["new"]
    assert link.is_symlink()
    assert (tmp_path / "page.html").read_text() == "new"
    assert pipe.is_fifo()


def test_a_device_stays_a_device(tmp_path, trace):
    device = tmp_path / "null"
    if os.geteuid() != 0 or subprocess.run(["mknod", device, "c", "1", "3"]).returncode:
        pytest.skip("making a device needs root")
    for verb in (["report"], ["export", "--format", "openmetrics"]):
        assert not spillcast(*verb, trace, "-o", device).returncode
        assert stat.S_ISCHR(device.lstat().st_mode)


def test_a_full_device_is_named(trace):
    for verb in (["report", trace], ["export", trace, "--format", "openmetrics"]):
        assert "/dev/full" in only_line(spillcast(*verb, "-o", "/dev/full"), 1)


@cases("name", ["x" * 255, "\u00e4" * 127])
def test_the_longest_valid_name_is_written(tmp_path, name):
    with whole_file(tmp_path / name) as partial:
        partial.write_text("new")
    assert [path.name for path in tmp_path.iterdir()] == [name]


def test_an_invalid_name_is_refused(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    for name in (".", "", "x" * 300):
        with pytest.raises(WriteFailed), whole_file(Path(name)) as partial:
            partial.write_text("new")
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("name", [".", "/", "folder/"])
def test_a_folder_is_not_overwritten(tmp_path, trace, name):
    (tmp_path / "folder").mkdir()
    result = spillcast("report", trace, "-o", name, cwd=tmp_path)
    assert "is a directory" in only_line(result, 2)
    assert [path.name for path in tmp_path.iterdir()] == ["folder"]


def test_the_path_of_a_page_is_checked_before_a_probe(tmp_path, trace):
    """A failure after the probe would waste minutes."""
    (tmp_path / "flash").mkdir()
    result = spillcast("report", trace, "--to", "flash", "-o", "none/page.html", cwd=tmp_path)
    assert "-o none/page.html: there is no directory" in only_line(result, 2)
    for out in (["-o", "flash"], ["-o", "none/x"], ["--iolog", "flash"]):
        result = spillcast("probe", "flash", "--like", trace, *out, cwd=tmp_path)
        assert " ".join(out) in only_line(result, 2)


@pytest.mark.parametrize("closed", [">&-", "2>&-", "<&- >&- 2>&-"])
def test_closed_streams_are_ignored(trace, closed):
    words = spillcast_command("profile", trace, "--csv")
    shell = ["sh", "-c", f'exec "$0" "$@" {closed}']
    done = subprocess.run([*shell, *words], capture_output=True, text=True)
    assert (done.returncode, done.stderr) == (0, "")


def test_no_link_of_another_user_is_followed(tmp_path, trace):
    kept = tmp_path / "kept"
    kept.write_text("kept")
    (tmp_path / "folder").mkdir()
    for name, leads_to in (("file", kept), ("place", tmp_path / "folder")):
        (tmp_path / name).symlink_to(leads_to)
        try:
            os.lchown(tmp_path / name, 65534, -1)
        except PermissionError:
            pytest.skip("giving a link to another user needs root")
    for output in (tmp_path / "file", tmp_path / "place" / "new"):
        with pytest.raises(PathUnusable), whole_file(output):
            pass
        with pytest.raises(PathUnusable):
            check_output(output)
        result = spillcast("collect", "oracle", "--sql-id", "a", "-o", output)
        assert "another user" in only_line(result, 2)
    assert kept.read_text() == "kept"
    assert not list((tmp_path / "folder").iterdir())
    # A link of the same user is followed.
    (tmp_path / "mine").symlink_to(kept)
    with whole_file(tmp_path / "mine") as partial:
        partial.write_text("new")
    assert kept.read_text() == "new"

"""However probe, emulate, ingest and a query are ended: nothing is left, and a rerun completes."""

import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from emulator import Emulator, skip_without_fuse
from evidence import recording
from fleet_files import contents, write_fleet
from harness import TIMEOUT_S, completed, spillcast, spillcast_command, until
from kills import REST, check_no_crash, check_nothing_left, end, moments
from spillcast.storage import Storage

#: Writes numbers to a file until an error says that it is gone; prints how many it wrote.
WRITER = """
import os, sys
fd, done = os.open(sys.argv[1], os.O_RDWR | os.O_CREAT), 0
print("writing", flush=True)
try:
    while True:
        assert os.pwrite(fd, done.to_bytes(8, "little") * 512, done % 64 * 4096) == 4096
        back = os.pread(fd, 8, done % 64 * 4096)
        assert back == done.to_bytes(8, "little"), back
        done += 1
except OSError:
    print(done, flush=True)
"""


def ended(process, death, after_s):
    """The exit status of a process ended in this way, after checking that it did not crash."""
    end(process, death, after_s)
    stdout, stderr = process.communicate(timeout=TIMEOUT_S)
    check_no_crash(stderr)
    return process.returncode, stdout


def start(*words):
    command = spillcast_command(*words)
    return subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)


def test_probe(tmp_path):
    ends = set()
    for death, after_s in moments("probe", 2.5):
        directory = tmp_path / "directory"
        directory.mkdir()
        (directory / "theirs").write_text("theirs")
        output = tmp_path / "storage.json"
        probe = start("probe", directory, "--grid", "--budget", "2s,64M", "-o", output)
        status, _ = ended(probe, death, after_s)
        ends.add(status == 0)
        # A probe that ended normally wrote a storage. A signal may come after the rename and
        # before the exit, so another status may leave a file too, but never a partial one.
        assert output.exists() or status != 0
        assert not output.exists() or Storage.load(output).groups
        assert {path.name: path.read_text() for path in directory.iterdir()} == {"theirs": "theirs"}
        assert {path.name for path in tmp_path.iterdir()} <= {"directory", "storage.json"}
        check_nothing_left(tmp_path)
        output.unlink(missing_ok=True)
        (directory / "theirs").unlink()
        directory.rmdir()
    assert False in ends


def test_sql(tmp_path):
    """The query never ends; its folder may contain all rows of traces."""
    made = recording(tmp_path / "run.spill", [("read", 8192, 5, 1000)], elapsed_s=1.0)
    (folders := tmp_path / "folders").mkdir()
    query = "select count(*) from range(1_000_000_000_000) a, waits"
    command = spillcast_command("profile", made.path, "--sql", query)

    def of_query():
        # Python itself tries the folder with a file.
        return [*folders.glob("spillcast-*")]

    for death in (signal.SIGKILL, signal.SIGTERM):
        with subprocess.Popen(command, env={**os.environ, "TMPDIR": str(folders)}) as process:
            until(of_query, "the folder of the query")
            process.send_signal(death)
        until(lambda: not of_query(), "its end")


def test_emulate(tmp_path):
    skip_without_fuse()
    for number, (death, after_s) in enumerate(moments("emulate")):
        room = tmp_path / str(number)
        room.mkdir()
        with Emulator(room, "--read", "1ms", "--write", "1ms") as emulator:
            mountpoint = emulator.ready().mountpoint
            writer = subprocess.Popen(
                [sys.executable, "-c", WRITER, mountpoint / "data"],
                stdout=subprocess.PIPE,
                text=True,
            )
            assert writer.stdout.readline() == "writing\n"
            end(emulator.process, death, after_s)
            if death is REST:
                assert emulator.process.poll() is None
                emulator.end(signal.SIGTERM)
            assert emulator.left_nothing()
            # All data that it read back equalled what it had written, and it does not hang.
            stdout, _ = writer.communicate(timeout=TIMEOUT_S)
            assert int(stdout) >= 0
        check_nothing_left(room)


def descendants(pid):
    """The processes below a process, in any session, with their command lines."""
    for child in Path(f"/proc/{pid}/task/{pid}/children").read_text().split():
        yield int(child), Path(f"/proc/{child}/cmdline").read_bytes()
        yield from descendants(child)


def test_emulate_and_all_that_pkill_takes_for_it(tmp_path):
    """As by ``pkill -9 -f spillcast``, or of the folder with the files."""
    skip_without_fuse()
    with Emulator(tmp_path, "--read", "1ms", "--write", "1ms") as emulator:
        pid = emulator.ready().process.pid
        (files,) = emulator.work.glob("spillcast-*")
        command = Path(f"/proc/{pid}/cmdline").read_bytes()
        named = [
            child
            for child, words in descendants(pid)
            if words == command or b"spillcast" in words or os.fsencode(files) in words
        ]
        assert named
        for each in (pid, *named):
            os.kill(each, signal.SIGSTOP)
        for each in (pid, *named):
            os.kill(each, signal.SIGKILL)
        assert emulator.left_nothing()


@pytest.fixture(scope="module")
def fleet(tmp_path_factory):
    """Traces, and the dataset that an ingest of them gives."""
    room = tmp_path_factory.mktemp("fleet")
    traces = write_fleet(room / "traces", 30)
    assert spillcast("ingest", traces, "-o", room / "whole").returncode == 0
    return traces, contents(room / "whole")


def test_ingest(fleet, tmp_path):
    traces, whole = fleet
    for number, (death, after_s) in enumerate(moments("ingest")):
        output = tmp_path / str(number)
        ended(start("ingest", traces, "-o", output), death, after_s)
        completed("ingest", traces, "-o", output)
        assert contents(output) == whole
        assert not [name for name in os.listdir(output) if "partial" in name]
        check_nothing_left(tmp_path)

"""``spillcast emulate`` as a user runs it: its start, and all the ways in which it ends."""

import json
import os
import re
import signal
import subprocess
import sys
from contextlib import suppress
from pathlib import Path

import pytest

from cases import cases
from emulator import Emulator, is_mounted, skip_without_fuse
from harness import TIMEOUT_S, completed, only_line, ordinary_user, spillcast, started, until

pytestmark = pytest.mark.usefixtures("fuse")

#: The errors of a program that uses a mount which is gone.
GONE = re.compile("not connected|connection abort")

#: Reads a file repeatedly, and prints the error that ends it.
READER = """
import os, sys
fd = os.open(sys.argv[1], os.O_RDWR | os.O_CREAT)
os.pwrite(fd, bytes(8192), 0)
print("reading", flush=True)
try:
    while True:
        os.pread(fd, 8192, 0)
except OSError as error:
    print(error.strerror, flush=True)
"""


@pytest.fixture(scope="module")
def fuse():
    skip_without_fuse()


def start_reader(emulator):
    """Starts a program that reads on the mount, and waits for its first read."""
    command = [sys.executable, "-c", READER, str(emulator.mountpoint / "data")]
    reader = subprocess.Popen(command, stdout=subprocess.PIPE, text=True)
    assert reader.stdout.readline() == "reading\n"
    call = Path(f"/proc/{reader.pid}/syscall")
    until(lambda: call.read_text() != "running\n", "the reader to wait")
    return reader


def last_line(reader):
    """The last line of the reader, which must not hang."""
    printed, _ = reader.communicate(timeout=TIMEOUT_S)
    return printed.splitlines()[-1]


@cases("number", [signal.SIGINT, signal.SIGTERM])
def test_a_signal_ends_emulate_while_files_are_open(tmp_path, number):
    with Emulator(tmp_path, "--read", "2ms", "--write", "1ms") as emulator:
        reader = start_reader(emulator.ready())
        status, printed = emulator.end(number)
        assert (status, emulator.left_nothing()) == (0, True)
        assert "reads 2 ms, writes 1 ms" in printed
        assert GONE.search(last_line(reader))


def test_sigkill_while_a_program_reads_leaves_nothing_and_no_process_hangs(tmp_path):
    # A read is in progress, as it takes longer than the test.
    with Emulator(tmp_path, "--read", "1h") as emulator:
        reader = start_reader(emulator.ready())
        emulator.end(signal.SIGKILL)
        assert GONE.search(last_line(reader))
        assert emulator.left_nothing()


def test_emulate_ends_with_hours_of_work_in_flight(tmp_path):
    with Emulator(tmp_path, "--read", "1h", "--servers", "1") as emulator:
        reader = start_reader(emulator.ready())
        assert emulator.end(signal.SIGINT)[0] == 0
        assert emulator.left_nothing()
        assert GONE.search(last_line(reader))


def states(process):
    """The states of the threads of a process, such as T for stopped."""
    tasks = Path(f"/proc/{process.pid}/task").iterdir()
    return {(task / "stat").read_text().rpartition(")")[2].split()[0] for task in tasks}


def test_processes_that_wait_for_a_hung_mount_can_be_interrupted(tmp_path):
    def waits_for_it(process):
        tasks = Path(f"/proc/{process.pid}/task").iterdir()
        return any("request_wait" in (task / "wchan").read_text() for task in tasks)

    with Emulator(tmp_path, "--read", "1ms") as emulator:
        path = emulator.ready().mountpoint / "plan.json"
        os.kill(emulator.process.pid, signal.SIGSTOP)
        # Until they stop, its threads may take a request, and only they can end it then.
        until(lambda: states(emulator.process) == {"T"}, "the stopped mount")
        try:
            for words in (
                ["forecast", path],
                ["storage", "show", path],
                ["forecast", "elapsed=9s,temp=1G", "--to", path],
                ["report", __file__, "-o", path],
            ):
                with started(*words, stderr=subprocess.PIPE, text=True) as process:
                    until(lambda process=process: waits_for_it(process), "the mount")
                    process.send_signal(signal.SIGINT)
                    _, stderr = process.communicate(timeout=TIMEOUT_S)
                assert (process.returncode, "Traceback" in stderr) == (130, False), words
        finally:
            os.kill(emulator.process.pid, signal.SIGCONT)


def test_a_crash_of_a_reading_program_has_no_effect(tmp_path):
    with Emulator(tmp_path, "--read", "5ms") as emulator:
        reader = start_reader(emulator.ready())
        reader.kill()
        reader.communicate()
        path = emulator.mountpoint / "data"
        assert path.read_bytes() == bytes(8192)
        path.unlink()
        assert emulator.end(signal.SIGINT)[0] == 0
        assert emulator.left_nothing()


def test_emulate_ends_when_the_mount_is_unmounted(tmp_path):
    with Emulator(tmp_path, "--read", "1ms") as emulator:
        emulator.ready()
        command = ["umount"] if os.geteuid() == 0 else ["fusermount3", "-u"]
        subprocess.run([*command, emulator.mountpoint], check=True)
        printed, _ = emulator.process.communicate(timeout=TIMEOUT_S)
        assert emulator.process.returncode == 0
        assert "nothing was read or written" in printed
        assert emulator.left_nothing()


def write_through(file, text):
    file.write(text)
    os.fsync(file.fileno())


def test_backing_files_are_kept(tmp_path):
    backing = tmp_path / "backing"
    backing.mkdir()
    (backing / "before").write_bytes(b"was there")
    with Emulator(tmp_path, "--read", "1ms", "--backing", backing, "--page-cache") as emulator:
        emulator.ready()
        assert "and are kept" in " ".join(emulator.printed_errors().split())
        assert (emulator.mountpoint / "before").read_bytes() == b"was there"
        held = (emulator.mountpoint / "after").open("wb", buffering=0)
        held.write(b"is there")
        # Still open and in the page cache, the file is written before the mount ends.
        assert emulator.end(signal.SIGTERM)[0] == 0
        assert emulator.left_nothing()
        # A kernel may accept more into its page cache without a request, until it is written.
        with pytest.raises(OSError, match=GONE):
            write_through(held, b"too late")
        # Closing flushes, which the kernel may refuse without a mount.
        with suppress(OSError):
            held.close()
    assert sorted(os.listdir(backing)) == ["after", "before"]
    assert (backing / "after").read_bytes() == b"is there"


def test_a_command_runs_with_the_mount_and_its_exit_status_is_returned(tmp_path):
    mountpoint = tmp_path / "mountpoint"
    mountpoint.mkdir()
    script = 'echo spilled > "$0/file" && cat "$0/file" && exit 7'
    command = ("sh", "-c", script, mountpoint)
    result = spillcast("emulate", mountpoint, "--read", "1ms", "--write", "1ms", "--", *command)
    assert result.returncode == 7, result.stderr
    assert result.stdout.startswith("spilled\n")
    rows = [line.split() for line in result.stdout.splitlines()]
    assert {"read", "write"} <= {row[0] for row in rows if row}
    assert not is_mounted(mountpoint)


@cases("number", [signal.SIGINT, signal.SIGTERM, signal.SIGHUP])
def test_a_signal_goes_to_the_command(tmp_path, signals_by_default, number):
    script = "trap 'exit 9' INT TERM HUP; while :; do sleep 0.05; done"
    with Emulator(tmp_path, "--read", "1ms", "--", "sh", "-c", script) as emulator:
        emulator.ready()
        pid = emulator.process.pid
        children = Path(f"/proc/{pid}/task/{pid}/children")

        def trapped():
            for child in children.read_text().split():
                status = Path(f"/proc/{child}/status").read_text()
                caught = int(re.search(r"SigCgt:\s+(\w+)", status)[1], 16)
                # The janitor is a shell too, which ignores these signals.
                if status.startswith("Name:\tsh\n") and caught >> (signal.SIGTERM - 1) & 1:
                    return True
            return False

        until(trapped, "the command to set its trap")
        assert emulator.end(number)[0] == 9
        assert emulator.left_nothing()


def test_the_document(tmp_path):
    mountpoint = tmp_path / "mountpoint"
    mountpoint.mkdir()
    script = 'head -c 1000000 /dev/zero | dd of="$0/f" bs=10k iflag=fullblock status=none'
    requested = (
        "--read",
        "9ms",
        "--write",
        "1ms",
        "--bandwidth",
        "200MB/s",
        "--servers",
        "2",
        "--json",
    )
    result = completed("emulate", mountpoint, *requested, "--", "sh", "-c", script, mountpoint)
    document = json.loads(result.stdout)
    assert document["schema"] == "spillcast.emulation/1"
    assert document["mountpoint"] == str(mountpoint)
    assert (document["servers"], document["page_cache"]) == (2, False)
    (limit,) = document["limits"]
    assert limit["read_ns_per_byte"] == limit["write_ns_per_byte"] == 1e9 / 200e6
    assert limit["burst_ns"] == 0
    assert [(f["op"], f["size_bytes"]) for f in document["floor"]] == [
        (op, kib << 10) for op in ("read", "write") for kib in (4, 64, 256, 1024)
    ]
    reads, writes = document["operations"]
    assert (reads["op"], reads["count"]) == ("read", 0)
    assert (writes["op"], writes["count"], writes["bytes"]) == ("write", 98, 1_000_000)
    assert writes["sequential"] == sum(writes["latency_count"]) == 98
    assert document["command"] == ["sh", "-c", script, str(mountpoint)]
    assert document["exit_status"] == 0


def test_an_ordinary_user(open_places):
    user = ordinary_user()
    probe = subprocess.run([*user, "sh", "-c", "command -v fusermount3 && test -w /dev/fuse"])
    if probe.returncode != 0:
        pytest.skip("fusermount3 (Debian package fuse3), or the right to use /dev/fuse, is missing")
    with Emulator(open_places.temp, "--read", "2ms", under=user) as emulator:
        emulator.ready()
        assert emulator.end(signal.SIGINT)[0] == 0
        assert emulator.left_nothing()


def test_a_missing_program_is_not_the_fault_of_the_directory(open_places):
    user = ordinary_user()
    command = ("emulate", open_places.temp, "--read", "2ms")
    result = spillcast(*command, under=[*user, "env", "FUSERMOUNT_PATH=/none"])
    assert str(open_places.temp) not in only_line(result, status=1)


def test_storages_faster_than_the_mount_are_named(tmp_path):
    mountpoint = tmp_path / "mountpoint"
    mountpoint.mkdir()
    result = completed("emulate", mountpoint, "--read", "1us", "--write", "50ms", "--", "true")
    assert "warning: reads of 8 KiB should take 1 us, but the mount alone takes" in result.stderr
    assert "writes of" not in result.stderr


#: Arguments, where MOUNT is an empty directory inside one that has a file; words of the error.
BAD_INPUT = {
    "nothing asked": (("MOUNT",), "needs --storage, or --read and --write"),
    "two storages": (("MOUNT", "--storage", "x.json", "--read", "1ms"), "leave --read"),
    "no such mount point": (("none", "--read", "1ms"), "no such directory"),
    "a file": (("file", "--read", "1ms"), "not a directory"),
    "not empty": ((".", "--read", "1ms"), "not empty"),
    "a mount point": (("/proc", "--read", "1ms"), "already a mount point"),
    "within its backing": (("MOUNT", "--read", "1ms", "--backing", "."), "lies in the directory"),
    "no such backing": (("MOUNT", "--read", "1ms", "--backing", "none"), "no such directory"),
    "no such storage": (("MOUNT", "--storage", "none.json"), "spillcast probe DIR"),
    "relative": (("MOUNT", "--storage", "factor:3"), "relative to the storage of a recording"),
    "two values": (("MOUNT", "--read", "1ms", "--read", "2ms"), "takes one value"),
    "no storage": (("MOUNT", "--storage", "file"), "is not a storage"),
    "no duration": (("MOUNT", "--read", "fast"), "is not a duration"),
    "no bandwidth": (("MOUNT", "--bandwidth", "200 apples"), "is not a rate of bytes"),
    "a bandwidth of nothing": (("MOUNT", "--bandwidth", "0MB/s"), "nothing would ever move"),
    "no such program": (("MOUNT", "--read", "1ms", "--", "no-such-program"), "no such program"),
}  # fmt: skip


@cases("case", BAD_INPUT)
def test_bad_input(tmp_path, case):
    arguments, words = BAD_INPUT[case]
    (tmp_path / "file").touch()
    (tmp_path / "MOUNT").mkdir()
    assert words in only_line(spillcast("emulate", *arguments, cwd=tmp_path), status=2)
    assert sorted(os.listdir(tmp_path)) == ["MOUNT", "file"]
    assert os.listdir(tmp_path / "MOUNT") == []

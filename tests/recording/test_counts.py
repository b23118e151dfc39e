"""A recording of a program that does N reads and M writes has exactly N reads and M writes."""

import json
import os
import sys
from collections import Counter

import pyarrow.parquet as pq
import pytest

from cases import cases, nightly
from harness import (
    account_of,
    available,
    completed,
    environment,
    expected_rows,
    rows,
    target,
)
from spillcast.recording import Recording

READS, WRITES = 60, 40
CAPTURES = ["bpf", "perf", "preload"]


def observe(places, capture, name, *options):
    """Records the spill program; returns its account, the rows of its files, and the recording."""
    file = places.temp / "spill"
    plan = ("--file", file, "--base", places.base, "--reads", READS, "--writes", WRITES)
    output = places.root / f"{name}.spill"
    command = target("spill", *plan, *options)
    result = completed("record", "--capture", capture, "-o", output, "--", *command, env=places.env)
    account = account_of(result.stdout)
    files = {operation[5] for operation in account["account"]}
    return account, rows(output, files=files), output


ALL_IN_ONE = "threads and child, sequential too"
SHAPES = {
    "one thread": ((), 1),
    ALL_IN_ONE: (("--threads", 3, "--fork", "--sequential"), 4),
    "unlinked": (("--unlink", "--threads", 3, "--fork", "--sequential"), 4),
}


@pytest.mark.parametrize("capture", CAPTURES)
@pytest.mark.parametrize("shape", [ALL_IN_ONE, *nightly("one thread", "unlinked")])
def test_rows_equal_the_account_of_the_program(places, capture, shape):
    options, workers = SHAPES[shape]
    account, seen, _ = observe(places, capture, "run", *options)
    assert seen == expected_rows(account, base=places.base)
    events = Counter()
    for (_, event, _, _, _, file, _), count in seen.items():
        events[event, file == str(places.base)] += count
    assert events["pread64", False] == READS * workers
    assert events["pwrite64", False] == WRITES * workers
    assert events["pread64", True] == READS // 4 * workers


#: These end before /proc can be read: their files are those inherited from the shell.
SHORT_ONES = "for i in $(seq 30); do head -c 50000 /dev/zero > a; tr x y < a > b; done"


def test_all_io_of_short_programs_in_a_shell_is_seen(tmp_path):
    available("bpf")
    result = completed(
        *("record", "--json", "--capture", "bpf", "--temp", tmp_path),
        *("-o", tmp_path.parent / f"{tmp_path.name}.spill"),
        *("--", "sh", "-c", f"cd {tmp_path}; {SHORT_ONES}"),
        env=environment(TMPDIR=str(tmp_path)),
    )
    seen = json.loads(result.stdout)["temp"]
    # head writes 50,000 bytes; tr reads them and writes them again.
    assert seen["bytes"] == 30 * 3 * 50_000


#: Writes a file and executes a program that inherits it, reads it, closes it and ends at once.
INHERITED = """
import os, sys
fd = os.open(sys.argv[1], os.O_RDWR | os.O_CREAT)
os.set_inheritable(fd, True)
for at in range(20):
    os.pwrite(fd, bytes(8192), at * 8192)
os.execvp("sh", ["sh", "-c", f"dd bs=8192 count=20 of=/dev/null <&{fd} {fd}<&- 2>/dev/null"])
"""
#: Has a file in its own root directory.
OWN_ROOT = """
import os, sys, time
os.chroot(os.path.dirname(sys.argv[1]))
fd = os.open("/" + os.path.basename(sys.argv[1]), os.O_RDWR | os.O_CREAT)
for at in range(20):
    os.pwrite(fd, bytes(8192), at * 8192)
    os.pread(fd, 8192, at * 8192)
time.sleep(0.5)  # so that its root is looked at
"""


@pytest.mark.parametrize("capture", CAPTURES)
@pytest.mark.parametrize("program", [INHERITED, OWN_ROOT], ids=["inherited", "own root"])
def test_calls_on_a_temp_file_are_counted_or_reported_as_unknown(tmp_path, capture, program):
    available(capture)
    if program == OWN_ROOT and os.geteuid() != 0:
        pytest.skip("only root has a root directory of its own")
    temp = tmp_path / "temp"
    temp.mkdir()
    completed(
        *("record", "--capture", capture, "--temp", temp, "-o", tmp_path / "run.spill"),
        *("--", sys.executable, "-c", program, temp / "spill"),
    )
    meta = Recording.open(tmp_path / "run.spill").meta
    assert meta.temp.operations <= 40
    # Only root's perf events show the name of every file.
    assert meta.temp.operations >= 20 or (capture == "perf" and os.geteuid() != 0)
    assert meta.temp.operations + meta.capture.unknown_file >= 40


@pytest.mark.parametrize("capture", CAPTURES)
def test_names_that_are_not_utf8_are_recorded_and_read(tmp_path, capture):
    odd = tmp_path / os.fsdecode(b"odd \xff")
    odd.mkdir()
    program = (
        "import os, sys; f = os.open(sys.argv[1], os.O_CREAT | os.O_WRONLY); os.write(f, b'1')"
    )
    completed(
        *("record", "--capture", capture, "--temp", odd, "-o", tmp_path / "odd.spill"),
        *("--", sys.executable, "-c", program, odd / "spilled"),
    )
    meta = Recording.open(tmp_path / "odd.spill").meta
    assert meta.temp.writes == 1
    assert meta.engine.command[-1] == str(tmp_path / "odd \ufffd" / "spilled")


#: Moves the position of a file in the ways of SHAPE, and prints the kernel's position after each.
POSITIONS = """
import ctypes, os, socket, sys, threading, time

path, shape, capture = sys.argv[1:]
SIZE, FLAGS = 4096, os.O_RDWR | os.O_CREAT

def moved(op, fd):
    os.write(fd, bytes(SIZE)) if op == "write" else os.read(fd, SIZE)
    with open(f"/proc/thread-self/fdinfo/{fd}") as info:
        end = int(info.readline().split()[1])
    os.write(1, f"moved {op} {end - SIZE}\\n".encode())

def rest():
    time.sleep(0.3)  # so that the end of the main thread is reported before
    moved("write", fd)
    moved("write", fd)
    os._exit(0)

pairs = [socket.socketpair() for _ in range(2)] if shape == "sent" else []
for seeks, (near, _) in enumerate(pairs):
    if not os.fork():
        received = socket.recv_fds(near, 1, 1)[1][0]
        if seeks:
            os.lseek(received, SIZE, os.SEEK_SET)
        moved("write", received)
        moved("write", received)
        time.sleep(0.3)  # so that it is looked at while it is open
        near.send(b"1")
        os._exit(0)

fd = os.open(path, FLAGS | (os.O_APPEND if shape == "appended" else 0))
if capture == "perf":
    time.sleep(0.3)  # so that perf events get to know the file on a busy machine, too
moved("write", fd)
if shape == "appended":
    os.close(fd)
    fd = os.open(path, FLAGS | os.O_APPEND)
    time.sleep(0.3)  # so that perf events get to know the file before it grows
    moved("write", fd)
    other = os.open(path, FLAGS | os.O_APPEND)
    time.sleep(0.3)
    moved("write", other)
    moved("write", fd)
    os.lseek(fd, 0, os.SEEK_SET)
    moved("read", fd)
    moved("write", fd)
elif shape == "duplicated":
    others = [os.dup(fd), os.dup2(fd, 100)]
    for descriptor in [others[0], fd, others[1], fd]:
        moved("write", descriptor)
    os.lseek(others[1], SIZE, os.SEEK_SET)
    os.close(fd)
    moved("read", others[0])
    moved("read", others[1])
elif shape == "inherited":
    for _ in range(3):
        if not os.fork():
            moved("write", fd)
            moved("write", fd)
            os._exit(0)
        os.wait()
        moved("write", fd)
elif shape == "sent":
    for _, far in pairs:
        socket.send_fds(far, [b"1"], [fd])
        far.recv(1)
        moved("write", fd)
elif shape == "range closed":
    os.closerange(fd, fd + 10_000)
    for _ in range(3):
        for near, far in [os.pipe(), os.pipe()]:
            assert os.write(far, bytes(SIZE)) == len(os.read(near, SIZE))
elif shape == "no offset":
    for at in range(1, 4):
        os.pwritev(fd, [bytes(SIZE)], -1, os.RWF_DSYNC)
        os.write(1, f"moved write {at * SIZE}\\n".encode())
elif shape == "appended by a flag":
    # Nothing shows where the end is: the kernel moved no position.
    os.pwritev(fd, [bytes(SIZE)], 0, os.RWF_APPEND)
    os.write(1, b"moved write None\\n")
    moved("read", fd)
elif shape == "main thread ended":
    threading.Thread(target=rest).start()
    ctypes.CDLL(None).syscall(93 if os.uname().machine == "aarch64" else 60, 0)
"""
POSITION_SHAPES = [
    "appended",
    "duplicated",
    "inherited",
    "sent",
    "range closed",
    "no offset",
    "appended by a flag",
    "main thread ended",
]


@pytest.mark.parametrize("capture", CAPTURES)
@cases("shape", POSITION_SHAPES)
def test_offsets_are_the_kernels_positions(tmp_path, capture, shape):
    available(capture)
    if (capture, shape) == ("perf", "range closed") and os.geteuid() != 0:
        pytest.skip("perf events show an ordinary user no name of a file that is closed at once")
    file, output = tmp_path / "spill", tmp_path / "run.spill"
    result = completed(
        *("record", "--capture", capture, "--temp", tmp_path, "-o", output),
        *("--", sys.executable, "-c", POSITIONS, file, shape, capture),
    )
    printed = [line.split() for line in result.stdout.splitlines() if line.startswith("moved ")]
    waits = pq.read_table(output / "waits.parquet").to_pylist()
    on_file = [row for row in waits if row["file"] == str(file) and row["op"]]
    seen = [("moved", row["op"], str(row["offset"])) for row in on_file]
    assert seen == [tuple(words) for words in printed]
    assert {row["bytes"] for row in on_file} == {4096}

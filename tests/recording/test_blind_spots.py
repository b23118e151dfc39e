"""I/O without read or write calls is seen, or it is detected, reported, and refused a forecast."""

import json
import os
import shutil
import struct
import subprocess
import sys
from itertools import product

import pyarrow.parquet as pq
import pytest

from cases import cases, nightly
from harness import available, completed, ordinary_user, spillcast, target
from spillcast.recording import Recording


def record(tmp_path, command, *options):
    output = tmp_path / "blind.spill"
    result = spillcast("record", *options, "-o", output, "--", *command)
    if "io_uring: " in result.stderr or (result.returncode == 2 and options):
        pytest.skip(result.stderr.strip())
    assert result.returncode == 0, result.stderr
    return output, result.stdout, json.loads((output / "meta.json").read_text())["capture"]


def check_refused(output, word, *options):
    result = spillcast("forecast", output, *options, "--to", "factor:2", "--json")
    assert result.returncode == 3
    assert word in json.loads(result.stdout)["refused"]


def check_forecast(output):
    result = spillcast("forecast", output, "--to", "factor:2", "--json")
    assert json.loads(result.stdout)["refused"] is None
    assert result.returncode == 0, result.stderr


def test_mapped_temp_files_are_refused(tmp_path):
    output, answer, capture = record(tmp_path, target("blind", "mmap", tmp_path))
    assert capture["mapped_temp_files"] == [str(tmp_path / "duckdb_temp_blind")]
    assert not capture["io_uring"]
    assert "memory-mapped" in answer
    check_refused(output, "mapped")


#: Writes files by calls, maps and reads them, and keeps the last one.
READS_MAPPED = """
import mmap, os, sys, time
views = []
for path in sys.argv[1:]:
    fd = os.open(path, os.O_RDWR | os.O_CREAT)
    os.write(fd, bytes(1 << 20))
    views.append(mmap.mmap(fd, 1 << 20, access=mmap.ACCESS_READ))
    assert views[-1][-1] == 0
time.sleep(1.5)
for path in sys.argv[1:-1]:
    os.unlink(path)
"""


#: Maps a new file for a second, long after the program has begun.
MAPS_LATE = """
import mmap, os, sys, time
time.sleep(1.7)
fd = os.open(sys.argv[1], os.O_RDWR | os.O_CREAT)
os.ftruncate(fd, 1 << 20)
view = mmap.mmap(fd, 1 << 20)
view.write(bytes(1 << 20))
time.sleep(1.2)
view.close()
os.unlink(sys.argv[1])
"""


@pytest.mark.parametrize("capture", ["bpf", *nightly("perf", "preload")])
def test_a_temp_file_that_is_mapped_for_a_second_is_noticed(tmp_path, capture):
    path = tmp_path / "duckdb_temp_blind"
    command = [sys.executable, "-c", MAPS_LATE, path]
    _, _, account = record(tmp_path, command, "--capture", available(capture))
    assert account["mapped_temp_files"] == [str(path)]


@pytest.mark.parametrize("after_s", nightly(3.4))
def test_a_process_that_begins_late_is_looked_at_soon(tmp_path, after_s):
    command = ["sh", "-c", f'sleep {after_s}; "$@"', "sh", *target("blind", "libaio", tmp_path)]
    _, _, account = record(tmp_path, command)
    assert account["io_uring"]


def test_temp_files_read_through_a_mapping_are_refused(tmp_path):
    command = [sys.executable, "-c", READS_MAPPED, tmp_path / "duckdb_temp_blind"]
    output, _, capture = record(tmp_path, command)
    assert capture["mapped_temp_files"] == [str(tmp_path / "duckdb_temp_blind")]
    check_refused(output, "mapped")


def test_mapped_output_is_not_a_temp_file(tmp_path):
    spill, table = tmp_path / "spill", tmp_path / "table"
    command = ["env", f"TMPDIR={tmp_path}", sys.executable, "-c", READS_MAPPED, spill, table]
    _, _, capture = record(tmp_path, command)
    assert capture["mapped_temp_files"] == [str(spill)]


#: What every process pool of Python creates, and how it shares arrays.
SHARES = """
import multiprocessing.shared_memory, time
locks = [multiprocessing.Lock() for _ in range(3)]
shared = multiprocessing.shared_memory.SharedMemory(create=True, size=1 << 20)
shared.buf[:4] = b"mmap"
shared.unlink()
time.sleep(1)
"""


def test_semaphores_and_shared_memory_are_not_temp_files(tmp_path):
    output, _, capture = record(tmp_path, [sys.executable, "-c", SHARES])
    assert capture["mapped_temp_files"] == []
    # Perf events may have missed names of an ordinary user's files, which leaves it open.
    assert not Recording.open(output).meta.spilled


def test_io_uring_under_perf_is_refused(tmp_path):
    command = target("blind", "io_uring", tmp_path)
    output, answer, capture = record(tmp_path, command, "--capture", "perf")
    assert capture["io_uring"]
    assert capture["mapped_temp_files"] == []
    assert capture["file_faults"] is None
    assert "the process uses io_uring" in answer
    check_refused(output, "io_uring")


@pytest.mark.parametrize("capture", ["bpf", "perf", "preload"])
def test_libaio_is_refused(tmp_path, capture):
    command = target("blind", "libaio", tmp_path)
    output, answer, account = record(tmp_path, command, "--capture", capture)
    assert account["io_uring"]
    assert "libaio" in answer
    check_refused(output, "libaio")


#: Changes its user, and then runs a program that the preload library cannot report from.
OTHER_USER = """
import os
os.setgid(65534)
os.setuid(65534)
os.execv("/bin/sleep", ["sleep", "2"])
"""
#: A program that writes, and a shell that starts it without the preload library.
WRITES = "import sys, time; open(sys.argv[1], 'wb').write(bytes(2 << 20)); time.sleep(1)"
DROPS_LIBRARY = 'env -u LD_PRELOAD "$0" "$@"; exit 0'


@pytest.mark.parametrize("program", ["other user", "without library"])
def test_a_process_without_the_preload_library_is_counted(tmp_path, program):
    command = ["sh", "-c", DROPS_LIBRARY, sys.executable, "-c", WRITES, tmp_path / "out"]
    if program == "other user":
        if os.geteuid() != 0:
            pytest.skip("only root becomes another user")
        command = [sys.executable, "-c", OTHER_USER]
    output, _, capture = record(tmp_path, command, "--capture", "preload")
    assert capture["unobserved_processes"] == 1
    assert Recording.open(output).meta.unseen.excessive


#: Hides the processes of other users, in a /proc of its own.
HIDES = 'mount -t proc -o hidepid=2 proc /proc && exec "$0" "$@"'


@pytest.mark.parametrize("under", [[], *nightly(["unshare", "--mount", "sh", "-c", HIDES])])
def test_a_program_that_changes_its_user_is_counted_for_an_ordinary_user(open_places, under):
    if os.geteuid() != 0:
        pytest.skip("only root makes a setuid program")
    program = shutil.copy("/bin/sleep", open_places.root)
    os.chmod(program, 0o4755)
    output = open_places.root / "run.spill"
    words = ("record", "--capture", "perf", "-o", output, "--", "sh", "-c", f"{program} 1; exit 0")
    completed(*words, under=[*under, *ordinary_user()], env=open_places.env)
    meta = Recording.open(output).meta
    assert meta.capture.unobserved_processes == 1
    assert meta.unseen.excessive


#: Opens the given file, writes 2 MiB to it, and sleeps for a second.
CODE_OF_32_BITS = bytes.fromhex("""
8b5c2408 b805000000 b942000000 ba80010000 cd80 89c3
b804000000 b900800408 ba00002000 cd80
b8a2000000 bb93800408 31c9 cd80 b801000000 31db cd80
0100000000000000
""")


def write_program_of_32_bits(path):
    start, head_bytes = 0x08048000, 0x54
    name = struct.pack("<4s5B7x", b"\x7fELF", 1, 1, 1, 0, 0)
    head = struct.pack("<2H5I6H", 2, 3, 1, start + head_bytes, 52, 0, 0, 52, 32, 1, 0, 0, 0)
    file_bytes = head_bytes + len(CODE_OF_32_BITS)
    segment = struct.pack("<8I", 1, 0, start, start, file_bytes, 3 << 20, 7, 4096)
    path.write_bytes(name + head + segment + CODE_OF_32_BITS)
    path.chmod(0o755)


@pytest.mark.parametrize("capture", ["bpf", "perf", "preload"])
def test_a_32_bit_process_is_counted_as_unobserved(tmp_path, capture):
    program, written = tmp_path / "program", tmp_path / "out"
    write_program_of_32_bits(program)
    try:
        with subprocess.Popen([program]) as started:
            started.kill()
    except OSError as error:
        pytest.skip(f"no programs of 32 bits run here: {error.strerror}")
    command = ["sh", "-c", '"$0" "$@"; exit 0', program, written]
    output, _, account = record(tmp_path, command, "--capture", capture)
    assert written.stat().st_size == 2 << 20
    assert account["unobserved_processes"] == 1
    assert (account["lost"] > 0) == (capture == "bpf")
    assert Recording.open(output).meta.unseen.excessive


def test_io_uring_without_temp_files_allows_a_forecast(tmp_path):
    command = target("blind", "io_uring", tmp_path)
    output, answer, capture = record(tmp_path, command, "--capture", "bpf")
    assert (capture["io_uring"], capture["io_uring_depth"]) == (False, 0)
    assert "warning" not in answer
    check_forecast(output)


def fio(tmp_path, name, depth):
    """A command that writes and reads 4 MiB by io_uring, and the file with fio's result."""
    if shutil.which("fio") is None:
        pytest.skip("fio is not installed")
    job = ["--ioengine=io_uring", f"--iodepth={depth}", "--bs=16k", "--size=4M", "--thread"]
    job.append(f"--filename={tmp_path / name}")
    answer = tmp_path / "fio.json"
    command = ["fio", "--output-format=json", f"--output={answer}", "--name=w", "--rw=randwrite"]
    return [*command, *job, "--name=r", "--stonewall", "--rw=randread", *job], answer


def waits_of(output):
    """The requests of a recording: event, op, offset, bytes, and whether temp."""
    waits = pq.read_table(output / "waits.parquet").to_pylist()
    return [row for row in waits if row["event"].startswith("io_uring_")]


@cases("depth", [1, 8])
def test_io_uring_requests_are_those_of_fio(tmp_path, depth):
    command, answer = fio(tmp_path, "duckdb_temp_fio", depth)
    output, words, capture = record(tmp_path, command, "--capture", "bpf")
    requests = waits_of(output)
    whole = [(n << 14, 1 << 14) for n in range(256)]
    write, read = json.loads(answer.read_text())["jobs"]
    assert write["write"]["total_ios"] == read["read"]["total_ios"] == len(whole)
    for op in ("write", "read"):
        matches = [row for row in requests if row["op"] == op]
        assert sorted((row["offset"], row["bytes"]) for row in matches) == whole
        assert {(row["event"], row["temp"]) for row in matches} == {(f"io_uring_{op}", True)}
        assert {row["file"] for row in matches} == {str(tmp_path / "duckdb_temp_fio")}
    assert (capture["io_uring"], capture["io_uring_depth"]) == (False, depth)
    if depth == 1:
        check_forecast(output)
    else:
        assert "up to 8 at once" in words
        check_refused(output, "up to 8 at once")


def test_files_labelled_temp_later_count_their_overlap(tmp_path):
    command, _ = fio(tmp_path, "cold.parquet", 8)
    output, _, _ = record(tmp_path, command, "--capture", "bpf")
    check_refused(output, "up to 8 at once", "--temp", tmp_path)


def test_page_faults_that_read_a_file_are_counted(tmp_path):
    # A file in memory needs no read.
    command = target("fault", tmp_path / "mapped.parquet", 40)
    output, answer, capture = record(tmp_path, command, "--capture", "bpf")
    read, major = map(int, answer.splitlines()[0].split())
    if read < 40:
        pytest.skip(f"{tmp_path} stays in memory")
    assert read == 40
    # The kernel's own count, except for reads before the capture and after the printing.
    assert capture["file_faults"] >= 40
    assert capture["file_faults"] == pytest.approx(major, abs=20)
    assert capture["file_fault_s"] > 0
    # The kernel's flag of a thread in I/O wait says the same.
    waits = pq.read_table(output / "waits.parquet").to_pylist()
    waited_s = sum(row["elapsed_ns"] for row in waits if row["event"] == "other I/O") / 1e9
    assert waited_s >= 0.9 * capture["file_fault_s"]
    assert f"{capture['file_faults']} page fault" in answer


#: Copies 40 KiB twice between files; with ``socket``, also ten times to a socket.
COPIES = """
import os, socket, sys
fd = os.open(sys.argv[1], os.O_RDWR | os.O_CREAT)
for at in range(10):
    os.pwrite(fd, bytes(8192), at * 8192)
other = os.open(sys.argv[1] + ".other", os.O_RDWR | os.O_CREAT)
assert os.sendfile(other, fd, 0, 40960) == 40960
assert os.copy_file_range(fd, other, 40960, 0, 40960) == 40960
if sys.argv[2:]:
    near, far = socket.socketpair()
    for _ in range(10):
        assert os.sendfile(near.fileno(), fd, 0, 8192) == len(far.recv(8192, socket.MSG_WAITALL))
"""


@pytest.mark.parametrize("capture", ["bpf", "perf", "preload"])
def test_a_copy_between_files_is_a_read_and_a_write(tmp_path, capture):
    command = [sys.executable, "-c", COPIES, tmp_path / "spill"]
    output, _, account = record(tmp_path, command, "--capture", capture, "--temp", tmp_path)
    recording = Recording.open(output)
    assert (recording.meta.temp.reads, recording.meta.temp.writes) == (2, 12)
    assert recording.meta.temp.bytes == 10 * 8192 + 4 * 40960
    assert account["temp_copies"] == 0
    waits = recording.temp_columns("file", "op", "bytes")
    moved = waits.group_by("file", "op")
    files = [(row["file"], row["op"]) for row in moved.keys.to_pylist()]
    assert dict(zip(files, moved.sum(waits["bytes"].values).tolist(), strict=True)) == {
        (f"{tmp_path}/spill", "write"): 81920,
        (f"{tmp_path}/spill", "read"): 81920,
        (f"{tmp_path}/spill.other", "write"): 81920,
    }
    # Perf events miss the names of files that are closed at once, of which Python has many.
    if capture != "perf":
        check_forecast(output)


@pytest.mark.parametrize("capture", ["bpf", "perf", "preload"])
def test_copies_to_a_socket_are_counted(tmp_path, capture):
    command = [sys.executable, "-c", COPIES, tmp_path / "spill", "socket"]
    output, answer, account = record(tmp_path, command, "--capture", capture, "--temp", tmp_path)
    assert (account["temp_copies"], account["temp_copied_bytes"]) == (10, 81920)
    assert "sendfile" in answer
    check_refused(output, "sendfile")


#: A thread that writes 50 times to a file that it opens in the given way, and closes it at once.
CLOSES_AT_ONCE = """
import ctypes, os, socket, sys, threading
way, folder = sys.argv[1:]

def opened(number):
    real, link = f"{folder}/temp/{number}", f"{folder}/{number}"
    if way == "nameless":
        return os.open(f"{folder}/temp", os.O_RDWR | os.O_TMPFILE)
    first = os.open(real, os.O_RDWR | os.O_CREAT)
    if way == "own table":
        return first
    if way == "received":
        ends = socket.socketpair()
        with ends[0], ends[1]:
            socket.send_fds(ends[0], [b"x"], [first])
            fd = socket.recv_fds(ends[1], 1, 1)[1][0]
    else:
        if way == "link":
            os.symlink(real, link)
        elif way == "folder":
            os.chdir(f"{folder}/temp")
            link = f"/proc/self/cwd/{number}"
        else:
            link = f"/proc/self/fd/{first}"
        fd = os.open(link, os.O_RDWR)
    os.close(first)
    return fd

def write():
    if way == "own table":
        assert ctypes.CDLL(None).unshare(0x400) == 0  # CLONE_FILES
    for number in range(50):
        fd = opened(number)
        os.pwrite(fd, bytes(8192), 0)
        os.close(fd)

thread = threading.Thread(target=write)
thread.start()
thread.join()
"""


@pytest.mark.parametrize(
    ("capture", "way"),
    [("bpf", "link"), ("perf", "descriptor"), ("preload", "own table"),
     *nightly(*product(["bpf"], ["descriptor", "folder", "nameless", "received"]),
              *product(["perf"], ["link", "folder", "nameless", "received"]))],
)  # fmt: skip
def test_writes_to_a_file_without_a_path_are_temp_or_counted(places, capture, way):
    command = [sys.executable, "-c", CLOSES_AT_ONCE, way, places.root]
    words = ("--capture", available(capture), "--temp", places.temp)
    output, _, account = record(places.root, command, *words)
    writes = Recording.open(output).meta.temp.writes
    assert writes + account["unknown_file"] >= 50
    if capture == "preload" or (capture == "bpf" and way in ("link", "nameless")):
        assert writes == 50


#: Writes and reads 1 MiB through streams, and other files by calls on the descriptors of streams,
#: one of them duplicated and inherited; another stream appends a byte to a log.
STREAMS = """
import ctypes, os, sys
libc = ctypes.CDLL(None)
libc.fopen.restype = libc.fdopen.restype = ctypes.c_void_p
block = ctypes.create_string_buffer(1 << 16)
def stream_of(path, mode):
    return ctypes.c_void_p(libc.fopen(path.encode(), mode))
for mode, move in (b"w", libc.fwrite), (b"r", libc.fread):
    stream = stream_of(sys.argv[1], mode)
    assert sum(move(block, 1, 1 << 16, stream) for _ in range(16)) == 1 << 20
    libc.fclose(stream)
log = stream_of(sys.argv[1] + ".log", b"a")
libc.fwrite(block, 1, 1, log)
libc.fclose(log)
other, copy = (stream_of(sys.argv[1] + name, b"w+") for name in (".other", ".copy"))
fd = libc.fileno(other)
os.write(fd, bytes(1 << 17))
assert os.sendfile(libc.fileno(copy), fd, 0, 1 << 17) == 1 << 17
duplicate = ctypes.c_void_p(libc.fdopen(libc.dup(fd), b"r+"))
if not os.fork():
    libc.fclose(other)
    os._exit(0)
os.wait()
for stream in duplicate, other, copy:
    libc.fclose(stream)
"""


def test_stdio_streams_under_the_preload_library_are_counted(tmp_path):
    (tmp_path / "spill.log").write_bytes(bytes(1 << 20))
    command = [sys.executable, "-c", STREAMS, tmp_path / "spill"]
    output, answer, account = record(tmp_path, command, "--capture", "preload", "--temp", tmp_path)
    assert (account["temp_copies"], account["temp_copied_bytes"]) == (2, 2 << 20)
    temp = Recording.open(output).meta.temp
    assert (temp.reads, temp.writes, temp.bytes) == (1, 2, 3 << 17)
    assert "stdio" in answer
    check_refused(output, "stdio")

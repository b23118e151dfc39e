"""A preloaded program stops reporting if its recorder is gone, but not if it is stopped."""

import os
import signal
import struct
import subprocess
import sys
import time
from pathlib import Path

import spillcast
from harness import account_of, check_rows, completed, spill_in, spillcast_command, until

#: Reads a block as often as each number on stdin says.
READS = """
import os, sys
descriptor = os.open(sys.argv[1], os.O_RDWR | os.O_CREAT)
os.pwrite(descriptor, bytes(512), 0)
print(os.getpid(), flush=True)
for line in sys.stdin:
    for _ in range(int(line)):
        os.pread(descriptor, 512, 0)
    print("done", flush=True)
"""
#: The offset of the next report's position in the ring's header.
HEAD_OFFSET = 128
#: A recorder that has not polled for a second may be gone.
UNREAD_S = 1.2


class Preloaded:
    """A program that reports to a recorder, and the number of its reports."""

    def __init__(self, places):
        words = [sys.executable, "-c", READS, str(places.temp / "spill")]
        output = places.root / "run.spill"
        requested = spillcast_command("record", "--capture", "preload", "-o", output, "--", *words)
        pipes = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE, "stderr": subprocess.PIPE}
        self.recorder = subprocess.Popen(requested, text=True, env=places.env, **pipes)
        self.pid = int(self.recorder.stdout.readline())
        maps = Path(f"/proc/{self.pid}/maps").read_text().splitlines()
        [ring] = [line for line in maps if "/memfd:spillcast-ring" in line]
        self._head = int(ring.partition("-")[0], 16) + HEAD_OFFSET

    def __enter__(self):
        return self

    def __exit__(self, *_):
        with self.recorder:
            self.recorder.kill()

    def reports_of(self, reads):
        """The number of reports that it makes for this many reads."""
        before = self._reports()
        self.recorder.stdin.write(f"{reads}\n")
        self.recorder.stdin.flush()
        assert self.recorder.stdout.readline() == "done\n"
        return self._reports() - before

    def _reports(self):
        with open(f"/proc/{self.pid}/mem", "rb") as memory:
            memory.seek(self._head)
            return struct.unpack("<Q", memory.read(8))[0]


def test_nothing_is_reported_after_the_recorder_was_killed(places):
    with Preloaded(places) as program:
        assert program.reports_of(1000) >= 1000
        program.recorder.kill()
        # Only root may look at a zombie.
        kept = os.WNOWAIT if os.geteuid() == 0 else 0
        os.waitid(os.P_PID, program.recorder.pid, os.WEXITED | kept)
        time.sleep(UNREAD_S)
        # The first report detects it, even while the killed recorder is a zombie.
        assert program.reports_of(1000) <= 1
        assert program.reports_of(1000) == 0
        program.recorder.stdin.close()
        until(lambda: not Path(f"/proc/{program.pid}/exe").exists(), "its end")


def test_everything_is_reported_to_a_stopped_recorder(places):
    with Preloaded(places) as program:
        program.recorder.send_signal(signal.SIGSTOP)
        time.sleep(UNREAD_S)
        assert program.reports_of(1000) >= 1000
        program.recorder.send_signal(signal.SIGCONT)
        program.recorder.stdin.close()
        _, answer = program.recorder.stdout.read(), program.recorder.stderr.read()
        assert program.recorder.wait() == 0, answer


def test_writes_inside_the_c_library_are_named(tmp_path):
    (tmp_path / "lines").write_text("".join(f"{number}\n" for number in range(200_000)))
    command = ["sort", "-S", "300K", "-T", tmp_path, "-o", tmp_path / "sorted", tmp_path / "lines"]
    options = ["--capture", "preload", "--temp", tmp_path, "-o", tmp_path / "run.spill"]
    done = completed("record", *options, "--", *command)
    assert "fwrite" in done.stdout
    assert "--capture perf" in done.stdout


def test_the_library_may_be_in_a_folder_of_any_name(places):
    (folder := places.root / "it's a disk").symlink_to(Path(spillcast.__file__).parents[1])
    paths = f"{folder}:{os.environ.get('PYTHONPATH', '')}"
    output = places.root / "run.spill"
    command = ["record", "--capture", "preload", "-o", output, "--", *spill_in(places)]
    result = completed(*command, env=places.env | {"PYTHONPATH": paths})
    check_rows(output, account_of(result.stdout), base=places.base)
    assert "ld.so" not in result.stderr

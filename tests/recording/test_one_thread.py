"""A thread that is observed alone: calls of other threads of its process are not counted."""

import subprocess
import sys
from pathlib import Path
from types import SimpleNamespace

import pytest

from harness import available, until
from spillcast.recording.capture import RecordOptions
from spillcast.recording.record import Recorder

TWO_THREADS = """
import sys, tempfile, threading
gate, end = threading.Event(), threading.Event()
def write(count):
    print(threading.get_native_id(), flush=True)
    gate.wait()
    with tempfile.TemporaryFile(dir=sys.argv[1], buffering=0) as file:
        for _ in range(count):
            file.write(bytes(8192))
        print("written\\n", end="", flush=True)  # in a single write, beside another thread's
        end.wait()
for count in (40, 700):
    threading.Thread(target=write, args=[count], daemon=True).start()
    input()
gate.set()
input()
end.set()
"""


@pytest.mark.parametrize("capture", ["bpf", "perf"])
def test_only_the_writes_of_one_thread_are_counted(capture, tmp_path):
    if not available(capture):
        pytest.skip(f"{capture} is not available")
    program = [sys.executable, "-c", TWO_THREADS, str(tmp_path)]
    with subprocess.Popen(
        program, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, bufsize=1
    ) as process:
        thread = int(process.stdout.readline())
        process.stdin.write("\n")
        process.stdout.readline()
        recorder = Recorder(None, RecordOptions(capture=capture))
        recorder.prepare(thread, "a thread")
        wait = SimpleNamespace(pid=thread, exit_status=None, wait=lambda _s: False)
        recorder.observe(wait, temp_dirs=[Path(tmp_path)])
        process.stdin.write("\n")
        assert [process.stdout.readline() for _ in range(2)] == ["written\n"] * 2
        # Perf events show a descriptor's file only while it is open.
        until(lambda: recorder.status()["temp_writes"], "writes of a temp file")
        process.stdin.write("\n")
        process.wait()
    recorder.stop()
    status = recorder.status()
    assert (status["temp_writes"], status["temp_bytes"]) == (40, 40 * 8192)

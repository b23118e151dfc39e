"""However spillcast is killed, the observed program has the same result and nothing is left."""

import signal
import subprocess
import sys
import time

import pytest

from cases import nightly
from harness import account_of, available, spill_in, spillcast_command, until_attached
from kills import REST, check_no_crash, check_nothing_left, check_recording, end, moments
from spillcast.recording import Recording

PIPES = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE, "text": True}


def command(places):
    return spill_in(places, "--threads", 2, "--unlink", "--sequential", "--pause", 0.001)


def result_of(places):
    done = subprocess.run(command(places), capture_output=True, text=True, check=True)
    return account_of(done.stdout)["result"]


@pytest.mark.parametrize("capture", ["bpf", "preload", *nightly("perf")])
def test_a_command_runs_to_its_end(places, capture):
    expected, ran = result_of(places), 0
    for number, (death, after_s) in enumerate(moments(available(capture))):
        output = places.root / f"{number}.spill"
        words = ("record", "--capture", capture, "-o", output, "--", *command(places))
        recorder = subprocess.Popen(
            spillcast_command(*words),
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
            env=places.env,
        )
        alive = end(recorder, death, after_s)
        # End of file means that no process has it open any more.
        stdout, stderr = recorder.communicate()
        accounts = [line for line in stdout.splitlines() if line.startswith('{"account"')]
        if accounts:
            ran += 1
            assert account_of(stdout)["result"] == expected
        # SIGKILL before the command starts means that nothing ran; other signals reach the command.
        assert accounts or (alive and death is not REST), stderr
        if accounts and death != signal.SIGKILL:
            # It may have printed its account, with the signal before its end.
            ends = {0} if death is REST else {0, 128 + death}
            assert recorder.returncode in ends, stderr
        check_recording(output)
        check_nothing_left(places.root)
    assert ran


@pytest.mark.parametrize("capture", ["bpf", *nightly("perf")])
def test_a_running_process_continues(places, capture):
    goes_on(places, available(capture), "record", "--capture", capture)


def test_a_watched_process_continues(places):
    goes_on(places, "watch", "record", "--live", "--json", "--to", "factor:2")


def goes_on(places, seed, *words):
    expected = result_of(places)
    for number, (death, after_s) in enumerate(moments(seed)):
        program = subprocess.Popen([*command(places), "--gate"], env=places.env, **PIPES)
        assert program.stdout.readline() == "ready\n"
        output = places.root / f"{number}.spill"
        recorder = subprocess.Popen(
            spillcast_command(*words, "--pid", program.pid, "-o", output),
            stdout=subprocess.DEVNULL,
            stderr=subprocess.PIPE,
            text=True,
        )
        time.sleep(after_s / 2)
        program.stdin.write("go\n")
        program.stdin.flush()
        end(recorder, death, after_s / 2)
        stdout, _ = program.communicate()
        assert program.returncode == 0
        assert account_of(stdout)["result"] == expected
        _, stderr = recorder.communicate()
        check_no_crash(stderr)
        check_recording(output)
        check_nothing_left(places.root)


#: Waits for a line, writes as often as told and waits for another line.
WRITES = """
import os, sys
fd = os.open(sys.argv[1], os.O_RDWR | os.O_CREAT)
input()
for _ in range(int(sys.argv[2])):
    os.pwrite(fd, bytes(512), 0)
print("written", flush=True)
input()
"""


def test_calls_while_the_recorder_is_stopped_are_lost_once(places):
    output, count = places.root / "run.spill", 300_000
    command = [sys.executable, "-c", WRITES, places.temp / "spill", count]
    capture = ("--capture", available("bpf"), "--temp", places.temp)
    with subprocess.Popen(list(map(str, command)), **PIPES) as process:
        words = ("record", *capture, "--pid", process.pid, "-o", output)
        recorder = subprocess.Popen(spillcast_command(*words), env=places.env)
        until_attached(output, recorder)
        recorder.send_signal(signal.SIGSTOP)
        process.stdin.write("\n")
        process.stdin.flush()
        assert process.stdout.readline() == "written\n"
        recorder.send_signal(signal.SIGCONT)
        process.stdin.write("\n")
    assert recorder.wait() == 0
    meta = Recording.open(output).meta
    assert 0 < meta.temp.writes < count
    # Some calls on other files may be lost too.
    assert count <= meta.temp.writes + meta.capture.lost < 1.2 * count

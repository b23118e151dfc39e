"""However spillcast is killed, the observed program ends with the same result."""

import random
import subprocess
import time

import pytest

from harness import account_of, available, spillcast_command, target, until
from spillcast.recording.folder import partial_folders
from spillcast.recording.source import SOURCES

MOMENTS = 6


def command(places):
    plan = ("--file", places.temp / "spill", "--base", places.base, "--threads", 2)
    return target("spill", *plan, "--unlink", "--sequential", "--pause", 0.001)


def result_of(places):
    done = subprocess.run(command(places), capture_output=True, text=True, check=True)
    return account_of(done.stdout)["result"]


def partial(output):
    return lambda: partial_folders(output)


@pytest.mark.parametrize("capture", SOURCES)
def test_a_command_survives_its_recorder(places, capture):
    expected = result_of(places)
    rng = random.Random(available(capture))
    ran = 0
    for moment in range(MOMENTS):
        output = places.root / f"{moment}.spill"
        recorder = subprocess.Popen(
            spillcast_command("record", "--capture", capture, "-o", output, "--", *command(places)),
            stdout=subprocess.PIPE,
            text=True,
            env=places.env,
        )
        if moment:
            until(partial(output), "the recording")
            time.sleep(rng.uniform(0, 0.5))
        else:
            time.sleep(rng.uniform(0, 0.3))
        recorder.kill()
        # The end of the output says that no process holds it any more.
        stdout, _ = recorder.communicate()
        # Killed before the command was let go, nothing has run at all.
        if stdout:
            ran += 1
            assert account_of(stdout)["result"] == expected
        assert not output.exists()
    assert ran


@pytest.mark.parametrize("capture", [name for name in SOURCES if SOURCES[name].attaches])
def test_a_running_process_survives_its_recorder(places, capture):
    expected = result_of(places)
    rng = random.Random(available(capture))
    for moment in range(3):
        program = subprocess.Popen(
            [*command(places), "--gate"],
            stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, env=places.env,
        )  # fmt: skip
        assert program.stdout.readline() == "ready\n"
        output = places.root / f"{moment}.spill"
        how = ("--capture", capture, "--pid", program.pid)
        recorder = subprocess.Popen(spillcast_command("record", *how, "-o", output))
        until(partial(output), "the attachment")
        program.stdin.write("go\n")
        program.stdin.flush()
        time.sleep(rng.uniform(0, 0.3))
        recorder.kill()
        recorder.wait()
        stdout, _ = program.communicate()
        assert program.returncode == 0
        assert account_of(stdout)["result"] == expected

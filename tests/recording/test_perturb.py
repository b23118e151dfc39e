"""Delays in groups of a run: as many as intended, seen in the CPU time, gone with the recorder."""

import json
import subprocess
import time

import numpy as np
import pytest

from harness import only_line, spillcast, spillcast_command, target, until
from spillcast.recording import Recording
from spillcast.recording.delayed import sleeps
from spillcast.recording.program import program
from spillcast.recording.response import responses

DELAYS_S = (0.3e-3, 1e-3)
#: Of a program that burns 300 ms of CPU for each second that it waits.
FEELS = 0.3


def perturbed(places, *options, capture):
    output = places.root / "run.spill"
    command = target("waits", "--file", places.temp / "spill", *options)
    result = spillcast(
        "record", "--perturb", "--capture", capture, "-o", output, "--", *command, env=places.env
    )
    assert result.returncode == 0, result.stderr
    account = json.loads(next(line for line in result.stdout.splitlines() if '"waits"' in line))
    return Recording.open(output), account, result.stdout


@pytest.mark.parametrize("capture", ["perf", "preload"])
def test_what_a_program_feels_of_longer_waits_is_measured(places, capture):
    recording, account, text = perturbed(places, "--feels", FEELS, capture=capture)
    perturbation = recording.meta["perturbation"]
    assert [delay["delay_s"] for delay in perturbation["delays"]] == pytest.approx(DELAYS_S)
    counts = [delay["operations"] for delay in perturbation["delays"]]
    # One group in eight for each, but for what ran before the delays began.
    assert all(100 <= count <= account["operations"] / 8 + 128 for count in counts)
    for delay, least_s in zip(perturbation["delays"], DELAYS_S, strict=True):
        assert delay["slept_s"] >= delay["operations"] * least_s
    slept_s = sum(delay["slept_s"] for delay in perturbation["delays"])
    assert perturbation["cost_s"] == pytest.approx(slept_s)
    assert perturbation["elapsed_s"] - recording.elapsed_s == pytest.approx(slept_s)
    # The program itself saw as many waits; falling asleep takes CPU time that it does not count.
    assert sum(wait >= 0.8 * DELAYS_S[0] for wait in account["waits"]) >= sum(counts)
    assert "operations delayed" in text
    found = responses(recording)
    assert not isinstance(found, str), found
    # A busy machine makes the waits longer, and the program takes no wait for more than 3 ms.
    assert FEELS * DELAYS_S[1] / 2 < found[1].extra_cpu_s < FEELS * 3e-3
    assert found[1].extra_cpu_s > found[0].extra_cpu_s


@pytest.mark.parametrize("capture", ["perf", "preload"])
def test_a_program_that_feels_nothing_is_told_apart(places, capture):
    recording, _, _ = perturbed(places, capture=capture)
    found = responses(recording)
    assert not isinstance(found, str), found
    assert abs(found[1].extra_cpu_s) < FEELS * DELAYS_S[1] / 4


def test_the_rows_of_delayed_operations_are_as_fast_as_the_others(places):
    """The sleep is after the call and no part of it."""
    recording, _, _ = perturbed(places, capture="perf")
    waits = recording.temp_waits.to_pylist()
    windows = [(low, high) for low, high, _ in recording.meta["perturbation"]["windows_s"]]
    within = [
        row["elapsed_ns"]
        for row in waits
        if any(low <= row["start_ns"] / 1e9 < high for low, high in windows)
    ]
    counts = [delay["operations"] for delay in recording.meta["perturbation"]["delays"]]
    assert abs(len(within) - sum(counts)) <= 2
    assert sorted(within)[len(within) // 2] < DELAYS_S[0] * 1e9


def test_the_delays_are_known_among_the_waits_and_last_no_time_in_its_program(places):
    recording, _, _ = perturbed(places, capture="perf")
    perturbation = recording.meta["perturbation"]
    slept = sleeps(recording)
    counted = sum(delay["operations"] for delay in perturbation["delays"])
    assert slept.sum() == pytest.approx(counted, rel=0.02)
    slept_s = recording.waits["elapsed_ns"].to_numpy()[slept].sum() / 1e9
    assert slept_s == pytest.approx(perturbation["cost_s"], rel=0.1)
    done = program(recording)
    of_sleeps = np.isin(done.source, np.flatnonzero(slept))
    assert of_sleeps.sum() == slept.sum()
    assert not done.wait_ns[of_sleeps].any()


@pytest.mark.parametrize("capture", ["perf", "preload"])
def test_a_killed_recorder_delays_nobody(places, capture):
    stop, output = places.root / "stop", places.root / "run.spill"
    command = target("waits", "--file", places.temp / "spill", "--until", stop)
    recorder = subprocess.Popen(
        spillcast_command(
            "record", "--perturb", "--capture", capture, "-o", output, "--", *command
        ),
        stdout=subprocess.PIPE,
        text=True,
        env=places.env,
    )
    until(output.with_name(output.name + ".partial").exists, "the recording")
    time.sleep(1.0)
    recorder.kill()
    recorder.wait()
    time.sleep(1.0)
    stop.touch()
    stdout, _ = recorder.communicate()
    waits = json.loads(stdout)["waits"]
    assert sum(wait >= DELAYS_S[1] for wait in waits) >= 20
    # The last half second without a recorder: a busy machine makes waits too, but no one in eight.
    last = waits[-1000:]
    assert sum(wait >= DELAYS_S[0] for wait in last) < len(last) / 8


@pytest.mark.parametrize(
    ("arguments", "reason"),
    [
        (("--pid", "1"), "a process that runs already"),
        (("--postgres", "service=none"), "a server that runs already"),
    ],
)
def test_what_runs_already_is_never_delayed(arguments, reason):
    error = only_line(spillcast("record", "--perturb", *arguments), 2)
    assert reason in error


def test_a_static_program_cannot_be_delayed(places):
    source, program = places.root / "static.c", places.root / "static"
    source.write_text(
        "#include <fcntl.h>\n#include <unistd.h>\n"
        "int main(int n, char **a) { char b[4096] = {0}; int f = open(a[1], O_RDWR | O_CREAT, 384);"
        " for (int i = 0; i < 100; i++) if (pwrite(f, b, 4096, 0) < 0) return 1; sleep(1); }\n"
    )
    try:
        built = subprocess.run(["cc", "-static", "-o", program, source], capture_output=True)
    except FileNotFoundError:
        pytest.skip("wants a C compiler")
    if built.returncode:
        pytest.skip("wants a C library to link statically")
    output = places.root / "run.spill"
    command = [program, places.temp / "spill"]
    result = spillcast("record", "--perturb", "-o", output, "--", *command, env=places.env)
    assert "static" in only_line(result, 2)
    assert not output.exists()

"""A replay whose threads work and wait for each other like the recorded ones."""

import json
import signal
import subprocess
from types import SimpleNamespace

import pytest

from emulator import Emulator, skip_without_fuse
from harness import compiled, completed, ordinary_user
from spillcast.recording import Recording
from spillcast.storage.free_space import Budget
from spillcast.storage.probe import probe, replay_plan

ROUNDS = 150
WORK_US = 500
LATENCY_MS = 2
#: The duration of one turn of a worker: its work, a write and a read.
TURN_S = WORK_US / 1e6 + 2 * LATENCY_MS / 1e3
#: If other programs delay a run or a replay, it is repeated this often.
ATTEMPTS = 4
NEAR = 0.05
BUSY = 1.6

pytestmark = pytest.mark.skipif(not ordinary_user(), reason="who wakes whom is shown to root")


@pytest.fixture(scope="module")
def storages(tmp_path_factory):
    """A storage, and one that is twice as slow."""
    skip_without_fuse()
    rooms = [tmp_path_factory.mktemp(name) for name in ("here", "there")]
    program = compiled("relay", rooms[0])
    both = []
    for times, room in enumerate(rooms, start=1):
        latency = f"{LATENCY_MS * times}ms"
        both.append(Emulator(room, "--read", latency, "--write", latency))
    try:
        origin, destination = (emulator.ready().mountpoint for emulator in both)
        yield SimpleNamespace(program=program, source=origin, target=destination)
    finally:
        for emulator in both:
            emulator.end(signal.SIGTERM)
            emulator.stderr.close()


def recorded(storages, way, output):
    """Records the program on the first storage; returns the recording and its elapsed time."""
    command = [storages.program, way, storages.source / "spill", ROUNDS, WORK_US]
    requested = ("record", "--temp", storages.source, "-o", output, "--", *command)
    result = completed(*requested)
    return Recording.open(output), json.loads(result.stdout.splitlines()[0])["elapsed_ns"] / 1e9


def replayed_s(recording, directory):
    """Elapsed time of a replay of everything."""
    facts = probe(directory, recording, budget=Budget(free_share=1.0)).facts
    assert facts["closed_loop"]
    assert facts["steps_skipped"] == 0
    assert (facts["think_scale"], facts["byte_share"], facts["threads"]) == (1.0, 1.0, 2)
    return facts["elapsed_ns"] / 1e9


def measured_s(storages, way, directory):
    """Elapsed time of the program without recording."""
    command = [storages.program, way, directory / "spill", str(ROUNDS), str(WORK_US)]
    done = subprocess.run(command, check=True, capture_output=True, text=True)
    return json.loads(done.stdout)["elapsed_ns"] / 1e9


@pytest.mark.parametrize("way", ["spill", "apart"])
def test_a_replay_takes_as_long_as_the_program_on_either_storage(storages, tmp_path, way):
    turns = 2 if way == "spill" else 1
    least = [float("inf")] * 4
    for attempt in range(ATTEMPTS):
        recording, source_s = recorded(storages, way, tmp_path / f"{attempt}.spill")
        target_s = measured_s(storages, way, storages.target)
        seen = (source_s, replayed_s(recording, storages.source),
                target_s, replayed_s(recording, storages.target))  # fmt: skip
        # Other programs can only make a run longer.
        least = [min(pair) for pair in zip(least, seen, strict=True)]
        # Holds under any load: threads that take turns cannot be faster.
        assert least[1] > 0.95 * turns * ROUNDS * TURN_S
        assert least[3] > 0.95 * turns * ROUNDS * (TURN_S + 2 * LATENCY_MS / 1e3)
        if abs(least[1] / least[0] - 1) < NEAR and abs(least[3] / least[2] - 1) < NEAR:
            return
    # On a busy machine, a replay and its reference run get different shares of it.
    source_s, again_s, target_s, forecast_s = least
    assert 0.9 < again_s / source_s < BUSY
    assert 0.9 < forecast_s / target_s < BUSY


def test_without_turns_threads_run_in_parallel(storages, tmp_path):
    least = [float("inf")] * 2
    for attempt in range(ATTEMPTS):
        for at, way in enumerate(("spill", "apart")):
            recording, _ = recorded(storages, way, tmp_path / f"{attempt}-{way}.spill")
            least[at] = min(least[at], replayed_s(recording, storages.source))
        if 1.85 < least[0] / least[1] < 2.15:
            return
    assert 1.4 < least[0] / least[1] < 2.8


def test_the_plan_matches_the_program(storages, tmp_path):
    worked = []
    for attempt in range(ATTEMPTS):
        recording, _ = recorded(storages, "spill", tmp_path / f"{attempt}.spill")
        rows = replay_plan(recording)[0].to_pylist()
        worked.append(sum(row["cpu_ns"] for row in rows) / (2 * ROUNDS * WORK_US * 1000))
        if worked[-1] == pytest.approx(1, rel=0.25):
            break
    else:
        pytest.fail(f"{worked} times the program's work")
    assert [row["write"] for row in rows].count(True) == 2 * ROUNDS
    assert [row["write"] for row in rows].count(False) == 2 * ROUNDS
    waits = [row for row in rows if row["after"] is not None]
    assert len(waits) >= 2 * ROUNDS - 10
    for row in waits:
        assert row["write"] is None
        assert (row["bytes"], row["delay_ns"]) == (0, 0)
        assert rows[row["after"]]["thread"] != row["thread"]


def test_steps_beyond_the_budget_are_skipped_without_blocking_others(storages, tmp_path):
    recording, _ = recorded(storages, "spill", tmp_path / "run.spill")
    facts = probe(storages.target, recording, budget=Budget(time_s=0.5)).facts
    assert facts["steps_skipped"] > 0
    assert facts["elapsed_ns"] / 1e9 < 5
    thinned = probe(storages.source, recording, budget=Budget(bytes=ROUNDS * 8192)).facts
    assert thinned["byte_share"] <= 0.5

"""Recordings of running processes, of commands with children, with early ends, and with slices."""

import json
import shlex
import signal
import subprocess
import sys
import time

import duckdb
import pyarrow.parquet as pq
import pytest

from harness import (
    account_of,
    available,
    check_rows,
    completed,
    expected_rows,
    rows,
    spill_in,
    spillcast,
    started,
    succeeded,
    target,
    until,
    until_attached,
)

PIPES = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE, "text": True}


class Gated:
    """The spill program, which waits for its input, and spillcast attached to it."""

    def __init__(self, places, *options, requested=()):
        self.output = places.root / "run.spill"
        self.base = places.base
        self.program = subprocess.Popen(
            spill_in(places, "--gate", *options), env=places.env, **PIPES
        )
        assert self.program.stdout.readline() == "ready\n"
        requested = ("record", "--pid", self.program.pid, "-o", self.output, *requested)
        self.recorder = started(*requested, stderr=subprocess.PIPE, **PIPES)
        until_attached(self.output, self.recorder)
        self.program.stdin.write("go\n")
        self.program.stdin.flush()

    def __enter__(self):
        return self

    def __exit__(self, *_):
        for process in (self.program, self.recorder):
            process.kill()
            process.communicate()

    def meta(self):
        return json.loads((self.output / "meta.json").read_text())


def test_every_operation_of_an_attached_program_with_threads_is_recorded(places):
    with Gated(places, "--threads", 3, "--sequential") as gated:
        stdout, _ = gated.program.communicate()
        succeeded(gated.recorder)
        account = account_of(stdout)
        check_rows(gated.output, account, base=places.base)
        assert gated.meta()["ended_by"] == "end"


def test_interrupt_keeps_the_recording_and_leaves_the_program(places):
    with Gated(places, "--pause", 0.01) as gated:
        temp = places.temp / "spill"
        until(lambda: temp.stat().st_size > 2 << 20, "some spill")
        # Stops the program here so that it cannot end first.
        gated.program.send_signal(signal.SIGSTOP)
        gated.recorder.send_signal(signal.SIGINT)
        succeeded(gated.recorder)
        gated.program.send_signal(signal.SIGCONT)
        stdout, _ = gated.program.communicate()
        assert gated.program.returncode == 0
        account = account_of(stdout)
        seen = rows(gated.output, files={str(temp)})
        everything = expected_rows(account, base=places.base)
        assert seen
        assert seen <= everything
        assert gated.meta()["ended_by"] == "interrupt"
        assert sum(seen.values()) < sum(everything.values())


def test_duration_ends_a_recording(places):
    with Gated(places, "--pause", 0.02, requested=("--duration", "0.5s")) as gated:
        succeeded(gated.recorder)
        assert gated.meta()["elapsed_s"] >= 0.5
        assert gated.meta()["asked"]["duration_s"] == 0.5
        assert gated.meta()["ended_by"] == "duration"


def test_a_failed_command_is_not_a_whole_run(places):
    """Its spill is real, and the duration of the rest is unknown."""
    spill = spill_in(places, "--remove")
    endings = {"whole": "exit 0", "failed": "exit 3", "killed": "kill -INT $$", "idle": "exit 3"}
    answers = {}
    for name, ending in endings.items():
        output = places.root / f"{name}.spill"
        before = "true" if name == "idle" else shlex.join(map(str, spill))
        command = ["sh", "-c", f"{before} >&2; {ending}"]
        spillcast("record", "-o", output, "--", *command, env=places.env)
        answers[name] = spillcast("forecast", output, "--to", "latency:2ms", "--json")
    parts = {name: json.loads(answer.stdout).get("part") for name, answer in answers.items()}
    assert parts["whole"] is None
    assert parts["failed"]["because"] == parts["killed"]["because"] == "error"
    assert "does not matter" not in answers["idle"].stderr


def test_a_late_attachment_gives_a_forecast_of_the_recorded_part(places):
    temp, output = places.temp / "spill", places.root / "run.spill"
    command = target("spill", "--file", temp, "--base", places.base, "--pause", 0.002)
    started_s = time.monotonic()
    with subprocess.Popen(command, env=places.env, **PIPES) as program:
        until(lambda: temp.exists() and temp.stat().st_size > 2 << 20, "a good part of the spill")
        program.send_signal(signal.SIGSTOP)
        ran_s = time.monotonic() - started_s
        requested = ("record", "--pid", program.pid, "-o", output)
        with started(*requested, stderr=subprocess.PIPE, **PIPES) as recorder:
            until_attached(output, recorder)
            program.send_signal(signal.SIGCONT)
            program.communicate()
            succeeded(recorder)
    result = completed("forecast", output, "--to", "latency:1ms")
    assert "were recorded of a process that had already run for " in result.stdout
    document = json.loads(spillcast("forecast", output, "--to", "latency:1ms", "--json").stdout)
    assert document["part"]["what"] == "process"
    # Start times of processes are accurate to a clock tick.
    assert document["part"]["before_s"] > ran_s - 0.02
    assert document["part"]["recorded_s"] == document["baseline_s"]


def test_slices_keep_few_waits_and_all_seconds(places):
    with Gated(places, "--pause", 0.03, requested=("--slices", 3)) as gated:
        stdout, _ = gated.program.communicate()
        succeeded(gated.recorder)
        account = account_of(stdout)
        temp = [operation for operation in account["account"] if operation[5] != str(places.base)]
        raw = gated.meta()["raw"]
        assert 2 <= len(raw["slices_s"]) <= 3
        starts = pq.read_table(gated.output / "waits.parquet")["start_ns"].to_numpy() / 1e9
        assert 0 < len(starts) == raw["rows"] < raw["rows_seen"]
        assert all(any(low <= s < high for low, high in raw["slices_s"]) for s in starts)
        query = "select sum(\"count\")::int, sum(bytes)::int from '{}' where temp"
        whole = duckdb.sql(query.replace("{}", str(gated.output / "seconds.parquet"))).fetchall()
        assert whole == [(len(temp), sum(operation[3] for operation in temp))]


#: Writes through one file position until it gets a line, then by two descriptors that share it.
SHARES_A_POSITION = """
import os, select, sys
fd = os.open(sys.argv[1], os.O_RDWR | os.O_CREAT)
other = os.dup(fd)
os.write(fd, bytes(512))
print("ready", flush=True)
while not select.select([0], [], [], 0)[0]:
    os.write(fd, bytes(512))
at = os.lseek(fd, 0, os.SEEK_CUR)
for _ in range(4):
    os.write(fd, bytes(64))
    os.write(other, bytes(64))
print(at)
"""


def test_descriptors_that_shared_a_position_before_the_attachment_have_right_offsets(places):
    temp, output = places.temp / "spill", places.root / "run.spill"
    command = [sys.executable, "-c", SHARES_A_POSITION, temp]
    with subprocess.Popen(command, env=places.env, **PIPES) as program:
        assert program.stdout.readline() == "ready\n"
        requested = ("record", "--pid", program.pid, "-o", output, "--temp", places.temp)
        with started(*requested, stderr=subprocess.PIPE, **PIPES) as recorder:
            until_attached(output, recorder)
            printed, _ = program.communicate("go\n")
            succeeded(recorder)
    waits = pq.read_table(output / "waits.parquet", filters=[("bytes", "==", 64)]).to_pylist()
    assert [row["offset"] - int(printed) for row in waits] == [64 * n for n in range(8)]


WRITES = "import os; os.write(os.open('spilled', os.O_CREAT | os.O_WRONLY), bytes(9))"


@pytest.mark.parametrize("capture", ["bpf", "perf"])
def test_processes_left_running_by_a_command_are_reported(tmp_path, capture):
    options = ["--capture", available(capture), "--temp", tmp_path, "-o", tmp_path / "run.spill"]
    left = ["sh", "-c", "sleep 3 >/dev/null 2>&1 &"]
    nothing = completed("record", *options, "--", *left, cwd=tmp_path)
    assert "left 1 process running" in nothing.stderr
    assert "--pid" in nothing.stderr
    script = f'python3 -S -c "{WRITES}"; {left[-1]}'
    some = completed("record", *options, "--force", "--", "sh", "-c", script, cwd=tmp_path)
    assert "left 1 process running" in some.stderr


def test_a_command_that_waits_for_its_children_leaves_nothing_running(tmp_path):
    script = f'python3 -S -c "{WRITES}"; sleep 0.1 & wait'
    options = ["--temp", tmp_path, "-o", tmp_path / "run.spill"]
    result = completed("record", *options, "--", "sh", "-c", script, cwd=tmp_path)
    assert "running" not in result.stderr

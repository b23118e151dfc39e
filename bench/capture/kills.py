"""``kill -9`` of the recorder at random moments: the observed program ends as if alone."""

import json
import random
import shutil
import subprocess
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from bench.capture.sources import usable, workroom
from bench.programs import OUTPUT, observed, recording, summary_of
from bench.programs import run as run_program
from bench.result import SPILLCAST, Result

#: Kills of the best source; the others are killed a tenth as often.
MOMENTS = 200
#: From before the start of the recorder until after the end of the program.
WITHIN_S = 1.0
WRITES = 300
#: The kernel frees programs and maps a moment after their last holder has ended.
GRACE_S = 5


def run() -> Iterator[Result]:
    """For a command, and for a process that is already running, in equal parts."""
    for number, source in enumerate(usable()):
        moments = MOMENTS if number == 0 else MOMENTS // 10
        with workroom() as room:
            expected = run_program(_program(room))["calls"]
            before, rng = bpf_objects(), random.Random(source.name)
            killed, ran, wrong = 0, 0, 0
            for moment in range(moments):
                of_pid = source.attaches and moment % 2 == 1
                kill = _kill_of_process if of_pid else _kill_of_command
                was_alive, stdout = kill(source.name, room, rng.uniform(0, WITHIN_S))
                killed += was_alive
                # Killed before the command was started, nothing has run.
                if stdout or of_pid:
                    ran += 1
                    wrong += not stdout or summary_of(stdout)["calls"] != expected
                shutil.rmtree(room.with_name(OUTPUT), ignore_errors=True)
            left = [*_left_in_kernel(before), *_processes_of(room), *_files_beside(room)]
        yield Result(
            f"capture: {source.name}, recorder killed at {moments} random moments",
            f"{ran - wrong} of {ran} programs ended as expected, {killed} recorders were alive; "
            f"left: {', '.join(left) or 'nothing'}",
            "the same program not observed",
            (ran - wrong) / ran,
            "the same result each time, no program, map, process or file left",
            wrong == 0 and not left,
        )


def _program(room: Path, *gate: str) -> list[str]:
    return observed("mixed", room, WRITES, *gate, threads=2)


def _kill_of_command(method: str, room: Path, after_s: float) -> tuple[bool, str]:
    process = subprocess.Popen(
        [*recording(room, method), *_program(room)],
        stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True,
    )  # fmt: skip
    time.sleep(after_s)
    was_alive = process.poll() is None
    process.kill()
    # End of file means that no process has it open any more.
    return was_alive, process.communicate()[0]


def _kill_of_process(method: str, room: Path, after_s: float) -> tuple[bool, str]:
    program = subprocess.Popen(
        _program(room, "--gate"), stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    )
    assert program.stdout is not None
    program.stdout.readline()
    output = str(room.with_name(OUTPUT))
    recorder = subprocess.Popen(
        [*SPILLCAST, "record", "-o", output, "--capture", method, "--pid", str(program.pid)],
        stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL,
    )  # fmt: skip
    time.sleep(after_s / 2)
    assert program.stdin is not None
    program.stdin.write("go\n")
    program.stdin.flush()
    time.sleep(after_s / 2)
    was_alive = recorder.poll() is None
    recorder.kill()
    recorder.wait()
    return was_alive, program.communicate()[0]


def bpf_objects() -> dict[tuple[str, int], str]:
    """Programs and maps in the kernel, by kind and number; empty if bpftool is not installed."""
    result: dict[tuple[str, int], str] = {}
    if shutil.which("bpftool"):
        for kind in ("prog", "map"):
            done = subprocess.run(["bpftool", "-j", kind, "list"], capture_output=True, text=True)
            listed: list[dict[str, Any]] = json.loads(done.stdout or "[]")
            result |= {(kind, item["id"]): item.get("name", item["type"]) for item in listed}
    return result


def _left_in_kernel(before: dict[tuple[str, int], str]) -> list[str]:
    deadline = time.monotonic() + GRACE_S
    while True:
        left = [f"{key[0]} {name}" for key, name in bpf_objects().items() if key not in before]
        if not left or time.monotonic() > deadline:
            return left
        time.sleep(0.1)


def _processes_of(room: Path) -> list[str]:
    """Processes whose arguments name the directory."""
    left = []
    for process in Path("/proc").glob("[0-9]*"):
        try:
            words = (process / "cmdline").read_bytes().decode(errors="replace").split("\0")
        except OSError:
            continue
        if any(word.startswith(str(room.parent)) for word in words):
            left.append(f"process {process.name}")
    return left


def _files_beside(room: Path) -> list[str]:
    """Files of a recorder, which are removed a moment after its end."""
    deadline = time.monotonic() + GRACE_S
    while True:
        left = [f"file {path.name}" for path in room.parent.iterdir() if path != room]
        if not left or time.monotonic() > deadline:
            return left
        time.sleep(0.1)

"""CPU time of a program after its recorder was killed, against that of the program alone.

Cached reads are the most expensive case: what remains of an observer adds to each call. CPU time is
compared, as other work on the machine changes it less than wall time.
"""

import subprocess
import time
from collections.abc import Iterator, Sequence
from pathlib import Path
from statistics import median
from typing import Any

from bench.capture.sources import usable, workroom
from bench.programs import OUTPUT, observed, recording, summary_of
from bench.result import SPILLCAST, Result

PAIRS = 9
CALLS = 3_000_000
AIM = 1.03
#: A preloaded program notices after a second that nothing reads its reports.
NOTICED_S = 1.5
PIPES: dict[str, Any] = {
    "stdin": subprocess.PIPE,
    "stdout": subprocess.PIPE,
    "stderr": subprocess.DEVNULL,
}


def run() -> Iterator[Result]:
    """For a command, and for a process that is already running if the source attaches."""
    for source in usable():
        for attached in (False, True) if source.attaches else (False,):
            with workroom() as room:
                pairs = [_pair(source.name, room, number, attached) for number in range(PAIRS)]
            alone_s, killed_s = zip(*pairs, strict=True)
            # Other work on the machine only adds: the minimum is closest to the program's own time.
            ratio = min(killed_s) / min(alone_s)
            yield Result(
                f"capture: {source.name}, CPU of {CALLS:,} cached reads of a "
                f"{'process' if attached else 'command'} whose recorder was killed, least of "
                f"{PAIRS}",
                f"{min(killed_s):.3f} s (median {median(killed_s):.3f})",
                f"{min(alone_s):.3f} s (median {median(alone_s):.3f}) alone",
                ratio,
                f"at most {AIM}",
                ratio <= AIM,
            )


def _pair(method: str, room: Path, number: int, attached: bool) -> tuple[float, float]:
    """CPU seconds alone, and after a kill; every other pair starts with the kill."""
    program = observed("reads", room, CALLS, "--gate")
    order = (True, False) if number % 2 else (False, True)
    spent = {
        killed: _cpu_s(program, method if killed else None, room, attached) for killed in order
    }
    return spent[False], spent[True]


def _cpu_s(program: Sequence[str], method: str | None, room: Path, attached: bool) -> float:
    begins = [] if method is None or attached else recording(room, method)
    with subprocess.Popen([*begins, *program], text=True, **PIPES) as started:
        assert started.stdin is not None
        assert started.stdout is not None
        started.stdout.readline()
        if method is not None:
            recorder = _attached(method, room, started.pid) if attached else started
            recorder.kill()
            recorder.wait()
            time.sleep(NOTICED_S)
        started.stdin.write("go\n")
        started.stdin.flush()
        # End of file means that the program has ended, whatever its parent is by then.
        return float(summary_of(started.stdout.read())["cpu_s"])


def _attached(method: str, room: Path, pid: int) -> "subprocess.Popen[bytes]":
    output = room.with_name(OUTPUT)
    words = ["record", "-o", str(output), "--capture", method, "--pid", str(pid)]
    recorder = subprocess.Popen([*SPILLCAST, *words], stderr=subprocess.DEVNULL)
    while not list(output.parent.glob(f"{output.name}.????????.partial")):
        time.sleep(0.01)
    return recorder

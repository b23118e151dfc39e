"""How long attaching to existing threads takes, and how many descriptors it needs."""

import os
import shutil
import subprocess
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from bench.capture.sources import usable, workroom
from bench.programs import attached, observed
from bench.result import Result

THREADS = (1, 16, 256, 1000, 4000)
AIM_S = 0.5
AIM_THREADS = 1000
AIM_DESCRIPTORS = 4


def run() -> Iterator[Result]:
    """Each number of threads by each source, as the present user."""
    cpus = os.cpu_count() or 1
    with workroom() as room:
        for source in usable(attaching=True):
            for threads in THREADS:
                with idle(room, threads) as pid:
                    reported = attached(source.name, room, pid)
                    yield _result(source.name, threads, cpus, reported, _peer(room, pid))


@contextmanager
def idle(room: Path, threads: int) -> Iterator[int]:
    """A process with that many threads, all asleep."""
    program = subprocess.Popen(
        observed("idle", room, threads), stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    )
    try:
        assert program.stdout is not None
        if program.stdout.readline() != "ready\n":
            raise SystemExit(f"{threads} threads could not be started here")
        yield program.pid
    finally:
        program.communicate()


def _peer(room: Path, pid: int) -> str:
    """The time that perf takes for one event, where a capture observes dozens of calls."""
    if not shutil.which("perf"):
        return "perf is not installed"
    where = ["-p", str(pid), "-o", str(room.with_name("perf.data"))]
    command = ["perf", "record", "-q", "-e", "raw_syscalls:sys_enter", *where, "--", "true"]
    start = time.perf_counter()
    done = subprocess.run(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    took_s = time.perf_counter() - start
    return f"{took_s:.3f} s, perf record of one event" if done.returncode == 0 else "perf failed"


def _result(source: str, threads: int, cpus: int, reported: dict[str, float], peer: str) -> Result:
    name = f"capture: {source} attaches to {threads:,} threads on {cpus} CPUs"
    aim = f"under {AIM_DESCRIPTORS} descriptors a CPU"
    if threads <= AIM_THREADS:
        aim = f"under {AIM_S} s, {aim}"
    if "refused" in reported:
        return Result(name, f"refused: {reported['refused']}", peer, float("nan"), aim, False)
    took_s = reported["open_s"] + reported["attach_s"]
    a_cpu = reported["descriptors"] / cpus
    return Result(
        name,
        f"{took_s:.3f} s, of which {reported['open_s']:.3f} s to open the source; "
        f"{reported['descriptors']:,.0f} descriptors, {a_cpu:,.1f} a CPU",
        peer,
        a_cpu / AIM_DESCRIPTORS,
        aim,
        a_cpu < AIM_DESCRIPTORS and (took_s < AIM_S or threads > AIM_THREADS),
    )

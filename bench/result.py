"""The output of a benchmark: one line, with its peer, the ratio and the target."""

import os
import subprocess
import sys
import time
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

SPILLCAST = [sys.executable, "-m", "spillcast"]
#: As on a user's machine, where modules are compiled once.
ENVIRONMENT = {key: value for key, value in os.environ.items() if key != "PYTHONDONTWRITEBYTECODE"}


@dataclass(frozen=True)
class Result:
    """One of our figures beside that of a peer."""

    name: str
    ours: str
    peer: str
    ratio: float
    aim: str
    met: bool

    def __str__(self) -> str:
        verdict = "met" if self.met else "MISSED"
        return (
            f"{self.name}\n    ours {self.ours}\n    peer {self.peer}\n"
            f"    ratio {self.ratio:.3g}, aim {self.aim}: {verdict}"
        )


def best_of_s(command: list[str], times: int) -> float:
    """The minimum wall time of a command."""
    return min(wall_s(command) for _ in range(times))


def wall_s(command: list[str]) -> float:
    """The wall time of a command, which must succeed."""
    return used(command).wall_s


@dataclass(frozen=True)
class Used:
    """The resources of a command: elapsed time, CPU time with its children, and peak memory."""

    wall_s: float
    cpu_s: float
    mb: float

    def __str__(self) -> str:
        cpu = f"{self.cpu_s:.2f} s" if self.cpu_s >= 0.1 else f"{self.cpu_s * 1e3:.0f} ms"
        return f"{cpu} of CPU, {self.mb:,.0f} MB"


def least(runs: list[Used]) -> Used:
    """The minimum of each figure."""
    return Used(
        min(run.wall_s for run in runs), min(run.cpu_s for run in runs), min(run.mb for run in runs)
    )


def used(command: list[str], environment: Mapping[str, str] = ENVIRONMENT) -> Used:
    """The resources of a command, which must succeed."""
    begin = time.perf_counter()
    process = subprocess.Popen(
        command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, env=environment
    )
    _, status, usage = os.wait4(process.pid, 0)
    wall_s = time.perf_counter() - begin
    process.returncode = os.waitstatus_to_exitcode(status)
    if process.returncode:
        raise subprocess.CalledProcessError(process.returncode, command)
    return Used(wall_s, usage.ru_utime + usage.ru_stime, usage.ru_maxrss * 1024 / 1e6)


def by_turns(ours: list[str], peer: list[str], times: int) -> tuple[Used, Used]:
    """The minimum resources of each, with runs of ours and the peer in turns."""
    runs = [(used(ours), used(peer)) for _ in range(times)]
    return least([item for item, _ in runs]), least([other for _, other in runs])


def made_up_recording(path: Path, waits: int, threads: int, *, page_cached: bool = False) -> Path:
    """A recording of this many waits, made by another process to keep its memory out of ours."""
    tests = str(Path(__file__).parents[1] / "tests")
    code = f"import sys; sys.path.insert(0, {tests!r}); import large_recording as large\n"
    code += f"large.write_large_recording({str(path)!r}, {waits}, {threads}, {page_cached})"
    # DuckDB draws its progress on stdout, where the rows of a benchmark go.
    subprocess.run([sys.executable, "-c", code], check=True, stdout=subprocess.DEVNULL)
    return path

"""What a benchmark says: one line, with its peer, the ratio and the aim."""

import subprocess
import sys
import time
from dataclasses import dataclass

SPILLCAST = [sys.executable, "-m", "spillcast"]


@dataclass(frozen=True)
class Result:
    """A figure of ours beside a figure of a peer."""

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
    """Shortest wall time of a command."""
    return min(wall_s(command) for _ in range(times))


def wall_s(command: list[str]) -> float:
    """Wall time of a command, which must succeed."""
    start = time.perf_counter()
    subprocess.run(command, check=True, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    return time.perf_counter() - start

"""Longer waits in short stretches of a run, so that what they change can be measured."""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from spillcast import _core
from spillcast.errors import InputError
from spillcast.recording.target import preload_variable

#: The shorter and the longer delay, and in units of the latency seen where that is more.
DELAYS_NS = (300_000, 1_000_000)
DELAYS_IN_LATENCIES = (1, 3)
DELAY_NS_MAX = 20_000_000
#: Of so many groups of operations one has each delay, at the beginning of a run.
BLOCK_GROUPS = 8
#: What all threads together may be held.
BUDGET_NS = 5_000_000_000
#: Operations from which on their latency is known well enough to choose delays by.
OPERATIONS_MIN = 50


class Perturbation:
    """The delays of one recording: in the environment of the command, then begun, then ended."""

    def __init__(self, temp_dirs: Sequence[Path]) -> None:
        """InputError where a directory cannot be told to the preload library."""
        for path in temp_dirs:
            if ":" in str(path):
                raise InputError(f"--temp {path}: --perturb takes no directory with a colon")
        self._delays = _core.Perturbation([str(path.resolve()) for path in temp_dirs])
        self._began = False

    def environment(self) -> dict[str, str]:
        """What a command needs in its environment to be delayed."""
        return dict([self._delays.environment(), preload_variable()])

    def follow(self, status: Mapping[str, Any]) -> None:
        """Begin once the latency is known; ``status`` is that of the capture."""
        operations = status["temp_reads"] + status["temp_writes"]
        if self._began or operations < OPERATIONS_MIN:
            return
        self._began = True
        latency_ns = status["temp_ns"] / operations
        short_ns, long_ns = (
            min(max(delay_ns, round(times * latency_ns)), DELAY_NS_MAX)
            for delay_ns, times in zip(DELAYS_NS, DELAYS_IN_LATENCIES, strict=True)
        )
        self._delays.start((short_ns, long_ns), BLOCK_GROUPS, BUDGET_NS)

    def stop(self) -> None:
        """End all delays."""
        self._delays.stop()

    def problem(self) -> InputError | None:
        """Why nothing could be delayed, once stopped; None where something was."""
        if self._delays.connected:
            return None
        return InputError(
            "--perturb: the preload library was never loaded: the command is static, set-user-ID "
            "or drops LD_PRELOAD",
            "record it without --perturb",
        )

    def meta(self, origin_ns: int, elapsed_s: float) -> dict[str, Any]:
        """``perturbation`` of meta.json, once stopped; the run took ``elapsed_s`` with it."""
        delayed = self._delays.delayed()
        windows = [
            [(start - origin_ns) / 1e9, (end - origin_ns) / 1e9, delay / 1e9]
            for start, end, delay in self._delays.windows()
        ]
        least_ns, likely_ns, most_ns = self._delays.cost_ns()
        return {
            "elapsed_s": elapsed_s,
            "cost_s": likely_ns / 1e9,
            "cost_bounds_s": [least_ns / 1e9, most_ns / 1e9],
            "threads": self._delays.threads,
            "budget_s": BUDGET_NS / 1e9,
            "delays": [
                {
                    "delay_s": row["delay_ns"] / 1e9,
                    "operations": row["operations"],
                    "slept_s": row["slept_ns"] / 1e9,
                    "cpu_s": row["cpu_ns"] / 1e9,
                }
                for row in delayed
            ],
            "windows_s": windows,
        }

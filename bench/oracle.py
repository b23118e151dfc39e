"""How fast a trace is profiled; the peers are grep and awk, one pass an event, and ``wc -l``."""

import os
import subprocess
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path

from bench.result import SPILLCAST, Result, best_of_s

MEGABYTES = 500
REPEATS = 3
AIM_SHELL = 25
AIM_WC = 4
AIM_PEAK_MB = 200
ROOT = Path(__file__).parents[1]
SHELL = ROOT / "bench" / "seed_profiler.sh"
#: Where a file lies in memory, so that no disk is measured.
MEMORY = Path("/dev/shm")


def run() -> Iterator[Result]:
    """``spillcast profile --json`` on a generated trace, whole processes each."""
    place = MEMORY if os.access(MEMORY, os.W_OK) else None
    with tempfile.TemporaryDirectory(prefix="spillcast-bench-", dir=place) as folder:
        trace = str(Path(folder) / "large.trc")
        _generate(trace)
        ours_s, peak_mb = _best_and_peak([*SPILLCAST, "profile", trace, "--json"])
        shell_s = best_of_s([str(SHELL), trace], REPEATS)
        wc_s = best_of_s(["wc", "-l", trace], REPEATS)
    ours = f"{ours_s:.2f} s, {MEGABYTES / ours_s:.0f} MB/s"
    yield Result(
        f"oracle: profile of a {MEGABYTES} MB trace",
        ours,
        f"{shell_s:.1f} s (grep and awk, a pass an event)",
        shell_s / ours_s,
        f"at least {AIM_SHELL} times as fast",
        shell_s / ours_s >= AIM_SHELL,
    )
    yield Result(
        f"oracle: profile of a {MEGABYTES} MB trace",
        ours,
        f"{wc_s:.2f} s (wc -l)",
        ours_s / wc_s,
        f"at most {AIM_WC} times as long",
        ours_s / wc_s <= AIM_WC,
    )
    yield Result(
        f"oracle: peak memory while profiling {MEGABYTES} MB",
        f"{peak_mb:.0f} MB",
        f"{MEGABYTES} MB (the trace)",
        peak_mb / MEGABYTES,
        f"at most {AIM_PEAK_MB} MB",
        peak_mb <= AIM_PEAK_MB,
    )


def _generate(path: str) -> None:
    """Mostly reads and writes of temporary segments, the same on every run."""
    build = ["cargo", "run", "--release", "--locked", "--quiet", "-p", "spillcast-core"]
    example = ["--example", "oracle_generate", "--", str(MEGABYTES), "1", path]
    subprocess.run([*build, *example], check=True, cwd=ROOT)


def _best_and_peak(command: list[str]) -> tuple[float, float]:
    """Shortest wall time (s) of a command, and its largest resident memory (MB)."""
    best_s, peak_bytes = float("inf"), 0
    for _ in range(REPEATS):
        start = time.perf_counter()
        child = subprocess.Popen(command, stdout=subprocess.DEVNULL)
        _, status, usage = os.wait4(child.pid, 0)
        best_s = min(best_s, time.perf_counter() - start)
        child.returncode = os.waitstatus_to_exitcode(status)
        if child.returncode:
            raise subprocess.CalledProcessError(child.returncode, command)
        peak_bytes = max(peak_bytes, usage.ru_maxrss * 1024)
    return best_s, peak_bytes / 1e6

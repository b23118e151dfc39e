"""Recordings of up to 100 million waits: CPU time and memory of forecast, profile and report."""

import os
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path

from bench.result import SPILLCAST, Result

WAITS, MORE_WAITS = 10_000_000, 100_000_000
THREADS = (1, 2, 16)
#: Seconds of CPU, and MB, that each may take.
FORECAST_AIMS = {1: (2.0, 600), 2: (6.0, 600), 16: (6.0, 600)}
PROFILE_AIM, REPORT_AIM, MORE_AIM = (1.5, 600), (10.0, 1000), (60.0, 1000)
TO = ("--to", "latency:150us")
#: The peer: DuckDB groups the same file.
_GROUPS = """
import duckdb
duckdb.sql("select event, op, temp, session, count(*), sum(elapsed_ns), sum(bytes), max(elapsed_ns)
from read_parquet('{}/waits.parquet') group by all").fetchall()
"""


def run() -> Iterator[Result]:
    """10 million waits of 1, 2 and 16 threads; 100 million of two where SPILLCAST_MORE is set."""
    with tempfile.TemporaryDirectory(prefix="spillcast-bench-") as folder:
        for threads in THREADS:
            recording = _made(Path(folder), WAITS, threads)
            noun = "thread" if threads == 1 else "threads"
            name = f"forecast of {WAITS:,} waits of {threads} {noun}"
            yield _row(name, ["forecast", str(recording), *TO], recording, FORECAST_AIMS[threads])
            if threads != 2:
                continue
            yield _row(f"profile of {WAITS:,} waits", ["profile", str(recording)], recording,
                       PROFILE_AIM)  # fmt: skip
            page = ["report", str(recording), *TO, "-o", f"{folder}/report.html"]
            yield _row(f"report --to of {WAITS:,} waits", page, recording, REPORT_AIM)
        if os.environ.get("SPILLCAST_MORE"):
            recording = _made(Path(folder), MORE_WAITS, 2)
            forecast = ["forecast", str(recording), *TO]
            yield _row(f"forecast of {MORE_WAITS:,} waits", forecast, recording, MORE_AIM)


def _made(folder: Path, waits: int, threads: int) -> Path:
    """A recording; made in another process, whose memory must not count as ours."""
    path = folder / f"{waits}-{threads}.spill"
    tests = str(Path(__file__).parents[1] / "tests")
    code = f"import sys; sys.path.insert(0, {tests!r}); import large_recording as large\n"
    code += f"large.write_large_recording({str(path)!r}, {waits}, {threads})"
    subprocess.run([sys.executable, "-c", code], check=True)
    return path


def _row(name: str, verb: list[str], recording: Path, aim: tuple[float, int]) -> Result:
    """Ours and the peer by turns, each the less of two; met where both CPU time and memory are."""
    peer = [sys.executable, "-c", _GROUPS.format(recording)]
    runs = [(_used([*SPILLCAST, *verb]), _used(peer)) for _ in range(2)]
    (ours_s, ours_mb), (peer_s, peer_mb) = map(_least, zip(*runs, strict=True))
    aim_s, aim_mb = aim
    return Result(
        f"large: {name}",
        f"{ours_s:.2f} s of CPU, {ours_mb:,.0f} MB",
        f"DuckDB groups the same file: {peer_s:.2f} s of CPU, {peer_mb:,.0f} MB",
        ours_s / peer_s,
        f"at most {aim_s:g} s and {aim_mb:,} MB",
        ours_s <= aim_s and ours_mb <= aim_mb,
    )


def _least(runs: tuple[tuple[float, float], ...]) -> tuple[float, float]:
    return min(cpu_s for cpu_s, _ in runs), min(mb for _, mb in runs)


def _used(command: list[str]) -> tuple[float, float]:
    """CPU time (s) and most memory (MB) of a command, which must succeed."""
    process = subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    _, status, usage = os.wait4(process.pid, 0)
    process.returncode = os.waitstatus_to_exitcode(status)
    assert process.returncode == 0, command
    return usage.ru_utime + usage.ru_stime, usage.ru_maxrss / 1e3

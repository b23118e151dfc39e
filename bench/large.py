"""Recordings of up to 100 million waits: CPU time and memory of forecast, profile and report."""

import os
import shutil
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path

from bench.result import SPILLCAST, Result, by_turns, made_up_recording

WAITS, MORE_WAITS = 10_000_000, 100_000_000
THREADS = (1, 2, 16)
#: Limits of CPU seconds and MB for each.
FORECAST_AIMS = {1: (2.0, 600), 2: (6.0, 600), 16: (6.0, 600)}
PROFILE_AIM, REPORT_AIM, MORE_AIM = (1.5, 600), (10.0, 1000), (60.0, 1000)
TO, TO_A_DISK = ("--to", "latency:150us"), ("--to", "catalogue:linux-hdd")
#: The peer: DuckDB groups the same file.
_GROUPS = '''
import duckdb
duckdb.sql("""
select event, op, temp, session, count(*), sum(elapsed_ns), sum(bytes), max(elapsed_ns)
from read_parquet('{}/waits.parquet') group by all
""").fetchall()
'''


def run() -> Iterator[Result]:
    """10 million waits of 1, 2 and 16 threads, on disks and through a page cache.

    100 million of two threads if SPILLCAST_MORE is set.
    """
    with tempfile.TemporaryDirectory(prefix="spillcast-bench-") as folder:
        for threads in THREADS:
            yield from _of_threads(Path(folder), threads)
        if os.environ.get("SPILLCAST_MORE"):
            recording = made_up_recording(Path(folder) / "more.spill", MORE_WAITS, 2)
            forecast = ["forecast", str(recording), *TO]
            yield row(f"large: forecast of {MORE_WAITS:,} waits", forecast, recording, MORE_AIM)


def _of_threads(folder: Path, threads: int) -> Iterator[Result]:
    noun = "thread" if threads == 1 else "threads"
    name = f"{WAITS:,} waits of {threads} {noun}"
    recording = made_up_recording(folder / f"{threads}.spill", WAITS, threads)
    forecast = ["forecast", str(recording), *TO]
    yield row(f"large: forecast of {name}", forecast, recording, FORECAST_AIMS[threads])
    if threads == 2:
        profile = ["profile", str(recording)]
        yield row(f"large: profile of {WAITS:,} waits", profile, recording, PROFILE_AIM)
        page = ["report", str(recording), *TO, "-o", f"{folder}/report.html"]
        yield row(f"large: report --to of {WAITS:,} waits", page, recording, REPORT_AIM)
        return
    shutil.rmtree(recording)
    cached = made_up_recording(folder / "cached.spill", WAITS, threads, page_cached=True)
    forecast = ["forecast", str(cached), *TO_A_DISK]
    about = f"large: forecast of {name} through a page cache, for a disk"
    yield row(about, forecast, cached, FORECAST_AIMS[threads])
    shutil.rmtree(cached)


def row(
    name: str, verb: list[str], recording: Path, aim: tuple[float, int], times: int = 2
) -> Result:
    """Ours and the peer in turns, the minimum of two runs each; met if CPU time and memory are."""
    peer = [sys.executable, "-c", _GROUPS.format(recording)]
    ours, other = by_turns([*SPILLCAST, *verb], peer, times)
    aim_s, aim_mb = aim
    return Result(
        name,
        str(ours),
        f"{other}, DuckDB groups the same file",
        ours.cpu_s / other.cpu_s,
        f"at most {aim_s:g} s and {aim_mb:,} MB",
        ours.cpu_s <= aim_s and ours.mb <= aim_mb,
    )

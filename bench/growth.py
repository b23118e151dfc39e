"""How cost grows with waits, with threads, and with the size of a trace."""

import shutil
import tempfile
from collections.abc import Iterator
from pathlib import Path

from bench.large import FORECAST_AIMS, MORE_AIM, TO, row
from bench.oracle import generate
from bench.result import SPILLCAST, Result, by_turns, made_up_recording

WAITS = (10_000, 100_000, 1_000_000, 10_000_000, 100_000_000)
THREADS, THREADS_WAITS = (1, 2, 4, 8, 16, 32, 64), 2_000_000
MEGABYTES = (50, 500, 5_000)
#: The limits for a trace: time as a multiple of ``wc -l``, and memory.
AIM_WC, AIM_TRACE_MB = 3, 100


def waits() -> Iterator[Result]:
    """Forecasts of recordings of two threads."""
    for count in WAITS:
        aim = MORE_AIM if count > 10_000_000 else FORECAST_AIMS[2]
        yield _forecast(f"{count:,} waits", count, 2, aim)


def threads() -> Iterator[Result]:
    """Forecasts of 2 million waits."""
    for count in THREADS:
        noun = "thread" if count == 1 else "threads"
        yield _forecast(f"{count} {noun}", THREADS_WAITS, count, FORECAST_AIMS[16])


def traces() -> Iterator[Result]:
    """Profiles of traces by event."""
    for megabytes in MEGABYTES:
        with tempfile.TemporaryDirectory(prefix="spillcast-bench-") as folder:
            trace = f"{folder}/large.trc"
            generate(trace, megabytes)
            profile = [*SPILLCAST, "profile", trace, "--json"]
            ours, peer = by_turns(profile, ["wc", "-l", trace], 2 if megabytes > 1000 else 4)
        ratio = ours.wall_s / peer.wall_s
        yield Result(
            f"{megabytes:,} MB of trace",
            f"{ours.wall_s:.2f} s, {ours}",
            f"{peer.wall_s:.2f} s, {peer}, wc -l",
            ratio,
            f"at most {AIM_WC} times as long, {AIM_TRACE_MB} MB",
            ratio <= AIM_WC and ours.mb <= AIM_TRACE_MB,
        )


def run() -> Iterator[Result]:
    """All of them."""
    yield from waits()
    yield from threads()
    yield from traces()


def _forecast(name: str, count: int, of_threads: int, aim: tuple[float, int]) -> Result:
    with tempfile.TemporaryDirectory(prefix="spillcast-bench-") as folder:
        recording = made_up_recording(Path(folder) / "run.spill", count, of_threads)
        result = row(name, ["forecast", str(recording), *TO], recording, aim)
        shutil.rmtree(recording)
        return result

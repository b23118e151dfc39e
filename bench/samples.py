"""Forecasts of large recordings from a sample against those from all waits."""

import json
import random
import sys
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager, nullcontext
from math import log
from pathlib import Path
from unittest.mock import patch

from bench.result import Result
from spillcast.stats import NORMAL_95

#: Recordings that nothing was tuned on, to disks and through a page cache; waits of each.
SEEDS, CACHED_SEEDS, WAITS = range(100, 120), range(4100, 4120), 1_500_000
#: Through a page cache all waits take minutes, so there are fewer, with an equally small share.
CACHED_WAITS, CACHED_ROWS, CACHED_OPERATIONS = 300_000, 64_000, 60_000
TARGETS = ("latency:20us", "latency:400us", "latency:5ms")
#: If a page cache answers: its latency, and storages behind another one.
CACHED_US, DISKS = 3.0, ("catalogue:aws-gp3", "catalogue:linux-hdd")
#: A standard error is stated; nine in ten must lie within NORMAL_95 of them.
AIM = 0.9


def run() -> Iterator[Result]:
    """A line each for disks and page caches: how many held, the error, how many used all waits."""
    sys.path.insert(0, str(Path(__file__).parents[1] / "tests"))
    for cached in (False, True):
        yield _held(cached)


def _held(cached: bool) -> Result:
    held, off, stated, whole = 0, list[float](), list[float](), 0
    waits, seeds = (CACHED_WAITS, CACHED_SEEDS) if cached else (WAITS, SEEDS)
    with (
        _smaller() if cached else nullcontext(),
        tempfile.TemporaryDirectory(prefix="spillcast-bench-") as folder,
    ):
        for seed in seeds:
            path = Path(folder) / f"{seed}.spill"
            for sampled_s, error, exact_s in _forecasts(path, seed, cached):
                if error is None:
                    whole += 1
                    continue
                off.append(abs(log(sampled_s / exact_s)))
                stated.append(error)
                held += off[-1] <= NORMAL_95 * error + 1e-9
    share = held / max(len(off), 1)
    where = f"{len(DISKS)} disks, through a page cache" if cached else f"{len(TARGETS)} storages"
    return Result(
        f"samples: {len(seeds)} recordings of {waits:,} waits on {where}",
        f"{held} of {len(off)} within the stated error, {whole} taken whole; off by "
        f"{_middle(off):.2%} in the median, {max(off, default=0.0):.2%} at most",
        f"stated: {_middle(stated):.2%} in the median, {max(stated, default=0.0):.2%} at most",
        share,
        f"at least {AIM}",
        share >= AIM,
    )


@contextmanager
def _smaller() -> Iterator[None]:
    """Makes smaller recordings count as large."""
    from spillcast.recording import derived

    with (
        patch.object(derived, "WHOLE_ROWS", CACHED_WAITS // 3),
        patch.object(derived, "SAMPLE_ROWS", CACHED_ROWS),
        patch.object(derived, "OPERATIONS", CACHED_OPERATIONS),
    ):
        yield


def _forecasts(path: Path, seed: int, cached: bool) -> Iterator[tuple[float, float | None, float]]:
    """From a sample, with its error, and from all waits; no error if all were used."""
    from spillcast.forecast.ask import ask
    from spillcast.forecast.question import Question
    from varied_recording import write_varied_recording

    waits, wait_us = (CACHED_WAITS, CACHED_US) if cached else (WAITS, None)
    write_varied_recording(path, waits, seed, wait_us=wait_us)
    targets = DISKS if cached else TARGETS
    if cached:
        # Memory for none to all of what the threads wrote.
        meta = json.loads((path / "meta.json").read_text())
        room = random.Random(seed).uniform(0, 0.6) * meta["temp"]["bytes"]
        meta["machine"]["memory_available_bytes"] = int(room)
        (path / "meta.json").write_text(json.dumps(meta))
    ours, exact = ask([path], targets), ask([path], targets, Question(exact=True))
    for (answer, _), (known, _) in zip(ours, exact, strict=True):
        # The evidence of some is insufficient, with a sample and without.
        if answer.forecast_s is None or known.forecast_s is None:
            continue
        error = None if answer.sampled is None else answer.sampled.error
        yield answer.forecast_s, error, known.forecast_s
    for file in path.iterdir():
        file.unlink()


def _middle(values: list[float]) -> float:
    return sorted(values)[len(values) // 2] if values else 0.0

"""Forecasts of large recordings from a sample beside those from all waits."""

import sys
import tempfile
from collections.abc import Iterator
from math import log
from pathlib import Path

from bench.result import Result

#: Recordings that nothing was chosen by, and waits of each.
SEEDS, WAITS = range(100, 120), 1_500_000
TARGETS = ("latency:20us", "latency:400us", "latency:5ms")
#: What is stated is a standard error; nine in ten are to lie within so many.
NINE_IN_TEN, AIM = 1.645, 0.9


def run() -> Iterator[Result]:
    """One line for all: how many held, how far off they were, and how many were taken whole."""
    sys.path.insert(0, str(Path(__file__).parents[1] / "tests"))
    held, off, stated, whole = 0, list[float](), list[float](), 0
    with tempfile.TemporaryDirectory(prefix="spillcast-bench-") as folder:
        for seed in SEEDS:
            for sampled_s, error, exact_s in _forecasts(Path(folder) / f"{seed}.spill", seed):
                if error is None:
                    whole += 1
                    continue
                off.append(abs(log(sampled_s / exact_s)))
                stated.append(error)
                held += off[-1] <= NINE_IN_TEN * error + 1e-9
    share = held / max(len(off), 1)
    yield Result(
        f"samples: {len(SEEDS)} recordings of {WAITS:,} waits on {len(TARGETS)} storages",
        f"{held} of {len(off)} within the stated error, {whole} taken whole; off by "
        f"{_middle(off):.2%} in the median, {max(off, default=0.0):.2%} at most",
        f"stated: {_middle(stated):.2%} in the median, {max(stated, default=0.0):.2%} at most",
        share,
        f"at least {AIM}",
        share >= AIM,
    )


def _forecasts(path: Path, seed: int) -> Iterator[tuple[float, float | None, float]]:
    """From a sample, with its error, and from all waits; no error where all were taken."""
    from spillcast.forecast.ask import ask
    from spillcast.forecast.question import Question
    from varied_recording import write_varied_recording

    write_varied_recording(path, WAITS, seed)
    ours, exact = ask([path], TARGETS), ask([path], TARGETS, Question(exact=True))
    for (said, _), (known, _) in zip(ours, exact, strict=True):
        assert said.forecast_s is not None, (seed, said.refused)
        assert known.forecast_s is not None, (seed, known.refused)
        yield said.forecast_s, said.sampled and said.sampled.error, known.forecast_s
    for file in path.iterdir():
        file.unlink()


def _middle(values: list[float]) -> float:
    return sorted(values)[len(values) // 2] if values else 0.0

"""Forecasts from a part of a query against the whole of it, which was recorded too.

A tenth of each run, started at random in its first 80 %, and its first fifth, are forecast for the
storage of the run: the truth is the run's own time. A tenth is also forecast for fast storage, with
the forecast from the whole recording as the truth. The peer assumes the time of the previous run.
"""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from random import Random
from statistics import median

import numpy as np

from bench.part_cases import Whole, wholes
from bench.result import Result
from spillcast.errors import SpillcastError
from spillcast.forecast import Forecast, forecast
from spillcast.forecast.remaining import RemainingWorkHints, hints_of
from spillcast.recording import Recording
from spillcast.storage import Storage
from spillcast.storage.observed import assumed_latency, observed
from spillcast.workspace import workspace
from spillcast_lab.partial_runs import attached

SEED, WINDOWS, SHARE, LATEST = 66155, 4, 0.1, 0.8
#: The latency of fast storage, where the forecast from the whole recording is the truth.
FAST_S = 20e-6
#: Sources that are left out one at a time.
SOURCES = ("spill", "input", "plan", "history")


@dataclass(frozen=True)
class Kind:
    """A way to see a part, and its targets: refused, median, 90th percentile, half-width."""

    name: str
    known: Callable[[Whole], list[Path]]
    aims: tuple[float, float, float, float]
    fifth: bool = False
    #: For storage of this latency; with the elapsed time of the whole given.
    fast_s: float | None = None
    timed: bool = False


def _plan(whole: Whole) -> list[Path]:
    return [] if whole.plan is None else [whole.plan]


def _former(whole: Whole) -> list[Path]:
    return [*_plan(whole), whole.former]


KINDS = (
    Kind("a tenth", _plan, (0.15, 0.12, 0.30, 0.30)),
    Kind("a tenth, with a previous run", _former, (0.15, 0.07, 0.18, 0.30)),
    Kind("the first fifth", _plan, (0.15, 0.15, 0.50, 0.50), fifth=True),
    Kind("a tenth, for 20 us", _plan, (0.15, 0.12, 0.30, 0.30), fast_s=FAST_S),
    Kind(
        "a tenth, for 20 us, --elapsed", _plan, (0.15, 0.12, 0.30, 0.30), fast_s=FAST_S, timed=True
    ),
)


@dataclass(frozen=True)
class Judged:
    """A forecast over the truth: error and ends of its interval; None if it was refused."""

    error: float | None
    low: float = 0.0
    high: float = 0.0

    @property
    def held(self) -> bool:
        """Whether the interval contains the truth."""
        return self.low <= 1 <= self.high


def run() -> Iterator[Result]:
    """Makes all recordings first, and then draws parts of them by the seed."""
    with workspace(None) as room:
        made = list(wholes(room, SEED))
        yield from results(made, SEED)


def results(made: Sequence[Whole], seed: int) -> Iterator[Result]:
    """Each kind, and then without each of the sources."""
    peer = _former_off(made)
    for kind in KINDS:
        yield _result(kind.name, kind, judged(made, kind, seed), peer)
    for source in SOURCES:
        kind = KINDS[1] if source == "history" else KINDS[0]
        yield _result(
            f"{kind.name}, without {source}", kind, judged(made, kind, seed, (source,)), peer
        )


def judged(
    made: Sequence[Whole], kind: Kind, seed: int, without: Sequence[str] = ()
) -> list[Judged]:
    """The parts that contain temp I/O."""
    matches = []
    for whole in made:
        recording = Recording.open(whole.run)
        target, took_s = _truth(recording, kind)
        if took_s is None:
            continue
        chance = Random(f"{seed} {whole.run.name}")
        for _ in range(1 if kind.fifth else WINDOWS):
            begin = 0.0 if kind.fifth else chance.uniform(0, LATEST)
            share = 2 * SHARE if kind.fifth else SHARE
            known = replace(hints_of(kind.known(whole)), without=without)
            whole_s = recording.elapsed_s
            part = attached(recording, begin * whole_s, (begin + share) * whole_s)
            if part.temp_waits.num_rows:
                given_s = whole_s if kind.timed else None
                matches.append(judge(part, target, took_s, known, given_s))
    return matches


def _truth(recording: Recording, kind: Kind) -> tuple[Storage, float | None]:
    """The target, and the query's time there."""
    private = observed(recording)
    if kind.fast_s is None:
        return private, recording.elapsed_s
    fast = assumed_latency(private, kind.fast_s, kind.name)
    return fast, forecast(recording, fast).forecast_s


def judge(
    part: Recording,
    target: Storage,
    took_s: float,
    known: RemainingWorkHints,
    elapsed_s: float | None = None,
) -> Judged:
    """The forecast of the whole from a part, over the true time."""
    try:
        answer: Forecast = forecast(part, target, known=known, elapsed_s=elapsed_s)
    except SpillcastError:
        return Judged(None)
    if answer.forecast_s is None or answer.interval_s is None or answer.part is not None:
        return Judged(None)
    low_s, high_s = answer.interval_s
    return Judged(answer.forecast_s / took_s - 1, low_s / took_s, high_s / took_s)


def summary(result: Sequence[Judged]) -> tuple[list[Judged], list[float], float]:
    """The answered forecasts, their errors, and the half-width of their intervals."""
    given = [item for item in result if item.error is not None]
    errors = [abs(item.error) for item in given if item.error is not None] or [float("inf")]
    half = median([(item.high - item.low) / 2 for item in given] or [float("inf")])
    return given, errors, half


def _former_off(made: Sequence[Whole]) -> float:
    """The error of the previous run of each, by time alone."""
    pairs = ((Recording.open(item.run), Recording.open(item.former)) for item in made)
    return median(abs(former.elapsed_s / run.elapsed_s - 1) for run, former in pairs)


def _result(name: str, kind: Kind, result: Sequence[Judged], peer: float) -> Result:
    refused_most, median_most, most, wide = kind.aims
    given, errors, half = summary(result)
    refused = 1 - len(given) / max(len(result), 1)
    middle, ninth = median(errors), float(np.quantile(errors, 0.9))
    held = sum(item.held for item in given) / max(len(given), 1)
    reported = f"refused {refused:.0%}, median {middle:.1%}, 90th {ninth:.1%}, held {held:.0%}"
    met = refused <= refused_most and middle <= median_most and ninth <= most and half <= wide
    return Result(
        f"part: {name}, {len(result)} parts",
        f"{reported}, half-width {half:.0%}",
        f"median {peer:.1%}, the time that a previous run on the same storage took",
        middle / peer if peer else float("inf"),
        f"refused {refused_most:.0%}, median {median_most:.0%}, 90th {most:.0%}, half {wide:.0%}",
        met,
    )

"""How sure a forecast is: what varies is drawn again and again, and the spread is read off."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from math import exp, hypot, log

import numpy as np
from numpy.typing import NDArray

from spillcast.forecast.threads.overlap import Overlap
from spillcast.storage import Storage

Array = NDArray[np.float64]

DRAWS = 4000
#: What is drawn is narrower than what was seen: the factor of the logarithm of bound over forecast
#: with which nine in ten of the verified forecasts were held (docs/accuracy.md).
WIDENED = 2.0
#: The same where reading is yet to come.
WIDENED_UNREAD = 5.5
#: Spread (standard deviation) of the time outside temp I/O when the same run is repeated.
RUN_NOISE = 0.05
#: Spread of the engine's own latency on a storage, from one run to another.
LATENCY_NOISE = 0.05
#: Spread of the whole where a plan is all there is.
PLAN_NOISE = 0.06
#: Spread between the latency of a replay and of the engine on the same storage.
REPLAY_NOISE = 0.03
#: The same where the storage was measured with other I/O than the engine's.
GRID_NOISE = 0.10
#: The same for a storage that somebody asked for: nothing was measured.
ASKED_NOISE = 0.15


@dataclass(frozen=True)
class Measured:
    """Seconds of one term here and on the target, and the measured blocks behind the latter.

    ``error`` is the relative standard error of a latency that lies between measured ones.
    """

    op: str
    recorded_s: float
    forecast_s: float
    blocks: Array
    error: float = 0.0


def interval(
    remainder_s: float,
    terms: Sequence[Measured],
    *,
    drift_s: float,
    delay_s: float,
    noise: float,
    overlap: float,
    confidence: float,
    part: Callable[[np.random.Generator], Mapping[str, Array] | None] = lambda _draws: None,
) -> tuple[float, float]:
    """Bounds that hold the elapsed time with probability ``confidence``.

    ``remainder_s`` is the time outside temp I/O as recorded. ``drift_s`` is the most that it moves
    by because caches go less or more cold over there: anything from nothing to it is as likely.
    ``delay_s`` is the part of the remainder in which the run stood ready without a CPU; it may be
    gone over there or not. ``noise`` is the spread of the logarithm of all latencies together,
    ``overlap`` that of the whole. ``part`` draws, where a part of the query was recorded,
    how much of each op the whole does, over what was seen.
    """
    draws = np.random.default_rng(0)
    total = remainder_s * (1 + draws.normal(0, RUN_NOISE, DRAWS))
    total -= delay_s * draws.uniform(0, 1, DRAWS)
    total += drift_s * draws.uniform(0, 1, DRAWS)
    io = np.zeros(DRAWS)
    more = part(draws)
    for term in terms:
        off = np.exp(draws.normal(0, term.error, DRAWS)) if term.error else 1.0
        factor = more[term.op] if more else 1.0
        total += term.recorded_s * (1 - factor)
        io += term.forecast_s * factor * resampled_means(term.blocks, draws) * off
    total = np.maximum(total, 0.0) + io * np.exp(draws.normal(0, noise, DRAWS))
    total *= np.exp(draws.normal(0, overlap, DRAWS))
    tail = (1 - confidence) / 2
    low, high = np.quantile(total, [tail, 1 - tail])
    return float(low), float(high)


def resampled_means(blocks: Array, draws: np.random.Generator) -> Array:
    """Block bootstrap: means of the measurement put together anew from its stretches, over its own.

    Latencies next to each other are alike, so whole stretches are drawn, not single operations.
    """
    count, mean_s = blocks[:, 0], blocks[:, 1]
    whole = float((count * mean_s).sum() / count.sum())
    if len(blocks) < 2 or whole == 0:
        return np.ones(DRAWS)
    picks = draws.integers(0, len(blocks), (DRAWS, len(blocks)))
    means = (count[picks] * mean_s[picks]).sum(axis=1) / count[picks].sum(axis=1)
    return np.asarray(means / whole)


def noise_of(storage: Storage) -> float:
    """How far all latencies of a storage may be off together, by what is known of it."""
    if storage.source == "catalogue":
        # Nine in ten lie within the spread.
        return float(np.log(storage.facts["spread"]) / 1.645)
    known = {"probe": REPLAY_NOISE, "grid": GRID_NOISE, "asked": ASKED_NOISE}
    return known.get(storage.source, LATENCY_NOISE)


def widened(
    bounds: tuple[float, float], forecast_s: float, by: float = WIDENED
) -> tuple[float, float]:
    """The bounds about a forecast as far apart as experience with its kind of evidence says."""
    low_s, high_s = min(bounds[0], forecast_s), max(bounds[1], forecast_s)
    if min(low_s, forecast_s) <= 0:
        return low_s, high_s
    low, high = (forecast_s * (bound_s / forecast_s) ** by for bound_s in (low_s, high_s))
    return low, high


def joined(
    one: tuple[float, float], other: tuple[float, float], forecast_s: float
) -> tuple[float, float]:
    """Bounds of two causes that have nothing to do with each other: logarithms add as squares."""
    low_s, high_s = min(*one, *other, forecast_s), max(*one, *other, forecast_s)
    if low_s <= 0:
        return low_s, high_s
    below = hypot(*(log(min(low / forecast_s, 1.0)) for low, _ in (one, other)))
    above = hypot(*(log(max(high / forecast_s, 1.0)) for _, high in (one, other)))
    return forecast_s * exp(-below), forecast_s * exp(above)


def overlap_noise(overlap: Overlap) -> float:
    """How far the elapsed time may be off because threads overlap: it rests on who waits for whom.

    A spread of the logarithm: a quarter of the way between the two models of it.
    """
    return abs(float(np.log(overlap.moving_s / overlap.fixed_s))) / 4

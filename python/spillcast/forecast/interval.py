"""Intervals of forecasts, from the errors of their inputs and of verified forecasts."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from math import exp, hypot, inf, log
from statistics import NormalDist

import numpy as np

from spillcast.calibrated import Residuals, calibrated
from spillcast.columns import Floats
from spillcast.errors import IntervalTooWide
from spillcast.stats import NORMAL_95, resampled_means
from spillcast.units import format_duration

#: Largest ratio of the ends of a useful interval, unless all of it is below today's time.
ENDS_RATIO_MAX = 10.0

DRAWS = 4000
#: Least drawn total as a share of the forecast, and the share below which a lower bound is 0.
SHARE_MIN, NO_BOUND = 1e-9, 1e-3


@dataclass(frozen=True)
class MeasuredTerm:
    """Seconds of a term today and on the target, and the measured blocks behind the target's time.

    ``error`` is the relative standard error of an interpolated latency. ``count`` is the number of
    operations, whose times differ from run to run; None if they are too many to matter.
    """

    op: str
    recorded_s: float
    forecast_s: float
    blocks: Floats
    error: float = 0.0
    count: int | None = None


@dataclass(frozen=True)
class Uncertainty:
    """A forecast of an elapsed time, and the spreads behind its interval of any confidence."""

    forecast_s: float
    #: One of ``workload.KINDS``, and a direction such as ``slow to fast``.
    kind: str
    direction: str
    #: Share of the forecast that is not temp I/O.
    rest_share: float
    #: Standard deviations of the logarithm from the errors of the inputs, below and above.
    below: float
    above: float
    #: Share of the errors of verified forecasts that applies. A rehearsal makes it smaller.
    residual_share: float = 1.0
    #: Upper limit of the elapsed time, such as today's time if no call gets slower.
    max_s: float = inf
    #: Lower limit of the elapsed time, such as that in which a stated throughput moves the bytes.
    min_s: float = 0.0

    @classmethod
    def of(
        cls, forecast_s: float, rest_s: float, drawn_s: Floats, kind: str, direction: str
    ) -> "Uncertainty":
        """The uncertainty from draws of the elapsed time; ``rest_s`` is not temp I/O."""
        if forecast_s <= 0:
            return cls(forecast_s, kind, direction, 1.0, 0.0, 0.0)
        low, high = np.quantile(drawn_s, [0.05, 0.95]) / forecast_s
        below, above = -log(min(max(low, SHARE_MIN), 1.0)), log(max(high, 1.0))
        share = min(max(rest_s / forecast_s, 0.0), 1.0)
        return cls(forecast_s, kind, direction, share, below / NORMAL_95, above / NORMAL_95)

    def spreads(self, residuals: Residuals) -> tuple[float, float]:
        """Standard deviations of the logarithm below and above, verified errors included."""
        factor = self.residual_share * residuals.category(self.kind, self.direction).factor
        rest = factor * residuals.rest_spread * self.rest_share
        io = factor * residuals.io_spread * (1 - self.rest_share)
        return hypot(rest, io, self.below), hypot(rest, io, self.above)

    def bounds_s(
        self, confidence: float, residuals: Residuals | None = None
    ) -> tuple[float, float]:
        """Bounds (s) that contain the elapsed time with probability ``confidence``.

        They are as many spreads from the forecast as that share of verified errors did not exceed.
        """
        residuals = residuals or calibrated().residuals
        category = residuals.category(self.kind, self.direction)
        normal = NormalDist().inv_cdf((1 + confidence) / 2)
        times = category.quantile(confidence, residuals.levels)
        times = normal + self.residual_share * (times - normal)
        below, above = self.spreads(residuals)
        least = exp(-times * below)
        low_s = self.forecast_s * least if least > NO_BOUND else 0.0
        low_s = max(low_s, min(self.min_s, self.forecast_s))
        return low_s, min(self.forecast_s * exp(times * above), self.max_s)

    def interval_s(self, confidence: float, max_lower_s: float = inf) -> tuple[float, float]:
        """Bounds (s) on both sides of the forecast; the lower one is at most ``max_lower_s``."""
        low_s, high_s = self.bounds_s(confidence)
        return min(low_s, self.forecast_s, max_lower_s), max(high_s, self.forecast_s)


def drawn_totals(
    rest_s: Floats,
    terms: Sequence[MeasuredTerm],
    draws: np.random.Generator,
    *,
    noise: float,
    factors: Mapping[str, Floats] | None = None,
    whole_known: bool = True,
) -> Floats:
    """Draws of the elapsed time (s).

    ``rest_s`` are draws of the time outside temp I/O. ``noise`` is the standard deviation of the
    logarithm of all latencies together. ``factors`` are draws of the I/O of the entire query over
    the recorded I/O, by op; with ``whole_known`` the elapsed time is known, so that more I/O leaves
    less time for the rest.
    """
    io_s = np.zeros(DRAWS)
    for term in terms:
        error = hypot(term.error, _sampling_error(term.blocks, term.count))
        off = np.exp(draws.normal(0, error, DRAWS))
        factor = factors[term.op] if factors else 1.0
        if whole_known:
            rest_s = rest_s + term.recorded_s * (1 - factor)
        io_s += term.forecast_s * factor * resampled_means(term.blocks, draws, DRAWS) * off
    total: Floats = np.maximum(rest_s, 0.0) + io_s * np.exp(draws.normal(0, noise, DRAWS))
    return total


def _sampling_error(blocks: Floats, count: int | None) -> float:
    """Standard deviation of the logarithm of the mean of ``count`` operations."""
    if (
        count is None
        or len(blocks) < 2
        or not (whole := np.average(blocks[:, 1], weights=blocks[:, 0]))
    ):
        return 0.0
    relative = blocks[:, 1].std() / whole * np.sqrt(blocks[:, 0].mean() / max(count, 1))
    return float(np.sqrt(np.log1p(relative**2)))


def direction(recorded_s: float, target_s: float, mean_bytes: float) -> str:
    """The direction, such as ``slow to fast``, from mean latencies; fast is as fast as memory."""
    in_memory_s = calibrated().in_memory_s(mean_bytes)
    return " to ".join("fast" if s <= in_memory_s else "slow" for s in (recorded_s, target_s))


def around(intervals: Sequence[tuple[float, float]], max_s: float = inf) -> tuple[float, float]:
    """The interval (s) that contains all ``intervals``, cut at ``max_s``."""
    low_s, high_s = min(low for low, _ in intervals), max(high for _, high in intervals)
    return min(low_s, max_s), min(high_s, max_s)


def too_wide(low_s: float, high_s: float, now_s: float = 0.0) -> IntervalTooWide | None:
    """The refusal of a wide interval; None if it is narrow, or below today's ``now_s``."""
    if high_s <= ENDS_RATIO_MAX * low_s or high_s < now_s:
        return None
    low, high = format_duration(low_s), format_duration(high_s)
    return IntervalTooWide(f"the evidence shows only that it takes between {low} and {high}")

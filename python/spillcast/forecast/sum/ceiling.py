"""The ceiling: the query on storage whose temp operations take no time, which none can beat."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from math import hypot, inf, log

import numpy as np
from numpy.typing import NDArray

from spillcast.forecast.assumptions import COMPRESSING_SPREAD, MODELS_APART
from spillcast.forecast.cpu import counts, cpu_change
from spillcast.forecast.latency import Latency
from spillcast.forecast.load import Load
from spillcast.forecast.sum.baseline import Baseline
from spillcast.forecast.sum.coverage import KINDS, kind_of_evidence, part_factors
from spillcast.forecast.sum.interval import (
    DRAWS,
    Measured,
    Uncertainty,
    direction,
    drawn_totals,
)
from spillcast.forecast.sum.sampling import sampled_of
from spillcast.recording.event_names import OPS

#: What is known of operations that take no time.
AT_ONCE = Latency(0.0, np.array([[1.0, 0.0]]), 0.0, measured=True, extrapolated=False)

#: Of a query that was seen in part, the time outside temp I/O is never less than this share of what
#: it is taken to be.
REST_LEAST = 0.05


@dataclass(frozen=True)
class Ceiling:
    """Elapsed time where no temp operation takes any, and how sure that is."""

    about_s: float
    uncertainty: Uncertainty

    def interval_s(self, confidence: float, likely_s: float = inf) -> tuple[float, float]:
        """Bounds that hold it; no storage is likely to bring the query under the lower one.

        ``likely_s`` is what it may well take on some storage: the lower bound is not above.
        """
        low_s, high_s = self.uncertainty.bounds_s(confidence)
        return min(low_s, self.about_s, likely_s), max(high_s, self.about_s)

    def at_most(self, forecast_s: float) -> "Ceiling":
        """The same, but no longer than a forecast: nothing is faster than what takes no time."""
        if self.about_s <= forecast_s:
            return self
        return Ceiling(forecast_s, replace(self.uncertainty, forecast_s=forecast_s))


def ceiling_of(baseline: Baseline) -> Ceiling:
    """The forecast for storage of no latency, as far as it does not depend on a target."""
    loads, threads = baseline.loads, baseline.threads
    target_latencies = [AT_ONCE] * len(loads)
    each = threads.cores_each
    cpu = cpu_change(
        baseline.recording, loads, target_latencies, None, baseline.without, cores_each=each
    )
    overlap = threads.unwaited(cpu.each_s)
    compressed = baseline.compression.on_target(target_latencies) if baseline.compression else None
    compressing_s = compressed.cpu_s if compressed else 0.0
    done: Sequence[Load] = compressed.loads if compressed else loads
    cpu_s = baseline.io_scale * overlap.of_cpu
    drift_s = cpu_s * (float(counts(done) @ cpu.each_s) + compressing_s)
    about_s = baseline.remainder_s + baseline.limits_s + max(drift_s, baseline.least_drift_s)

    draws = np.random.default_rng(0)
    error_s = cpu_s * hypot(cpu.error_s, COMPRESSING_SPREAD * compressing_s)
    rest_s = drawn_rest(baseline, drift_s, error_s, draws)
    drawn_s = drawn_totals(
        rest_s,
        [
            Measured(load.op, recorded_s, 0.0, AT_ONCE.blocks)
            for load, recorded_s in zip(loads, baseline.io_s, strict=True)
        ],
        draws,
        noise=0.0,
        factors=factors_of(baseline, draws),
        whole_known=baseline.to_come is None,
    )
    apart = MODELS_APART * log(overlap.apart)
    drawn_s *= np.exp(draws.normal(0, apart, DRAWS))
    if (sample := sampled_of(baseline, lambda part: part.ceiling.about_s)) is not None:
        drawn_s *= np.exp(draws.normal(0, sample.error, DRAWS))
    uncertainty = Uncertainty.of(
        about_s,
        about_s,
        drawn_s,
        kind_of(baseline),
        direction_of(loads, target_latencies),
    )
    return Ceiling(about_s, uncertainty)


def kind_of(baseline: Baseline) -> str:
    """By which verified forecasts like it are found."""
    if baseline.to_come is not None:
        # With a previous run, what is not known of the rest is drawn well enough.
        return "part" if baseline.to_come.guessed else KINDS[0]
    return kind_of_evidence(baseline.recording, baseline.whole_s)


def factors_of(
    baseline: Baseline, draws: np.random.Generator
) -> Mapping[str, NDArray[np.float64]] | None:
    """Draws of how much of each op the whole query does, over what it is taken to.

    None where that is known. What the capture has missed may be temp I/O, all of it or nothing.
    """
    factors: Mapping[str, NDArray[np.float64]] | None
    if baseline.to_come is not None:
        factors = baseline.to_come.factors()
    else:
        factors = part_factors(baseline.recording, baseline.whole_s, DRAWS, draws)
    share = baseline.recording.meta.unseen.calls_share
    if not 0 < share < 1:
        return factors
    missed = 1 + share / (1 - share) * draws.uniform(0, 1, DRAWS)
    return {op: missed * (1.0 if factors is None else factors[op]) for op in OPS}


def drawn_rest(
    baseline: Baseline, drift_s: float, error_s: float, draws: np.random.Generator
) -> NDArray[np.float64]:
    """Draws of the time outside temp I/O.

    CPU time changes by ``drift_s``, with a standard error; any part of the time without a CPU may
    go, and what recording cost is only known as far as it was measured.
    """
    drawn_s = drift_s + error_s * draws.standard_normal(DRAWS)
    rest_s = baseline.remainder_s + np.maximum(drawn_s, baseline.least_drift_s)
    rest_s += baseline.limits_s
    rest_s -= baseline.ready_s * draws.uniform(0, 1, DRAWS)
    if baseline.cost_error_s:
        cost_s = baseline.outside_cost_s
        off_s = baseline.cost_error_s * draws.standard_normal(DRAWS)
        rest_s += cost_s - np.maximum(cost_s + off_s, 0.0)
    if baseline.to_come is not None:
        least_s = REST_LEAST * baseline.remainder_s
        rest_s = np.maximum(rest_s + baseline.to_come.rest_off_s(), least_s)
    return rest_s


def direction_of(loads: Sequence[Load], target_latencies: Sequence[Latency]) -> str:
    """From what was recorded to the latencies ``found``: ``slow to fast`` or so."""
    count = sum(load.count for load in loads)
    target_s = sum(
        load.count * latency.mean_s for load, latency in zip(loads, target_latencies, strict=True)
    )
    recorded_s, moved_bytes = sum(load.total_s for load in loads), sum(load.bytes for load in loads)
    return direction(recorded_s / count, target_s / count, moved_bytes / count)

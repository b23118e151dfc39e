"""The uncertainty of the elapsed time on a storage, drawn from the errors of its inputs."""

from collections.abc import Mapping
from dataclasses import replace
from math import exp, hypot, inf, log, sqrt

import numpy as np

from spillcast.columns import Floats
from spillcast.forecast.interval import DRAWS, MeasuredTerm, Uncertainty, direction, drawn_totals
from spillcast.forecast.projection import Projection, projection
from spillcast.forecast.result import Sampled
from spillcast.forecast.workload import Workload
from spillcast.forecast.workload.load import Load, mean_latency_s, operations
from spillcast.recording import OPS
from spillcast.stats import NORMAL_95
from spillcast.storage.observed import Rehearsal
from spillcast.storage.source import LATENCY_NOISE
from spillcast.storage.storage import Limit

#: In the unrecorded part, an op may take this much less or more of the time (relative).
UNSEEN = 1.0
#: Standard deviation between two models of threads, as a share of their difference.
MODELS_SPREAD = 0.25
#: Spread of assumed readahead and writeback, which may be of twice or half the size.
READ_AHEAD_NOISE = log(2) / NORMAL_95
#: Relative error per share of CPUs that others used: with half, a replay took a fifth longer.
DISTURBED_ERROR = 0.4
#: Relative standard error of the time saved by a page cache that holds half of the files.
PAGE_CACHE_ERROR = 0.1
#: Least time outside temp I/O of a partly recorded query, as a share of its estimate.
MIN_REST = 0.05
#: Least sampling error: the parts of a sample do not show errors that all its windows share.
MIN_SAMPLE_ERROR = 0.0025
#: Student's 95 % quantile with three degrees of freedom (of four parts), over the normal one.
FEW_PARTS = 2.353 / NORMAL_95
#: Standard deviation of the logarithm of the elapsed time of repeated runs.
REPEATED_RUN = 0.04
#: Least share of a forecast saving that is certain: it was 0.67 or more for the 29 verified plans
#: in docs/accuracy/calibration.parquet whose operations took at most 0.7 of the time.
SAVING_KEPT = 0.5
#: Relative standard error of the measured cost of recording.
OVERHEAD_OFF = 0.3


def elapsed_on(
    projected: Projection, measured: Rehearsal | None = None
) -> tuple[Uncertainty, Sampled | None]:
    """The elapsed time with temp I/O as projected, and the sample that it is estimated from.

    ``measured`` is the rehearsal in which the entire query ran on the storage.
    """
    workload, forecast_s, sample = projected.workload, float(projected.total_s), None
    loads = workload.loads
    if measured is None:
        sample = _sampled(projected)
        drawn_s = _drawn_s(projected, sample)
    else:
        draws = np.random.default_rng(0)
        off_s = OVERHEAD_OFF * measured.overhead_s * draws.standard_normal(DRAWS)
        again = np.exp(draws.normal(0, REPEATED_RUN, DRAWS))
        drawn_s = np.maximum(measured.run_s + off_s, 0.0) * again
    rest_s = forecast_s - sum(projected.io_s)
    mean_bytes = sum(load.bytes for load in loads) / operations(loads)
    speeds = direction(mean_latency_s(loads), mean_latency_s(projected.loads), mean_bytes)
    uncertainty = Uncertainty.of(forecast_s, rest_s, drawn_s, workload.kind, speeds)
    uncertainty = replace(uncertainty, min_s=_least_s(projected))
    if workload.threads.counted:
        max_s = max(forecast_s, _most_s(projected))
        uncertainty = replace(uncertainty, max_s=max_s)
    return uncertainty, sample


def _most_s(projected: Projection) -> float:
    """The longest time of a counted run on a storage; inf if its temp I/O may get slower.

    It saves at least SAVING_KEPT of what it saves with the slowest latencies of the storage.
    """
    workload, storage = projected.workload, projected.storage
    today_s = workload.total_s
    max_s = today_s if storage.never_slower else inf
    # If today's time of temp I/O is unknown, there may be nothing to save.
    if workload.quality.time_unknown or workload.quality.timed_on is not None:
        return max_s
    slow = 1.0 if storage.never_slower else exp(NORMAL_95 * _noise(projected))
    pairs = zip(projected.baseline.io_s, projected.io_s, strict=True)
    if not storage.never_slower and any(slow * io_s > now_s for now_s, io_s in pairs):
        return max_s
    slow_total_s = projected.total_s + (slow - 1) * sum(projected.io_s)
    saved_s = SAVING_KEPT * max(today_s - slow_total_s, 0.0)
    return min(max_s, (today_s - saved_s) * exp(NORMAL_95 * REPEATED_RUN))


def _least_s(projected: Projection) -> float:
    """The least time in which the stated limits of a storage admit the temp I/O.

    It is 0 if memory may serve a part of the I/O, if another run may do less, and for a measured
    storage or a device, whose limits are estimates.
    """
    storage, workload = projected.storage, projected.workload
    in_memory = projected.missed is not None or projected.reads_ahead
    is_estimate = storage.source.measured or not all(limit.burst_ns for limit in storage.limits)
    varies = workload.is_part or workload.spill_spread or projected.compressed is not None
    if in_memory or is_estimate or varies:
        return 0.0
    least_ns = [
        workload.io_scale * sum(_least_cost_ns(limit, load) for load in workload.loads)
        - limit.burst_ns
        for limit in storage.limits
    ]
    return max(least_ns, default=0.0) / 1e9


def _least_cost_ns(limit: Limit, load: Load) -> float:
    """The least device time of a load, in which each operation counts as a single one."""
    single = replace(limit, operation_bytes=None)
    costs_ns = (
        single.cost_ns(load.op, round(load.mean_bytes), sequential=sequential)
        for sequential in (True, False)
    )
    return load.count * min(costs_ns)


def _drawn_s(projected: Projection, sample: Sampled | None) -> Floats:
    """Draws of the elapsed time, from the errors of all its inputs."""
    baseline, storage, workload = projected.baseline, projected.storage, projected.workload
    draws = np.random.default_rng(0)
    rest_s = _drawn_rest_s(projected, draws)
    if changes_s := sum(projected.changes_s):
        rest_s += changes_s * np.exp(draws.normal(0, storage.source.noise, DRAWS))
    terms = zip(workload.loads, baseline.io_s, projected.io_s, projected.latencies, strict=True)
    drawn_s = drawn_totals(
        rest_s,
        [
            # The mean over more operations varies less from run to run.
            MeasuredTerm(
                load.op, today_s, s, lat.blocks, lat.error, round(workload.io_scale * load.count)
            )
            for load, today_s, s, lat in terms
        ],
        draws,
        noise=hypot(
            LATENCY_NOISE,
            _noise(projected) * projected.simulated.storage_share,
            DISTURBED_ERROR * (storage.facts.get("others_cpu_share") or 0.0),
            0.0 if workload.spill_spread is None else workload.spill_spread.added,
        ),
        factors=_factors(workload, draws),
        whole_known=workload.remaining is None,
    )
    if (uncached_s := projected.uncached_s) is not None and projected.missed is not None:
        half = 2 * sqrt(projected.missed * (1 - projected.missed))
        off_s = PAGE_CACHE_ERROR * half * abs(uncached_s - projected.total_s)
        drawn_s = np.maximum(drawn_s + draws.normal(0, off_s, DRAWS), baseline.remainder_s / 2)
    spread = MODELS_SPREAD * log(projected.overlap.apart)
    drawn_s *= np.exp(draws.normal(0, spread, DRAWS))
    if projected.spinning_s:
        # Long bursts are work or waits with equal probability.
        drawn_s = drawn_s - projected.spinning_s * draws.integers(0, 2, DRAWS)
    if sample is not None:
        drawn_s *= np.exp(draws.normal(0, sample.error, DRAWS))
    return drawn_s


def _noise(projected: Projection) -> float:
    """Spread of all latencies of the storage together."""
    noise = projected.storage.source.noise
    return hypot(noise, READ_AHEAD_NOISE if projected.reads_ahead else 0.0)


def _drawn_rest_s(projected: Projection, draws: np.random.Generator) -> Floats:
    """Draws of the time outside temp I/O, less any share of waits for a CPU or for memory."""
    baseline = projected.baseline
    error_s = projected.cpu_change_error_s * draws.standard_normal(DRAWS)
    change_s = np.maximum(projected.cpu_change_s + error_s, baseline.min_cpu_change_s)
    rest_s: Floats = baseline.remainder_s + change_s
    rest_s += baseline.limits_s
    rest_s -= baseline.run_queue_s * draws.uniform(0, 1, DRAWS)
    if baseline.memory_stalled_s:
        rest_s -= baseline.memory_stalled_s * draws.uniform(0, 1, DRAWS)
    if baseline.cost_error_s:
        cost_s = baseline.outside_cost_s
        off_s = baseline.cost_error_s * draws.standard_normal(DRAWS)
        rest_s += cost_s - np.maximum(cost_s + off_s, 0.0)
    if (remaining := baseline.workload.remaining) is not None:
        off_s = remaining.rest_s - float(np.median(remaining.rest_s))
        rest_s = np.maximum(rest_s + off_s, MIN_REST * baseline.remainder_s)
    return rest_s


def _factors(workload: Workload, draws: np.random.Generator) -> Mapping[str, Floats] | None:
    """Draws of the I/O of the entire query over its estimate, by op; None if it is known."""
    factors: Mapping[str, Floats] | None = None
    if workload.remaining is not None:
        factors = workload.remaining.factors()
    elif workload.is_part and (parts := workload.io_ns_by_stretch) is not None:
        # The recorded share of the time is resampled; the unrecorded part may do more or less.
        unseen = 0.0 if workload.kind == "slices" else 1 - workload.elapsed_s / workload.total_s
        picks = draws.integers(0, len(parts), (DRAWS, len(parts)))
        seen = parts[picks].sum(axis=1) / np.maximum(parts.sum(axis=0), 1.0)
        seen = seen * (1 + unseen * draws.uniform(-UNSEEN, UNSEEN, (DRAWS, len(OPS))))
        factors = dict(zip(OPS, seen.T, strict=True))
    share = workload.quality.unseen.calls_share
    if not 0 < share < 1:
        return factors
    # Any share of the calls that the capture missed may be temp I/O.
    missed = 1 + share / (1 - share) * draws.uniform(0, 1, DRAWS)
    return {op: missed * (1.0 if factors is None else factors[op]) for op in OPS}


def _sampled(projected: Projection) -> Sampled | None:
    """The sampling error of a forecast; None if it uses all waits, or is for a part of a sample.

    It combines the scatter of the forecasts of the sample's parts, each from a share of the waits,
    and an error that all parts share: threads seem to overlap less at the ends of a sampled window,
    because some of their waits lie outside.
    """
    sample, parts = projected.workload.sample, projected.baseline.sample_parts
    if sample is None or not parts:
        return None
    storage, cached = projected.storage, projected.cached
    times_s = (projection(part, storage, cached=cached).total_s for part in parts)
    log_elapsed = np.log([max(part_s, 1e-9) for part_s in times_s])
    scatter = FEW_PARTS * float(log_elapsed.std(ddof=1)) / sqrt(len(parts))
    threads = projected.workload.threads.number
    ends = threads * sample.slices / sample.rows if threads > 1 else 0.0
    error = hypot(scatter, ends, MIN_SAMPLE_ERROR if threads > 1 else 0.0)
    return Sampled(sample.rows, sample.of_rows, error)

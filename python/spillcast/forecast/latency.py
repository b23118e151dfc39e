"""What a load waits for on a storage: the latency of its operations, and its limits."""

from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from spillcast.errors import Refusal
from spillcast.forecast.load import Load
from spillcast.storage import Limit, Storage
from spillcast.storage.model import Model


@dataclass(frozen=True)
class Latency:
    """Mean latency for one load, and the measured blocks it comes from."""

    mean_s: float
    #: Count and mean (s) of consecutive stretches of the measurement.
    blocks: NDArray[np.float64]
    #: Relative standard error where the size or depth was not measured; 0 where it was.
    error: float
    measured: bool
    #: The size or depth lies outside of what was measured.
    extrapolated: bool
    #: Latencies (s), ascending, and how many operations had each: their mean is near ``mean_s``.
    histogram: NDArray[np.float64]


def latencies(storage: Storage, loads: Sequence[Load], at_once: float) -> list[Latency]:
    """Latency of each load with ``at_once`` operations in flight.

    Refusal where the storage has no figures for an op.
    """
    for op in sorted({load.op for load in loads}):
        if not any(group.count for group in storage.of(op)):
            raise Refusal(f"{storage.name} has no figures for {op}s, and the query does some")
    model = Model(storage)
    found = [_latency(model, load, at_once) for load in loads]
    # Figures of a formula lie on its line; how far off they are is the row's own spread.
    return [replace(one, error=0.0) for one in found] if storage.source.any_size else found


def limited_s(storage: Storage, loads: Sequence[Load], times: float) -> tuple[float, str | None]:
    """The least time in which the storage can serve all loads, ``times`` over, and what limits it.

    0 and None where it states no limit, or where a burst holds everything.
    """
    least_s, name = 0.0, None
    for limit in storage.limits:
        needed_s = times * sum(load.count * _cost_s(limit, load) for load in loads)
        if needed_s - limit.burst_ns / 1e9 > least_s:
            least_s, name = needed_s - limit.burst_ns / 1e9, limit.name
    return least_s, name


def _latency(model: Model, load: Load, at_once: float) -> Latency:
    """Sequential and random operations in the share that the recording has of each."""
    shares = [(True, load.sequential), (False, 1 - load.sequential)]
    found = [
        (
            share,
            model.latency(load.op, load.size_class_bytes, depth=at_once, sequential=sequential),
        )
        for sequential, share in shares
        if share > 0
    ]
    mean_s = float(sum(share * estimate.mean_s for share, estimate in found))
    error_s = np.sqrt(sum((share * est.mean_s * est.error) ** 2 for share, est in found))
    _, main = max(found, key=lambda pair: pair[0])
    return Latency(
        mean_s,
        main.blocks * [1.0, mean_s / main.mean_s if main.mean_s else 1.0],
        float(error_s / mean_s) if mean_s else 0.0,
        all(bool(estimate.measured) for _, estimate in found),
        any(bool(estimate.extrapolated) for _, estimate in found),
        np.column_stack([main.latency_s, main.latency_count]),
    )


def _cost_s(limit: Limit, load: Load) -> float:
    size = round(load.mean_bytes)
    costs_ns = (limit.cost_ns(load.op, size, sequential=sequential) for sequential in (True, False))
    sequential_ns, random_ns = costs_ns
    return (load.sequential * sequential_ns + (1 - load.sequential) * random_ns) / 1e9

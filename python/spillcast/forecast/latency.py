"""The latency of a storage for an op and size, measured or between what was measured."""

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from spillcast.errors import Refusal
from spillcast.storage import Group, Storage

#: Below this many operations a group's mean is not used by itself.
COUNT_MIN = 8


@dataclass(frozen=True)
class Latency:
    """Mean latency for one load, and the measured blocks it comes from."""

    mean_s: float
    #: Count and mean (s) of consecutive stretches of the measurement.
    blocks: NDArray[np.float64]
    measured: bool


def latency(storage: Storage, op: str, size_class_bytes: int) -> Latency:
    """Latency of ``op`` at a size. Refusal when the storage has no figure for the op."""
    groups = [group for group in storage.of(op) if group.count]
    if not groups:
        raise Refusal(f"{storage.name} has no figures for {op}s, and the query does some")
    for group in groups:
        enough = group.count >= COUNT_MIN or len(groups) == 1
        if group.size_class_bytes == size_class_bytes and enough:
            return Latency(group.mean_s, _blocks(group, 1.0), True)
    nearest = min(groups, key=lambda g: abs(np.log(g.size_class_bytes / size_class_bytes)))
    mean_s = _between(groups, size_class_bytes)
    return Latency(mean_s, _blocks(nearest, mean_s / nearest.mean_s), False)


def _between(groups: list[Group], size_class_bytes: int) -> float:
    """Base + size / bandwidth through the measured sizes; flat where there is only one."""
    sizes = np.array([g.size_class_bytes for g in groups], dtype=float)
    means = np.array([g.mean_s for g in groups])
    if len(groups) == 1:
        return float(means[0])
    weights = np.sqrt([g.count for g in groups])
    slope, base = np.polyfit(sizes, means, 1, w=weights)
    guess = base + slope * size_class_bytes
    return float(np.clip(guess, means.min() / 2, means.max() * 2))


def _blocks(group: Group, factor: float) -> NDArray[np.float64]:
    means_s = np.asarray(group.block_mean_ns, dtype=float) * factor / 1e9
    return np.column_stack([np.asarray(group.block_count, dtype=float), means_s])

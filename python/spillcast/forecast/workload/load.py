"""Loads: temp I/O by op and size, and the latency of their operations on a storage."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace

import numpy as np

from spillcast.columns import Floats
from spillcast.storage import Storage
from spillcast.storage.model import Estimate, Model
from spillcast.storage.observed import Rehearsal
from spillcast.storage.source import INSTANT


@dataclass(frozen=True)
class Load:
    """The temp operations of one op and size class over the whole run."""

    op: str
    size_class_bytes: int
    count: int
    bytes: int
    total_s: float
    #: Share of the operations that begin at the end of the previous one on their file.
    sequential: float = 1.0

    @property
    def mean_bytes(self) -> float:
        """Mean size."""
        return self.bytes / self.count

    @property
    def mean_s(self) -> float:
        """Mean recorded latency."""
        return self.total_s / self.count

    @property
    def kind(self) -> tuple[str, int]:
        """The op and the size class."""
        return self.op, self.size_class_bytes


def counts(loads: Sequence[Load]) -> Floats:
    """Operations by load."""
    return np.array([load.count for load in loads], dtype=float)


def operations(loads: Sequence[Load]) -> int:
    """Operations of all loads."""
    return sum(load.count for load in loads)


def mean_latency_s(loads: Sequence[Load]) -> float:
    """Mean latency of an operation; 0 without any."""
    return total_s(loads) / max(operations(loads), 1)


def moved_bytes(loads: Sequence[Load], op: str) -> int:
    """Bytes that reads or writes move."""
    return sum(load.bytes for load in loads if load.op == op)


def with_means(loads: Sequence[Load], mean_s: Iterable[float]) -> list[Load]:
    """The same operations with these mean latencies."""
    pairs = zip(loads, mean_s, strict=True)
    return [replace(load, total_s=load.count * s) for load, s in pairs]


def total_s(loads: Sequence[Load]) -> float:
    """Time of all operations, summed over threads."""
    return sum(load.total_s for load in loads)


#: Least number of rehearsed operations of a size that represents all operations of it.
REHEARSED_MIN = 100

#: The latency of operations that take no time.
NO_LATENCY = Estimate(0.0, blocks=np.array([[1.0, 0.0]]))


def latencies(storage: Storage, loads: Sequence[Load], depth: float) -> list[Estimate]:
    """Latency of each load with ``depth`` operations in flight. FiguresMissing if it is unknown."""
    if storage.source is INSTANT:
        return [NO_LATENCY] * len(loads)
    model = Model(storage)
    latencies = [model.mixed(*load.kind, depth=depth, share=load.sequential) for load in loads]
    if storage.source.of_device:
        # A formula has no interpolation error; the source's spread is taken into account elsewhere.
        return [replace(latency, error=0.0) for latency in latencies]
    return latencies


def rehearsed(
    latencies: Sequence[Estimate], loads: Sequence[Load], rehearsal: Rehearsal
) -> list[Estimate]:
    """Latencies of a probe and of a rehearsal, weighted by the share of operations rehearsed."""
    mixed = []
    for latency, load in zip(latencies, loads, strict=True):
        group = rehearsal.groups.get((load.op, load.size_class_bytes))
        if group is None or group.count < REHEARSED_MIN:
            mixed.append(latency)
            continue
        share = min(group.count / load.count, 1.0)
        mixed.append(latency.at(share * group.mean_s + (1 - share) * latency.mean_s))
    return mixed

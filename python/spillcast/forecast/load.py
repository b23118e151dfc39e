"""The temp I/O of a run as loads: how many operations of which op and size, how long they took."""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray


@dataclass(frozen=True)
class Load:
    """The temp operations of one op and size class over the whole run."""

    op: str
    size_class_bytes: int
    count: int
    bytes: int
    total_s: float
    #: Share of the operations that begin where the last on their file ended.
    sequential: float = 1.0

    @property
    def mean_bytes(self) -> float:
        """Mean size."""
        return self.bytes / self.count

    @property
    def mean_s(self) -> float:
        """Mean latency seen."""
        return self.total_s / self.count

    @property
    def kind(self) -> tuple[str, int]:
        """The op and the size class."""
        return self.op, self.size_class_bytes


def counts(loads: Sequence[Load]) -> NDArray[np.float64]:
    """Operations by load."""
    return np.array([load.count for load in loads], dtype=float)


def operations(loads: Sequence[Load]) -> int:
    """Operations of all loads."""
    return sum(load.count for load in loads)

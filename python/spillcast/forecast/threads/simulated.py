"""What simulations of the recorded threads come to: waits, elapsed times, shares."""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray


@dataclass(frozen=True)
class Simulated:
    """The recorded threads with their temp I/O on some storage."""

    #: How long each row of the trace waits, ns.
    wait_ns: NDArray[np.float64]
    elapsed_ns: int
    #: Operations in flight while there are any: at least 1.
    in_flight: float
    #: By limit of the storage, share of the temp I/O's time that operations wait for it.
    limited: Sequence[float]
    #: By row, ns that the storage took: 0 where memory answered.
    storage_ns: NDArray[np.float64]


#: Models of threads that are further apart than this say nothing either way.
APART_MOST = 100.0


@dataclass(frozen=True)
class Overlap:
    """What temp I/O of some latencies adds to a run."""

    #: Seconds of elapsed time for a second of latency.
    of_waits: float
    #: Elapsed time where work moves between threads, and where it does not.
    moving_s: float
    fixed_s: float
    #: Elapsed time of a replay of all threads on the storage, where there was one.
    replayed_s: float | None = None
    #: Seconds of elapsed time for a second of CPU that temp I/O makes.
    of_cpu: float = 1.0

    @property
    def elapsed_s(self) -> float:
        """The shorter time of the two models.

        A replay repeats the recorded division of work: it agrees with the model in which no work
        moves, and is no evidence against the other.
        """
        return min(self.moving_s, self.fixed_s)

    @property
    def apart(self) -> float:
        """How many times as long the longest of them is as the shortest."""
        models_s = [s for s in (self.moving_s, self.fixed_s, self.replayed_s) if s is not None]
        # Of a short part of a run a model may leave no time at all.
        return min(max(max(models_s), 1e-9) / max(min(models_s), 1e-9), APART_MOST)

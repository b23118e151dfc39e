"""What a rehearsal makes of a forecast: a measured time where the whole query ran in it."""

from dataclasses import replace

import numpy as np
from numpy.typing import NDArray

from spillcast.forecast.load import sessions
from spillcast.forecast.result import Rehearsed
from spillcast.forecast.sum.baseline import Baseline
from spillcast.forecast.sum.projection import Projection
from spillcast.storage import Storage
from spillcast.storage.rehearse import Rehearsal

#: Standard deviation of the logarithm of what a run takes when it is repeated.
REPEATED_RUN = 0.04
#: What recording a run costs it is known to within this share.
OVERHEAD_OFF = 0.3


def rehearsed_of(baseline: Baseline, target: Storage) -> Rehearsed | None:
    """What was rehearsed on the target; None where nothing was, or it is not to be used."""
    rehearsal = target.rehearsal
    if rehearsal is None or "rehearsal" in baseline.without:
        return None
    recorded = baseline.io_scale * sum(load.count for load in baseline.loads)
    # A recording of an unknown part of a query is forecast as that part.
    ended = rehearsal.ended and baseline.part is None
    share = 1.0 if ended else min(rehearsal.operations / recorded, 1.0)
    return Rehearsed(rehearsal.elapsed_s, rehearsal.operations, share, ended)


def run_s(rehearsal: Rehearsal) -> float:
    """What a query that ended in its rehearsal takes there when it is not recorded."""
    return max(rehearsal.elapsed_s - _overhead_s(rehearsal), rehearsal.elapsed_s / 2)


def drawn_run_s(rehearsal: Rehearsal, draws: np.random.Generator, many: int) -> NDArray[np.float64]:
    """The same, drawn as it varies when it is repeated."""
    off_s = OVERHEAD_OFF * _overhead_s(rehearsal) * draws.standard_normal(many)
    again = np.exp(draws.normal(0, REPEATED_RUN, many))
    drawn_s: NDArray[np.float64] = np.maximum(run_s(rehearsal) + off_s, 0.0) * again
    return drawn_s


def as_measured(projection: Projection, baseline: Baseline, total_s: float) -> Projection:
    """A projection that adds up to what the whole query took: what is not temp I/O gives way."""
    target_s = projection.changes_s + sum(projection.io_s)
    fits = min(1.0, total_s / target_s) if target_s else 1.0
    return replace(
        projection,
        io_s=[fits * s for s in projection.io_s],
        changes_s=fits * projection.changes_s,
        changes_kept_s=fits * projection.changes_kept_s,
        drift_s=total_s - fits * target_s - baseline.remainder_s - baseline.limits_s,
    )


def _overhead_s(rehearsal: Rehearsal) -> float:
    """What its recording cost it in elapsed time, its threads side by side."""
    return (rehearsal.recording.meta.capture.overhead_s or 0.0) / sessions(rehearsal.recording)

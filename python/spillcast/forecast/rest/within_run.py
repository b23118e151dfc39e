"""The query's own word on what a wait costs: CPU time after longer and shorter waits of one run.

Bursts of CPU after operations of the same kind, size, thread and stretch of the run do the same
work. Where some waited longer than others, by jitter, queues or a cache, the slope of CPU time
over the wait tells what a wait costs this query on this day.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from weakref import WeakKeyDictionary

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from spillcast import _core
from spillcast.forecast.assumptions import WITHIN_RUN_BEYOND, WITHIN_RUN_SPREAD
from spillcast.forecast.latency import Latency
from spillcast.forecast.load import Load
from spillcast.forecast.rest.change import CpuChange, counts
from spillcast.recording import Recording
from spillcast.recording.bursts import Bursts
from spillcast.recording.event_names import OPS
from spillcast.recording.wait_cost import weights_of

Floats = NDArray[np.float64]
#: Stretches of the run in which work is alike; the error is how much the slope depends on them.
STRETCHES = 20
#: Fewer bursts, or stretches with some that can be compared, tell nothing.
BURSTS_MIN, STRETCHES_MIN = 200, 5
#: Quantiles between which waits were seen.
SEEN = (0.05, 0.95)
#: Sizes are alike within an eighth of their power of two.
SIZES = 8


def within_run_change(
    recording: Recording, loads: Sequence[Load], latencies: Sequence[Latency]
) -> CpuChange | None:
    """What its bursts tell; None where they are too few, or waited all as long."""
    bursts = recording.bursts
    if bursts is None or len(bursts) < BURSTS_MIN:
        return None
    within_run = _fitted(bursts)
    if within_run is None:
        return None
    count = counts(loads)
    target_weights = weights_of(np.array([latency.mean_s for latency in latencies]))
    weights = target_weights - [within_run.mean_weight(load) for load in loads]
    moved = float(count @ weights)
    change = CpuChange("recording", within_run.slope_s * weights, count, 0.0)
    beyond_s = (
        WITHIN_RUN_BEYOND * within_run.cpu_s * float(count @ within_run.beyond(target_weights))
    )
    errors_s = (within_run.error_s * abs(moved), WITHIN_RUN_SPREAD * abs(change.total_s), beyond_s)
    return CpuChange(change.source, change.each_s, count, float(np.linalg.norm(errors_s)))


@dataclass(frozen=True)
class _WithinRun:
    """What bursts tell, whatever is asked of them: it takes no time to ask again."""

    #: Seconds of CPU by weight of the wait, within what is alike, and its standard error.
    slope_s: float
    error_s: float
    #: Mean CPU time.
    cpu_s: float
    #: Weights of waits: the mean, that after each op, and those between which most lie.
    mean: float
    mean_after: Mapping[str, float]
    seen: tuple[float, float]

    def mean_weight(self, load: Load) -> float:
        """Of the waits of a load's op; of its own mean wait where none was seen."""
        waited = self.mean_after.get(load.op)
        return float(weights_of(np.array([load.mean_s]))[0]) if waited is None else waited

    def beyond(self, target_weights: Floats) -> Floats:
        """Share of the way to weights of waits ``there`` on which no wait of the run was seen."""
        least, most = self.seen
        outside = np.maximum(0.0, np.maximum(least - target_weights, target_weights - most))
        return np.asarray(outside / np.maximum(np.abs(target_weights - self.mean), outside + 1e-9))


#: By bursts, which are asked for each target.
_FITTED = WeakKeyDictionary[Bursts, _WithinRun | None]()


def _fitted(bursts: Bursts) -> _WithinRun | None:
    if bursts not in _FITTED:
        _FITTED[bursts] = _fit(bursts)
    return _FITTED[bursts]


def _fit(bursts: Bursts) -> _WithinRun | None:
    """None where too few of them can be compared. The error is a jackknife over stretches."""
    weight = weights_of(bursts.wait_s)
    columns = {"weight": weight} | {
        name: getattr(bursts, name)
        for name in ("cpu_s", "end_s", "bytes", "op", "next_op", "session")
    }
    rows = pa.record_batch({name: pa.array(values) for name, values in columns.items()})
    whole_s = max(float(bursts.end_s.max()), 1e-9)
    xx, xy = map(np.array, _core.burst_moments(rows, whole_s, STRETCHES, SIZES))
    if (xx > 0).sum() < STRETCHES_MIN:
        return None
    without = (xy.sum() - xy) / np.maximum(xx.sum() - xx, 1e-30)
    scatter = ((without - without.mean()) ** 2).sum()
    after = {op: weight[bursts.after(op)] for op in OPS}
    least, most = np.quantile(weight, SEEN)
    return _WithinRun(
        slope_s=float(xy.sum() / xx.sum()),
        error_s=float(np.sqrt((STRETCHES - 1) / STRETCHES * scatter)),
        cpu_s=float(bursts.cpu_s.mean()),
        mean=float(weight.mean()),
        mean_after={op: float(its.mean()) for op, its in after.items() if its.size},
        seen=(float(least), float(most)),
    )

"""The query's own word on what a wait costs: CPU time after longer and shorter waits of one run.

Bursts of CPU after operations of the same kind, size, thread and stretch of the run do the same
work. Where some waited longer than others, by jitter, queues or a cache, the slope of CPU time
over the wait tells what a wait costs this query on this day.
"""

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from spillcast.forecast.assumptions import OWN_BEYOND, OWN_SPREAD
from spillcast.forecast.latency import Latency
from spillcast.forecast.load import Load
from spillcast.forecast.rest.change import CpuChange, counts
from spillcast.recording import Recording
from spillcast.recording.bursts import Bursts
from spillcast.recording.distinct import distinct
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


def own_change(
    recording: Recording, loads: Sequence[Load], found: Sequence[Latency]
) -> CpuChange | None:
    """What its bursts tell; None where they are too few, or waited all as long."""
    bursts = recording.bursts
    if bursts is None or len(bursts) < BURSTS_MIN:
        return None
    told = _slope(bursts)
    if told is None:
        return None
    slope_s, error_s = told
    count = counts(loads)
    there = weights_of(np.array([latency.mean_s for latency in found]))
    weights = there - [_mean_weight(bursts, load) for load in loads]
    moved = float(count @ weights)
    change = CpuChange("recording", slope_s * weights, count, 0.0)
    beyond_s = OWN_BEYOND * float(bursts.cpu_s.mean()) * float(count @ _beyond(bursts, there))
    errors_s = (error_s * abs(moved), OWN_SPREAD * abs(change.total_s), beyond_s)
    return CpuChange(change.source, change.each_s, count, float(np.linalg.norm(errors_s)))


def _slope(bursts: Bursts) -> tuple[float, float] | None:
    """Seconds of CPU by weight of the wait, within what is alike, and its standard error.

    The error is a jackknife over stretches.
    """
    x, y = weights_of(bursts.wait_s), bursts.cpu_s
    stretch = np.minimum(
        (bursts.end_s / max(float(bursts.end_s.max()), 1e-9) * STRETCHES).astype(int), STRETCHES - 1
    )
    sizes, number = distinct(bursts.bytes)
    size = np.round(SIZES * np.log2(np.maximum(sizes, 1))).astype(int)[number]
    sessions, session = distinct(bursts.session)
    kind = stretch
    for many, one in ((size.max() + 1, size), (2, bursts.op), (2, bursts.next_op)):
        kind = kind * many + one
    _, kind = distinct(kind * len(sessions) + session)
    number = np.bincount(kind)
    x = x - (np.bincount(kind, x) / number)[kind]
    y = y - (np.bincount(kind, y) / number)[kind]
    xx = np.bincount(stretch, x * x, STRETCHES)
    xy = np.bincount(stretch, x * y, STRETCHES)
    if (xx > 0).sum() < STRETCHES_MIN:
        return None
    without = (xy.sum() - xy) / np.maximum(xx.sum() - xx, 1e-30)
    error_s = float(np.sqrt((STRETCHES - 1) / STRETCHES * ((without - without.mean()) ** 2).sum()))
    return float(xy.sum() / xx.sum()), error_s


def _beyond(bursts: Bursts, there: Floats) -> Floats:
    """Share of the way to weights of waits ``there`` on which no wait of the run was seen."""
    weights = weights_of(bursts.wait_s)
    least, most = np.quantile(weights, SEEN)
    outside = np.maximum(0.0, np.maximum(least - there, there - most))
    return np.asarray(outside / np.maximum(np.abs(there - weights.mean()), outside + 1e-9))


def _mean_weight(bursts: Bursts, load: Load) -> float:
    its = bursts.after(load.op)
    waited_s = bursts.wait_s[its] if its.any() else np.array([load.mean_s])
    return float(weights_of(waited_s).mean())

"""The variation of a query's spill from run to run: the spread of the bytes written.

The spill of a process depends on when each of its threads takes memory from their common limit.
Spills of one query differ by a few per cent far above that limit, and by a part of the memory near
it, which is a large share of a small spill:

    spread^2 = far^2 + (share * memory / spill)^2

with the peak resident memory and the bytes written. ``far`` and ``share`` were measured for one and
for several threads (calibrated.toml). Each session of a server has its own limit, which a plan
reaches at the same row every time. Other runs of the same query measure the spread itself; the more
there are, the less weight the relation has.
"""

from collections.abc import Sequence
from math import hypot, log

import numpy as np

from spillcast.calibrated import calibrated
from spillcast.evidence.counts import Counts
from spillcast.forecast.counted import loads_of
from spillcast.forecast.load import moved_bytes
from spillcast.forecast.result import SpillSpread
from spillcast.recording import Recording

#: Weight of the relation, in runs.
RELATION_RUNS = 2
#: Largest spread of the spills of one query (standard deviation of the logarithm).
MAX_SPREAD = 1.0


def relative_spread(recording: Recording) -> float | None:
    """The spread by the memory and spill of a run; None without a shared limit, or if unknown."""
    memory, spill = recording.meta.memory.peak_rss_bytes, recording.written_bytes.temp
    if recording.meta.server is not None or not memory or not spill:
        return None
    threads = len(recording.temp_columns("session")["session"].unique())
    far, share = calibrated().spill_spread[threads > 1]
    return min(hypot(far, share * memory / spill), MAX_SPREAD)


def spill_spread(
    recording: Recording, others: Sequence[Recording | Counts] = ()
) -> SpillSpread | None:
    """The spread of the spill of an entirely recorded query; None if unknown.

    ``others`` are other runs of the query.
    """
    relation, spill = relative_spread(recording), recording.written_bytes.temp
    written = [spill]
    for run in others:
        if isinstance(run, Recording):
            written.append(run.written_bytes.temp)
        else:
            written.append(moved_bytes(loads_of(run), "write"))
    logs = np.array([log(run_bytes) for run_bytes in written if run_bytes])
    degrees, squares = len(logs) - 1, 0.0
    if degrees > 0:
        squares = float(((logs - logs.mean()) ** 2).sum())
    if relation is not None:
        squares, degrees = squares + RELATION_RUNS * relation**2, degrees + RELATION_RUNS
    if degrees <= 0:
        return None
    spread = min((squares / degrees) ** 0.5, MAX_SPREAD)
    usual, _ = calibrated().spill_spread[0]
    return SpillSpread(
        spread=spread,
        added=max(spread**2 - usual**2, 0.0) ** 0.5,
        written_bytes=spill,
        memory_bytes=None if relation is None else recording.meta.memory.peak_rss_bytes,
        runs=len(logs),
    )

"""The part of recorded I/O that a flash cache in front of a disk would serve."""

from pathlib import Path
from typing import TYPE_CHECKING

from spillcast.public import as_package

if TYPE_CHECKING:
    from spillcast.cache.simulation import Curve


@as_package(__name__)
def _cache(
    *evidence: str | Path,
    runs: int = 2,
    rate: float | None = None,
    error_points: float | None = None,
    temp_writes: bool = False,
) -> "Curve":
    """Miss ratios (0 to 1) by cache size (bytes) for traces, a recording or CSV files.

    The ratios are of the last of ``runs`` runs. ``rate`` is the share of sampled lines, above 0 and
    at most 1; with ``error_points`` all lines are followed, with a mean error of at most this many
    percentage points. With ``temp_writes``, writes to temp files are cached too. InputError for
    evidence that cannot be read or has no reads.
    """
    from spillcast.cache.evidence import read_requests
    from spillcast.cache.simulation import curve

    requests = read_requests([str(path) for path in evidence])
    return curve(requests, runs=runs, rate=rate, error_points=error_points, temp_writes=temp_writes)

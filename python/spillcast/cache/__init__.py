"""What a flash cache in front of a disk would serve of recorded I/O."""

import sys
from types import ModuleType
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from spillcast.cache.simulation import Curve


class _Callable(ModuleType):
    """Makes ``spillcast.cache`` both a package and a function."""

    def __call__(self, *evidence: Any, runs: int = 2, **options: Any) -> "Curve":
        """Miss ratios (0 to 1) by cache size (bytes) for traces, a recording or CSV files.

        They are those of the last of ``runs``. ``rate`` is the share of the lines sampled, above 0
        and at most 1; with ``error_points`` all are followed, and the mean error is no more than
        that many percentage points. With ``temp_writes``, writes to temp files are cached too.
        InputError for evidence that cannot be read or has no reads.
        """
        from spillcast.cache.evidence import read_requests
        from spillcast.cache.simulation import curve

        return curve(read_requests([str(path) for path in evidence]), runs=runs, **options)


sys.modules[__name__].__class__ = _Callable

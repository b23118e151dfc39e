"""Miss ratios by size of an LRU cache: how much flash is worth buying."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np

from spillcast import _core
from spillcast.cache.evidence import Requests
from spillcast.errors import InputError
from spillcast.interruptible import run_interruptibly

#: A cache that brings this share of the hits which any size brings is large enough.
MOST = 0.9
#: Sizes between the smallest and the data, each some percent larger than the last.
_FINE = 400


@dataclass(frozen=True)
class Curve:
    """Miss ratios of LRU caches of every size, for the last of some runs."""

    core: _core.CacheCurve
    line_bytes: int
    #: Share of the lines that were sampled; 1 for all.
    rate: float

    @property
    def data_bytes(self) -> int:
        """All distinct lines: what a cache that holds everything has to have."""
        return round(self.core.lines) * self.line_bytes

    @property
    def requests(self) -> int:
        """Reads that the ratios are of."""
        return self.core.references

    def miss_ratios(self, sizes_bytes: Sequence[float]) -> list[float]:
        """Share of the reads that miss in caches of these sizes."""
        return self.core.miss_ratios([size / self.line_bytes for size in sizes_bytes])

    def sizes(self, count: int) -> list[float]:
        """Sizes in equal ratios, in bytes, from one line (or what a sample tells) to the data."""
        least = min(max(1.0, 10 / self.rate if self.rate < 1 else 1.0), max(self.core.lines, 1.0))
        return [float(s) * self.line_bytes for s in np.geomspace(least, self.core.lines, count)]

    def enough_bytes(self) -> float | None:
        """The least size with ``MOST`` of the hits of any size; None where none brings a hit."""
        sizes = self.sizes(_FINE)
        ratios = self.miss_ratios(sizes)
        hits = 1 - ratios[-1]
        if hits <= 0:
            return None
        return next(s for s, miss in zip(sizes, ratios, strict=True) if 1 - miss >= MOST * hits)


def curve(
    requests: Requests,
    *,
    rate: float = 1.0,
    temp_writes: bool = False,
    runs: int = 1,
    on_progress: Callable[[int], None] | None = None,
) -> Curve:
    """The curve of some requests. InputError where there are no reads, or for a rate of nothing.

    ``on_progress`` is told of requests that were gone through, as by ``simulate``.
    """
    if not 0 < rate <= 1:
        raise InputError(f"--sample {rate:g}: a share is above 0, and 1 at the most")
    core = requests.core
    try:
        found = run_interruptibly(
            lambda: core.curve(rate=rate, temp_writes=temp_writes, runs=runs),
            core.cancel,
            None if on_progress is None else lambda: on_progress(core.requests()),
        )
    except ValueError as error:
        raise InputError(str(error)) from error
    if not found.references:
        raise InputError("there are no reads that a cache could serve")
    if not found.lines:
        raise InputError(f"--sample {rate:g} picked none of the lines", "give a larger share")
    return Curve(found, requests.line_bytes, rate)

"""Miss ratios by size of an LRU cache: how much flash is worth buying."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from spillcast import _core
from spillcast.cache.evidence import Requests
from spillcast.errors import (
    EvidenceIncomplete,
    OptionConflict,
    OptionInvalid,
    SelectionEmpty,
)
from spillcast.tabular import Display, Tabular
from spillcast.units import format_bytes

if TYPE_CHECKING:
    import pyarrow as pa

#: A cache with this share of the hits of the largest cache is large enough.
MOST = 0.9
#: Sizes between the smallest and the data, each some percent larger than the last.
_FINE = 400
#: Sizes of a curve as a table, and as it is shown.
POINTS, _SHOWN = 64, 13


@dataclass(frozen=True, repr=False)
class Curve(Tabular):
    """Miss ratios of LRU caches of every size, for the last of some runs."""

    core: _core.CacheCurve
    line_bytes: int
    #: Share of the lines that were sampled; 1 for all.
    rate: float

    @property
    def data_bytes(self) -> int:
        """Bytes of all distinct lines: the size of a cache that holds everything."""
        return round(self.core.lines) * self.line_bytes

    @property
    def error_max(self) -> float:
        """Mean error of the miss ratios over all sizes, at most; if sampled, in 19 of 20 traces."""
        return self.core.error_max

    @property
    def requests(self) -> int:
        """Number of reads that the ratios refer to."""
        return self.core.references

    def miss_ratios(self, sizes_bytes: Sequence[float]) -> list[float]:
        """Share of the reads that miss in caches of these sizes."""
        return self.core.miss_ratios([size / self.line_bytes for size in sizes_bytes])

    def sizes(self, count: int) -> list[float]:
        """Sizes (bytes) in equal ratios, from one line or the smallest of the curve to all data."""
        least = min(self.core.lines_min, max(self.core.lines, 1.0))
        return [float(s) * self.line_bytes for s in np.geomspace(least, self.core.lines, count)]

    def enough_bytes(self) -> float | None:
        """The smallest size with ``MOST`` of the hits of any size; None if no size has hits."""
        sizes = self.sizes(_FINE)
        ratios = self.miss_ratios(sizes)
        hits = 1 - ratios[-1]
        if hits <= 0:
            return None
        return next(s for s, miss in zip(sizes, ratios, strict=True) if 1 - miss >= MOST * hits)

    def to_arrow(self) -> "pa.Table":
        """``POINTS`` sizes in equal ratios: size_bytes and miss_ratio."""
        import pyarrow as pa

        sizes = self.sizes(POINTS)
        types = pa.schema({"size_bytes": pa.int64(), "miss_ratio": pa.float64()})
        return pa.table([[round(size) for size in sizes], self.miss_ratios(sizes)], schema=types)

    def display(self) -> Display:
        """A table of some sizes, and the size that is enough."""
        sizes = self.sizes(_SHOWN)
        ratios = self.miss_ratios(sizes)
        rows = [
            [format_bytes(size), f"{miss:.1%}"] for size, miss in zip(sizes, ratios, strict=True)
        ]
        enough = self.enough_bytes()
        verdict = "No cache size gives any hits."
        if enough is not None:
            verdict = (
                f"{format_bytes(enough)} bring {MOST:.0%} of the hits that any cache size can."
            )
        return Display(verdict, ["size", "reads that miss"], rows, left=())


def curve(
    requests: Requests,
    *,
    rate: float | None = None,
    error_points: float | None = None,
    temp_writes: bool = False,
    runs: int = 1,
    on_progress: Callable[[int], None] | None = None,
) -> Curve:
    """The curve of some requests. InputError without reads, or for a rate of 0.

    All lines are followed, or a share ``rate`` of them. With ``error_points`` all are, with rounded
    distances: the curve is off by no more percentage points (``Curve.error_max``).
    ``on_progress`` gets the number of requests done, as in ``simulate``.
    """
    if rate is not None and not 0 < rate <= 1:
        raise OptionInvalid(f"--sample {rate:g}: a share is above 0 and at most 1")
    if error_points is not None and not 0 < error_points <= 100:
        raise OptionInvalid(
            f"--error {error_points:g}: points are above 0 and at most 100",
            "for example --error 0.2",
        )
    if rate is not None and error_points is not None:
        raise OptionConflict(
            "--error follows all lines and --sample a share of them", "give one of the two"
        )
    core, share, error = requests.core, rate or 1.0, (error_points or 0.0) / 100
    core_curve = requests.run(
        lambda: core.curve(rate=share, error=error, temp_writes=temp_writes, runs=runs),
        on_progress,
    )
    if not core_curve.references:
        raise EvidenceIncomplete("there are no reads that a cache could serve")
    if not core_curve.lines:
        raise SelectionEmpty(f"--sample {rate:g} picked none of the lines", "give a larger share")
    return Curve(core_curve, requests.line_bytes, share)

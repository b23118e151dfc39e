"""The measured constants in calibrated.toml, which `make constants` writes."""

import tomllib
from bisect import bisect_right
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from statistics import NormalDist
from typing import TYPE_CHECKING, Any, TypeVar

if TYPE_CHECKING:
    from numpy.typing import NDArray

#: One size, or an array of sizes.
Size = TypeVar("Size", float, "NDArray[Any]")

CALIBRATED = Path(__file__).with_suffix(".toml")
#: The direction that stands for all directions of a kind of evidence.
ANY = "any"


@dataclass(frozen=True)
class Category:
    """Errors of verified forecasts of one kind of evidence and direction."""

    kind: str
    direction: str
    cases: int
    #: Ratio of the errors to those of forecasts from entire recordings.
    factor: float
    #: Highest level whose quantile is from these cases only.
    alone_up_to: float
    #: Quantiles of |log(measured / forecast)| relative to its stated spread, one for each level.
    quantiles: Sequence[float]

    def quantile(self, level: float, levels: Sequence[float]) -> float:
        """The quantile at any level, interpolated over the quantiles of a normal distribution."""
        normal = [0.0, *(NormalDist().inv_cdf((1 + share) / 2) for share in levels)]
        wanted, quantiles = NormalDist().inv_cdf((1 + level) / 2), [0.0, *self.quantiles]
        if wanted >= normal[-1]:
            return quantiles[-1] * wanted / normal[-1]
        right = bisect_right(normal, wanted)
        left = right - 1
        part = (wanted - normal[left]) / (normal[right] - normal[left])
        return quantiles[left] + part * (quantiles[right] - quantiles[left])


@dataclass(frozen=True)
class Residuals:
    """Errors of verified forecasts: spreads of a forecast's parts, and quantiles by category."""

    #: Standard deviations of the logarithm of the time outside temp I/O, and of temp I/O.
    rest_spread: float
    io_spread: float
    levels: Sequence[float]
    categories: Sequence[Category]

    def category(self, kind: str, direction: str) -> Category:
        """The category of a kind and direction, or of all directions if it has too few cases."""
        categories = {(category.kind, category.direction): category for category in self.categories}
        return categories.get((kind, direction)) or categories[kind, ANY]


@dataclass(frozen=True)
class Calibrated:
    """The values of calibrated.toml, which states the unit and the source of each."""

    compression_levels: Sequence[float]
    memory_s: float
    memory_bytes_per_s: float
    oracle_latency_error: Sequence[float]
    oracle_rest_error: Sequence[float]
    oracle_rest_spread: float
    oracle_rest_moves: float
    oracle_rest_s: float
    spill_spread: Sequence[tuple[float, float]]
    residuals: Residuals

    def in_memory_s(self, size_bytes: Size) -> Size:
        """The longest time of an operation of each size if memory serves it."""
        return self.memory_s + size_bytes / self.memory_bytes_per_s


@cache
def calibrated() -> Calibrated:
    """The constants; the file is read at the first call."""
    values = {name: entry["value"] for name, entry in document().items() if name != "residuals"}
    return Calibrated(**values, residuals=residuals_of(document()["residuals"]))


def residuals_of(entry: Mapping[str, Any]) -> Residuals:
    """The errors of verified forecasts from the table ``residuals`` of the file."""
    return Residuals(
        entry["rest_spread"],
        entry["io_spread"],
        entry["levels"],
        [Category(**category) for category in entry["categories"]],
    )


@cache
def document() -> dict[str, Any]:
    """The file's tables by name; each except ``residuals`` contains one constant.

    A table also has the unit, and the date, machine, command and data of the measurement.
    """
    return tomllib.loads(CALIBRATED.read_text())

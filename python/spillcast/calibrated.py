"""Constants that commands measured: calibrated.toml beside this file, as calibration wrote it."""

import tomllib
from bisect import bisect_right
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from statistics import NormalDist
from typing import Any

CALIBRATED = Path(__file__).with_suffix(".toml")
#: Any direction of a kind of evidence.
ANY = "any"


@dataclass(frozen=True)
class Category:
    """How far verified forecasts of one kind of evidence and direction were off."""

    kind: str
    direction: str
    cases: int
    #: Ratio of the errors to those of forecasts from entire recordings.
    factor: float
    #: The highest level whose quantile rests on these cases alone; above, on more and more others.
    alone_up_to: float
    #: Of |log(measured / forecast)| over its stated spread, at each of the levels.
    quantiles: Sequence[float]

    def quantile(self, level: float, levels: Sequence[float]) -> float:
        """At any level: between those known, and beyond, in proportion to a normal distribution."""
        normal = [0.0, *(NormalDist().inv_cdf((1 + share) / 2) for share in levels)]
        at, known = NormalDist().inv_cdf((1 + level) / 2), [0.0, *self.quantiles]
        if at >= normal[-1]:
            return known[-1] * at / normal[-1]
        right = bisect_right(normal, at)
        part = (at - normal[right - 1]) / (normal[right] - normal[right - 1])
        return known[right - 1] + part * (known[right] - known[right - 1])


@dataclass(frozen=True)
class Residuals:
    """How far verified forecasts were off, as shares of their parts and by category."""

    #: Spread of the logarithm of the time outside temp I/O, and of temp I/O.
    rest_spread: float
    io_spread: float
    levels: Sequence[float]
    categories: Sequence[Category]

    def category(self, kind: str, direction: str) -> Category:
        """The one of a kind and direction, or of the kind where that direction has no cases."""
        categories = {(category.kind, category.direction): category for category in self.categories}
        return categories.get((kind, direction)) or categories[kind, ANY]


@dataclass(frozen=True)
class Calibrated:
    """The values of calibrated.toml, which explains each and names its source."""

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

    def memory_answers(self, mean_s: float, mean_bytes: float) -> bool:
        """Whether operations of a latency and size are as fast as memory."""
        return mean_s <= self.memory_s + mean_bytes / self.memory_bytes_per_s


@cache
def calibrated() -> Calibrated:
    """What the file holds; it is read when it is first needed."""
    values = {name: entry["value"] for name, entry in document().items() if name != "residuals"}
    return Calibrated(**values, residuals=residuals_of(document()["residuals"]))


def residuals_of(entry: Mapping[str, Any]) -> Residuals:
    """The table ``residuals`` of the file."""
    return Residuals(
        entry["rest_spread"],
        entry["io_spread"],
        entry["levels"],
        [Category(**category) for category in entry["categories"]],
    )


@cache
def document() -> dict[str, Any]:
    """The file's tables by name; all but ``residuals`` hold a constant each.

    With it are its unit, when, where and by which command it was measured, and what it rests on.
    """
    return tomllib.loads(CALIBRATED.read_text())

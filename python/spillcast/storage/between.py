"""Interpolates and extrapolates latencies along one axis, with their error."""

import math
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

Array = NDArray[np.float64]

#: Replaces 0 in logarithms: a thousandth of a nanosecond.
_NOTHING_S = 1e-12
#: Standard deviation of what lies anywhere between nothing and one, about its middle and its end.
_ABOUT_MIDDLE, _ABOUT_END = 1 / math.sqrt(12), 1 / math.sqrt(3)
#: Median of the absolute values of a normal distribution to its standard deviation.
_OF_MEDIAN = 1.4826


@dataclass(frozen=True)
class Between:
    """Holds a latency in seconds; ``error`` is its relative standard error, 0 if measured."""

    mean_s: float
    error: float
    measured: bool
    outside: bool


def between(x: Array, mean_s: Array, at: float, *, power: bool) -> Between:
    """Latency at ``at`` from those at the ascending ``x``.

    With ``power`` a power law holds from point to point (queue depth), else a straight line (size:
    base + size/bandwidth). Outside of ``x`` the nearest slope goes on, but latency never falls with
    size or depth and never grows faster than they do.

    The error within is that of measured points predicted from their neighbours: of the two next to
    ``at``, or what is usual along the axis where that is more. With two points alone nothing
    can be left out: it is then what a latency may do that never falls nor grows faster than ``x``.
    The error outside is that of the last point predicted from those before it, grown with the
    distance, and what a slope that changes there would do.
    """
    index = int(np.searchsorted(x, at))
    if index < len(x) and x[index] == at:
        return Between(float(mean_s[index]), 0.0, True, False)
    if len(x) == 1:
        return Between(float(mean_s[0]), abs(math.log(at / x[0])) * _ABOUT_END, False, True)
    if 0 < index < len(x):
        value_s = _line(x[index - 1 : index + 1], mean_s[index - 1 : index + 1], at, power)
        return Between(value_s, _error_within(x, mean_s, index, power), False, False)
    if index == 0:
        return _beyond(x, mean_s, at, power)
    return _beyond(x[::-1], mean_s[::-1], at, power)


def _line(x: Array, mean_s: Array, at: float, power: bool) -> float:
    """Interpolate between two points."""
    if not power:
        share = (at - x[0]) / (x[1] - x[0])
        return float(mean_s[0] + share * (mean_s[1] - mean_s[0]))
    share = math.log(at / x[0]) / math.log(x[1] / x[0])
    return math.exp((1 - share) * _log(mean_s[0]) + share * _log(mean_s[1]))


def _beyond(x: Array, mean_s: Array, at: float, power: bool) -> Between:
    """Extrapolate; ``x`` begins with the nearest point."""
    distance = abs(math.log(at / x[0]))
    value_s, exponent = _extended(x[0], x[1], mean_s[0], mean_s[1], at, power)
    # Above, latency may come to grow with x; below, it may stop to depend on x.
    turn = (1 - exponent if at > x[0] else exponent) * distance * _ABOUT_END
    seen = 0.0
    if len(x) > 2:
        again_s, _ = _extended(x[1], x[2], mean_s[1], mean_s[2], x[0], power)
        off = max(abs(_log(again_s) - _log(mean_s[0])), _usual_miss(x, mean_s, power))
        seen = off * distance / abs(math.log(x[0] / x[1]))
    return Between(value_s, math.hypot(turn, seen), False, True)


def _extended(
    x: float, x_next: float, mean_s: float, next_s: float, at: float, power: bool
) -> tuple[float, float]:
    """The line through two points, further on: latency, and the power by which it grows there."""
    if power:
        slope = (_log(mean_s) - _log(next_s)) / math.log(x / x_next)
        exponent = min(max(slope, 0.0), 1.0)
        return mean_s * (at / x) ** exponent, exponent
    per_x = min(max((mean_s - next_s) / (x - x_next), 0.0), mean_s / x)
    value_s = mean_s + per_x * (at - x)
    return value_s, per_x * at / value_s if value_s else 0.0


def _error_within(x: Array, mean_s: Array, index: int, power: bool) -> float:
    """Error between the points ``here - 1`` and ``here``."""
    if len(x) == 2:
        rise = _log(mean_s[1]) - _log(mean_s[0])
        reach = math.log(x[1] / x[0])
        return min(abs(rise), abs(reach - rise)) * _ABOUT_MIDDLE
    near = (point for point in (index - 1, index) if 0 < point < len(x) - 1)
    missed = [_missed(x, mean_s, point, power) for point in near]
    return max(*missed, _usual_miss(x, mean_s, power))


def _usual_miss(x: Array, mean_s: Array, power: bool) -> float:
    missed = [_missed(x, mean_s, point, power) for point in range(1, len(x) - 1)]
    return float(np.median(missed)) * _OF_MEDIAN


def _missed(x: Array, mean_s: Array, point: int, power: bool) -> float:
    """The error of the line through its neighbours at a measured point."""
    ends = [point - 1, point + 1]
    return abs(_log(_line(x[ends], mean_s[ends], x[point], power)) - _log(mean_s[point]))


def _log(seconds: float) -> float:
    return math.log(max(seconds, _NOTHING_S))

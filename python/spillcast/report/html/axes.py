"""Scales and ticks of axes: round values, as many as fit on the narrowest axis."""

import math
from collections.abc import Callable, Sequence
from itertools import pairwise

from spillcast.units import format_bytes, format_duration

#: Width of the narrowest axis, of a letter of its labels, and of the gap between labels.
_AXIS_PX, _LETTER_PX, _GAP_PX = 280, 7.2, 6
#: Maximum numbers of ticks of an axis, and of each axis of a scatter plot.
TICKS_MAX, _SCATTER_TICKS_MAX = 6, 7
_ROUND = [factor * 10.0**power for power in range(-12, 25) for factor in (1, 2, 5)]
#: Steps between ticks of durations, of shares and of a number of sessions.
_STEPS_S = [
    *(s for s in _ROUND if s < 1),
    *(1.0, 2.0, 5.0, 10.0, 15.0, 20.0, 30.0, 60.0, 120.0, 300.0, 600.0, 900.0, 1800.0),
    *(3600.0 * hours for hours in (1, 2, 4, 6, 12)),
    *(86_400 * days for days in _ROUND if days >= 1),
]
_STEPS_PERCENT = (0.001, 0.002, 0.005, 0.01, 0.02, 0.05, 0.1, 0.2, 0.25, 0.5, 1.0)
STEPS_SESSIONS = (0.1, 0.2, 0.25, 0.5, *(number for number in _ROUND if number >= 1))
#: A value on an axis and its label.
Tick = tuple[float, str]


def multiples(max_value: float, count: int, steps: Sequence[float]) -> list[float]:
    """Multiples from 0 to ``max_value`` of the smallest step that gives at most ``count``."""
    step = next((step for step in steps if step >= 0.999 * max_value / count), steps[-1])
    return [round(step * n, 10) for n in range(int(max_value / step + 1e-9) + 1)]


def duration_ticks(max_s: float) -> list[float]:
    """Round durations (s) from 0 to ``max_s``, about five of them."""
    return multiples(max(max_s, 1e-9), 5, _STEPS_S)


def clock(seconds: float) -> str:
    """The label of a round duration: ``2.5 s``, ``90 s``, ``20 min``, ``1 h 30 min``."""
    if seconds < 99.95:
        number, unit = format_duration(seconds).split()
        return f"{float(number):g} {unit}" if seconds else "0"
    minutes, whole_seconds = divmod(round(seconds), 60)
    hours, minutes = divmod(minutes, 60)
    parts = [(hours, "h"), (minutes, "min"), (whole_seconds, "s")]
    return " ".join(f"{number} {unit}" for number, unit in parts if number)


def fitting_durations(max_s: float) -> list[Tick]:
    """Ticks of an axis of durations up to ``max_s``, as many as fit."""
    return _fitting(max_s, _STEPS_S, clock)


def fitting_sizes(max_bytes: float) -> list[Tick]:
    """Ticks of a linear axis of sizes up to ``max_bytes``, in one unit, as many as fit."""
    unit = 1024.0 ** int(math.log(max(max_bytes, 1.0), 1024))
    steps = [unit * n for n in _ROUND[24:]]
    return _fitting(max_bytes, steps, lambda size: format_bytes(size) if size else "0")


def _fitting(max_value: float, steps: Sequence[float], label: Callable[[float], str]) -> list[Tick]:
    max_value = max(max_value, 1e-9)
    for count in range(TICKS_MAX - 1, 0, -1):
        ticks = [(value, label(value)) for value in multiples(max_value, count, steps)]
        if _fit(ticks, lambda value: value / max_value):
            break
    return ticks


def percent_ticks(max_share: float = 1.0, count: int = 4) -> list[Tick]:
    """Round shares from 0 to ``max_share``."""
    shares = multiples(max_share, count, _STEPS_PERCENT)
    return [(share, f"{100 * share:.3g} %") for share in shares]


def size_ticks(low: float, high: float, scale: Callable[[float], float]) -> list[Tick]:
    """Powers of two between two sizes."""
    powers = range(math.ceil(math.log2(low) - 1e-9), math.floor(math.log2(high) + 1e-9) + 1)
    return thinned([(2.0**n, format_bytes(2.0**n)) for n in powers], scale)


def money_ticks(low: float, high: float, scale: Callable[[float], float]) -> list[Tick]:
    """Round amounts between two amounts."""
    return thinned([(value, f"{value:,.10g}") for value in _ROUND if low <= value <= high], scale)


_BELOW_MINUTE_S = [times * 10.0**power for power in range(-9, 1) for times in (1, 2, 5)]
_FINE_S = [
    *(*_BELOW_MINUTE_S, 10, 20, 30, 60, 120, 300, 600, 1200),
    *(3600, 7200, 18_000, 43_200, 86_400),
]
_COARSE_S = [*_BELOW_MINUTE_S[::3], 10, 60, 600, 3600, 36_000, *(10.0**n for n in range(5, 12))]


def scatter_ticks(low_s: float, high_s: float) -> list[Tick]:
    """Round durations on a logarithmic axis, at most seven of a common range."""
    values = [s for s in _FINE_S if low_s <= s <= high_s]
    if len(values) > _SCATTER_TICKS_MAX or not values:
        values = [s for s in _COARSE_S if low_s <= s <= high_s]
    return [(s, clock(s)) for s in values]


def around_durations(low_s: float, high_s: float) -> tuple[float, float]:
    """The round durations at or around a range, for the ends of a logarithmic axis."""
    below = [s for s in _FINE_S if s <= low_s]
    above = [s for s in (*_FINE_S, *_COARSE_S) if s >= high_s]
    return max(below, default=_FINE_S[0]), min(above, default=high_s)


def log_scale(low: float, high: float) -> Callable[[float], float]:
    """A function from a value to its share of a logarithmic axis."""
    width = math.log(high / low)
    return lambda value: math.log(max(value, 1e-12) / low) / width


def _fit(ticks: Sequence[Tick], scale: Callable[[float], float]) -> bool:
    """Whether labels, placed as in ``charts._labels``, keep a distance on the narrowest axis."""
    boxes_px = []
    for value, label in ticks:
        at, width_px = scale(value), _LETTER_PX * len(label)
        shift = {"first": 0.0, "last": 1.0}.get(side(at), 0.5)
        boxes_px.append((_AXIS_PX * at - shift * width_px, _AXIS_PX * at + (1 - shift) * width_px))
    return all(after[0] - before[1] >= _GAP_PX for before, after in pairwise(boxes_px))


def side(at: float) -> str:
    """The alignment of a label with its tick; the outermost labels stay within the axis."""
    return "first" if at < 0.04 else "last" if at > 0.9 else ""


def thinned(ticks: Sequence[Tick], scale: Callable[[float], float]) -> list[Tick]:
    """Every tick, or else every second, third and so on, as soon as the labels fit."""
    thinned_ticks, step = list(ticks), 1
    while len(thinned_ticks) > 1 and not _fit(thinned_ticks, scale):
        step += 1
        thinned_ticks = list(ticks)[::step]
    return thinned_ticks


def share(part: float) -> str:
    """A share of a length, which stays within a chart."""
    return f"{100 * min(max(part, -0.01), 1.01):.5g}%"

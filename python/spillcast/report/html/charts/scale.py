"""Axes that people read: round durations, sizes and latencies with their units."""

import json
import math
from collections.abc import Sequence
from typing import Any

import altair as alt

from spillcast.units import format_bytes, format_duration

_STEPS_S = (1, 2, 5, 10, 15, 20, 30, 60, 120, 300, 600, 900, 1800, 3600, 7200, 14400, 21600, 43200)

#: How a share is written on an axis.
PERCENT = "format(100 * datum.value, '~g') + ' %'"


def axis(ticks: Sequence[float], words: Sequence[str], title: str | None, /, **options: Any) -> Any:
    """An axis with these ticks and no others."""
    labels = json.dumps({f"{tick:.10g}": word for tick, word in zip(ticks, words, strict=True)})
    # Ticks are looked up as they are written, so that 0.1 is 0.1 again.
    expression = f"({labels})[format(datum.value, '.10')] || ({labels})['' + datum.value] || ''"
    return alt.Axis(values=list(ticks), labelExpr=expression, title=title, **options)


def duration_ticks(most_s: float, count: int = 6) -> list[float]:
    """Round durations (s) from 0 to ``most_s``, about ``count`` of them."""
    wanted = max(most_s, 1e-9) / count
    if wanted < 1:
        power = 10.0 ** math.floor(math.log10(wanted))
        step = next(power * times for times in (1, 2, 5, 10) if power * times >= wanted * 0.999)
    else:
        longer = (days * 86400.0 for days in range(1, 10_000))
        step = next(float(s) for s in (*_STEPS_S, *longer) if s >= wanted * 0.999)
    return [round(step * n, 10) for n in range(int(most_s / step + 1e-9) + 1)]


def clock(seconds: float) -> str:
    """A tick of a duration: ``1 min 30 s``, ``20 min``, ``2.5 s``."""
    if seconds == 0:
        return "0"
    if seconds < 60:
        return format_duration(seconds)
    hours, rest = divmod(round(seconds), 3600)
    minutes, left = divmod(rest, 60)
    parts = [(hours, "h"), (minutes, "min"), (left, "s")]
    return " ".join(f"{number} {unit}" for number, unit in parts if number)


def duration_axis(most_s: float, title: str | None, count: int = 6, **options: Any) -> Any:
    """An axis of durations from 0 on."""
    ticks = duration_ticks(most_s, count)
    return axis(ticks, [clock(tick) for tick in ticks], title, **options)


def latency_axis(low_us: float, high_us: float, title: str | None, **options: Any) -> Any:
    """A logarithmic axis of latencies, us: powers of ten."""
    first, last = math.floor(math.log10(low_us)), math.ceil(math.log10(high_us))
    ticks = [10.0**power for power in range(first, last + 1)]
    return axis(ticks, [format_duration(tick / 1e6) for tick in ticks], title, **options)


def size_axis(sizes: Sequence[float], title: str | None, count: int, **options: Any) -> Any:
    """A logarithmic axis of sizes, bytes: powers of two, at most ``count`` of them."""
    first, last = math.floor(math.log2(min(sizes))), math.ceil(math.log2(max(sizes)))
    step = max(-(-(last - first + 1) // count), 1)
    ticks = [2.0**power for power in range(first, last + 1, step)]
    return axis(ticks, [format_bytes(tick) for tick in ticks], title, **options)

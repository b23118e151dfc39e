"""The peaks of a latency histogram, and a sentence about their likely cause.

Latencies of different causes lie powers of ten apart (a page cache, a device, a device that
stalls), so the density is looked at over the logarithm of latency. docs/method.md has the figures.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise

import numpy as np
from numpy.typing import NDArray

from spillcast.calibrated import calibrated
from spillcast.units import format_duration

Array = NDArray[np.float64]

#: Steps of the density in a power of ten, and standard deviation of the kernel in powers of ten.
STEPS = 100
KERNEL = 0.05
#: A peak has at least this share of the operations...
SHARE_MIN = 0.0075
#: ...the valley beside it is at most this deep, as a share of its height...
VALLEY_MAX = 0.7
#: ...and what rises above the valley is so many standard deviations of its number of operations.
SURE = 3.2
#: A peak this many times above another one is far from it.
FAR = 3.0
#: A peak whose bounds are no further apart than this factor is a place, not a range.
NARROW = 1.25


@dataclass(frozen=True)
class Peak:
    """Operations of about the same latency: 5 to 95 % of them between ``low_s`` and ``high_s``."""

    share: float
    low_s: float
    high_s: float
    mode_s: float


@dataclass
class _Basin:
    """Steps ``begin`` up to ``end`` of the density, about its highest."""

    begin: int
    end: int
    top: int


def find_peaks(latency_ns: Sequence[int], counts: Sequence[int]) -> list[Peak]:
    """The peaks of a histogram of bucket middles (ns) and counts, the fastest first.

    Hills of the smoothed density are joined, the least sure first, until every one is clear of its
    neighbours. None where there are no operations.
    """
    ns = np.maximum(np.asarray(latency_ns, dtype=float), 1.0)
    count = np.asarray(counts, dtype=float)
    if count.sum() == 0:
        return []
    step = np.round(np.log10(ns) * STEPS).astype(int)
    origin = int(step.min())
    density = _smoothed(np.bincount(step - origin, weights=count).astype(float))
    margin = (len(density) - (int(step.max()) - origin + 1)) // 2
    basins = _clear(density, _hills(density))
    order = np.argsort(ns, kind="stable")
    ns, count, step = ns[order], count[order], step[order]
    cuts = np.searchsorted(step, [basin.begin + origin - margin for basin in basins[1:]])
    tops = [(basin.top + origin - margin) / STEPS for basin in basins]
    parts = zip(np.split(ns, cuts), np.split(count, cuts), tops, strict=True)
    return [_peak(part_ns, part, count.sum(), top) for part_ns, part, top in parts if part.sum()]


def _smoothed(count: Array) -> Array:
    """Operations per step, smoothed, with a margin on either side that lets the kernel end."""
    reach = round(4 * KERNEL * STEPS)
    kernel = np.exp(-0.5 * (np.arange(-reach, reach + 1) / (KERNEL * STEPS)) ** 2)
    return np.convolve(count, kernel / kernel.sum())


def _hills(density: Array) -> list[_Basin]:
    """One basin for each local maximum, from valley to valley."""
    rise = np.diff(density, prepend=-1.0, append=-1.0)
    tops = np.flatnonzero((rise[:-1] > 0) & (rise[1:] <= 0))
    valleys = [int(a + np.argmin(density[a : b + 1])) for a, b in pairwise(tops)]
    begins, ends = [0, *valleys], [*valleys, len(density)]
    return [_Basin(b, e, int(t)) for b, e, t in zip(begins, ends, tops, strict=True)]


def _clear(density: Array, basins: list[_Basin]) -> list[_Basin]:
    """Basins joined until every valley between two is clear."""
    while len(basins) > 1:
        sure = [_sureness(density, *pair) for pair in pairwise(basins)]
        least = int(np.argmin(sure))
        if sure[least] >= SURE:
            break
        low, high = basins[least : least + 2]
        top = max(low.top, high.top, key=lambda at: density[at])
        basins = [*basins[:least], _Basin(low.begin, high.end, top), *basins[least + 2 :]]
    return basins


def _sureness(density: Array, low: _Basin, high: _Basin) -> float:
    """Standard deviations by which the lower of two neighbours rises above the valley between."""
    valley = density[high.begin]
    lower = min(low, high, key=lambda basin: density[basin.top])
    operations = [float(density[basin.begin : basin.end].sum()) for basin in (low, high)]
    if min(operations) < SHARE_MIN * density.sum() or valley > VALLEY_MAX * density[lower.top]:
        return 0.0
    part = density[lower.begin : lower.end]
    return float(np.maximum(part - valley, 0).sum() / np.sqrt(part.sum()))


def _peak(ns: Array, count: Array, total: float, top: float) -> Peak:
    """The peak of these operations; ``top`` is the decimal logarithm of where they are densest."""
    reached = np.cumsum(count)
    low, high = np.searchsorted(reached, [0.05 * reached[-1], 0.95 * reached[-1]])
    # The density is known in steps; the middle of what lies about its top is known better.
    power = np.log10(ns)
    near = count * (np.abs(power - top) <= KERNEL)
    mode_ns = 10 ** (float(np.average(power, weights=near)) if near.any() else top)
    return Peak(
        share=float(reached[-1] / total),
        low_s=float(ns[low] / 1e9),
        high_s=float(ns[min(high, len(ns) - 1)] / 1e9),
        mode_s=float(mode_ns / 1e9),
    )


def peaks_words(peaks: Sequence[Peak]) -> str:
    """Such as ``94 % around 150 us, 6 % between 600 us and 1 ms``."""
    if len(peaks) == 1:
        return _peak_words(peaks[0])
    largest = max(peaks, key=lambda peak: peak.share)
    return ", ".join(
        f"{_percent(peak.share)} {_place(peak, around=peak is largest)}" for peak in peaks
    )


def plausible_cause(peaks: Sequence[Peak], access: str) -> str | None:
    """One careful sentence about the likely cause of the shape; None without one."""
    largest = max(peaks, key=lambda peak: peak.share)
    memory = "the page cache" if access == "buffered" else "a cache of the device"
    if peaks[0].mode_s < calibrated().memory_s:
        if peaks[-1].mode_s < calibrated().memory_s:
            return f"Below 20 us it is probably memory that answers, such as {memory}."
        return f"Below 20 us it is probably memory that answers, such as {memory}; above, a device."
    if peaks[-1].mode_s >= FAR * largest.mode_s:
        return (
            "A far second peak may be a stall, such as a flash device's garbage collection or a "
            "write cache being flushed."
        )
    return None


def _peak_words(peak: Peak) -> str:
    place = f"around {_words(peak.mode_s, 2)}"
    if peak.high_s < NARROW * peak.low_s:
        return f"all {place}"
    low, high = (_words(s, 2) for s in (peak.low_s, peak.high_s))
    return f"{place}, 90 % between {low} and {high}"


def _place(peak: Peak, *, around: bool) -> str:
    if around or peak.high_s < NARROW * peak.low_s:
        return f"around {_words(peak.mode_s, 2)}"
    low, high = (_words(s, 1) for s in (peak.low_s, peak.high_s))
    return f"between {low} and {high}"


def _words(seconds: float, digits: int) -> str:
    """To so many digits, or one more where that would be off by more than 5 %."""
    rounded = float(f"{seconds:.{digits - 1}e}")
    if abs(rounded / seconds - 1) > 0.05:
        rounded = float(f"{seconds:.{digits}e}")
    number, space, unit = format_duration(rounded).partition(" ")
    return (number.rstrip("0").rstrip(".") if "." in number else number) + space + unit


def _percent(share: float) -> str:
    digits = 0 if 0.0995 <= share < 0.995 or round(share, 4) == 1 else 1
    return f"{100 * share:.{digits}f}".removesuffix(".0") + " %"

"""Describes a storage by its latency peaks and limits, and compares several."""

import math
from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass
from itertools import pairwise
from statistics import median
from typing import Any

import numpy as np

from spillcast.calibrated import calibrated
from spillcast.columns import Floats
from spillcast.document import internal, written
from spillcast.errors import OptionInvalid, Refusal, TargetIncomplete
from spillcast.recording import OPS
from spillcast.storage.model import Estimate, Model
from spillcast.storage.storage import Group, Storage
from spillcast.units import format_duration

#: Steps of the density per power of ten, and standard deviation of the kernel in powers of ten.
STEPS = 100
KERNEL = 0.05
#: The smallest share of the operations in a peak.
SHARE_MIN = 0.0075
#: The largest density in the valley beside a peak, as a share of the peak's density.
VALLEY_MAX = 0.7
#: Least significance of a peak: its operations above the valley's level, in standard deviations.
SIGNIFICANT = 3.2
#: The ratio of the latencies of two peaks from which they are far apart.
FAR_RATIO_MIN = 3.0
#: A peak whose bounds differ by at most this factor is described only by its mode.
NARROW = 1.25


@dataclass(frozen=True)
class Peak:
    """Operations of similar latency; ``low_s`` and ``high_s`` are the 5 % and 95 % quantiles."""

    share: float
    low_s: float
    high_s: float
    mode_s: float


@dataclass
class _Basin:
    """Steps ``begin`` up to ``end`` of the density, around the maximum ``top``."""

    begin: int
    end: int
    top: int


def find_peaks(latency_ns: Sequence[int], counts: Sequence[int]) -> list[Peak]:
    """The peaks of a histogram of bucket middles (ns) and counts, the fastest first.

    Hills of the smoothed density are merged, the least significant first, until each is clearly
    separate from its neighbours. Empty without operations.
    """
    ns = np.maximum(np.asarray(latency_ns, dtype=float), 1.0)
    count = np.asarray(counts, dtype=float)
    if count.sum() == 0:
        return []
    step = np.round(np.log10(ns) * STEPS).astype(int)
    origin = int(step.min())
    density = _smoothed(np.bincount(step - origin, weights=count).astype(float))
    margin = (len(density) - (int(step.max()) - origin + 1)) // 2
    basins = _clear(density, _basins(density))
    order = np.argsort(ns, kind="stable")
    ns, count, step = ns[order], count[order], step[order]
    cuts = np.searchsorted(step, [basin.begin + origin - margin for basin in basins[1:]])
    tops = [(basin.top + origin - margin) / STEPS for basin in basins]
    parts = zip(np.split(ns, cuts), np.split(count, cuts), tops, strict=True)
    return [_peak(part_ns, part, count.sum(), top) for part_ns, part, top in parts if part.sum()]


def _smoothed(count: Floats) -> Floats:
    """Operations per step, smoothed, with a margin for the kernel on either side."""
    reach = round(4 * KERNEL * STEPS)
    kernel = np.exp(-0.5 * (np.arange(-reach, reach + 1) / (KERNEL * STEPS)) ** 2)
    return np.convolve(count, kernel / kernel.sum())


def _basins(density: Floats) -> list[_Basin]:
    """One basin for each local maximum, from valley to valley."""
    rise = np.diff(density, prepend=-1.0, append=-1.0)
    tops = np.flatnonzero((rise[:-1] > 0) & (rise[1:] <= 0))
    valleys = [int(a + np.argmin(density[a : b + 1])) for a, b in pairwise(tops)]
    begins, ends = [0, *valleys], [*valleys, len(density)]
    return [_Basin(b, e, int(t)) for b, e, t in zip(begins, ends, tops, strict=True)]


def _clear(density: Floats, basins: list[_Basin]) -> list[_Basin]:
    """Basins merged until every valley between two is significant."""
    while len(basins) > 1:
        significance = [_significance(density, *pair) for pair in pairwise(basins)]
        least = int(np.argmin(significance))
        if significance[least] >= SIGNIFICANT:
            break
        low, high = basins[least : least + 2]
        top = max(low.top, high.top, key=lambda at: density[at])
        basins = [*basins[:least], _Basin(low.begin, high.end, top), *basins[least + 2 :]]
    return basins


def _significance(density: Floats, low: _Basin, high: _Basin) -> float:
    """The lower neighbour's operations above the valley between, in standard deviations, or 0."""
    valley = density[high.begin]
    lower = min(low, high, key=lambda basin: density[basin.top])
    operations = [float(density[basin.begin : basin.end].sum()) for basin in (low, high)]
    if min(operations) < SHARE_MIN * density.sum() or valley > VALLEY_MAX * density[lower.top]:
        return 0.0
    part = density[lower.begin : lower.end]
    return float(np.maximum(part - valley, 0).sum() / np.sqrt(part.sum()))


def _peak(ns: Floats, count: Floats, total: float, top: float) -> Peak:
    """The peak of these operations; ``top`` is the decimal logarithm of its maximum (ns)."""
    reached = np.cumsum(count)
    low, high = np.searchsorted(reached, [0.05 * reached[-1], 0.95 * reached[-1]])
    # The mean around the top is more accurate than the top, which is a step of the density.
    power = np.log10(ns)
    near = count * (np.abs(power - top) <= KERNEL)
    mode_ns = 10 ** (float(np.average(power, weights=near)) if near.any() else top)
    return Peak(
        share=float(reached[-1] / total),
        low_s=float(ns[low] / 1e9),
        high_s=float(ns[min(high, len(ns) - 1)] / 1e9),
        mode_s=float(mode_ns / 1e9),
    )


def peaks_text(peaks: Sequence[Peak]) -> str:
    """Such as ``94 % around 150 us, 6 % between 600 us and 1 ms``."""
    if len(peaks) == 1:
        return _peak_text(peaks[0])
    largest = max(peaks, key=lambda peak: peak.share)
    return ", ".join(
        f"{_percent(peak.share)} {_peak_range(peak, around=peak is largest)}" for peak in peaks
    )


def plausible_cause(peaks: Sequence[Peak], access: str) -> str | None:
    """One cautious sentence about the likely cause of the shape; None without a likely cause."""
    largest = max(peaks, key=lambda peak: peak.share)
    memory = "the page cache" if access == "buffered" else "a cache of the device"
    if peaks[0].mode_s < calibrated().memory_s:
        if peaks[-1].mode_s < calibrated().memory_s:
            return f"Below 20 us it is probably memory that answers, such as {memory}."
        return f"Below 20 us it is probably memory that answers, such as {memory}; above, a device."
    if peaks[-1].mode_s >= FAR_RATIO_MIN * largest.mode_s:
        return (
            "A far second peak may be a stall, such as a flash device's garbage collection or a "
            "write cache being flushed."
        )
    return None


def _peak_text(peak: Peak) -> str:
    mode = f"around {_rounded_duration(peak.mode_s, 2)}"
    if peak.high_s < NARROW * peak.low_s:
        return f"all {mode}"
    low, high = (_rounded_duration(s, 2) for s in (peak.low_s, peak.high_s))
    return f"{mode}, 90 % between {low} and {high}"


def _peak_range(peak: Peak, *, around: bool) -> str:
    if around or peak.high_s < NARROW * peak.low_s:
        return f"around {_rounded_duration(peak.mode_s, 2)}"
    low, high = (_rounded_duration(s, 1) for s in (peak.low_s, peak.high_s))
    return f"between {low} and {high}"


def _rounded_duration(seconds: float, digits: int) -> str:
    """A duration with ``digits`` digits, or one more digit if the rounding error exceeds 5 %."""
    rounded = float(f"{seconds:.{digits - 1}e}")
    if abs(rounded / seconds - 1) > 0.05:
        rounded = float(f"{seconds:.{digits}e}")
    number, space, unit = format_duration(rounded).partition(" ")
    return (number.rstrip("0").rstrip(".") if "." in number else number) + space + unit


def _percent(share: float) -> str:
    digits = 0 if 0.0995 <= share < 0.995 or round(share, 4) == 1 else 1
    return f"{100 * share:.{digits}f}".removesuffix(".0") + " %"


@dataclass(frozen=True)
class Ability:
    """Limits of one op of a storage; None for unknown limits.

    ``servers`` are operations served concurrently; the errors are of each inner measured cell when
    predicted from the others, as a ratio minus 1; None also if nothing was measured.
    """

    servers: float | None
    operations_per_s: float | None
    bandwidth_bytes_per_s: float | None
    error_median: float | None
    error_max: float | None


@dataclass(frozen=True)
class Shape:
    """Describes the peaks of a group and their likely cause."""

    group: Group
    peaks: Sequence[Peak]
    text: str
    cause: str | None

    def to_json(self) -> dict[str, Any]:
        """The entry of docs/schema.md."""
        keys = ("op", "size_class_bytes", "depth", "pattern", "access")
        return {
            **{key: getattr(self.group, key) for key in keys},
            "peaks": [asdict(peak) for peak in self.peaks],
            "words": self.text,
            "cause": self.cause,
        }


def ability(storage: Storage, op: str) -> Ability:
    """The limits of ``op``. Refusal if the storage has no figures for it."""
    model = Model(storage)
    errors = [] if storage.source.unloaded else model.cells(op, None)[0].prediction_errors()
    return Ability(
        model.servers(op),
        model.operations_per_s(op),
        model.bandwidth_bytes_per_s(op),
        median(errors) if errors else None,
        max(errors) if errors else None,
    )


def shape(group: Group) -> Shape:
    """The peaks of a group with operations."""
    peaks = find_peaks(group.latency_ns, group.latency_count)
    return Shape(group, peaks, peaks_text(peaks), plausible_cause(peaks, group.access))


def described(storage: Storage, groups: Sequence[Group]) -> dict[str, Any]:
    """The storage's document, with limits and peaks of ``groups`` under the key ``model``."""
    ops = sorted({group.op for group in groups})
    model: dict[str, Any] = {op: asdict(ability(storage, op)) for op in ops}
    model["peaks"] = [shape(group).to_json() for group in groups]
    return {**storage.to_json(), "model": model}


#: Maximum number of storages in a comparison, each named by a letter.
STORAGES_MAX = 26


@dataclass(frozen=True)
class Latency:
    """Latency of an operation on a storage; ``error`` is relative, 0 if measured."""

    p50_s: float
    mean_s: float
    p99_s: float
    #: Mean latency on the first storage over that on this one.
    speedup: float | None
    measured: bool
    extrapolated: bool
    error: float
    #: Total time of the measured operations.
    measured_s: float = internal(0.0)


@dataclass(frozen=True)
class StorageComparison:
    """Compares one op, size and pattern; None for a storage without figures for the op."""

    op: str
    size_class_bytes: int
    pattern: str
    storages: Sequence[Latency | None]


@dataclass(frozen=True)
class SpeedUp:
    """The speed-up of a storage over the first storage: over all sizes, and its range.

    ``error`` is its mean relative standard error due to interpolation on both storages.
    """

    storage: str
    op: str
    pattern: str
    speedup: float
    speedup_min: float
    speedup_max: float
    error: float


@dataclass(frozen=True)
class Comparison:
    """Rows of storages, and a verdict on each except the first, to which all ratios refer."""

    names: Sequence[str]
    storages: Sequence[Storage]
    rows: Sequence[StorageComparison]
    verdicts: Sequence[Sequence[SpeedUp]]

    def to_json(self) -> dict[str, Any]:
        """The document of docs/schema.md."""
        return {
            "schema": "spillcast.comparison/1",
            "storages": [
                {"name": name, "source": storage.source.name}
                for name, storage in zip(self.names, self.storages, strict=True)
            ],
            "rows": written(self.rows),
            "verdicts": [written(verdict) for verdicts in self.verdicts for verdict in verdicts],
        }


def compare(storages: Sequence[Storage], names: Sequence[str]) -> Comparison:
    """Compare storages at every size that one of them has, with one operation at a time.

    Short bursts of stated limits are used up. Unmeasured sizes are interpolated, and marked.
    InputError if no other storage has an op of the first.
    """
    if len(storages) > STORAGES_MAX:
        raise OptionInvalid(f"{len(storages)} storages: up to {STORAGES_MAX} can be compared")
    models = [Model(storage) for storage in storages]
    rows = [row for op in OPS for row in _rows(models, op)]
    kinds = list(dict.fromkeys((row.op, row.pattern) for row in rows))
    verdicts = [
        [verdict for kind in kinds if (verdict := _verdict(rows, name, *kind, at)) is not None]
        for at, name in enumerate(names[1:], 1)
    ]
    if not any(verdicts):
        raise TargetIncomplete(
            f"{names[0]} has no op that another of these storages has figures for"
        )
    return Comparison(names, storages, rows, verdicts)


def _rows(models: Sequence[Model], op: str) -> Iterator[StorageComparison]:
    able = [model for model in models if any(g.count for g in model.storage.of(op))]
    apart = {g.pattern for m in able for g in m.storage.of(op) if g.count} - {"recorded"}
    for pattern in sorted(apart) or ["recorded"]:
        sequential = None if pattern == "recorded" else pattern == "sequential"
        sizes = {size for model in able for size in model.cells(op, sequential)[0].sizes}
        for size in sorted(sizes):
            estimates = [_estimate(model, op, size, sequential) for model in models]
            yield StorageComparison(
                op, size, pattern, [_latency(each, estimates[0]) for each in estimates]
            )


def _estimate(model: Model, op: str, size_bytes: int, sequential: bool | None) -> Estimate | None:
    try:
        return model.latency(op, size_bytes, sequential=sequential, lasting=True)
    except Refusal:
        return None


def _latency(estimate: Estimate | None, first: Estimate | None) -> Latency | None:
    if estimate is None:
        return None
    mean_s = estimate.mean_s
    return Latency(
        estimate.quantile_s(0.5),
        mean_s,
        estimate.quantile_s(0.99),
        first.mean_s / mean_s if first and mean_s else None,
        estimate.measured,
        estimate.extrapolated,
        estimate.error,
        mean_s * float(estimate.latency_count.sum()) if estimate.measured else 0.0,
    )


def _verdict(
    rows: Sequence[StorageComparison], name: str, op: str, pattern: str, at: int
) -> SpeedUp | None:
    """The speed-up for the I/O that the first storage was measured with.

    The weight of a row is its measured time there; without measured times all rows are equal.
    """
    shared: list[tuple[float, float, float]] = []
    for row in rows:
        first, other = row.storages[0], row.storages[at]
        if (row.op, row.pattern) == (op, pattern) and first and other and other.speedup:
            error = math.hypot(first.error, other.error)
            shared.append((first.measured_s, other.speedup, error))
    if not shared:
        return None
    weighed = [row for row in shared if row[0]] or [(1.0, *row[1:]) for row in shared]
    first_s = sum(time_s for time_s, _, _ in weighed)
    other_s = sum(time_s / speedup for time_s, speedup, _ in weighed)
    error = sum(time_s * error for time_s, _, error in weighed) / first_s
    speedups = [speedup for _, speedup, _ in weighed]
    return SpeedUp(name, op, pattern, first_s / other_s, min(speedups), max(speedups), error)

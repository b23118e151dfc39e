"""Compares storages: latency by op, size and pattern, and how much faster each is."""

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

from spillcast.errors import OptionInvalid, Refusal, TargetIncomplete
from spillcast.recording.event_names import OPS
from spillcast.storage.model import Estimate, Model
from spillcast.storage.storage import Storage

COMPARISON_SCHEMA = "spillcast.comparison/1"
#: One letter stands for each.
STORAGES_MAX = 26


@dataclass(frozen=True)
class Row:
    """Compares one op, size and pattern; None for a storage without figures for the op."""

    op: str
    size_class_bytes: int
    pattern: str
    estimates: Sequence[Estimate | None]

    def speedup(self, at: int) -> float | None:
        """Mean latency of the first storage over that of another."""
        first, other = self.estimates[0], self.estimates[at]
        return first.mean_s / other.mean_s if first and other and other.mean_s else None


@dataclass(frozen=True)
class Verdict:
    """How many times as fast as the first a storage is: over all sizes, least and most.

    ``error`` is the relative standard error of what was not measured on either, in the mean.
    """

    storage: int
    op: str
    pattern: str
    speedup: float
    low: float
    high: float
    error: float


@dataclass(frozen=True)
class Comparison:
    """Rows of storages; ratios are to the first of them."""

    names: Sequence[str]
    storages: Sequence[Storage]
    rows: Sequence[Row]
    verdicts: Sequence[Verdict]

    def to_json(self) -> dict[str, Any]:
        """The document of docs/schema.md."""
        return {
            "schema": COMPARISON_SCHEMA,
            "storages": [
                {"name": name, "source": storage.source.word}
                for name, storage in zip(self.names, self.storages, strict=True)
            ],
            "rows": [
                {
                    "op": row.op,
                    "size_class_bytes": row.size_class_bytes,
                    "pattern": row.pattern,
                    "storages": [_entry(row, at) for at in range(len(self.names))],
                }
                for row in self.rows
            ],
            "verdicts": [
                {
                    "storage": self.names[verdict.storage],
                    "op": verdict.op,
                    "pattern": verdict.pattern,
                    "speedup": verdict.speedup,
                    "speedup_min": verdict.low,
                    "speedup_max": verdict.high,
                    "error": verdict.error,
                }
                for verdict in self.verdicts
            ],
        }


def _entry(row: Row, at: int) -> dict[str, Any] | None:
    estimate = row.estimates[at]
    if estimate is None:
        return None
    return {
        "p50_s": estimate.quantile_s(0.5),
        "mean_s": estimate.mean_s,
        "p99_s": estimate.quantile_s(0.99),
        "speedup": row.speedup(at),
        "measured": estimate.measured,
        "extrapolated": estimate.extrapolated,
        "error": estimate.error,
    }


def compare(storages: Sequence[Storage], names: Sequence[str]) -> Comparison:
    """Compare storages by every size that one of them has, one operation at a time.

    Short bursts of what is stated are used up. Sizes that a storage was not measured at are taken
    from its others, and say so. InputError where there is no op that two of them have.
    """
    if len(storages) > STORAGES_MAX:
        raise OptionInvalid(f"{len(storages)} storages: up to {STORAGES_MAX} can be compared")
    models = [Model(storage) for storage in storages]
    rows = [row for op in OPS for row in _rows(models, op)]
    kinds = list(dict.fromkeys((row.op, row.pattern) for row in rows))
    verdicts = [
        verdict
        for at in range(1, len(models))
        for kind in kinds
        if (verdict := _verdict(rows, *kind, at)) is not None
    ]
    if not verdicts:
        raise TargetIncomplete(
            f"{names[0]} has no op that another of these storages has figures for"
        )
    return Comparison(names, storages, rows, verdicts)


def _rows(models: Sequence[Model], op: str) -> Iterator[Row]:
    able = [model for model in models if any(g.count for g in model.storage.of(op))]
    apart = {g.pattern for m in able for g in m.storage.of(op) if g.count} - {"recorded"}
    for pattern in sorted(apart) or ["recorded"]:
        sequential = None if pattern == "recorded" else pattern == "sequential"
        sizes = {size for model in able for size in model.cells(op, sequential)[0].sizes}
        for size in sorted(sizes):
            estimates = [_latency(model, op, size, sequential) for model in models]
            yield Row(op, size, pattern, estimates)


def _latency(model: Model, op: str, size_bytes: int, sequential: bool | None) -> Estimate | None:
    try:
        return model.latency(op, size_bytes, sequential=sequential, lasting=True)
    except Refusal:
        return None


def _verdict(rows: Sequence[Row], op: str, pattern: str, at: int) -> Verdict | None:
    """How much faster the I/O goes that the first storage was measured with.

    Each row weighs as the time that was measured there, if any was; else all weigh the same.
    """
    shared: list[tuple[float, float, float]] = []
    for row in rows:
        speedup, first, other = row.speedup(at), row.estimates[0], row.estimates[at]
        if (row.op, row.pattern) == (op, pattern) and speedup and first and other:
            time_s = first.mean_s * float(first.latency_count.sum()) if first.measured else 0.0
            shared.append((time_s, speedup, math.hypot(first.error, other.error)))
    if not shared:
        return None
    weighed = [row for row in shared if row[0]] or [(1.0, *row[1:]) for row in shared]
    first_s = sum(time_s for time_s, _, _ in weighed)
    other_s = sum(time_s / speedup for time_s, speedup, _ in weighed)
    error = sum(time_s * error for time_s, _, error in weighed) / first_s
    speedups = [speedup for _, speedup, _ in weighed]
    return Verdict(at, op, pattern, first_s / other_s, min(speedups), max(speedups), error)

"""Derives peaks, servers, limits and interpolation errors from a storage's figures."""

from collections.abc import Sequence
from dataclasses import asdict, dataclass
from statistics import median
from typing import Any

from spillcast.storage.model import Model
from spillcast.storage.peaks import Peak, find_peaks, peaks_words, plausible_cause
from spillcast.storage.storage import Group, Storage


@dataclass(frozen=True)
class Ability:
    """Limits of one op of a storage; None for unknown ones.

    ``servers`` are operations served at once; the errors are those of each inner measured cell
    predicted from the others, as a ratio less 1; None also where nothing was measured.
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
    words: str
    cause: str | None

    def to_json(self) -> dict[str, Any]:
        """The entry of docs/schema.md."""
        keys = ("op", "size_class_bytes", "depth", "pattern", "access")
        return {
            **{key: getattr(self.group, key) for key in keys},
            "peaks": [asdict(peak) for peak in self.peaks],
            "words": self.words,
            "cause": self.cause,
        }


def ability(storage: Storage, op: str) -> Ability:
    """The limits of ``op``. Refusal if the storage has no figures for it."""
    model = Model(storage)
    missed = [] if storage.source.stated else model.left_out(op)
    return Ability(
        model.servers(op),
        model.operations_per_s(op),
        model.bandwidth_bytes_per_s(op),
        median(missed) if missed else None,
        max(missed) if missed else None,
    )


def shape(group: Group) -> Shape:
    """The peaks of a group with operations."""
    peaks = find_peaks(group.latency_ns, group.latency_count)
    return Shape(group, peaks, peaks_words(peaks), plausible_cause(peaks, group.access))


def described(storage: Storage, groups: Sequence[Group]) -> dict[str, Any]:
    """The storage's document with what ``groups`` say under the key ``model``."""
    ops = sorted({group.op for group in groups})
    model: dict[str, Any] = {op: asdict(ability(storage, op)) for op in ops}
    model["peaks"] = [shape(group).to_json() for group in groups]
    return {**storage.to_json(), "model": model}

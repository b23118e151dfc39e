"""What a recording of a part of a query leaves open: how much temp I/O the rest of it does."""

from collections.abc import Mapping
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute
from numpy.typing import NDArray

from spillcast.forecast.assumptions import UNREAD, UNSEEN, WHOLE
from spillcast.recording import Recording
from spillcast.recording.event_names import OPS
from spillcast.recording.spill import equals

Array = NDArray[np.float64]

#: Kinds of evidence: of a whole query; of a part of it, in slices of all of it, in one stretch, or
#: in one that hardly read again what it wrote; PostgreSQL's own counts; of a part whose whole is
#: told neither by its elapsed time nor by a previous run.
KINDS = ("recording", "slices", "stretch", "unread", "plan", "part")


def is_part(recording: Recording, whole_s: float) -> bool:
    """Whether the recording covers a part of a query that takes ``whole_s``."""
    return recording.elapsed_s < WHOLE * whole_s


def spread_evenly(recording: Recording) -> bool:
    """Whether what was recorded are slices of the query, and not one stretch of it."""
    return recording.meta.raw.slices_of_all


def kind_of_evidence(recording: Recording, whole_s: float) -> str:
    """The one of KINDS by which verified forecasts like it are found."""
    if recording.meta.only_counts:
        return "plan"
    if not is_part(recording, whole_s):
        return "recording"
    if spread_evenly(recording):
        return "slices"
    moved = _moved_bytes(recording)
    return "unread" if moved["read"] < UNREAD * moved["write"] else "stretch"


def part_factors(
    recording: Recording, whole_s: float, count: int, draws: np.random.Generator
) -> Mapping[str, Array] | None:
    """``count`` draws of each op's true share of the time, over the share that was seen.

    None for a recording of the whole. What was seen is put together anew from its slices or
    seconds; the part that was not looked at may do more or less than that.
    """
    if not is_part(recording, whole_s):
        return None
    unseen = 0.0 if spread_evenly(recording) else 1 - recording.elapsed_s / whole_s
    parts = _by_slice(recording) if spread_evenly(recording) else _by_second(recording)
    picks = draws.integers(0, len(parts), (count, len(parts)))
    seen = parts[picks].sum(axis=1) / np.maximum(parts.sum(axis=0), 1.0)
    elsewhere = 1 + unseen * draws.uniform(-UNSEEN, UNSEEN, (count, len(OPS)))
    return {op: seen[:, number] * elsewhere[:, number] for number, op in enumerate(OPS)}


def unread_bytes(recording: Recording) -> int:
    """Bytes of temp files that were written and have yet to be read, if each is read once."""
    moved = _moved_bytes(recording)
    return max(0, moved["write"] - moved["read"])


def _moved_bytes(recording: Recording) -> dict[str, int]:
    sums = _sums(recording, ["op"], "bytes")
    return {op: 0 for op in OPS} | {row["op"]: row["bytes_sum"] for row in sums}


def _by_second(recording: Recording) -> Array:
    """Time (ns) in temp I/O: a row a second, a column an op."""
    last = max(int(recording.elapsed_s), max(recording.seconds["second"].to_pylist(), default=0))
    table = np.zeros((last + 1, len(OPS)))
    for row in _sums(recording, ["second", "op"], "total_ns"):
        table[row["second"], OPS.index(row["op"])] = row["total_ns_sum"]
    return table


def _by_slice(recording: Recording) -> Array:
    """Time (ns) in temp I/O: a row a slice, a column an op."""
    starts_ns = np.array([start_s * 1e9 for start_s, _ in recording.meta.raw.slices_s or ()])
    table = np.zeros((len(starts_ns), len(OPS)))
    waits = recording.temp_columns("start_ns", "elapsed_ns", "op")
    number = np.searchsorted(starts_ns, waits["start_ns"].to_numpy(), side="right") - 1
    written = equals(waits["op"], "write")
    np.add.at(table, (number, written.astype(int)), waits["elapsed_ns"].to_numpy())
    return table


def _sums(recording: Recording, keys: list[str], column: str) -> list[dict[str, Any]]:
    seconds = recording.temp_seconds
    seconds = seconds.set_column(
        seconds.schema.get_field_index("op"), "op", seconds["op"].cast(pa.string())
    )
    grouped = seconds.group_by(keys, use_threads=False).aggregate([(column, "sum")])
    rows: list[dict[str, Any]] = grouped.to_pylist()
    return rows

"""A recording cut down to some windows of time: the evidence of who could not watch all of a run.

What is left is a recording of the windows put end to end. Nothing of the rest of the run is in it,
neither waits nor counts, so a forecast from it needs the elapsed time from elsewhere.
"""

from collections.abc import Sequence
from itertools import pairwise
from typing import Any

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from spillcast import _core
from spillcast.recording import Recording
from spillcast.recording.schema import SECONDS_SCHEMA

SLICES = 10
SLICE_S = 0.3
#: Share of a run that slices may cover; they would be no test of it beyond.
COVERED_MAX = 0.5
#: Windows as start and end, s since the recording began, in order and apart.
Windows = Sequence[tuple[float, float]]


def ten_slices(recording: Recording) -> Recording | None:
    """Ten windows of 0.3 s spread evenly over the run; None where they would be over half of it."""
    apart_s = recording.elapsed_s / SLICES
    if apart_s * COVERED_MAX < SLICE_S:
        return None
    middles_s = [(number + 0.5) * apart_s for number in range(SLICES)]
    windows = [(middle_s - SLICE_S / 2, middle_s + SLICE_S / 2) for middle_s in middles_s]
    return cut(recording, windows, "slices")


def first_fifth(recording: Recording) -> Recording:
    """The first 20 % of the run."""
    return cut(recording, [(0.0, recording.elapsed_s / 5)], "first_fifth")


def cut(recording: Recording, windows: Windows, name: str) -> Recording:
    """The waits that began within the windows, at the times they have when these are put together.

    CPU time is that which the same rows tell of; what no row tells, such as time ready without a
    CPU, is taken as the windows' share of the run. Nothing is written to disk.
    """
    whole = recording.waits.sort_by("start_ns")
    start_ns = whole["start_ns"].to_numpy()
    begin_ns, end_ns = (np.array(edge) * 1e9 for edge in zip(*windows, strict=True))
    which = np.searchsorted(begin_ns, start_ns, side="right") - 1
    kept = (which >= 0) & (start_ns < end_ns[which])
    lengths_ns = end_ns - begin_ns
    shift_ns = begin_ns - np.concatenate([[0.0], np.cumsum(lengths_ns)[:-1]])
    moved_ns = (start_ns - shift_ns[which])[kept].astype(np.int64)
    waits = whole.filter(pa.array(kept))
    column = waits.schema.get_field_index("start_ns")
    waits = waits.set_column(column, waits.schema.field(column), pa.array(moved_ns))
    path = recording.path.with_name(f"{recording.path.stem}-{name}.spill")
    left = Recording(path, _meta(recording, waits, float(lengths_ns.sum()) / 1e9, lengths_ns))
    left.waits = waits
    left.seconds = _seconds(waits)
    left.samples = recording.samples.slice(0, 0)
    return left


def _meta(
    recording: Recording, waits: pa.Table, elapsed_s: float, lengths_ns: NDArray[np.float64]
) -> dict[str, Any]:
    meta, share = dict(recording.meta), elapsed_s / recording.elapsed_s
    temp = waits.filter(waits["temp"])
    other = waits.filter(pa.compute.and_(pa.compute.invert(waits["temp"]), waits["op"].is_valid()))
    ops = temp["op"].combine_chunks().cast(pa.string())
    if meta["cpu_s"] is not None:
        meta["cpu_s"] = _sum(waits["cpu_before_ns"]) / 1e9
    capture = dict(meta["capture"])
    for key in ("lost", "dropped", "unknown_file"):
        capture[key] = round(capture[key] * share)
    for key in ("run_queue_delay_s", "overhead_s", "tracer_cpu_s"):
        capture[key] = capture[key] * share
    edges_s = np.concatenate([[0.0], np.cumsum(lengths_ns)]) / 1e9
    slices_s = [list(pair) for pair in pairwise(edges_s.tolist())]
    return {
        **meta,
        "elapsed_s": elapsed_s,
        "recorded_s": elapsed_s,
        "temp": {
            **meta["temp"],
            "reads": _sum(pa.compute.equal(ops, "read")),
            "writes": _sum(pa.compute.equal(ops, "write")),
            "bytes": _sum(temp["bytes"]),
            "total_s": _sum(temp["elapsed_ns"]) / 1e9,
        },
        "other_io": {"count": other.num_rows, "total_s": _sum(other["elapsed_ns"]) / 1e9},
        "capture": capture,
        "raw": {"rows": waits.num_rows, "rows_seen": waits.num_rows, "slices_s": slices_s},
    }


def _seconds(waits: pa.Table) -> pa.Table:
    """The per-second rows of some waits, as a recorder counts them."""
    timed = waits.filter(waits["op"].is_valid())
    size_bytes = timed["bytes"].fill_null(0).to_pylist()
    classes = {size: _core.size_class_bytes(size) for size in set(size_bytes)}
    keys = {
        "second": pa.compute.divide(timed["start_ns"], 1_000_000_000),
        "op": timed["op"].cast(pa.string()),
        "temp": timed["temp"],
        "size_class_bytes": pa.array([classes[size] for size in size_bytes], pa.int64()),
    }
    table = pa.table({**keys, "bytes": timed["bytes"].fill_null(0), "ns": timed["elapsed_ns"]})
    groups = table.group_by(list(keys), use_threads=False).aggregate(
        [("ns", "list"), ("bytes", "sum")]
    )
    rows = []
    for row in groups.to_pylist():
        latency_ns, count = np.unique(row.pop("ns_list"), return_counts=True)
        row |= {"count": int(count.sum()), "bytes": row.pop("bytes_sum")}
        row["total_ns"] = int((latency_ns * count).sum())
        rows.append(row | {"latency_ns": latency_ns.tolist(), "latency_count": count.tolist()})
    return pa.Table.from_pylist(rows, SECONDS_SCHEMA)


def _sum(values: pa.ChunkedArray | pa.Array) -> int:
    return int(pa.compute.sum(values).as_py() or 0)

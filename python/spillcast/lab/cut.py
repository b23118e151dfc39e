"""A recording cut down to some windows of time: the evidence of who could not watch all of a run.

What is left is a recording of the windows put end to end. Nothing of the rest of the run is in it,
neither waits nor counts, so a forecast from it needs the elapsed time from elsewhere.
"""

from collections.abc import Sequence
from dataclasses import replace
from itertools import pairwise

import numpy as np
import pyarrow as pa

from spillcast.recording import Recording
from spillcast.recording.counted import seconds_of, sum_of, totals
from spillcast.recording.meta import KeptWaits, Meta

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
    """The operations that began within the windows, at the times they have when put together.

    A wait for something else than I/O may last long: of it a window holds the part that lies in
    it. CPU time is that which the rows tell of; what no row tells, such as time ready without a
    CPU, is taken as the windows' share of the run. Nothing is written to disk.
    """
    whole = recording.waits
    operations = whole.filter(whole["op"].is_valid())
    blocked = whole.filter(whole["op"].is_null())
    parts, edges_ns = [], [0]
    for window in windows:
        begin_ns, end_ns = (round(edge_s * 1e9) for edge_s in window)
        for part in (_began(operations, begin_ns, end_ns), _within(blocked, begin_ns, end_ns)):
            moved = pa.compute.add(part["start_ns"], edges_ns[-1] - begin_ns)
            parts.append(_with(part, "start_ns", moved))
        edges_ns.append(edges_ns[-1] + end_ns - begin_ns)
    waits = pa.concat_tables(parts).unify_dictionaries().sort_by("start_ns")
    path = recording.path.with_name(f"{recording.path.stem}-{name}.spill")
    left = Recording(path, _meta(recording, waits, edges_ns))
    left.waits = waits
    left.seconds = seconds_of(waits)
    left.samples = recording.samples.slice(0, 0)
    return left


def _began(waits: pa.Table, begin_ns: int, end_ns: int) -> pa.Table:
    start = waits["start_ns"]
    after = pa.compute.greater_equal(start, begin_ns)
    return waits.filter(pa.compute.and_(after, pa.compute.less(start, end_ns)))


def _within(waits: pa.Table, begin_ns: int, end_ns: int) -> pa.Table:
    """The parts of waits that lie in a window; who ended one later, or made it begin, is gone."""
    start = waits["start_ns"].to_numpy()
    end = start + waits["elapsed_ns"].to_numpy()
    touched = (start < end_ns) & (end > begin_ns)
    rows, start, end = waits.filter(pa.array(touched)), start[touched], end[touched]
    earlier, later = pa.array(start < begin_ns), pa.array(end > end_ns)
    start, end = np.maximum(start, begin_ns), np.minimum(end, end_ns)
    rows = _with(rows, "start_ns", pa.array(start))
    rows = _with(rows, "elapsed_ns", pa.array(end - start))
    rows = _with(rows, "cpu_before_ns", pa.compute.if_else(earlier, 0, rows["cpu_before_ns"]))
    nobody = pa.scalar(None, pa.int64())
    return _with(rows, "woken_by", pa.compute.if_else(later, nobody, rows["woken_by"]))


def _with(table: pa.Table, name: str, values: pa.Array | pa.ChunkedArray) -> pa.Table:
    column = table.schema.get_field_index(name)
    return table.set_column(column, table.schema.field(column), values)


def _meta(recording: Recording, waits: pa.Table, edges_ns: Sequence[int]) -> Meta:
    meta, elapsed_s = recording.meta, edges_ns[-1] / 1e9
    capture, share = meta.capture, elapsed_s / recording.elapsed_s
    temp, other_io = totals(waits)
    slices_s = [(begin_ns / 1e9, end_ns / 1e9) for begin_ns, end_ns in pairwise(edges_ns)]
    return replace(
        meta,
        elapsed_s=elapsed_s,
        recorded_s=elapsed_s,
        cpu_s=None if meta.cpu_s is None else sum_of(waits["cpu_before_ns"]) / 1e9,
        temp=temp,
        other_io=other_io,
        capture=replace(
            capture,
            lost=round(capture.lost * share),
            dropped=round(capture.dropped * share),
            unknown_file=round(capture.unknown_file * share),
            tracer_cpu_s=capture.tracer_cpu_s * share,
            overhead_s=capture.overhead_s * share,
            run_queue_delay_s=capture.run_queue_delay_s * share,
        ),
        # One window is a stretch; several are spread over the whole.
        raw=KeptWaits(waits.num_rows, waits.num_rows, slices_s, slices_of_all=len(slices_s) > 1),
    )

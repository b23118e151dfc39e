"""Counts without times, with the latencies of the storage that they are known to use."""

from dataclasses import replace

import pyarrow as pa

from spillcast.forecast.latency import latencies
from spillcast.forecast.load import in_flight, temp_load
from spillcast.recording import Recording
from spillcast.recording.ends import Ends
from spillcast.recording.schema import SECONDS_SCHEMA
from spillcast.recording.timed_within import TimedWithin
from spillcast.storage import Storage
from spillcast.units import format_duration

#: An operation that the page cache answers takes at least so long.
MEMORY_OPERATION_S = 1e-6


def timed_on(recording: Recording, storage: Storage) -> Recording:
    """The recording as if its temp I/O had the latencies that ``storage`` was measured to have.

    Where that would take longer than the whole run, the page cache answered at least in part: then
    there are bounds, from memory's speed to the whole run.
    """
    loads, at_once = temp_load(recording), in_flight(recording)
    shared_by = recording.meta.temp.shared_by
    target_latencies = latencies(storage, loads, at_once)
    threads = at_once if shared_by is None else shared_by.most
    io_s = (
        sum(load.count * each.mean_s for load, each in zip(loads, target_latencies, strict=True))
        / threads
    )
    if io_s > recording.elapsed_s:
        return _cached(recording, storage.name, io_s, threads)
    mean_ns = {
        load.op: round(each.mean_s * 1e9)
        for load, each in zip(loads, target_latencies, strict=True)
    }
    rows = [
        {**row, "total_ns": mean_ns[row["op"]] * row["count"], "latency_ns": [mean_ns[row["op"]]]}
        for row in recording.seconds.to_pylist()
    ]
    total_s = sum(row["total_ns"] for row in rows) / 1e9
    temp = replace(recording.meta.temp, total_s=total_s, timed_on=storage.name)
    if shared_by is not None:
        shared_by = shared_by.within(recording.elapsed_s, total_s)
        temp = replace(temp, shared_by=shared_by, processes=shared_by.middle)
    timed = Recording(recording.path, replace(recording.meta, temp=temp))
    timed.waits = recording.waits
    timed.seconds = pa.Table.from_pylist(rows, SECONDS_SCHEMA)
    if (ends := recording.ends) is not None:
        least, most = (timed_on(bound, storage) for bound in (ends.least, ends.most))
        timed.ends = Ends(least, most, ends.unknown)
    return timed


def _cached(recording: Recording, name: str, io_s: float, threads: float) -> Recording:
    """The run with bounds of its temp I/O, as the page cache answered what ``name`` did not."""
    temp = recording.meta.temp
    processes = threads if temp.shared_by is None else temp.shared_by.middle
    within = TimedWithin(
        temp.operations * MEMORY_OPERATION_S,
        recording.elapsed_s * processes,
        f"on {name} alone it would take {format_duration(io_s)}, longer than the query "
        f"({format_duration(recording.elapsed_s)}), so the page cache answered at least a part",
        "record the query: spillcast record",
        False,
    )
    total_s = within.middle_s
    each_ns = round(total_s * 1e9 / max(temp.operations, 1))
    rows = [
        {**row, "total_ns": each_ns * row["count"], "latency_ns": [each_ns]}
        for row in recording.seconds.to_pylist()
    ]
    temp = replace(temp, total_s=total_s, within=within, shared_by=None, processes=processes)
    cached = Recording(recording.path, replace(recording.meta, temp=temp))
    cached.waits = recording.waits
    cached.seconds = pa.Table.from_pylist(rows, SECONDS_SCHEMA)
    return cached

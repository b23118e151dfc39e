"""Counts that nobody timed, with the latencies of the storage that they are known to stand on."""

from dataclasses import replace

import pyarrow as pa

from spillcast.errors import Refusal
from spillcast.forecast.latency import latencies
from spillcast.forecast.load import in_flight, temp_load
from spillcast.recording import Recording
from spillcast.recording.ends import Ends
from spillcast.recording.schema import SECONDS_SCHEMA
from spillcast.storage import Storage
from spillcast.units import format_duration


def timed_on(recording: Recording, storage: Storage) -> Recording:
    """The recording as if its temp I/O had the latencies that ``storage`` was measured to have.

    Refusal where that I/O would take longer than the whole run.
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
        raise Refusal(
            f"on {storage.name} the temp I/O would take {format_duration(io_s)}, longer than the "
            f"query ({format_duration(recording.elapsed_s)}): the query ran on other storage"
        )
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

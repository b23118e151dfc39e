"""Counts whose temp I/O was not timed, with the times of today's storage as ``--from`` names it."""

from dataclasses import replace
from typing import Protocol

from spillcast.evidence.counts import (
    Bounds,
    Counts,
    feasible_processes,
    middle,
    middle_processes,
)
from spillcast.forecast.workload.counted import counted_loads, mean_latencies_s
from spillcast.forecast.workload.load import total_s
from spillcast.forecast.workload.resources import MEMORY_OPERATION_S
from spillcast.recording import OPS
from spillcast.storage import Storage
from spillcast.units import format_duration


class OriginWord(Protocol):
    """Options with the argument of ``--from``, and the storage that an argument names."""

    @property
    def origin(self) -> str | None: ...  # noqa: D102
    def storage(self, word: str, like: Counts, option: str) -> Storage: ...  # noqa: D102


def with_origin(counts: Counts, options: OriginWord) -> Counts:
    """The counts, with the latencies of ``--from`` if it is given and they have no times."""
    if options.origin is None:
        return counts
    return timed_on(counts, options.storage(options.origin, counts, "--from"))


def timed_on(counts: Counts, storage: Storage) -> Counts:
    """The counts with the latencies of ``storage`` as the times of their temp I/O, if it has none.

    If that would take longer than the run, the page cache served at least a part of it. Then the
    times have bounds, from the speed of memory to the entire run.
    """
    if counts.total_s and counts.time_max_s is None:
        return counts
    loads, shared = counted_loads(counts), counts.processes_bounds
    max_processes = counts.processes if shared is None else shared.upper
    # More processes share the limits of the storage, too.
    mean_s = mean_latencies_s(replace(counts, processes=max_processes), loads, storage)
    io_s = total_s(loads, mean_s) / max_processes
    if io_s > counts.elapsed_s:
        return _cached(counts, storage.name, io_s, max_processes)
    if shared is not None:
        mean_s = mean_latencies_s(counts, loads, storage)
    mean_ns = {load.op: round(s * 1e9) for load, s in zip(loads, mean_s, strict=True)}
    timed = replace(counts.with_mean_ns(mean_ns), timed_on=storage.name)
    if shared is not None:
        shared = feasible_processes(shared, counts.elapsed_s, timed.total_s)
        timed = replace(timed, processes_bounds=shared, processes=middle_processes(shared))
    if (io := counts.io_bounds) is not None:
        lower, upper = timed_on(io.lower, storage), timed_on(io.upper, storage)
        timed = replace(timed, io_bounds=replace(io, lower=lower, upper=upper))
    return timed


def temp_s_on(counts: Counts, storage: Storage) -> float:
    """The time (s) of the temp I/O of the counts on ``storage``, without other work."""
    loads = counted_loads(counts)
    return total_s(loads, mean_latencies_s(replace(counts, elapsed_s=0.0), loads, storage))


def _cached(counts: Counts, name: str, io_s: float, max_processes: float) -> Counts:
    """The counts with bounds of temp I/O that the page cache served in part."""
    shared = counts.processes_bounds
    processes = max_processes if shared is None else middle_processes(shared)
    max_s = counts.elapsed_s * processes
    if counts.time_max_s is not None:
        max_s = min(max_s, counts.time_max_s)
    time = Bounds(
        min(counts.operations * MEMORY_OPERATION_S, max_s),
        max_s,
        f"on {name} alone it would take {format_duration(io_s)}, longer than the query "
        f"({format_duration(counts.elapsed_s)}), so the page cache answered at least a part",
        "record the query: spillcast record",
    )
    mean_ns = round(middle(time) * 1e9 / max(counts.operations, 1))
    return replace(
        counts.with_mean_ns(dict.fromkeys(OPS, mean_ns)),
        time_bounds=time,
        timed_on=name,
        counts_follow_time=False,
        processes=processes,
        processes_bounds=None,
        io_bounds=None,
    )

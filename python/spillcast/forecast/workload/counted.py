"""The workload of counts, with the times of today's storage if their temp I/O was not timed."""

from collections.abc import Mapping, Sequence
from dataclasses import replace
from math import inf
from typing import Protocol

import numpy as np

from spillcast import _core
from spillcast.errors import EvidenceContradictory, NotSpilled
from spillcast.evidence.counts import (
    Bounds,
    Counts,
    are_close,
    feasible_processes,
    middle,
    middle_processes,
)
from spillcast.forecast.workload import CpuTime, DataReads, Quality, Workload, cpu_between_s
from spillcast.forecast.workload.load import Load, latencies, operations, total_s, with_means
from spillcast.forecast.workload.resources import MEMORY_OPERATION_S, Cpus
from spillcast.forecast.workload.threads import Threads
from spillcast.recording import OPS
from spillcast.recording.thread_trace import NONE, ThreadTrace
from spillcast.storage import Storage
from spillcast.storage.model import behaviour_of
from spillcast.units import DURATION_MAX_S, format_duration


def counted_loads(counts: Counts) -> list[Load]:
    """A load for each op with its mean size, excluding calls that moved no bytes."""
    return [
        Load(op, _core.size_class_bytes(n.bytes // n.count), n.count, n.bytes, n.total_ns / 1e9)
        for op, n in counts.by_op
        if n.bytes >= n.count
    ]


#: Largest error of the CPU time, as a share of the elapsed time.
THINK_ERROR = 0.01


def loads_on(counts: Counts, storage: Storage) -> list[Load]:
    """The loads of counts, with the time that their operations take on a storage.

    The rest of the elapsed time is CPU time, during which the kernel writes back and limits refill.
    """
    loads = counted_loads(counts)
    total_operations = operations(loads)
    # Also for a device, of which figures may be missing.
    means_s = [latency.mean_s for latency in latencies(storage, loads, counts.processes)]
    if storage.source.of_device:
        behaviour, think_s, before_s = behaviour_of(storage, access="buffered"), 0.0, inf
        while abs(think_s - before_s) > THINK_ERROR * counts.elapsed_s:
            threads, before_s = _threads(counts, loads, think_s), think_s
            page_cache = threads.read_ahead(total_operations)
            simulated = threads.on(behaviour, total_operations, {}, page_cache)
            means_s = [mean_s or 0.0 for mean_s in threads.mean_s(simulated, loads)]
            io_s = sum(load.count * mean_s for load, mean_s in zip(loads, means_s, strict=True))
            think_s = max(counts.elapsed_s - io_s / counts.processes, think_s)
    return with_means(loads, means_s)


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
    shared = counts.processes_bounds
    max_processes = counts.processes if shared is None else shared.upper
    # More processes share the limits of the storage, too.
    loads = loads_on(replace(counts, processes=max_processes), storage)
    io_s = total_s(loads) / max_processes
    if io_s > counts.elapsed_s:
        return _cached(counts, storage.name, io_s, max_processes)
    if shared is not None:
        loads = loads_on(counts, storage)
    mean_ns = {load.op: round(load.mean_s * 1e9) for load in loads}
    timed = replace(_with_mean_ns(counts, mean_ns), timed_on=storage.name)
    if shared is not None:
        shared = feasible_processes(shared, counts.elapsed_s, timed.total_s)
        timed = replace(timed, processes_bounds=shared, processes=middle_processes(shared))
    if (io := counts.io_bounds) is not None:
        lower, upper = timed_on(io.lower, storage), timed_on(io.upper, storage)
        timed = replace(timed, io_bounds=replace(io, lower=lower, upper=upper))
    return timed


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
        _with_mean_ns(counts, dict.fromkeys(OPS, mean_ns)),
        time_bounds=time,
        timed_on=name,
        counts_follow_time=False,
        processes=processes,
        processes_bounds=None,
        io_bounds=None,
    )


def _with_mean_ns(counts: Counts, mean_ns: Mapping[str, int]) -> Counts:
    """The same operations with this mean latency by op; 0 for an op that is not given."""
    reads, writes = (
        replace(of_op, total_ns=mean_ns.get(op, 0) * of_op.count)
        for op, of_op in zip(OPS, (counts.reads, counts.writes), strict=True)
    )
    return replace(counts, reads=reads, writes=writes)


def workload_of_counts(counts: Counts) -> Workload:
    """The workload of counts, and the workloads at the bounds of an unknown quantity.

    EvidenceContradictory for an impossible elapsed time; NotSpilled without temp I/O.
    """
    loads = counted_loads(counts)
    if not loads:
        raise NotSpilled("did not spill")
    if counts.elapsed_s <= 0:
        raise EvidenceContradictory("an elapsed time of 0 leaves nothing to forecast")
    if counts.elapsed_s > DURATION_MAX_S:
        raise EvidenceContradictory("an elapsed time of more than 300 years")
    calibration, time = counts.calibration, counts.time_bounds
    io_s = counts.total_s / counts.processes
    quality = Quality(
        engine=counts.engine.name,
        notes=counts.notes,
        timed_on=counts.timed_on,
        absent_because=counts.absent_because,
        unknown=counts.unknown,
        time_unknown=time is not None and not are_close(time),
        processes_unknown=counts.processes_bounds is not None,
    )
    return Workload(
        name=counts.path.name,
        elapsed_s=counts.elapsed_s,
        total_s=counts.elapsed_s,
        kind="plan",
        loads=loads,
        recorded_loads=loads,
        threads=_threads(counts, loads, max(counts.elapsed_s - io_s, 0.0)),
        cpu=CpuTime(
            total_s=counts.cpu_s,
            between_s=cpu_between_s(
                counts.cpu_s, counts.elapsed_s, counts.total_s, counts.operations
            ),
            wait_cost=None
            if calibration is None
            else calibration.cost_of(counts.engine.name, counts.engine.version),
        ),
        data_reads=DataReads(None, None, counts.data_read_s) if counts.data_read_s else None,
        held_bytes=counts.held_bytes,
        quality=quality,
        statement=counts.of_statement,
        subject=counts.subject,
        plan=counts.plan,
        at_bounds=[
            replace(workload_of_counts(bound), quality=quality) for bound in counts.at_bounds()
        ],
    )


def _threads(counts: Counts, loads: Sequence[Load], think_s: float) -> Threads:
    """Threads that share the loads, each with ``think_s`` of CPU time."""
    number = max(round(counts.processes), 1)
    return Threads(
        trace=counted_trace(loads, number, think_s),
        elapsed_s=counts.elapsed_s,
        number=number,
        in_flight=counts.processes,
        operations=operations(loads),
        source=Cpus(None),
        target=Cpus(None),
        counted=True,
        buffered=counts.buffered,
    )


#: Number of simulated operations that suffices to show a storage's limits and servers.
STEPS_MAX = 100_000
#: Largest product of operations and threads: each step of a simulation visits every thread.
VISITS_MAX = 6_400_000
#: Number of simulated bytes that suffices; a page cache simulates each of their pages.
BYTES_MAX = 16 << 30


def counted_trace(loads: Sequence[Load], threads: int, think_s: float) -> ThreadTrace:
    """Sequential operations in one file per thread, with equal CPU time between them.

    ``think_s`` is the CPU time of each thread.
    """
    total = operations(loads)
    moved = max(sum(load.bytes for load in loads), 1)
    kept = min(1.0, STEPS_MAX / total, VISITS_MAX / threads / total, BYTES_MAX / moved) / threads
    ordered = sorted(loads, key=lambda load: load.op == "read")
    counts = [max(1, round(load.count * kept)) for load in ordered]
    size = np.repeat([round(load.mean_bytes) for load in ordered], counts).astype(np.int64)
    write = np.repeat([load.op == "write" for load in ordered], counts)
    # Reads begin at the same offset as writes.
    offset = np.where(write, np.cumsum(size), np.cumsum(np.where(write, 0, size))) - size
    count = len(size)
    cpu_ns = round(think_s * threads * kept * 1e9 / count)
    nothing = np.zeros(count * threads, dtype=np.int64)
    no, yes = np.zeros(count * threads, dtype=bool), np.ones(count * threads, dtype=bool)
    thread = np.tile(np.arange(threads, dtype=np.int32), count)
    return ThreadTrace(
        thread=thread,
        start_ns=nothing,
        cpu_ns=np.full(count * threads, cpu_ns),
        ready_ns=nothing,
        wait_ns=nothing,
        on_core=no,
        after=np.full(count * threads, NONE, dtype=np.int32),
        after_cpu_ns=nothing,
        temp=yes,
        change=no,
        io=yes,
        source=np.zeros(count * threads, dtype=np.int32),
        file=thread,
        offset=np.repeat(offset, threads),
        bytes=np.repeat(size, threads),
        write=np.repeat(write, threads),
        cpu_known=False,
    )

"""Builds the workload of the recorded time of a run, or of counts."""

from collections.abc import Sequence
from dataclasses import replace
from math import hypot

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
from spillcast.forecast.duckdb import compression
from spillcast.forecast.load import Load, latencies, operations
from spillcast.forecast.resources import PERIOD_S, Cpus
from spillcast.forecast.threads import Threads
from spillcast.forecast.workload import (
    SHARE_REPORTED,
    CaptureOverhead,
    CpuTime,
    DataReads,
    Quality,
    TempChanges,
    Workload,
    cpu_between_s,
)
from spillcast.recording import DATA_READ_BY_OTHERS, OPS, Recording
from spillcast.recording.completeness import (
    contradictions_of,
    large_other_io,
    unrecognised,
    unspilled,
)
from spillcast.recording.derived import MISSING_BYTES
from spillcast.recording.meta import Meta
from spillcast.recording.thread_trace import NONE, TempOperations, ThreadTrace
from spillcast.storage import Storage
from spillcast.tables import Table
from spillcast.units import format_duration

#: Share of the cost of observing a temp call within its timed interval, and its standard error.
INSIDE = 0.5
INSIDE_ERROR = 0.25
#: Relative error of the cost of observing: repeated measurements differ by as much.
OBSERVED_ERROR = 0.5
#: Standard deviations between the quartiles of a normal distribution.
QUARTILES = 1.349
#: Threads that use the CPU in a larger share of the time of io_uring requests do not wait for them.
BUSY_MAX = 0.1
#: CPU time above this multiple of a quota is no error of the clocks.
QUOTA_EXCEEDED = 1.1


def recorded_workload(recording: Recording, target: Cpus, *, rehearsed: bool) -> Workload:
    """The workload of the recorded time. NotSpilled without temp I/O.

    ``target`` are the CPUs to run on; with ``rehearsed`` the order of the operations is kept.
    """
    meta = recording.meta
    if not (loads := loads_of(recording)):
        raise NotSpilled(f"{recording.path}: {unspilled(meta)}")
    plan = None
    if meta.engine.plan_file is not None:
        from spillcast.evidence.postgres.spills import spills_beside

        plan = spills_beside(recording)
    stalled_s = meta.memory.stalled_s or 0.0
    return Workload(
        name=recording.path.name,
        elapsed_s=recording.elapsed_s,
        total_s=recording.elapsed_s,
        kind="recording",
        loads=loads,
        recorded_loads=loads,
        threads=recorded_threads(recording, target),
        cpu=cpu_time(recording, rehearsed=rehearsed),
        changes=temp_changes(recording),
        data_reads=data_reads(recording),
        capture_overhead=capture_overhead(recording, loads),
        memory_stalled_s=stalled_s if stalled_s > SHARE_REPORTED * recording.elapsed_s else 0.0,
        held_bytes=recording.held_bytes,
        written_bytes=recording.written_bytes.temp,
        temp_places=meta.named_temp_places,
        host=meta.machine.host,
        quality=_quality(recording),
        compression=compression(recording, loads),
        statement=meta.of_statement,
        plan=plan,
    )


def workload_of_part(workload: Workload, part: Recording) -> Workload:
    """The workload by a part of the sampled waits."""
    loads = loads_of(part)
    return replace(
        workload,
        loads=loads,
        recorded_loads=loads,
        threads=recorded_threads(part, workload.threads.target),
        cpu=replace(workload.cpu, bursts=part.work.bursts),
        changes=temp_changes(part),
        data_reads=data_reads(part),
        capture_overhead=capture_overhead(part, loads),
        compression=compression(part, loads),
    )


def cpu_time(recording: Recording, *, rehearsed: bool) -> CpuTime:
    """The CPU time of a recorded run; with ``rehearsed`` the order of its operations is kept."""
    meta, temp = recording.meta, recording.meta.temp
    engine, work, calibration = meta.engine, recording.work, meta.machine.calibration
    wait_cost = None
    if calibration is not None:
        wait_cost = calibration.cost_of(engine.name, engine.version, work.temp_owner)
    operations = TempOperations.of(recording.waits, recording.slices_s) if rehearsed else None
    exceeded = meta.cpu_limits.quota_cpus if quota_exceeded(meta) else None
    return CpuTime(
        total_s=meta.cpu_s,
        between_s=cpu_between_s(meta.cpu_s, recording.elapsed_s, temp.total_s, temp.operations),
        wait_cost=wait_cost,
        caches=meta.machine.caches,
        bursts=work.bursts,
        operations=operations,
        run_queue_s=meta.capture.run_queue_delay_s,
        run_queue_others_s=meta.run_queue_others_s,
        throttled_s=meta.cpu_limits.throttled_s,
        exceeded_quota_cpus=exceeded,
    )


def _quality(recording: Recording) -> Quality:
    meta, capture = recording.meta, recording.meta.capture
    mean_s = meta.temp.total_s / max(meta.temp.operations, 1)
    # Page faults of known time are data reads, a term of the forecast.
    faults = (capture.file_faults or 0) if capture.file_fault_s is None else 0
    if faults * mean_s <= SHARE_REPORTED * recording.elapsed_s:
        faults = 0
    busy_s = capture.io_uring_busy_s
    if busy_s <= BUSY_MAX * meta.temp.total_s:
        busy_s = 0.0
    return Quality(
        unseen=meta.unseen,
        contradictions=contradictions_of(recording),
        io_uring_depth=capture.io_uring_depth,
        io_uring_busy_s=busy_s,
        file_faults=faults,
        unrecognised=unrecognised(recording),
        other_io_s=meta.other_io.total_s if large_other_io(meta) else None,
        wakings_seen=recording.work.wakings_seen,
        all_waits=meta.raw.whole,
    )


def loads_of(evidence: Recording | Counts) -> list[Load]:
    """A load for each op and size class; of counts one for each op, of its mean size.

    Those of a recording come from the per-second rows, which cover the whole run. Calls that moved
    no byte, such as reads at the end of a file, reach no storage and are left out. I/O without
    offsets counts as sequential, as in a probe.
    """
    if isinstance(evidence, Counts):
        return [
            Load(op, _core.size_class_bytes(n.bytes // n.count), n.count, n.bytes, n.total_ns / 1e9)
            for op, n in evidence.by_op
            if n.bytes >= n.count
        ]
    seconds = evidence.temp_seconds
    seconds = seconds.filter(seconds["size_class_bytes"].values > 0)
    groups = seconds.group_by("op", "size_class_bytes")
    sums = {name: groups.sum(seconds[name].values) for name in ("count", "bytes", "total_ns")}
    shares = evidence.work.sequential
    rows = Table({**groups.keys.columns, **sums}).to_pylist()
    loads = [
        Load(op, size, count, moved, total_ns / 1e9, shares.get((op, size), 1.0))
        for op, size, count, moved, total_ns in (row.values() for row in rows)
    ]
    return sorted(loads, key=lambda load: load.kind)


def recorded_threads(recording: Recording, target: Cpus | None = None) -> Threads:
    """The threads of a recording, from its single waits, or from its counts without any."""
    source, work, threads = recorded_cpus(recording.meta), recording.work, 1
    if work.threads:
        trace, threads = work.trace, work.threads
    else:
        loads = loads_of(recording)
        io_s = sum(load.total_s for load in loads)
        trace = counted_trace(loads, threads, max(recording.elapsed_s - io_s, 0.0))
    missing_bytes, change_events = None, list[str]()
    if MISSING_BYTES in recording.waits.column_names:
        missing_bytes = np.full(len(trace.temp), NONE, dtype=np.int64)
        missing_bytes[trace.temp] = recording.waits[MISSING_BYTES].to_numpy()[
            trace.source[trace.temp]
        ]
    if trace.change.any():
        change_events = recording.waits["event"][trace.source[trace.change]].to_pylist()
    # A sample shows the contents of the page cache only if it has the missing bytes of each read.
    cache_known = recording.sample is None or missing_bytes is not None
    return Threads(
        trace=trace,
        elapsed_s=recording.elapsed_s,
        number=threads,
        in_flight=max(1.0, work.in_flight),
        operations=recording.temp_seconds["count"].sum(),
        source=source,
        target=source if target is None else target,
        cache_bytes=recording.meta.engine_cache_bytes if cache_known else None,
        missing_bytes=missing_bytes,
        change_events=change_events,
        sampled=recording.meta.capture.spun_s is not None,
    )


def recorded_cpus(meta: Meta) -> Cpus:
    """The CPUs that the run had."""
    machine, limits = meta.machine.cpus, meta.cpu_limits
    cores = min((count for count in (machine, limits.cpus) if count), default=None)
    quota_cpus = None if quota_exceeded(meta) else limits.quota_cpus
    return Cpus.limited(cores, quota_cpus, limits.period_s or PERIOD_S)


def quota_exceeded(meta: Meta) -> bool:
    """Whether the threads had more CPU time than their quota, which then was not in force."""
    limits = meta.cpu_limits
    if limits.quota_cpus is None or meta.cpu_s is None:
        return False
    max_s = limits.quota_cpus * (meta.elapsed_s + (limits.period_s or PERIOD_S))
    return meta.cpu_s > QUOTA_EXCEEDED * max_s


def temp_changes(recording: Recording) -> list[TempChanges]:
    """Calls that change temp files in the entire run, by kind if single waits show it."""
    seconds = recording.seconds
    seconds = seconds.filter(seconds["temp"].values & seconds["op"].is_null())
    count, total_ns = seconds["count"].sum(), seconds["total_ns"].sum()
    if not count:
        return []
    changes = recording.work.changes
    if not changes:
        return [TempChanges(None, count, total_ns / 1e9)]
    seen, seen_ns = sum(calls for _, calls, _ in changes), sum(ns for _, _, ns in changes)
    return [
        TempChanges(event, round(calls * count / seen), ns / max(seen_ns, 1) * total_ns / 1e9)
        for event, calls, ns in sorted(changes)
    ]


def capture_overhead(recording: Recording, loads: Sequence[Load]) -> CaptureOverhead:
    """The cost of recording to the observed threads; 0 if not measured.

    Every call costs the same, and every context switch. A part of the cost of a temp call, and the
    cost of a switch during it, are within its timed interval; the rest is outside.
    """
    capture = recording.meta.capture
    call_s, calls = capture.call_cost_s, capture.calls
    if call_s is None or calls is None or capture.overhead_s is None:
        return CaptureOverhead()
    count = operations(loads)
    switches_s = recording.work.blocked_share * (capture.switch_cost_s or 0.0)
    operation_s = INSIDE * call_s + switches_s
    outside_s = max(capture.overhead_s - operation_s * count, 0.0)
    low_s, high_s = capture.overhead_low_s, capture.overhead_high_s
    spread_s = 0.0 if low_s is None or high_s is None else (high_s - low_s) / QUARTILES
    moved_s = INSIDE_ERROR * call_s * count
    share = outside_s / capture.overhead_s if capture.overhead_s else 0.0
    error_s = hypot(share * spread_s, OBSERVED_ERROR * outside_s, moved_s)
    return CaptureOverhead(operation_s, outside_s, error_s)


def data_reads(recording: Recording) -> DataReads | None:
    """Reads of data that was not cached; None without any, or if they may be a spill."""
    if unrecognised(recording) is not None:
        return None
    reads, seconds = recording.work.data_reads, recording.seconds
    count, size, called_s = None, None, 0.0
    if reads.cold:
        # Single waits show which reads were slower than memory and left the CPU, the per-second
        # rows how many there were in the entire run.
        is_read = ~seconds["temp"].values & seconds["op"].equals("read")
        scale = max(int(seconds["total_ns"].values[is_read].sum()) / reads.total_ns, 1.0)
        count, size = round(scale * reads.cold), round(scale * reads.cold_bytes)
        called_s = scale * reads.cold_elapsed_s
    fault_s = (recording.meta.capture.file_fault_s or 0.0) / reads.threads_at_once
    waited_s = recording.elapsed_s * _share_read_by_others(recording) + fault_s
    elapsed_s = min(called_s + waited_s, recording.elapsed_s)
    return DataReads(count, size, elapsed_s) if elapsed_s else None


def _share_read_by_others(recording: Recording) -> float:
    """Share of the sampled time in which sessions waited for reads by other processes."""
    if recording.meta.sampling is None:
        return 0.0
    samples = recording.samples
    total_us = samples["weight_us"].sum()
    if not total_us:
        return 0.0
    waited = samples["event"].isin(DATA_READ_BY_OTHERS)
    return float(samples["weight_us"].values[waited].sum() / total_us)


def workload_of_counts(counts: Counts) -> Workload:
    """The workload of counts, and that at each bound of a quantity that has only bounds.

    EvidenceContradictory for an elapsed time of 0; NotSpilled without temp I/O.
    """
    loads = loads_of(counts)
    if not loads:
        raise NotSpilled(f"{counts.path}: did not spill")
    if counts.elapsed_s <= 0:
        raise EvidenceContradictory(
            f"{counts.path}: an elapsed time of 0 leaves nothing to forecast"
        )
    calibration, time = counts.calibration, counts.time_bounds
    threads, io_s = round(counts.processes), counts.total_s / counts.processes
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
        threads=Threads(
            trace=counted_trace(loads, threads, max(counts.elapsed_s - io_s, 0.0)),
            elapsed_s=counts.elapsed_s,
            number=threads,
            in_flight=counts.processes,
            operations=operations(loads),
            source=Cpus(None),
            target=Cpus(None),
            counted=True,
        ),
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


#: Least time of an operation that the page cache serves.
MEMORY_OPERATION_S = 1e-6


def timed_on(counts: Counts, storage: Storage) -> Counts:
    """The counts with the latencies of ``storage`` as the times of their temp I/O.

    If that would take longer than the run, the page cache served at least a part of it. Then the
    times have bounds, from the speed of memory to the entire run.
    """
    loads, shared = loads_of(counts), counts.processes_bounds
    mean_s = [latency.mean_s for latency in latencies(storage, loads, counts.processes)]
    max_processes = counts.processes if shared is None else shared.upper
    io_s = sum(load.count * s for load, s in zip(loads, mean_s, strict=True)) / max_processes
    if io_s > counts.elapsed_s:
        return _cached(counts, storage.name, io_s, max_processes)
    mean_ns = {load.op: round(s * 1e9) for load, s in zip(loads, mean_s, strict=True)}
    timed = replace(counts.with_mean_ns(mean_ns), timed_on=storage.name)
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
    time = Bounds(
        counts.operations * MEMORY_OPERATION_S,
        counts.elapsed_s * processes,
        f"on {name} alone it would take {format_duration(io_s)}, longer than the query "
        f"({format_duration(counts.elapsed_s)}), so the page cache answered at least a part",
        "record the query: spillcast record",
    )
    mean_ns = round(middle(time) * 1e9 / max(counts.operations, 1))
    return replace(
        counts.with_mean_ns(dict.fromkeys(OPS, mean_ns)),
        time_bounds=time,
        counts_follow_time=False,
        processes=processes,
        processes_bounds=None,
        io_bounds=None,
    )


#: Simulated operations that suffice to find the effect of a storage's limits and servers.
STEPS_MAX = 100_000
#: The same times threads, because each step of a simulation visits every thread.
VISITS_MAX = 6_400_000


def counted_trace(loads: Sequence[Load], threads: int, think_s: float) -> ThreadTrace:
    """Sequential operations in one file per thread, with equal CPU time between them.

    ``think_s`` is the CPU time of each thread.
    """
    total = operations(loads)
    kept = min(1.0, STEPS_MAX / total, VISITS_MAX / threads / total) / threads
    ordered = sorted(loads, key=lambda load: load.op == "read")
    counts = [max(1, round(load.count * kept)) for load in ordered]
    size = np.repeat([round(load.mean_bytes) for load in ordered], counts).astype(np.int64)
    write = np.repeat([load.op == "write" for load in ordered], counts)
    # Reads begin where writes did.
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

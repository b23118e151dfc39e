"""The workload of the recorded time of a run."""

from collections.abc import Mapping, Sequence
from dataclasses import replace
from math import hypot

import numpy as np

from spillcast.columns import Floats
from spillcast.errors import NotSpilled
from spillcast.forecast.workload import (
    SHARE_REPORTED,
    CaptureOverhead,
    CpuTime,
    DataReads,
    Quality,
    TempChanges,
    WaitSample,
    Workload,
    cpu_between_s,
)
from spillcast.forecast.workload.counted import counted_trace
from spillcast.forecast.workload.duckdb import compression
from spillcast.forecast.workload.load import Load, operations, total_s
from spillcast.forecast.workload.resources import PERIOD_S, Cpus
from spillcast.forecast.workload.threads import Threads
from spillcast.recording import DATA_READ_BY_OTHERS, OPS, Recording
from spillcast.recording.completeness import (
    contradictions_of,
    large_other_io,
    unrecognised,
    unspilled,
)
from spillcast.recording.derived import MISSING_BYTES
from spillcast.recording.meta import Meta
from spillcast.recording.thread_trace import NONE, TempOperations
from spillcast.tables import Table

#: The seconds of a single recorded stretch are merged into at most this many rows.
STRETCHES_MAX = 1000
#: Share of the cost of observing a temp call within its timed interval, and its standard error.
INSIDE = 0.5
INSIDE_ERROR = 0.25
#: Relative error of the cost of observing: repeated measurements differ by this much.
OBSERVED_ERROR = 0.5
#: Standard deviations between the quartiles of a normal distribution.
QUARTILES = 1.349
#: Threads that use the CPU in a larger share of the time of io_uring requests do not wait for them.
BUSY_MAX = 0.1
#: CPU time above this multiple of a quota cannot be explained by errors of the clocks.
QUOTA_EXCEEDED = 1.1


def recorded_workload(recording: Recording, *, rehearsed: bool) -> Workload:
    """The workload of the recorded time; with ``rehearsed`` the order of operations is kept.

    NotSpilled without temp I/O.
    """
    meta, sample = recording.meta, recording.sample
    if not (loads := recorded_loads(recording)):
        raise NotSpilled(unspilled(meta), where=recording.path)
    planned: Mapping[str, int] = {}
    plan = None
    if meta.engine.plan_file is not None:
        from spillcast.evidence.postgres.spills import recorded_plan

        planned, plan = recorded_plan(recording)
    quality = _quality(recording, planned)
    stalled_s = meta.memory.stalled_s or 0.0
    return Workload(
        name=recording.path.name,
        elapsed_s=recording.elapsed_s,
        total_s=recording.elapsed_s,
        kind="recording",
        loads=loads,
        recorded_loads=loads,
        compression=compression(recording, loads),
        threads=recorded_threads(recording, loads),
        cpu=cpu_time(recording, rehearsed=rehearsed),
        changes=temp_changes(recording),
        data_reads=None if quality.unrecognised else data_reads(recording),
        capture_overhead=capture_overhead(recording, loads),
        io_ns_by_stretch=_io_ns_by_stretch(recording),
        memory_stalled_s=stalled_s if stalled_s > SHARE_REPORTED * recording.elapsed_s else 0.0,
        held_bytes=recording.held_bytes,
        written_bytes=recording.written_bytes.temp,
        temp_places=meta.named_temp_places,
        host=meta.machine.host,
        quality=quality,
        statement=meta.of_statement,
        plan=plan,
        sample=None
        if sample is None
        else WaitSample(recording.waits.num_rows, meta.raw.rows, len(sample.slices_s)),
    )


def part_workload(workload: Workload, part: Recording) -> Workload:
    """The workload of a sample by the single waits of a part of it; all else is the same."""
    loads = recorded_loads(part)
    threads = recorded_threads(part, loads)
    return replace(
        workload,
        loads=loads,
        recorded_loads=loads,
        threads=replace(threads, target=workload.threads.target),
        cpu=replace(workload.cpu, bursts=part.work.bursts),
        changes=temp_changes(part),
        data_reads=None if workload.quality.unrecognised else data_reads(part),
        capture_overhead=capture_overhead(part, loads),
        compression=compression(part, loads),
    )


def recorded_loads(recording: Recording) -> list[Load]:
    """A load for each op and size class, from the per-second rows, which cover the whole run.

    Calls that moved no byte, such as reads at the end of a file, reach no storage and are left out.
    I/O without offsets counts as sequential, as in a probe.
    """
    seconds = recording.temp_seconds
    seconds = seconds.filter(seconds["size_class_bytes"].values > 0)
    groups = seconds.group_by("op", "size_class_bytes")
    sums = {name: groups.sum(seconds[name].values) for name in ("count", "bytes", "total_ns")}
    shares = recording.work.sequential
    rows = Table({**groups.keys.columns, **sums}).to_pylist()
    loads = [
        Load(op, size, count, moved, total_ns / 1e9, shares.get((op, size), 1.0))
        for op, size, count, moved, total_ns in (row.values() for row in rows)
    ]
    return sorted(loads, key=lambda load: load.kind)


def cpu_time(recording: Recording, *, rehearsed: bool) -> CpuTime:
    """The CPU time of a recorded run; with ``rehearsed`` the order of its operations is kept."""
    meta, temp = recording.meta, recording.meta.temp
    engine, work, calibration = meta.engine, recording.work, meta.machine.calibration
    wait_cost = None
    if calibration is not None:
        wait_cost = calibration.cost_of(engine.name, engine.version, work.temp_owner)
    operations = TempOperations.of(recording.waits, recording.slices_s) if rehearsed else None
    exceeded = meta.cpu_limits.quota_cpus if _quota_exceeded(meta) else None
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


def _quality(recording: Recording, planned: Mapping[str, int]) -> Quality:
    """The weaknesses of a recording, whose plan counts the ``planned`` temp blocks by op."""
    meta, capture = recording.meta, recording.meta.capture
    mean_s = meta.temp.total_s / max(meta.temp.operations, 1)
    # Page faults of known duration are data reads, a term of the forecast.
    faults = (capture.file_faults or 0) if capture.file_fault_s is None else 0
    if faults * mean_s <= SHARE_REPORTED * meta.elapsed_s:
        faults = 0
    busy_s = capture.io_uring_busy_s
    if busy_s <= BUSY_MAX * meta.temp.total_s:
        busy_s = 0.0
    return Quality(
        unseen=meta.unseen,
        contradictions=contradictions_of(recording, planned),
        io_uring_depth=capture.io_uring_depth,
        io_uring_busy_s=busy_s,
        file_faults=faults,
        unrecognised=unrecognised(recording),
        other_io_s=meta.other_io.total_s if large_other_io(meta) else None,
        wakings_seen=recording.work.wakings_seen,
        all_waits=meta.raw.whole,
    )


def recorded_threads(recording: Recording, loads: Sequence[Load]) -> Threads:
    """The threads of a recording, from its single waits, or from its loads if there are none."""
    cpus, work, threads = _recorded_cpus(recording.meta), recording.work, 1
    if work.threads:
        trace, threads = work.trace, work.threads
    else:
        trace = counted_trace(loads, threads, max(recording.elapsed_s - total_s(loads), 0.0))
    missing_bytes, has_missed = None, MISSING_BYTES in recording.waits.column_names
    if work.threads and has_missed:
        missed = recording.waits[MISSING_BYTES].values
        missing_bytes = np.where(trace.temp, missed[trace.source], NONE)
    # A sample shows the contents of the page cache only if it has the bytes missed by each read.
    cache_known = recording.sample is None or has_missed
    return Threads(
        trace=trace,
        elapsed_s=recording.elapsed_s,
        number=threads,
        in_flight=max(1.0, work.in_flight),
        operations=recording.temp_seconds["count"].sum(),
        source=cpus,
        target=cpus,
        cache_bytes=recording.meta.engine_cache_bytes if cache_known else None,
        missing_bytes=missing_bytes,
        change_events=recording.waits["event"][trace.source[trace.change]].to_pylist(),
        sampled=recording.meta.capture.spun_s is not None,
    )


def _recorded_cpus(meta: Meta) -> Cpus:
    """The CPUs available to the run."""
    machine, limits = meta.machine.cpus, meta.cpu_limits
    cores = min((count for count in (machine, limits.cpus) if count), default=None)
    quota_cpus = None if _quota_exceeded(meta) else limits.quota_cpus
    return Cpus.limited(cores, quota_cpus, limits.period_s or PERIOD_S)


def _quota_exceeded(meta: Meta) -> bool:
    """Whether the threads used more CPU time than their quota, which was therefore not in force."""
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

    All calls cost the same, and all context switches. A part of the cost of a temp call, and the
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
    """Reads of data that was not cached; None without any."""
    reads, seconds = recording.work.data_reads, recording.seconds
    count, size, called_s = None, None, 0.0
    if reads.cold:
        # Only single waits show which reads were slower than memory and blocked. They are scaled to
        # the time of all reads, which the per-second rows have for the entire run.
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
    weight_us = recording.samples["weight_us"].values
    waited = recording.samples["event"].isin(DATA_READ_BY_OTHERS)
    return float(weight_us[waited].sum() / max(weight_us.sum(), 1))


def _io_ns_by_stretch(recording: Recording) -> Floats:
    """Time (ns) in temp I/O: a row per slice, or per second or more of a single stretch."""
    if recording.meta.raw.slices_of_all:
        begin_ns = [begin for begin, _ in recording.whole.slices_ns]
        rows = recording.temp_columns("start_ns", "elapsed_ns", "op")
        # A wait that began before the first slice ended within it.
        number = np.searchsorted(begin_ns[1:], rows["start_ns"].to_numpy(), side="right")
        stretches, io_ns = len(begin_ns), rows["elapsed_ns"].to_numpy()
    else:
        rows = recording.temp_seconds
        last = max(int(recording.elapsed_s), recording.seconds["second"].max() or 0)
        joined = last // STRETCHES_MAX + 1
        number = rows["second"].values // joined
        stretches, io_ns = last // joined + 1, rows["total_ns"].values
    table = np.zeros((stretches, len(OPS)))
    np.add.at(table, (number, rows["op"].equals("write").astype(int)), io_ns)
    return table

"""Evidence -> a workload: a recording, or counts. A forecast reads no file of it after this."""

from collections.abc import Sequence
from dataclasses import replace

import numpy as np
from numpy.typing import NDArray

from spillcast.calibrated import calibrated
from spillcast.errors import EvidenceContradictory, NotSpilled, QueryEnded
from spillcast.evidence.counts import Counts, are_close
from spillcast.forecast.cpu import spinning_s
from spillcast.forecast.duckdb import compression
from spillcast.forecast.evidence_io import (
    capture_overhead,
    counted_trace,
    data_reads,
    loads_of,
    quota_exceeded,
    recorded_cpus,
    recorded_threads,
    temp_changes,
)
from spillcast.forecast.interval import SHORTER, WHOLE, check_elapsed
from spillcast.forecast.load import Load, moved_bytes, operations
from spillcast.forecast.previous_runs import former_runs, spill_spread
from spillcast.forecast.question import Question
from spillcast.forecast.resources import Cpus, memory_ns
from spillcast.forecast.result import Forecast
from spillcast.forecast.threads import Threads
from spillcast.forecast.workload import (
    SHARE_REPORTED,
    CpuTime,
    DataReads,
    FormerRun,
    Quality,
    WaitSample,
    Workload,
    cpu_between_s,
)
from spillcast.recording import OPS, Recording
from spillcast.recording.completeness import (
    Part,
    contradictions_of,
    large_other_io,
    unrecognised,
    unspilled,
    went_on,
    whole_s,
)
from spillcast.recording.derived import PageCacheRoom, parts_of, sampled, slice_numbers
from spillcast.recording.thread_trace import TempOperations
from spillcast.storage.memory import engine_cache_bytes
from spillcast.storage.rehearse import KEPT

#: With a smaller share of the written bytes read back, reading is yet to come.
UNREAD = 0.5
#: Seconds of a single recorded stretch are joined to at most so many rows.
STRETCHES_MAX = 1000
#: Threads that do other work in a larger share of the time of io_uring do not wait for it.
BUSY_MAX = 0.1


def read_workload(
    recording: Recording, question: Question, max_rows: int | None = None
) -> tuple[Workload, Recording]:
    """The workload of a recording, and the recording that storages are probed with.

    A large recording is sampled unless the question is ``exact``; with ``max_rows`` any that has
    more waits, to about so many.
    """
    exact = question.exact or question.rehearse is not None
    sample = recording if exact else sample_of(recording, max_rows)
    workload = workload_of_recording(sample, question)
    # What remains of a part is reads of what it wrote, where it has none itself.
    if workload.remaining is None:
        return workload, sample
    from spillcast.recording.derived import read_back

    return workload, read_back(recording)


def workload_of_recording(recording: Recording, question: Question | None = None) -> Workload:
    """The workload of a recording. NotSpilled without temp I/O, Refusal if none was recorded."""
    question = question or Question()
    recording.need_io()
    meta, elapsed_s, hints = recording.meta, question.elapsed_s, question.known
    rehearsed = question.rehearse is not None or (recording.path / KEPT).exists()
    cpus = recorded_cpus(meta).but(question.cpus, question.cpu_quota)
    if not (loads := loads_of(recording)):
        raise NotSpilled(f"{recording.path}: {unspilled(recording)}")
    recorded_loads, threads = loads, recorded_threads(recording, cpus)
    check_elapsed(elapsed_s, recording.elapsed_s, WHOLE if went_on(meta) else SHORTER)
    part = Part.of(meta) if elapsed_s is None else None
    total_s = (whole_s(meta) or recording.elapsed_s) if elapsed_s is None else elapsed_s
    if min(total_s, recording.elapsed_s) <= 0:
        raise EvidenceContradictory(
            f"{recording.path}: an elapsed time of 0 leaves nothing to forecast"
        )
    cpu = cpu_time(recording, rehearsed=rehearsed)
    remaining = to_come = spread = None
    if went_on(meta):
        extrapolation = hints.extrapolate(recording, threads, elapsed_s)
        remaining, to_come = extrapolation.work, extrapolation.to_come
        unused = extrapolation.unused
    else:
        if options := hints.of_remaining:
            raise QueryEnded(
                f"{recording.path}: the query ended while it was recorded: nothing remains",
                f"leave {options} out",
            )
        others, unused = hints.runs_of(recording) if hints.history else ((), ())
        spread = spill_spread(recording, others)
        cpu, threads = _with_former_runs(cpu, threads, former_runs(others, loads), loads)
    if remaining is not None:
        loads = remaining.loads(loads)
        total_s, part = elapsed_s or remaining.total_s(loads), None
    plan = None
    if meta.engine.plan_file is not None:
        from spillcast.evidence.postgres.spills import spills_beside

        plan = spills_beside(recording)
    is_part = recording.elapsed_s < WHOLE * total_s
    kind = _kind(recording, recorded_loads, is_part)
    if remaining is not None:
        # With a previous run, what is not known of the rest is drawn well enough.
        kind = "part" if remaining.guessed else "recording"
    workload = Workload(
        name=recording.path.name,
        elapsed_s=recording.elapsed_s,
        total_s=total_s,
        kind=kind,
        loads=loads,
        recorded_loads=recorded_loads,
        threads=threads,
        part=part,
        remaining=remaining,
        unused_hints=unused,
        spill_spread=spread,
        to_come=to_come,
        io_ns_by_stretch=_io_ns_by_stretch(recording) if is_part else None,
        cpu=cpu,
        changes=temp_changes(recording),
        data_reads=data_reads(recording),
        capture_overhead=capture_overhead(recording, recorded_loads),
        memory_stalled_s=_memory_stalled_s(recording),
        held_bytes=recording.held_bytes,
        written_bytes=recording.written_bytes.temp,
        temp_places=meta.named_temp_places,
        host=meta.machine.host,
        quality=_quality(recording),
        compression=compression(recording, loads),
        statement=meta.of_statement,
        plan=plan,
    )
    if (sample := recording.sample) is None:
        return workload
    return replace(
        workload,
        sample=WaitSample(sample.rows, meta.raw.rows, len(sample.slices_s)),
        sample_parts=[_of_part(workload, part) for part in parts_of(recording)],
    )


def _with_former_runs(
    cpu: CpuTime, threads: Threads, former: Sequence[FormerRun], loads: Sequence[Load]
) -> tuple[CpuTime, Threads]:
    """CPU time and threads with what former runs show: the cost of waits, and spinning."""
    cpu = replace(cpu, former=former)
    if threads.sampled or not former:
        return cpu, threads
    spun_s = spinning_s(former, cpu, loads, threads.cores_per_thread)
    shorter = threads.with_spinning(spun_s) if spun_s else None
    return (cpu, threads) if shorter is None else (replace(cpu, spun_s=spun_s), shorter)


def _of_part(workload: Workload, part: Recording) -> Workload:
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
    """The CPU time of a recorded run; ``rehearsed`` keeps the order of its operations."""
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


def _memory_stalled_s(recording: Recording) -> float:
    stalled_s = recording.meta.memory.stalled_s or 0.0
    return stalled_s if stalled_s > SHARE_REPORTED * recording.elapsed_s else 0.0


def _quality(recording: Recording) -> Quality:
    meta, capture = recording.meta, recording.meta.capture
    mean_s = meta.temp.total_s / max(meta.temp.operations, 1)
    # Where it is known how long page faults took they are data reads, a term of the forecast.
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
        other_io_s=meta.other_io.total_s if large_other_io(recording) else None,
        wakings_seen=recording.work.wakings_seen,
        all_waits=meta.raw.whole,
    )


def _kind(recording: Recording, loads: Sequence[Load], is_part: bool) -> str:
    """The kind of evidence, by which verified forecasts like it are looked up."""
    if not is_part:
        return "recording"
    if recording.meta.raw.slices_of_all:
        return "slices"
    unread = moved_bytes(loads, "read") < UNREAD * moved_bytes(loads, "write")
    return "unread" if unread else "stretch"


def _io_ns_by_stretch(recording: Recording) -> NDArray[np.float64]:
    """Time (ns) in temp I/O: a row per slice, or per second or more of a single stretch."""
    if recording.meta.raw.slices_of_all:
        slices_s = recording.meta.raw.slices_s or ()
        rows = recording.temp_columns("start_ns", "elapsed_ns", "op")
        # A wait that began before the first slice ended in it.
        number = np.maximum(slice_numbers(slices_s, rows["start_ns"].to_numpy()) - 1, 0)
        stretches, io_ns = len(slices_s), rows["elapsed_ns"].to_numpy()
    else:
        rows = recording.temp_seconds
        last = max(int(recording.elapsed_s), recording.seconds["second"].max() or 0)
        joined = last // STRETCHES_MAX + 1
        number = rows["second"].values // joined
        stretches, io_ns = last // joined + 1, rows["total_ns"].values
    table = np.zeros((stretches, len(OPS)))
    np.add.at(table, (number, rows["op"].equals("write").astype(int)), io_ns)
    return table


#: Recordings of fewer waits are used entirely; of larger ones a sample of about so many.
WHOLE_ROWS, SAMPLE_ROWS = 1_000_000, 256_000
#: Share of temp operations as fast as memory from which on the page cache may have served them.
FAST_MAX = 0.005
#: With a larger sampling error all waits are used after all, up to so many.
ERROR_MAX, EXACT_ROWS_MAX = 0.05, 20_000_000


def sample_of(recording: Recording, max_rows: int | None = None) -> Recording:
    """A sample of a recording's waits, or the recording itself if it is small or all waits count.

    It is small with at most ``max_rows`` waits, by default below WHOLE_ROWS. All waits count for a
    query that went on, because the rest is extrapolated from them, and for a comparison with a
    rehearsal. If the page cache may have served temp I/O, its contents are simulated for some
    regions of the files.
    """
    rows = recording.meta.raw.rows
    if recording.waits_in_memory or rows < (WHOLE_ROWS if max_rows is None else max_rows + 1):
        return recording
    if went_on(recording.meta) or (recording.path / KEPT).exists():
        return recording
    room_bytes, room = engine_cache_bytes(recording), None
    if room_bytes is not None and _fast_share(recording) > FAST_MAX:
        known = calibrated()
        room = PageCacheRoom(room_bytes, 1e9 * known.memory_s, 1e9 / known.memory_bytes_per_s)
    return sampled(recording, max_rows or SAMPLE_ROWS, room)


def too_unsure(forecast: Forecast) -> bool:
    """Whether the sampling error of a forecast is too large, so that all waits are needed."""
    sample = forecast.sampled
    return sample is not None and sample.error > ERROR_MAX and sample.of_waits <= EXACT_ROWS_MAX


def _fast_share(recording: Recording) -> float:
    """Share of the temp operations that were as fast as memory."""
    seconds = recording.temp_seconds
    count = seconds["count"].to_numpy()
    if not count.sum():
        return 0.0
    usual_ns = memory_ns(seconds["bytes"].to_numpy() / count.clip(1))
    latency_ns, counts = seconds["latency_ns"], seconds["latency_count"]
    assert latency_ns.items is not None
    assert counts.items is not None
    is_fast = latency_ns.items.values <= np.repeat(usual_ns, latency_ns.lengths)
    return float(counts.items.values[is_fast].sum() / count.sum())


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

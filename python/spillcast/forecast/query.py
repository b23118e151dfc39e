"""The workload of a query, from its counts, or from its recording, its rest and other runs."""

from dataclasses import replace

import numpy as np

from spillcast.calibrated import calibrated
from spillcast.errors import EvidenceContradictory, QueryEnded
from spillcast.evidence.counts import Counts
from spillcast.forecast.cpu import spinning_s
from spillcast.forecast.previous_runs import kept_history, previous_runs, run_loads, spill_spread
from spillcast.forecast.question import SHORTER_MIN, Question
from spillcast.forecast.remaining import RemainingWorkHints
from spillcast.forecast.remaining.progress import progress_of
from spillcast.forecast.result import Forecast
from spillcast.forecast.workload import WHOLE_MIN, Workload
from spillcast.forecast.workload.counted import with_origin, workload_of_counts
from spillcast.forecast.workload.load import moved_bytes
from spillcast.forecast.workload.recorded import part_workload, recorded_workload
from spillcast.forecast.workload.resources import memory_ns
from spillcast.gate import reading
from spillcast.recording import OPS, Recording
from spillcast.recording.completeness import RecordedPart
from spillcast.recording.derived import PageCacheSize, parts_of, read_back, sampled
from spillcast.recording.meta import Meta
from spillcast.storage.rehearsal import KEPT

#: If a smaller share of the written bytes was read back, most reading is yet to come.
UNREAD = 0.5


def read_workload(
    evidence: Recording | Counts, question: Question, max_rows: int | None = None
) -> tuple[Workload, Recording | Counts]:
    """The workload of any evidence, and the evidence whose I/O probes replay.

    Counts without times get those of ``--from``. A large recording is sampled unless the question
    is ``exact``. With ``max_rows`` a recording with more waits is sampled to about that number.
    Errors: as for ``workload_of_recording`` and ``workload_of_counts``.
    """
    if isinstance(evidence, Counts):
        counts = with_origin(evidence, question)
        with reading(counts.path):
            return workload_of_counts(counts), counts
    exact = question.exact or question.rehearse is not None
    sample = evidence if exact else sample_of(evidence, max_rows)
    workload = workload_of_recording(sample, question)
    # A recorded part may contain no reads: the remaining reads read back the written bytes.
    if workload.remaining is None:
        return workload, sample
    return workload, read_back(evidence)


def workload_of_recording(recording: Recording, question: Question | None = None) -> Workload:
    """The workload of a recording. NotSpilled without temp I/O, Refusal without captured I/O."""
    question = question or Question()
    recording.need_io()
    rehearsed = question.rehearse is not None or (recording.path / KEPT).exists()
    meta, workload = recording.meta, recorded_workload(recording, rehearsed=rehearsed)
    if not meta.ended_early and (options := question.known.of_remaining):
        raise QueryEnded(
            "the query ended while it was recorded: nothing remains",
            f"leave {options} out",
            recording.path,
        )
    recorded_s, elapsed_s = workload.elapsed_s, question.elapsed_s
    question.check_elapsed(recorded_s, WHOLE_MIN if meta.ended_early else SHORTER_MIN)
    total_s = (meta.whole_s or recorded_s) if elapsed_s is None else elapsed_s
    if min(total_s, recorded_s) <= 0:
        raise EvidenceContradictory(
            "an elapsed time of 0 leaves nothing to forecast", where=recording.path
        )
    part = RecordedPart.of(meta) if elapsed_s is None else None
    threads = workload.threads
    threads = replace(threads, target=threads.source.adjusted(question.cpus, question.cpu_quota))
    workload = replace(workload, total_s=total_s, part=part, threads=threads)
    if meta.ended_early:
        workload = _extrapolated(workload, recording, question)
    else:
        workload = _among_other_runs(workload, recording, question.known)
    workload = replace(workload, kind=_kind(workload, meta))
    parts = [part_workload(workload, part) for part in parts_of(recording)]
    return replace(workload, sample_parts=parts)


def _extrapolated(workload: Workload, recording: Recording, question: Question) -> Workload:
    """The workload of a query that went on after its recording, by estimates of its rest."""
    # Most queries are recorded entirely.
    from spillcast.forecast.remaining.model import extrapolate

    hints, elapsed_s = question.known, question.elapsed_s
    if (progress := progress_of(recording, 1 / workload.threads.io_weight)) is None:
        reason = "needs the single waits of the recording, and they were not kept"
        unused = [f"{hints.options}: {reason}"] if hints.options else []
        return replace(workload, unused_hints=unused)
    kept = kept_history(recording)
    known = extrapolate(progress, *hints.estimates(progress, kept, recording.engine, elapsed_s))
    workload = replace(workload, unused_hints=known.unused, to_come=known.to_come)
    if (remaining := known.work) is None:
        # A query that failed does not read the rest of its temp files.
        return workload if recording.meta.cut_off_by != "error" else replace(workload, to_come=None)
    loads, compression = remaining.loads(workload.loads), workload.compression
    return replace(
        workload,
        loads=loads,
        remaining=remaining,
        total_s=elapsed_s or remaining.total_s(loads),
        part=None,
        compression=None if compression is None else replace(compression, loads=loads),
    )


def _among_other_runs(
    workload: Workload, recording: Recording, hints: RemainingWorkHints
) -> Workload:
    """The workload with the spread of its spill and the CPU time of previous runs of its query."""
    others, unused = hints.runs_of(recording.engine)
    runs = [workload.loads, *map(run_loads, others)]
    previous, threads = previous_runs(others, workload.loads), workload.threads
    cpu = replace(workload.cpu, previous_runs=previous)
    if previous and not threads.sampled:
        spun_s = spinning_s(previous, cpu, workload.loads, threads.cores_per_thread)
        if spun_s and (shorter := threads.with_spinning(spun_s)) is not None:
            cpu, threads = replace(cpu, spun_s=spun_s), shorter
    return replace(
        workload,
        unused_hints=unused,
        spill_spread=spill_spread(recording, runs),
        cpu=cpu,
        threads=threads,
    )


def _kind(workload: Workload, meta: Meta) -> str:
    """The kind of a recording; verified forecasts are looked up by it."""
    if workload.remaining is not None:
        # A previous run gives the spread of the rest; a guess needs the spread of verified parts.
        return "part" if workload.remaining.guessed else "recording"
    if not workload.is_part:
        return "recording"
    read, written = (moved_bytes(workload.recorded_loads, op) for op in OPS)
    stretch = "unread" if read < UNREAD * written else "stretch"
    return "slices" if meta.raw.slices_of_all else stretch


#: A recording below WHOLE_ROWS waits is used entirely; a larger one is sampled to SAMPLE_ROWS.
WHOLE_ROWS, SAMPLE_ROWS = 1_000_000, 256_000
#: If a larger share of temp operations was as fast as memory, the page cache may have served them.
FAST_MAX = 0.005
#: With a larger sampling error all waits are used, if there are no more than EXACT_ROWS_MAX.
ERROR_MAX, EXACT_ROWS_MAX = 0.05, 20_000_000


def sample_of(recording: Recording, max_rows: int | None = None) -> Recording:
    """A sample of a recording's waits, or the recording itself if it is small or needs all waits.

    It is small with at most ``max_rows`` waits, by default below WHOLE_ROWS. All waits are needed
    for a query that went on, because the rest is extrapolated from them, and for a comparison with
    a rehearsal. If the page cache may have served temp I/O, its contents are simulated for some
    regions of the files.
    """
    rows = recording.meta.raw.rows
    if recording.waits_in_memory or rows < (WHOLE_ROWS if max_rows is None else max_rows + 1):
        return recording
    if recording.meta.ended_early or (recording.path / KEPT).exists():
        return recording
    free_bytes, room = recording.meta.engine_cache_bytes, None
    if free_bytes is not None and _fast_share(recording) > FAST_MAX:
        known = calibrated()
        room = PageCacheSize(free_bytes, 1e9 * known.memory_s, 1e9 / known.memory_bytes_per_s)
    return sampled(recording, max_rows or SAMPLE_ROWS, room)


def is_too_uncertain(forecast: Forecast) -> bool:
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

"""The workload of a query, from its counts, or from its recording, its rest and other runs."""

from dataclasses import replace

from spillcast.errors import EvidenceContradictory, QueryEnded
from spillcast.evidence.counts import Counts
from spillcast.forecast.previous_runs import with_other_runs
from spillcast.forecast.question import SHORTER_MIN, Question
from spillcast.forecast.remaining.progress import progress_of
from spillcast.forecast.result import Forecast
from spillcast.forecast.workload import WHOLE_MIN, Workload
from spillcast.forecast.workload.counted import with_origin, workload_of_counts
from spillcast.forecast.workload.load import moved_bytes
from spillcast.forecast.workload.recorded import part_workload, recorded_workload
from spillcast.gate import reading
from spillcast.recording import OPS, Recording
from spillcast.recording.completeness import RecordedPart
from spillcast.recording.derived import parts_of, read_back, sample_of
from spillcast.recording.meta import Meta
from spillcast.storage.observed import KEPT

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
    # A query that went on is extrapolated from all waits, and a rehearsal is compared with them.
    needs_all = question.exact or evidence.meta.ended_early or _is_rehearsed(evidence, question)
    sample = evidence if needs_all else sample_of(evidence, max_rows)
    workload = workload_of_recording(sample, question)
    # A recorded part may contain no reads: the remaining reads read back the written bytes.
    if workload.remaining is None:
        return workload, sample
    return workload, read_back(evidence)


def workload_of_recording(recording: Recording, question: Question | None = None) -> Workload:
    """The workload of a recording. NotSpilled without temp I/O, Refusal without captured I/O."""
    question = question or Question()
    recording.need_io()
    rehearsed = _is_rehearsed(recording, question)
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
        others, unused = question.known.runs_of(recording.engine)
        workload = with_other_runs(replace(workload, unused_hints=unused), recording, others)
    workload = replace(workload, kind=_kind(workload, meta))
    parts = [part_workload(workload, part) for part in parts_of(recording)]
    return replace(workload, sample_parts=parts)


def _is_rehearsed(recording: Recording, question: Question) -> bool:
    return question.rehearse is not None or (recording.path / KEPT).exists()


def _extrapolated(workload: Workload, recording: Recording, question: Question) -> Workload:
    """The workload of a query that went on after its recording, by estimates of its rest."""
    # Most queries are recorded entirely.
    from spillcast.forecast.remaining.model import extrapolate

    hints, elapsed_s = question.known, question.elapsed_s
    if (progress := progress_of(recording, 1 / workload.threads.io_weight)) is None:
        reason = "needs the single waits of the recording, and they were not kept"
        unused = [f"{hints.options}: {reason}"] if hints.options else []
        return replace(workload, unused_hints=unused)
    known = extrapolate(progress, *hints.estimates(progress, recording, elapsed_s))
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


#: With a larger sampling error all waits are used, if there are no more than EXACT_ROWS_MAX.
ERROR_MAX, EXACT_ROWS_MAX = 0.05, 20_000_000


def is_too_uncertain(forecast: Forecast) -> bool:
    """Whether the sampling error of a forecast is too large, so that all waits are needed."""
    sample = forecast.sampled
    return sample is not None and sample.error > ERROR_MAX and sample.of_waits <= EXACT_ROWS_MAX

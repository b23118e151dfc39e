"""Records a minute of a long run: bursts at growing intervals, joined end to end."""

from collections.abc import Callable, Sequence
from dataclasses import replace
from itertools import accumulate, pairwise
from pathlib import Path
from typing import Any, TypeVar

from spillcast.errors import SpillcastError
from spillcast.recording import OPS
from spillcast.recording.capture import SHARED, CaptureAccount
from spillcast.recording.meta import (
    CALLS_FILE,
    ESTIMATE_FILE,
    KeptWaits,
    Memory,
    Meta,
    OtherIO,
    Temp,
)
from spillcast.recording.observed import CpuLimits, RecordedQuery, Sampling, Worker
from spillcast.recording.recording import Recording
from spillcast.recording.schema import seconds_of
from spillcast.recording.writer import RecordingWriter
from spillcast.tables import Table

#: Length and number of bursts; with the default pauses they take a quarter of an hour.
BURST_S, BURSTS = 5.0, 12
#: The first pause, and the ratio of each pause to the previous one.
GAP_S, GAP_GROWTH = 5.0, 1.5
#: The notice for a run that ended between two bursts.
ENDED = "ended while detached (give its total time to a forecast with --elapsed)"

#: The documents that each burst has.
Part = TypeVar("Part", CaptureAccount, CpuLimits, Memory, Meta, Sampling)
#: Attaches for the given number of seconds; returns their recording.
Burst = Callable[[float], Recording]
#: Stays detached for the given number of seconds.
Pause = Callable[[float], None]


def gaps_s(span_s: float | None) -> list[float]:
    """The growing pauses (s) between bursts; bursts and pauses together take ``span_s``."""
    gaps = [GAP_S * GAP_GROWTH**number for number in range(BURSTS - 1)]
    if span_s is None:
        return gaps
    free_s = max(span_s - BURST_S * BURSTS, 0.0)
    return [free_s * gap / sum(gaps) for gap in gaps]


def burst_s(span_s: float | None) -> float:
    """The length of each burst (s): shorter if all bursts would not fit into ``span_s``."""
    return BURST_S if span_s is None else min(BURST_S, span_s / BURSTS)


def record_bursts(
    burst: Burst,
    pause: Pause,
    span_s: float | None,
    notify: Callable[[str], None] = lambda _text: None,
) -> list[Recording]:
    """The recordings of bursts until all are done, the run ends, or Ctrl-C.

    ``notify`` receives a notice if the run ends between bursts. The first burst's error is raised.
    """
    recordings: list[Recording] = []
    for gap_s in [*gaps_s(span_s), 0.0]:
        try:
            burst_recording = burst(burst_s(span_s))
        except SpillcastError:
            if not recordings:
                raise
            notify(f"the run {ENDED}")
            break
        except KeyboardInterrupt:
            if not recordings:
                raise
            break
        else:
            if recordings and not _same_query(recordings[0].meta, burst_recording.meta):
                notify(f"the query {ENDED}, and another began, which is not kept")
                break
            recordings.append(burst_recording)
            if burst_recording.meta.ended_by != "duration":
                break
        try:
            pause(gap_s)
        except KeyboardInterrupt:
            break
    return recordings


def _same_query(first: Meta, later: Meta) -> bool:
    """Whether no other query has begun in a server's session since the first burst."""
    if first.server is None or later.server is None:
        return True
    return first.server.query_started_at == later.server.query_started_at


def keep(
    parts: Sequence[Recording], output: Path, *, share: bool = False, force: bool = False
) -> Recording:
    """Join bursts end to end into a recording on disk."""
    edges_s = [0.0, *accumulate(part.elapsed_s for part in parts)]
    writer = RecordingWriter(output, share=share, force=force)
    try:
        for part, begin_s in zip(parts, edges_s, strict=False):
            begin_ns = round(begin_s * 1e9)
            waits = _moved(part.waits, "start_ns", begin_ns)
            writer.add_waits(waits)
            if part.meta.raw.whole and not part.meta.capture.dropped:
                writer.add_seconds(seconds_of(waits))
            else:
                # Without their waits, they can be shifted only by whole seconds.
                writer.add_seconds(_moved(part.seconds, "second", round(begin_s)))
            writer.add_samples(_moved(part.samples, "time_ns", begin_ns))
        for name in (ESTIMATE_FILE, CALLS_FILE):
            if (document := parts[-1].document(name)) is not None:
                writer.add_document(name, document)
        return writer.finish(_meta(parts, edges_s))
    except BaseException:
        writer.discard()
        raise


def _moved(rows: Table, column: str, by: int) -> Table:
    return rows.with_column(column, rows[column].values + by)


def _meta(parts: Sequence[Recording], edges_s: Sequence[float]) -> Meta:
    metas = [part.meta for part in parts]
    sampled = [meta.sampling for meta in metas if meta.sampling is not None]
    meta = replace(
        _joined(metas, ("elapsed_s", "recorded_s", "cpu_s"), ("server_connection",)),
        started_at=metas[0].started_at,
        memory=_memory([meta.memory for meta in metas]),
        cpu_limits=_joined(
            [meta.cpu_limits for meta in metas], ("throttled_s", "throttled_periods")
        ),
        temp=sum((meta.temp for meta in metas), Temp()),
        other_io=sum((meta.other_io for meta in metas), OtherIO()),
        capture=_capture([meta.capture for meta in metas]),
        raw=_kept_waits([meta.raw for meta in metas], edges_s),
        sampling=_joined(sampled, _OF_SAMPLING) if sampled else None,
    )
    if meta.server is not None:
        meta = replace(meta, server=_query(meta.server, metas, edges_s))
    return _without_observed_work(meta, parts[:-1], edges_s[-2])


def _memory(parts: Sequence[Memory]) -> Memory:
    """The memory over all bursts; the cgroup is the one that left the least room in any burst."""
    limited = [part for part in parts if part.limit_bytes is not None] or parts[-1:]
    group = min(limited, key=lambda part: (part.limit_bytes or 0) - (part.group_held_bytes or 0))
    joined = _joined(parts, ("stalled_s",), ("peak_rss_bytes",))
    return replace(joined, limit_bytes=group.limit_bytes, group_held_bytes=group.group_held_bytes)


_OF_SAMPLING = ("samples", "ticks", "discarded", "gap_s", "client_cpu_s", "server_cpu_s")


def _joined(parts: Sequence[Part], sums: Sequence[str], peaks: Sequence[str] = ()) -> Part:
    """The last part, with the sums over all parts of some fields, and the maximum of others.

    A sum is None if any value is unknown, a maximum if all values are unknown.
    """
    changed: dict[str, Any] = {}
    for name in (*sums, *peaks):
        values = [getattr(part, name) for part in parts]
        known = [value for value in values if value is not None]
        if name in sums:
            changed[name] = sum(known) if len(known) == len(values) else None
        else:
            changed[name] = max(known, default=None)
    return replace(parts[-1], **changed)


def _capture(accounts: Sequence[CaptureAccount]) -> CaptureAccount:
    """The account of all bursts; a gap in one burst is a gap in the whole recording."""
    sums = (*SHARED, "io_uring_busy_s", "file_faults")
    peaks = ("recorder_memory_bytes", "io_uring", "io_uring_depth", "unobserved_processes")
    mapped = dict.fromkeys(name for account in accounts for name in account.mapped_temp_files)
    sampled = [a.threads_sampled for a in accounts if a.threads_sampled is not None]
    fewest = min(sampled, key=lambda threads: threads[0] / threads[1], default=None)
    joined = _joined(accounts, sums, peaks)
    return replace(joined, mapped_temp_files=list(mapped), threads_sampled=fewest)


def _kept_waits(bursts: Sequence[KeptWaits], edges_s: Sequence[float]) -> KeptWaits:
    """The kept waits of all bursts; each burst is a slice, unless it has its own slices."""
    slices_s = []
    for burst, (begin_s, end_s) in zip(bursts, pairwise(edges_s), strict=True):
        of_burst = [(0.0, end_s - begin_s)] if burst.slices_s is None else burst.slices_s
        slices_s += [(begin_s + start_s, begin_s + until_s) for start_s, until_s in of_burst]
    because = next((burst.because for burst in bursts if burst.because is not None), None)
    rows = sum(burst.rows for burst in bursts)
    return KeptWaits(rows, sum(burst.rows_seen for burst in bursts), slices_s, because)


def _query(last: RecordedQuery, metas: Sequence[Meta], edges_s: Sequence[float]) -> RecordedQuery:
    """The query as in the last burst, with the workers of all bursts."""
    workers: dict[int, Worker] = {}
    for meta, begin_s in zip(metas, edges_s, strict=False):
        for worker in meta.server.workers if meta.server else ():
            started_s = None if worker.started_s is None else begin_s + worker.started_s
            moved = replace(worker, started_s=started_s, attached_s=begin_s + worker.attached_s)
            workers.setdefault(worker.pid, moved)
    # Each burst counts the same workers again.
    unattached = max(meta.server.workers_not_attached for meta in metas if meta.server)
    before_s = max(last.before_recording_s - edges_s[-2], 0.0)
    return replace(
        last,
        before_recording_s=before_s,
        workers=list(workers.values()),
        workers_not_attached=unattached,
    )


def _without_observed_work(meta: Meta, earlier: Sequence[Recording], earlier_s: float) -> Meta:
    """``meta`` of the last burst; ``before`` excludes the work that ``earlier`` bursts observed."""
    before = meta.before
    if before is None:
        return meta
    cpu_s = sum(part.meta.cpu_s or 0.0 for part in earlier)
    read, written = (
        sum(
            int(part.seconds["bytes"].values[part.seconds["op"].equals(op)].sum())
            for part in earlier
        )
        for op in OPS
    )

    def left(count: int | None, less: int) -> int | None:
        return None if count is None else max(count - less, 0)

    before = replace(
        before,
        ran_s=max(before.ran_s - earlier_s, 0.0),
        cpu_s=max(before.cpu_s - cpu_s, 0.0),
        bytes=left(before.bytes, read + written),
        written_bytes=left(before.written_bytes, written),
    )
    return replace(meta, before=before)

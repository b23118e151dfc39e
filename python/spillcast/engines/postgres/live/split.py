"""One query's rows out of those of all sessions: a recording like that of a single session."""

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path

import pyarrow as pa

from spillcast.engines.postgres.live.account import query_meta, sampling_meta
from spillcast.engines.postgres.live.sampler import Sampler, SessionQuery
from spillcast.recording import Recording
from spillcast.recording.captured import Joined, share_of
from spillcast.recording.counted import seconds_of, sum_of, totals
from spillcast.recording.meta import EndedBy, Memory, Meta, ObservedEngine, OtherIO, Temp
from spillcast.recording.options import RecordOptions
from spillcast.recording.server_recording import QueryRecording
from spillcast.recording.session_rows import SessionRows
from spillcast.recording.writer import RecordingWriter


@dataclass(frozen=True)
class Window:
    """When a query ran, as far as it was recorded: ns since the capture's start."""

    begin_ns: int
    end_ns: int
    #: Until when it was sure to run.
    sure_until_ns: int

    @classmethod
    def of(cls, query: SessionQuery, origin_ns: int, until_ns: int) -> "Window":
        """Up to its end, or to ``until_ns`` (CLOCK_MONOTONIC) where it still ran then."""
        end_ns = query.ended_ns or until_ns
        sure_ns = query.sure_until_ns or until_ns
        return cls(max(query.began_ns - origin_ns, 0), end_ns - origin_ns, sure_ns - origin_ns)

    def elapsed_s(self, sums: "Sums") -> float:
        """Wall time of the query: its last temp I/O was of it, too."""
        return max(self.sure_until_ns - self.begin_ns, sums.temp_until_ns) / 1e9


@dataclass
class Sums:
    """What the rows of a query add up to."""

    temp: Temp = field(default_factory=Temp)
    other_io: OtherIO = field(default_factory=OtherIO)
    #: Outside of calls; None where the capture cannot tell.
    cpu_s: float | None = None
    #: When the last temp I/O ended, ns since the query's start.
    temp_until_ns: int = 0


def write(
    query: SessionQuery, window: Window, rows: SessionRows, path: Path, options: RecordOptions
) -> tuple[RecordingWriter, Sums]:
    """Write the rows of a query into a recording that is still to be finished."""
    writer = RecordingWriter(path, options.slices, share=options.share)
    where = query.pids, window.begin_ns, window.end_ns
    sums = Sums()
    try:
        for part in rows.waits(*where):
            for batch in part.to_batches():
                writer.add_waits(batch)
            for batch in seconds_of(part).to_batches():
                writer.add_seconds(batch)
            temp, other_io = totals(part)
            sums.temp, sums.other_io = sums.temp + temp, sums.other_io + other_io
            if part["cpu_before_ns"].null_count < part.num_rows:
                sums.cpu_s = (sums.cpu_s or 0.0) + sum_of(part["cpu_before_ns"]) / 1e9
            ends = pa.compute.add(part["start_ns"], part["elapsed_ns"]).filter(part["temp"])
            sums.temp_until_ns = max(sums.temp_until_ns, pa.compute.max(ends).as_py() or 0)
        for samples in rows.samples(*where):
            for batch in samples.to_batches():
                writer.add_samples(batch)
    except BaseException:
        writer.discard()
        raise
    return writer, sums


def finish(
    query: SessionQuery,
    writer: RecordingWriter,
    sums: Sums,
    about: Meta,
    engine: ObservedEngine,
    *,
    ended_by: EndedBy,
    attached_s: float,
    workers: Sequence[Joined],
    sampler: Sampler,
) -> Recording:
    """Make a recording whole; ``about`` is the account of the whole server."""
    capture, temp, other = about.capture, sums.temp, sums.other_io
    calls = about.temp.operations + about.other_io.count
    share = min((temp.operations + other.count) / max(calls, 1), 1.0)
    peak_bytes = None if query.memory is None else query.memory.peak_bytes
    meta = replace(
        about,
        ended_by=ended_by,
        before=None,
        engine=engine,
        memory=Memory(about.memory.limit_bytes, peak_bytes),
        # Throttling was counted of the whole server, and of all the time.
        cpu_limits=replace(about.cpu_limits, throttled_s=None, throttled_periods=None),
        cpu_s=None if about.cpu_s is None else sums.cpu_s,
        temp=temp,
        other_io=other,
        # Who else took the CPUs was seen of the server as a whole, whose other sessions are others.
        capture=replace(
            share_of(capture, share),
            dropped=0,
            run_queue_delay_s=query.run_queue_delay_s,
            run_queue_others_s=None,
        ),
        postgres=query_meta(query, attached_s, ended_by, workers),
        sampling=sampling_meta(query, sampler),
    )
    return writer.finish(meta)


def in_short(recording: Recording, query: SessionQuery) -> QueryRecording:
    """A recording as the list of all has it."""
    meta, statement, temp = recording.meta, query.statement, recording.meta.temp
    server_query = meta.server_query
    assert server_query is not None
    workers = len(query.workers)
    processes_s = recording.elapsed_s * (1 + workers)
    return QueryRecording(
        path=recording.path,
        pid=query.pid,
        user="" if statement is None else statement.user,
        database="" if statement is None else statement.database,
        application="" if statement is None else statement.application,
        query=meta.engine.query or "",
        started_at=meta.started_at,
        elapsed_s=recording.elapsed_s,
        before_recording_s=server_query.before_recording_s,
        ended_by=server_query.ended_by,
        workers=workers,
        reads=temp.reads,
        read_bytes=temp.bytes - recording.written_bytes.temp,
        writes=temp.writes,
        written_bytes=recording.written_bytes.temp,
        temp_s=temp.total_s,
        temp_share=temp.total_s / processes_s,
    )

"""Cuts recordings to parts as evidence: the beginning, slices, minutes; and rehearsals."""

import time
from collections.abc import Sequence
from dataclasses import replace
from itertools import pairwise
from pathlib import Path
from random import Random

from spillcast.engines import Lab, LabQuery
from spillcast.engines.registry import known_as
from spillcast.errors import RehearsalFailed
from spillcast.evidence.counts import Counts
from spillcast.lab.run import observed, recorder_for
from spillcast.lab.storages import SpillDirectory, file_name
from spillcast.recording import OPS, Recording
from spillcast.recording.capture import share_of
from spillcast.recording.meta import ESTIMATE_FILE, KeptWaits, Meta
from spillcast.recording.observed import EarlierWork, RecordedQuery, SizedFile
from spillcast.recording.record import KnownRun
from spillcast.recording.schema import seconds_of, totals, within
from spillcast.storage.observed import Rehearsal
from spillcast.tables import Table

SLICES = 10
SLICE_S = 0.3
#: Slices that cover a larger share of a run do not test a part.
MAX_COVERED = 0.5
#: Start and end of disjoint windows in order, s since the start of the run.
Windows = Sequence[tuple[float, float]]


def ten_slices(recording: Recording) -> Recording | None:
    """Ten windows of 0.3 s spread evenly over the run; None if they cover over half of it."""
    interval_s = recording.elapsed_s / SLICES
    if interval_s * MAX_COVERED < SLICE_S:
        return None
    middles_s = [(number + 0.5) * interval_s for number in range(SLICES)]
    windows = [(middle_s - SLICE_S / 2, middle_s + SLICE_S / 2) for middle_s in middles_s]
    return cut(recording, windows, "slices")


def first_fifth(recording: Recording) -> Recording:
    """The first 20 % of the run."""
    return cut(recording, [(0.0, recording.elapsed_s / 5)], "first_fifth")


def attached(recording: Recording, begin_s: float, end_s: float) -> Recording:
    """A recording that attached to the run at ``begin_s``: the window, and the kernel's counts.

    The counts are the age of the run, its CPU time, its temp files with their sizes, and all
    bytes that it had read and written.
    """
    attached_part = cut(recording, [(begin_s, end_s)], "attached")
    begin_ns = round(begin_s * 1e9)
    rows = recording.waits.filter(recording.waits["start_ns"].values < begin_ns)
    size = rows["bytes"].filled(0)
    moved = {op: int(size[rows["op"].equals(op)].sum()) for op in OPS}
    cpu_s = rows["cpu_before_ns"].sum() / 1e9
    engine = known_as(recording.meta.engine.name)
    query = None
    if engine is not None and engine.server:
        # An attached recording of a server covers a session.
        query = RecordedQuery(0, None, end_s, begin_s, "duration", None, [], 0, [])
    attached_part.meta = replace(
        attached_part.meta,
        ended_by="duration",
        raw=KeptWaits(attached_part.waits.num_rows, attached_part.waits.num_rows, None),
        temp_before=_files_at(rows),
        before=EarlierWork(begin_s, cpu_s, sum(moved.values()), moved["write"]),
        server=query,
    )
    return attached_part


def _files_at(rows: Table) -> list[SizedFile]:
    """The temp files after the operations of ``rows``, with their written sizes."""
    temp = rows.filter(rows["temp"].values)
    size: dict[str, int] = {}
    columns = ("op", "file", "event", "offset", "bytes")
    events = zip(*(temp[name].to_pylist() for name in columns), strict=True)
    for op, file, event, offset, moved in events:
        if op == "write":
            size[file] = max(size.get(file, 0), (offset or 0) + (moved or 0))
        elif op is None and "truncate" in event:
            size[file] = min(size.get(file, 0), offset or 0)
        elif op is None and "unlink" in event:
            size.pop(file, None)
    return [SizedFile(file, count) for file, count in size.items() if count]


def cut(recording: Recording, windows: Windows, name: str) -> Recording:
    """The operations that began within the windows, with the windows joined end to end.

    A window contains the part of a wait outside I/O that is within it, because such waits may be
    long. CPU time is the sum of the rows. Times that rows do not contain, such as time runnable but
    not scheduled, are scaled by the windows' share of the run. Nothing is written to disk.
    """
    whole = recording.waits
    on_file = whole["op"].is_valid() | whole["file"].is_valid()
    operations, blocked = whole.filter(on_file), whole.filter(~on_file)
    parts, edges_ns = [], [0]
    for window in windows:
        begin_ns, end_ns = (round(edge_s * 1e9) for edge_s in window)
        start = operations["start_ns"].values
        began = operations.filter((start >= begin_ns) & (start < end_ns))
        for part in (began, within(blocked, begin_ns, end_ns)):
            start_ns = part["start_ns"].values + (edges_ns[-1] - begin_ns)
            parts.append(part.with_column("start_ns", start_ns))
        edges_ns.append(edges_ns[-1] + end_ns - begin_ns)
    waits = Table.concat(parts).sort_by("start_ns")
    path = recording.path.with_name(f"{recording.path.stem}-{name}.spill")
    meta, seconds = (
        _meta(recording, waits, edges_ns),
        seconds_of(waits.filter(waits["op"].is_valid())),
    )
    return Recording.of_tables(path, meta, waits, seconds, recording.samples.take(slice(0)))


def _meta(recording: Recording, waits: Table, edges_ns: Sequence[int]) -> Meta:
    meta, elapsed_s = recording.meta, edges_ns[-1] / 1e9
    capture, share = meta.capture, elapsed_s / recording.elapsed_s
    temp, other_io = totals(waits)
    slices_s = [(begin_ns / 1e9, end_ns / 1e9) for begin_ns, end_ns in pairwise(edges_ns)]
    return replace(
        meta,
        elapsed_s=elapsed_s,
        recorded_s=elapsed_s,
        cpu_s=None if meta.cpu_s is None else waits["cpu_before_ns"].sum() / 1e9,
        temp=temp,
        other_io=other_io,
        capture=share_of(capture, share),
        # One window is a stretch; several are spread over the run.
        raw=KeptWaits(waits.num_rows, waits.num_rows, slices_s, slices_of_all=len(slices_s) > 1),
    )


#: Names as evidence: a minute, the same with a previous run, the first fifth.
MINUTE, AGAIN, FIFTH = "minute", "minute_former", "first_fifth_alone"
PARTS = (MINUTE, AGAIN, FIFTH)
MINUTE_S, SHARE, LATEST = 60.0, 0.1, 0.8


def parts(whole: Recording, generator: Random, plan: Counts | None) -> dict[str, Recording]:
    """Parts by name, with the estimates of ``plan``, a plan of the same query.

    Parts may lack temp I/O, and then have no forecast.
    """
    began_s = generator.uniform(0, LATEST) * whole.elapsed_s
    lasted_s = min(MINUTE_S, SHARE * whole.elapsed_s)
    recordings = {
        MINUTE: attached(whole, began_s, began_s + lasted_s),
        FIFTH: attached(whole, 0.0, whole.elapsed_s / 5),
    }
    document = None if plan is None else plan.document
    for part in recordings.values():
        if document:
            part.documents[ESTIMATE_FILE] = document
    return recordings


def rehearse(
    engine: Lab,
    workload: LabQuery,
    place: SpillDirectory,
    like: Recording,
    duration_s: float,
    folder: Path,
) -> Rehearsal:
    """Run the query of ``like`` in ``place`` for at most ``duration_s``.

    Its recording is kept in ``folder``. Refusal if it does no temp I/O in that time.
    """
    output = folder / f"{like.path.stem}-on-{file_name(place.name)}.spill"
    recorder = recorder_for(place, output, duration_s)
    with observed(engine, workload, place, recorder) as held:
        started_ns = time.monotonic_ns()
        held.start()
        while not recorder.poll():
            pass
        elapsed_s = (time.monotonic_ns() - started_ns) / 1e9
        recorder.stop()
        if held.wait(0):
            elapsed_s = held.result().elapsed_s
        held.close()
        if not recorder.saw_temp_io():
            raise RehearsalFailed(
                f"{workload.name}: no temp I/O in {duration_s:g} s on {place.name}"
            )
        fields = {"elapsed_s": elapsed_s, "engine": engine.describe(workload)}
        return Rehearsal.of(recorder.finish(KnownRun(started_ns, fields)))

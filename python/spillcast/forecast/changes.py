"""Calls that make, resize, sync or remove temp files: how long they take here, and on a target."""

from collections.abc import Sequence
from dataclasses import dataclass

import pyarrow as pa
import pyarrow.compute

from spillcast.recording import Recording
from spillcast.storage import Storage


@dataclass(frozen=True)
class TempChanges:
    """The calls of one kind over the whole run; ``event`` is None where it is not known."""

    event: str | None
    count: int
    total_s: float


@dataclass(frozen=True)
class ChangesThere:
    """What a storage says of such calls."""

    #: Latency there over the recorded one, by call; what is absent is not known there.
    times: dict[str, float]
    #: Seconds of all calls there, and of those of which nothing is known, which are kept.
    total_s: float
    kept_s: float


def temp_changes(recording: Recording) -> list[TempChanges]:
    """One a kind of call. The per-second rows, which cover the whole run, tell count and time.

    Single waits tell the calls apart, where all or some of them were kept.
    """
    seconds = recording.seconds
    seconds = seconds.filter(pa.compute.and_(seconds["temp"], seconds["op"].is_null()))
    count, total_ns = (pa.compute.sum(seconds[name]).as_py() for name in ("count", "total_ns"))
    if not count:
        return []
    waits = recording.temp_changes.select(["event", "elapsed_ns"])
    if not waits.num_rows:
        return [TempChanges(None, count, total_ns / 1e9)]
    waits = waits.set_column(0, "event", waits["event"].cast(pa.string()))
    groups = waits.group_by("event").aggregate([("elapsed_ns", "count"), ("elapsed_ns", "sum")])
    seen_ns = pa.compute.sum(waits["elapsed_ns"]).as_py()
    return [
        TempChanges(
            row["event"],
            round(row["elapsed_ns_count"] * count / waits.num_rows),
            row["elapsed_ns_sum"] / max(seen_ns, 1) * total_ns / 1e9,
        )
        for row in groups.sort_by("event").to_pylist()
    ]


def changes_on(target: Storage, changes: Sequence[TempChanges]) -> ChangesThere:
    """The same calls on ``target``; those that it has no figures for take what they took."""
    known = {change.event: change.mean_s for change in target.changes if change.count}
    times = {
        change.event: change.count * known[change.event] / change.total_s
        for change in changes
        if change.event in known and change.total_s > 0
    }
    kept_s = sum(change.total_s for change in changes if change.event not in times)
    moved_s = sum(change.total_s * times.get(change.event or "", 0.0) for change in changes)
    return ChangesThere(times, moved_s + kept_s, kept_s)

"""Whether a recording covers the whole run or only a part of it."""

from dataclasses import dataclass
from typing import Literal

from spillcast.document import later
from spillcast.recording.meta import Meta
from spillcast.recording.observed import DoneBefore
from spillcast.units import format_duration

#: Of a process that ran already: CPU time, over the time recorded, and bytes, over those recorded,
#: from which on it had worked on something before.
WORKED = 0.1


@dataclass(frozen=True)
class Part:
    """Describes a recording of a run that took longer, of unknown length.

    ``because`` is what ended the recording (``duration``, ``interrupt``, ``failure``), ``error``
    where the run was cancelled or failed, or ``late`` where the recording began after the run.
    ``before_s`` is how long the run had taken by then, or its ``process``, of which nobody knows
    when its query began; None where it began with the recording.
    """

    recorded_s: float
    because: str
    before_s: float | None = later()
    what: Literal["run", "process"] = later("run")

    @classmethod
    def of(cls, meta: Meta) -> "Part | None":
        """None where the time of the whole run is known, or nothing tells that it is a part."""
        if whole_s(meta) is not None:
            return None
        because = _cut_off_by(meta) or "late"
        query = meta.server_query
        if query is not None:
            return cls(meta.elapsed_s, because, query.before_recording_s or None)
        if meta.before is not None and had_worked(meta, meta.before):
            return cls(meta.elapsed_s, because, meta.before.ran_s, "process")
        return cls(meta.elapsed_s, because)

    @property
    def words(self) -> str:
        """It in words, as a sentence begins with it."""
        did = []
        if self.before_s is not None:
            did.append(f"had already run for {format_duration(self.before_s)}")
        elif self.because == "late":
            did.append("had already started")
        if self.because == "error":
            did.append("was cancelled or failed")
        elif self.because != "late":
            did.append("went on")
        recorded = format_duration(self.recorded_s)
        return f"{recorded} were recorded of a {self.what} that {' and '.join(did)}"


def recorded_words(recorded_s: float | None) -> str:
    """What of a run of known length was recorded, within a sentence; empty for all of it."""
    if recorded_s is None:
        return ""
    return f", judging by the {format_duration(recorded_s)} recorded"


def whole_s(meta: Meta) -> float | None:
    """Elapsed time of the whole run; None if the recording is a part and it is unknown."""
    if went_on(meta):
        return None
    query = meta.server_query
    if query is not None and query.before_recording_s > 0:
        return query.query_elapsed_s
    if query is None and meta.before is not None and had_worked(meta, meta.before):
        return None
    return meta.elapsed_s


def went_on(meta: Meta) -> bool:
    """Whether the run is known not to have been complete when its recording ended."""
    return _cut_off_by(meta) is not None


def had_worked(meta: Meta, before: DoneBefore) -> bool:
    """Whether a process had done enough before its recording that it may be of the query.

    One that had waited for its query until then, like a shell, had done next to nothing.
    """
    moved = before.bytes is not None and before.bytes > WORKED * meta.temp.bytes
    return before.cpu_s > WORKED * meta.elapsed_s or moved


def _cut_off_by(meta: Meta) -> str | None:
    """The reason why the recording of an incomplete run ended; None if unknown."""
    query = meta.server_query
    ended_by = meta.ended_by if query is None else query.ended_by
    return None if ended_by in ("end", "query") else ended_by

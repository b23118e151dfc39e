"""Whether a recording is of a whole run, or is known to hold a part of it alone."""

from dataclasses import asdict, dataclass

from spillcast.recording.meta import Meta
from spillcast.units import format_duration


@dataclass(frozen=True)
class Part:
    """What was recorded of a run that took longer, nobody knows how long.

    ``because`` is what ended the recording (``duration``, ``interrupt``, ``failure``), or ``late``
    where it began after the run.
    """

    recorded_s: float
    because: str

    @classmethod
    def of(cls, meta: Meta) -> "Part | None":
        """None where the time of the whole run is known, or nothing tells that it is a part."""
        if whole_s(meta) is not None:
            return None
        return cls(meta.elapsed_s, _cut_off_by(meta) or "late")

    @property
    def words(self) -> str:
        """It in words, as a sentence begins with it."""
        what = "had begun before" if self.because == "late" else "went on"
        return f"Of a run that {what}, {format_duration(self.recorded_s)} were recorded"

    def to_json(self) -> dict[str, float | str]:
        """As a forecast's document has it."""
        return asdict(self)


def whole_s(meta: Meta) -> float | None:
    """Elapsed time of the whole run; None where the recording is a part and does not tell."""
    if _cut_off_by(meta) is not None:
        return None
    query = meta.server_query
    if query is not None and query.before_recording_s > 0:
        return query.query_elapsed_s
    return meta.elapsed_s


def _cut_off_by(meta: Meta) -> str | None:
    """What ended the recording while the run went on; None where nothing is known to have."""
    query = meta.server_query
    ended_by = meta.ended_by if query is None else query.ended_by
    return None if ended_by in ("end", "query") else ended_by

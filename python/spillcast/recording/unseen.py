"""The share of temp I/O that a capture may have missed, at most."""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING

from spillcast.units import format_bytes, format_count

if TYPE_CHECKING:
    from spillcast.recording.meta import Meta

#: From this share on it is worth a warning; above the other there is no forecast.
SHARE_REPORTED, SHARE_MAX = 0.01, 0.2
#: The least that is shown: a smaller share is rounded up.
SHARE_SHOWN = 0.001
#: Starts of processes are known to within so much.
TICK_S = 0.01


@dataclass(frozen=True)
class Unseen:
    """Bounds what is missing from a recording."""

    #: Upper bound of the share of all temp I/O calls that are missing from the recording.
    calls_share: float
    #: Upper bound of the share of the elapsed time that these calls took, if each took as long as
    #: those recorded.
    time_share: float
    #: What was not observed, and what observes it, in words; empty if nothing is missing.
    causes: tuple[str, ...]
    remedy: str

    @property
    def notable(self) -> bool:
        """Whether it is worth a warning."""
        return self.calls_share > SHARE_REPORTED

    @property
    def excessive(self) -> bool:
        """Whether it forbids a forecast."""
        return self.calls_share > SHARE_MAX

    @property
    def text(self) -> str:
        """Says what may be missing, and why."""
        share = self.calls_share
        shown = f"{share:.0%}" if self.notable else f"{max(share, SHARE_SHOWN):.1%}"
        return f"up to {shown} of the temp I/O is missing: {'; '.join(self.causes)}"


def unseen_of(meta: "Meta") -> Unseen:
    """The bound for a capture, from its counts."""
    causes = [(calls, text) for calls, text in _causes(meta) if calls]
    seen, missed = meta.temp.operations, sum(calls for calls, _ in causes)
    blind = list(_blind(meta))
    mean_s = meta.temp.total_s / max(seen, 1)
    whole_s = max(meta.elapsed_s, meta.temp.total_s)
    return Unseen(
        1.0 if blind else missed / max(seen + missed, 1),
        min(1.0 if blind else missed * mean_s / whole_s, 1.0) if whole_s else 0.0,
        tuple([*blind, *(text for _, text in causes)]),
        _remedy(meta) if blind or causes else "",
    )


def _blind(meta: "Meta") -> Iterator[str]:
    """Paths that may hide any amount of temp I/O."""
    if meta.capture.mapped_temp_files:
        names = ", ".join(meta.capture.mapped_temp_files[:3])
        yield f"temp files are memory-mapped ({names}), which makes no system call"
    if meta.capture.io_uring:
        yield "the process uses io_uring, whose requests were not observed"


def _causes(meta: "Meta") -> Iterator[tuple[float, str]]:
    """Calls that may be missing, and why."""
    capture, temp = meta.capture, meta.temp
    yield capture.lost, f"{format_count(capture.lost, 'capture event')} lost"
    unknown = format_count(capture.unknown_file, "call")
    yield capture.unknown_file, f"{unknown} on files closed before their names could be read"
    if capture.threads_sampled is not None:
        seen, of = capture.threads_sampled
        text = f"only {seen:,} of {format_count(of, 'thread')} observed"
        yield temp.operations * (of / max(seen, 1) - 1), text
    if capture.temp_copies:
        size = format_bytes(capture.temp_copied_bytes)
        mean_bytes = max(temp.bytes / max(temp.operations, 1), 1.0)
        calls = max(capture.temp_copies, capture.temp_copied_bytes / mean_bytes)
        yield calls, f"{size} copied by sendfile, splice or copy_file_range, which is not timed"
    if (query := meta.server_query) is not None:
        each = temp.operations / (1 + len(query.workers))
        # What a worker did before the recording began is as little a part of it as the session's.
        late = [
            worker for worker in query.workers if worker.late and (worker.started_s or 0) >= -TICK_S
        ]
        before = [
            each if late_worker.missed is None else late_worker.missed.calls for late_worker in late
        ]
        workers = format_count(len(late), "parallel worker")
        yield sum(before), f"{workers} attached when temp I/O may have begun"
        workers = format_count(query.workers_not_attached, "parallel worker")
        yield each * query.workers_not_attached, f"{workers} not attached"


def _remedy(meta: "Meta") -> str:
    capture = meta.capture
    if capture.mapped_temp_files:
        return "no capture source observes memory-mapped temp files"
    if capture.method != "bpf":
        return "record again with --capture bpf, as root"
    return "record again, with less load on the machine" if capture.lost else "record again"

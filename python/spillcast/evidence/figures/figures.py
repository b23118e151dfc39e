"""Figures of one run (elapsed time, temp I/O, threads) -> a recording."""

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path

from spillcast.errors import (
    EvidenceContradictory,
    EvidenceIncomplete,
    NoTempIo,
    TimesUnknown,
)
from spillcast.gate import COUNT_MAX
from spillcast.recording.ends import Ends, Unknown
from spillcast.recording.even_rows import even_seconds
from spillcast.recording.meta import CaptureAccount, KeptWaits, Meta, ObservedEngine, Temp
from spillcast.recording.postgres_meta import Statement
from spillcast.recording.recording import Recording
from spillcast.recording.schema import WAITS_SCHEMA
from spillcast.recording.shared_by import SharedBy
from spillcast.recording.timed_within import TimedWithin
from spillcast.units import format_duration

#: The captures of such recordings: what a person typed, what Oracle reports, and what DuckDB does.
FIGURES, REPORT, PROFILE = "figures", "report", "profile"
_UNTIMED = "give the time of its temp I/O, or name its storage with --from"
#: Rounded times may add up to more than the run by so much of it.
ROUNDED = 0.02
#: 30 years: no run took as long.
LONGEST_S = 1e9
THREADS_MAX = 10_000


@dataclass(frozen=True)
class Moved:
    """The reads or the writes of temp files: how many, how much, how long over all threads."""

    count: int = 0
    bytes: int = 0
    time_s: float | None = None


@dataclass(frozen=True, kw_only=True)
class Figures:
    """Holds the figures of one run.

    ``threads`` is how many were at work on the mean; times of I/O and CPU are summed over them.
    Where ``busy_s`` is known, the time of all of them together, they follow from it.
    ``elapsed_unknown`` says why there is no elapsed time.
    Where ``within`` has bounds of the time of temp I/O, the times of ``reads`` and ``writes`` are
    between them. Where only bounds of the I/O itself are known, ``ends`` are the run with the least
    and with the most of it, and ``unknown`` says so. ``untold`` says what this source cannot tell.
    """

    path: Path
    elapsed_s: float
    reads: Moved
    writes: Moved
    cpu_s: float | None = None
    threads: float = 1.0
    busy_s: float | None = None
    elapsed_unknown: str = ""
    within: TimedWithin | None = None
    shared_by: SharedBy | None = None
    ends: tuple["Figures", "Figures"] | None = None
    unknown: Unknown | None = None
    engine: ObservedEngine = field(default_factory=lambda: ObservedEngine("process"))
    capture: str = FIGURES
    statement: Statement | None = None
    untold: Sequence[str] = ()

    @property
    def times_s(self) -> list[float]:
        """The times that are known."""
        return [moved.time_s for moved in (self.reads, self.writes) if moved.time_s is not None]


def recording_of_figures(
    figures: Figures, *, elapsed_s: float | None = None, timed: bool = True
) -> Recording:
    """A recording that is nowhere on disk: rows of ``seconds``, and empty ``waits``.

    ``elapsed_s`` is that of the run where it is known better. InputError for figures that cannot
    be; Refusal, if ``timed``, where nothing tells how long temp I/O took.
    """
    figures = _with_elapsed(figures, elapsed_s or figures.elapsed_s)
    _check(figures)
    if timed and not sum(figures.times_s):
        raise TimesUnknown(f"{figures.path}: no time of temp I/O is given: {_UNTIMED}")
    reads, writes, shared_by = figures.reads, figures.writes, figures.shared_by
    cpu_s = figures.cpu_s if figures.threads == 1 else None
    meta = Meta(
        elapsed_s=figures.elapsed_s,
        recorded_s=figures.elapsed_s,
        engine=figures.engine,
        cpu_s=cpu_s,
        temp=Temp(
            reads.count,
            writes.count,
            reads.bytes + writes.bytes,
            sum(figures.times_s),
            processes=figures.threads if shared_by is None else shared_by.middle,
            shared_by=shared_by,
            within=figures.within if timed else None,
            untold=tuple(figures.untold),
            # What is read was written once, if nothing else is known.
            held_bytes=writes.bytes or reads.bytes,
            files=1,
        ),
        capture=CaptureAccount(figures.capture),
        statement=figures.statement,
        raw=KeptWaits(0, reads.count + writes.count, []),
    )
    recording = Recording(figures.path, meta)
    recording.waits = WAITS_SCHEMA.empty_table()
    recording.seconds = even_seconds(
        (op, bound.count, bound.bytes, bound.time_s or 0.0)
        for op, bound in (("read", reads), ("write", writes))
    )
    if figures.ends is not None and figures.unknown is not None:
        least, most = (
            recording_of_figures(bound, elapsed_s=elapsed_s, timed=timed) for bound in figures.ends
        )
        recording.ends = Ends(least, most, figures.unknown)
    return recording


def _with_elapsed(figures: Figures, elapsed_s: float) -> Figures:
    threads = figures.threads
    if figures.busy_s is not None and elapsed_s > 0:
        threads = max(1.0, figures.busy_s / elapsed_s)
    return replace(figures, elapsed_s=elapsed_s, threads=threads)


def _check(figures: Figures) -> None:
    """InputError for what no run can have been."""
    path, reads, writes = figures.path, figures.reads, figures.writes
    if figures.elapsed_s <= 0:
        because = f": {figures.elapsed_unknown}" if figures.elapsed_unknown else ""
        raise EvidenceIncomplete(
            f"{path}: no elapsed time{because}", "give it with --elapsed, such as 12m53s"
        )
    if not reads.count + writes.count:
        raise NoTempIo(
            f"{path}: no reads and writes of temp files",
            "a forecast needs their number and size",
        )
    if max(reads.count, writes.count, reads.bytes, writes.bytes) > COUNT_MAX:
        raise EvidenceContradictory(f"{path}: more operations or bytes than any storage has")
    if not 1 <= figures.threads <= THREADS_MAX:
        raise EvidenceContradictory(
            f"{path}: {figures.threads:g} threads", f"there are 1 to {THREADS_MAX:,}"
        )
    if max(figures.elapsed_s, figures.cpu_s or 0.0, *figures.times_s, 0.0) > LONGEST_S:
        raise EvidenceContradictory(f"{path}: a time of more than 30 years", "times are in seconds")
    most_s = figures.threads * figures.elapsed_s
    if (io_s := sum(figures.times_s)) > (1 + ROUNDED) * most_s:
        threads = "one thread" if figures.threads == 1 else f"{figures.threads:.3g} threads"
        raise EvidenceContradictory(
            f"{path}: temp I/O took {format_duration(io_s)} in {threads}, and "
            f"the run {format_duration(figures.elapsed_s)}",
            "give the mean number of threads, or the elapsed time of the whole run",
        )

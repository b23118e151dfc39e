"""Figures of one run (elapsed time, temp I/O, threads) -> counts."""

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path

from spillcast.errors import (
    EvidenceContradictory,
    EvidenceIncomplete,
    NoTempIo,
    TimesUnknown,
)
from spillcast.evidence.counts import Bounds, Counts, OpCounts, middle_processes
from spillcast.gate import COUNT_MAX
from spillcast.recording.meta import ObservedEngine
from spillcast.recording.postgres_meta import Statement
from spillcast.units import format_duration

#: The sources of such counts: what a person typed, what Oracle reports, and what DuckDB does.
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
    Where the time of temp I/O has bounds, the times of ``reads`` and ``writes`` are between them;
    ``counts_follow_time`` says whether their number follows from it. ``between`` are the run with
    the least and with the most temp I/O, where only bounds of it are known. ``untold`` says what
    the source does not contain.
    """

    path: Path
    elapsed_s: float
    reads: Moved
    writes: Moved
    cpu_s: float | None = None
    threads: float = 1.0
    busy_s: float | None = None
    elapsed_unknown: str = ""
    time_bounds: Bounds[float] | None = None
    counts_follow_time: bool = False
    processes_bounds: Bounds[float] | None = None
    between: "Bounds[Figures] | None" = None
    engine: ObservedEngine = field(default_factory=lambda: ObservedEngine("process"))
    source: str = FIGURES
    statement: Statement | None = None
    untold: Sequence[str] = ()

    @property
    def times_s(self) -> list[float]:
        """The times that are known."""
        return [moved.time_s for moved in (self.reads, self.writes) if moved.time_s is not None]


def counts_of_figures(
    figures: Figures, *, elapsed_s: float | None = None, timed: bool = True
) -> Counts:
    """The counts of a run.

    ``elapsed_s`` is that of the run where it is known better. InputError for figures that cannot
    be; Refusal, if ``timed``, where nothing tells how long temp I/O took.
    """
    figures = _with_elapsed(figures, elapsed_s or figures.elapsed_s)
    _check(figures)
    if timed and not sum(figures.times_s):
        raise TimesUnknown(f"{figures.path}: no time of temp I/O is given: {_UNTIMED}")
    shared = figures.processes_bounds
    reads, writes = (
        OpCounts.timed(moved.count, moved.bytes, moved.time_s)
        for moved in (figures.reads, figures.writes)
    )
    io_bounds = None
    if (between := figures.between) is not None:
        lower, upper = (
            counts_of_figures(bound, elapsed_s=elapsed_s, timed=timed)
            for bound in (between.lower, between.upper)
        )
        io_bounds = Bounds(lower, upper, between.reason, between.remedy)
    return Counts(
        path=figures.path,
        elapsed_s=figures.elapsed_s,
        reads=reads,
        writes=writes,
        source=figures.source,
        engine=figures.engine,
        processes=figures.threads if shared is None else middle_processes(shared),
        processes_bounds=shared,
        time_bounds=figures.time_bounds if timed else None,
        counts_follow_time=figures.counts_follow_time,
        io_bounds=io_bounds,
        cpu_s=figures.cpu_s if figures.threads == 1 else None,
        # What is read was written once, if nothing else is known.
        held_bytes=writes.bytes or reads.bytes,
        statement=figures.statement,
        notes=tuple(figures.untold),
    )


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

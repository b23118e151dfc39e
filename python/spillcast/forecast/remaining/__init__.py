"""Estimates of the rest of a partly recorded query, one for each source of evidence."""

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from math import exp, hypot
from pathlib import Path
from typing import Any

from spillcast.errors import OptionInvalid
from spillcast.evidence.counts import Counts
from spillcast.forecast.previous_runs import (
    HistoryFile,
    kept_history,
    read_history,
    reason_against,
    recorded_spread,
    run_loads,
)
from spillcast.forecast.remaining.progress import (
    CALLS_SOURCE,
    ELAPSED,
    FILES_SOURCE,
    HISTORY_SOURCE,
    PLAN_SOURCE,
    Estimated,
    Quantity,
    QueryProgress,
)
from spillcast.forecast.workload.load import moved_bytes, total_s
from spillcast.forecast.workload.recorded import recorded_threads
from spillcast.gate import reading
from spillcast.recording import Recording
from spillcast.recording.meta import ObservedEngine
from spillcast.stats import NORMAL_95
from spillcast.units import format_bytes, format_duration, format_share, parse_bytes


@dataclass(frozen=True)
class RemainingWorkHints:
    """A user's hints about a partly recorded query.

    ``progress`` is the share (0..1) done by the recording's end, ``written_bytes`` the bytes that
    the entire query writes. ``history`` are previous runs, or plans that were not run.
    ``without`` excludes kinds of sources, for experiments that measure what each contributes.
    """

    progress: float | None = None
    written_bytes: float | None = None
    history: Sequence[HistoryFile] = ()
    without: Collection[str] = ()

    @property
    def options(self) -> str:
        """The options that gave the hints, for a message; empty for none."""
        given = {
            "--history": self.history,
            "--progress": self.progress,
            "--written": self.written_bytes,
        }
        return " and ".join(name for name, value in given.items() if value not in (None, (), []))

    @property
    def of_remaining(self) -> str:
        """The options that do not apply to an entire recording, which uses only previous runs."""
        only_runs = self.progress is None and self.written_bytes is None
        return "" if only_runs and len(self.runs) == len(self.history) else self.options

    @property
    def runs(self) -> list[Recording | Counts]:
        """The runs in ``history``."""
        return [file.run for file in self.history if file.run is not None]

    def runs_of(self, engine: ObservedEngine) -> tuple[Sequence[Recording | Counts], Sequence[str]]:
        """The runs in ``history`` of the query of ``engine``, and why other runs are not used."""
        reasons = [(run, reason_against(run, engine)) for run in self.runs]
        unused = [f"{run.path.name}: {reason}" for run, reason in reasons if reason is not None]
        return [run for run, reason in reasons if reason is None], unused

    def estimates(
        self, progress: QueryProgress, recording: Recording, elapsed_s: float | None
    ) -> tuple[list[Estimated], list[str]]:
        """Estimates of the entire query from all sources, and why sources are not used.

        ``elapsed_s`` is the time that the user states. OptionInvalid if the recording contradicts a
        hint.
        """
        # The kind of each source, its file, and its estimates or why it is not used.
        sources: list[tuple[str, str, Sequence[Estimated] | str]] = [
            ("user", "", _estimates_of_user(self, elapsed_s, progress)),
            ("spill", "", _estimates_by_files(progress)),
            ("input", "", _estimates_by_scan(progress)),
        ]
        # Given runs replace the calls that the server counted.
        engine = recording.engine
        kept = [file for file in kept_history(recording) if file.plan is not None or not self.runs]
        for file in [*self.history, *kept]:
            name, run = file.path.name, file.run
            if file.plan is None:
                known = file.unused if run is None else _estimates_by_run(run, engine, progress)
                sources.append(("history", name, known))
                continue
            with reading(file.path, "make it with: EXPLAIN (SETTINGS, FORMAT JSON) SELECT ..."):
                planned = _estimates_by_plan(
                    file.plan, engine.settings, progress, in_recording=file in kept
                )
            sources.append(("plan", name, planned))
        used = [source for source in sources if source[0] not in self.without]
        unused = [f"{name}: {reason}" for _, name, reason in used if isinstance(reason, str)]
        return [e for _, _, known in used if not isinstance(known, str) for e in known], unused


NO_HINTS = RemainingWorkHints()


def hints_of(
    history: Sequence[Path], progress: str | None = None, written: str | None = None
) -> RemainingWorkHints:
    """The hints given by options. InputError for invalid options, and for other ``history``."""
    return RemainingWorkHints(
        None if progress is None else parse_progress(progress),
        None if written is None else float(parse_bytes(written, "--written")),
        tuple(map(read_history, history)),
    )


def parse_progress(text: str) -> float:
    """A share of a query such as ``20%`` or ``0.2``. InputError for anything else."""
    number = text.strip().removesuffix("%")
    try:
        share = float(number) / (100 if text.strip().endswith("%") else 1)
    except ValueError:
        share = 0.0
    if not 0 < share <= 1:
        raise OptionInvalid(
            f"--progress {text} is not a share of a query",
            "give the share that was done when the recording ended, such as 20%",
        )
    return share


#: Standard deviations of the logarithm of figures that a user states. A stated progress may be a
#: share of the work, not of the time.
USER_ELAPSED_SPREAD, USER_WRITTEN_SPREAD, PROGRESS_SPREAD = 0.02, 0.05, 0.15


def _estimates_of_user(
    hints: RemainingWorkHints, elapsed_s: float | None, progress: QueryProgress
) -> list[Estimated]:
    """Estimates by --elapsed, --progress, --written. OptionInvalid if the recording contradicts."""
    estimates = []
    if elapsed_s is not None:
        estimates.append(Estimated.around("elapsed", elapsed_s, USER_ELAPSED_SPREAD, ELAPSED))
    if hints.progress is not None:
        spread = PROGRESS_SPREAD * (1 - hints.progress) + USER_ELAPSED_SPREAD
        total_s = progress.done_s / hints.progress
        estimates.append(Estimated.around("elapsed", total_s, spread, "--progress"))
    if (written := hints.written_bytes) is not None:
        if not written > 0:
            raise OptionInvalid(
                "--written 0: a query that writes no temp files has no forecast",
                "leave it out if it is not known what the whole query writes",
            )
        if written < (done := progress.bytes["write"]):
            raise OptionInvalid(
                f"--written {format_bytes(written)}: {format_bytes(done)} were written "
                "while it was recorded",
                "it is what the whole query writes to temp files",
            )
        estimates.append(Estimated.around("written", written, USER_WRITTEN_SPREAD, "--written"))
    return estimates


#: Bytes that another part of the query may spill after writing has ended, over bytes written.
FILES_MORE = 0.3
#: Files show what remains only if at least this share of the written bytes is unread.
MIN_UNREAD = 0.02
#: Bytes that a query writes again while it reads its files, over unread bytes: low, centre, high.
REWRITTEN = (0.06, 0.5, 2.5)


def _estimates_by_files(progress: QueryProgress) -> list[Estimated]:
    """The bytes that remain to be written; empty while writing at full rate, without a bound."""
    written, unread = progress.written, progress.unread
    if not written or unread.upper < MIN_UNREAD * written or progress.writes_at_full_rate:
        return []
    if "write" not in progress.recent_ops:
        return [Estimated("writes", 0.0, 0.0, FILES_MORE * written, FILES_SOURCE)]
    if "read" not in progress.recent_ops:
        return []
    lower, middle, upper = (share * unread.middle for share in REWRITTEN)
    return [Estimated("writes", lower, middle, upper, FILES_SOURCE)]


#: A scan that moved less than this share of its table shows no rate.
MIN_MOVED = 0.02
#: Spread of the log of bytes until the scan ends; upper bound of later bytes over all until then.
SCAN_SPREAD, SCAN_AGAIN = 0.2, 2.5
#: The least share that remains: recorded reads do not show the end of a scan exactly.
MIN_LEFT = 0.01


def _estimates_by_scan(progress: QueryProgress) -> list[Estimated]:
    """The bytes that remain to be written while a table scan feeds the spill."""
    table, begin, end = max(progress.scans, key=lambda at: at[2] - at[1], default=("", 0.0, 0.0))
    if end - begin < MIN_MOVED:
        return []
    written, to_scan = progress.written, max(1 - end, MIN_LEFT)
    left = progress.bytes["write"] / (end - begin) * to_scan
    # The first bytes written may be of rows that were read earlier and held in memory.
    lower = min(left, written / end * to_scan) * exp(-NORMAL_95 * SCAN_SPREAD)
    # All of the spill may be written again, and another scan may follow.
    upper = left + SCAN_AGAIN * (written + left)
    source = f"the scan of file {table}, {format_share(end)} done"
    return [Estimated("writes", lower, left, upper, source)]


#: Standard deviation of the logarithm of a plan's bytes; its square grows with each join.
PLAN_SPREAD = 0.3
#: A session may have less work memory than other sessions see, by at most this factor.
MAX_LESS = 64
#: Spread per share of hash aggregates, which rewrite large partitions an unknown number of times.
AGGREGATED = 0.5
#: A query that wrote this multiple of its plan's bytes has another plan or other settings.
PLAN_MORE = 1.3


def _estimates_by_plan(
    document: Mapping[str, Any],
    settings: Mapping[str, Any],
    progress: QueryProgress,
    *,
    in_recording: bool,
) -> list[Estimated] | str:
    """Bytes of the entire query by a plan of EXPLAIN, or why it is not used.

    ``settings`` are the session's, for a plan without settings. A plan that is kept
    ``in_recording`` is certainly of the session's statement.
    """
    from spillcast.evidence.postgres.spills import planned_bytes

    planned, less = planned_bytes(document, settings), 1
    seen, done = progress.bytes["write"], progress.written
    # The query spills more than planned: it may have less work memory than other sessions see.
    while in_recording and planned.written <= seen / PLAN_MORE and less < MAX_LESS:
        less *= 2
        planned = planned_bytes(document, settings, less)
    if not planned.written:
        return "by its estimates nothing spills, whatever the work memory"
    if planned.written * PLAN_MORE < seen:
        return (
            f"by its estimates {format_bytes(planned.written)} are written in all, and "
            f"{format_bytes(seen)} were already"
        )
    # If more was written than planned, the plan's rows are too few by an unknown factor.
    written = max(planned.written, done * 1.02)
    sure = written > done * 1.02 and less == 1
    spread = PLAN_SPREAD * (1 + planned.joins) ** 0.5 * (1 if sure else 2)
    above = spread + AGGREGATED * planned.aggregated / planned.written
    read = written * planned.read / planned.written
    return [
        Estimated.around("written", written, spread, PLAN_SOURCE, above),
        Estimated.around("read", read, spread, PLAN_SOURCE, above),
    ]


#: Standard deviations of the logarithm from run to run: of the spill (lower limit), the time
#: outside temp I/O, and the elapsed time if temp I/O was not timed.
HISTORY_COUNTS_SPREAD, HISTORY_REST_SPREAD, UNTIMED_SPREAD = 0.03, 0.15, 0.3
#: Calls with other constants spill other amounts. A single call does not show the difference.
CALLS_SPREAD = 0.3
#: A run with less than these shares of the recorded spill, or of the time outside temp I/O, is of
#: another query.
HISTORY_LESS, HISTORY_LESS_REST = 0.9, 0.5


def _estimates_by_run(
    run: Recording | Counts, engine: ObservedEngine, progress: QueryProgress
) -> list[Estimated] | str:
    """Figures of the entire query by a previous run, or why it is not used."""
    if (reason := reason_against(run, engine)) is not None:
        return reason
    counts_spread, calls_spread, source = HISTORY_COUNTS_SPREAD, 0.0, HISTORY_SOURCE
    if not (loads := run_loads(run)):
        return "it did not spill"
    if isinstance(run, Recording):
        io_weight = recorded_threads(run, loads).io_weight
        counts_spread = max(HISTORY_COUNTS_SPREAD, recorded_spread(run) or 0.0)
    else:
        io_weight = 1 / run.processes
        if (calls := run.statement) is not None and calls.spread is not None:
            # More calls give a more certain spread.
            source, others = CALLS_SOURCE, max(calls.calls - 1, 0)
            calls_spread = hypot(others**0.5 * calls.spread, CALLS_SPREAD) / (others + 1) ** 0.5
    written, read = moved_bytes(loads, "write"), moved_bytes(loads, "read")
    if written < HISTORY_LESS * progress.bytes["write"]:
        wrote, seen = format_bytes(written), format_bytes(progress.bytes["write"])
        return f"it wrote {wrote} in all, this one {seen} while it was recorded"
    io_s = total_s(loads)
    rest_s = run.elapsed_s - io_weight * io_s
    if io_s and rest_s < HISTORY_LESS_REST * progress.rest_s:
        took, seen = format_duration(max(rest_s, 0.0)), format_duration(progress.rest_s)
        return f"it took {took} outside temp I/O in all, this one {seen} while it was recorded"
    figures: list[tuple[Quantity, float, float]] = [
        ("written", written, counts_spread),
        ("read", read, counts_spread),
        ("rest", rest_s, HISTORY_REST_SPREAD)
        if io_s
        else ("elapsed", run.elapsed_s, UNTIMED_SPREAD),
    ]
    return [
        Estimated.around(quantity, centre, hypot(spread, calls_spread), source)
        for quantity, centre, spread in figures
        if centre > 0
    ]

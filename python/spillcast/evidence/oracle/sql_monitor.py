"""Counts the temp I/O of an execution in SQL Monitor, whatever the format of its report."""

from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from math import sqrt

from spillcast.errors import EvidenceUnknown, NoTempIo
from spillcast.evidence.counts import (
    OPERATION_BYTES,
    TRACE_HINT,
    Bounds,
    Counts,
    OpCounts,
    TempCounts,
    TempTimes,
    counts_of_figures,
    times_up_to,
    with_count_bounds,
)
from spillcast.evidence.numbers import FigureCheck, Number, check_all
from spillcast.evidence.oracle import ORACLE
from spillcast.evidence.oracle.row_sources import may_spill
from spillcast.evidence.selection import SelectableRun, Selection, select
from spillcast.recording import OPS, TEMP_EVENTS, is_like
from spillcast.recording.observed import CountedStatement
from spillcast.stats import NORMAL_95
from spillcast.units import format_count, format_duration

#: The minimum number of samples from which shares are used.
SAMPLES_MIN = 20
#: The factor by which the mean time of temp requests may differ from that of other requests.
REQUEST_FACTOR = 3.0
#: If a report's lines have less than this percentage of the activity, lines are missing.
COMPLETE_PERCENT = 98.0
#: A text report rounds counts of millions to one digit; no request moves less than a sector.
_ROUNDED_TO, _SECTOR_BYTES = 0.75, 512
_REPORT_HINT = "make the report again, with report_level => 'ALL' and type => 'XML'"


@dataclass(frozen=True)
class Line:
    """A line of the plan with its own I/O by op; None if the report has no such column."""

    operation: str
    io: Mapping[str, OpCounts]
    temp_bytes: int | None = None
    #: Samples by event.
    samples: dict[str, int] = field(default_factory=dict)
    #: Percentage of all samples in this line.
    activity: float | None = None

    @property
    def spills(self) -> bool:
        """Whether its I/O is on temp files."""
        if self.temp_bytes or any(is_like(event, TEMP_EVENTS) for event in self.samples):
            return True
        writes = self.io["write"].count
        return self.temp_bytes is None and writes > 0 and may_spill(self.operation.upper())


def io_of(count: Callable[[str], int], requests: str, size: str) -> dict[str, OpCounts]:
    """Requests and bytes by op; ``requests`` and ``size`` are column names with ``{}`` for op."""
    return {op: OpCounts(count(requests.format(op)), count(size.format(op))) for op in OPS}


def total_io(lines: Sequence[Line]) -> dict[str, OpCounts]:
    """The sums of the I/O of lines by op."""
    return {op: sum((line.io[op] for line in lines), OpCounts()) for op in OPS}


@dataclass(frozen=True, kw_only=True)
class MonitoredExecution:
    """One execution; ``elapsed_s`` is 0 if unknown, other times are sums over its sessions."""

    sql_id: str | None
    exec_id: str | None = None
    plan: str | None = None
    sql_text: str | None = None
    elapsed_s: float
    database_s: float
    #: CPU time and waits of every class.
    parts_s: float = 0.0
    cpu_s: float | None
    io_s: float | None
    #: All its I/O by op, on temp and other files; 0 if unknown.
    io: Mapping[str, OpCounts]
    lines: Sequence[Line]
    #: Parallel servers; 0 if unknown.
    servers: int = 0
    status: str = ""
    rounded: bool = False

    @property
    def part(self) -> str | None:
        """What was executed, unless it is all of the statement; a client may cut the status."""
        is_whole = "DONE (ALL ROWS)".startswith(self.status)
        return None if is_whole else f"the part that ran (status {self.status})"

    @property
    def io_max_s(self) -> float:
        """The maximum time (s) of I/O: reports round the total time of its waits."""
        return min(self.database_s, (self.io_s or self.database_s) + 0.5)

    @property
    def parallel(self) -> bool:
        """Whether times are sums over several sessions."""
        return self.servers > 0 or any(line.operation.startswith("PX ") for line in self.lines)

    @cached_property
    def samples(self) -> Counter[str]:
        """Samples of all lines by event."""
        return sum((Counter(line.samples) for line in self.lines), Counter[str]())

    @property
    def percent(self) -> float:
        """The percentage of the activity that is in the report's lines; 0 if unknown."""
        return sum(line.activity or 0.0 for line in self.lines)

    @property
    def all_samples(self) -> float:
        """The number of samples, including those of lines that were cut from the report."""
        in_report, percent = self.samples.total(), self.percent
        is_complete = percent >= COMPLETE_PERCENT or not percent
        return in_report if is_complete else 100 * in_report / percent


def counts_of_selected(executions: Sequence[MonitoredExecution], selection: Selection) -> Counts:
    """The counts of the selected execution, or of the only one."""
    if not executions:
        raise EvidenceUnknown("holds no whole report of SQL Monitor")
    items = [
        SelectableRun(run, run.elapsed_s or run.database_s, run.sql_id, run.exec_id, run.plan)
        for run in executions
    ]
    return counts_of_execution(select(items, selection), selection)


def counts_of_execution(execution: MonitoredExecution, selection: Selection) -> Counts:
    """The temp I/O of the lines that spill. InputError if none does."""
    spilling = [line for line in execution.lines if line.spills]
    temp = total_io(spilling)
    check_all(_checks(execution, temp))
    if not spilling:
        raise NoTempIo(f"{execution.part or 'it'} does not spill: no line uses temp space")
    elapsed_s, elapsed_unknown, remarks = execution.elapsed_s, "", _notes(execution)
    if not elapsed_s and execution.parallel:
        words = format_duration(execution.database_s)
        elapsed_unknown = f"Duration is missing, and {words} is the sum over parallel servers"
    elif not elapsed_s:
        elapsed_s = execution.database_s
        remarks.append("Duration is missing: the elapsed time is the DB time")
    if any(counts.count for counts in temp.values()):
        times, why = _times(execution, temp)
        unsized = [op for op, counts in temp.items() if counts.count and not counts.bytes]
        if unsized:
            why = [*why, f"{' and '.join(unsized)} requests have no bytes: 31 blocks are assumed"]
        moved = times.moved(
            {op: (io.count, io.bytes or io.count * OPERATION_BYTES) for op, io in temp.items()}
        )
    else:
        moved, why = _uncounted(execution), []
    return counts_of_figures(
        selection,
        moved,
        engine=ORACLE,
        elapsed_s=elapsed_s,
        elapsed_unknown=elapsed_unknown,
        cpu_s=execution.cpu_s,
        busy_s=execution.database_s,
        statement=CountedStatement(execution.sql_id, execution.sql_text, 1, 1),
        subject=execution.part,
        notes=[*remarks, *why],
    )


def _checks(execution: MonitoredExecution, temp: Mapping[str, OpCounts]) -> Iterator[FigureCheck]:
    rounding = _ROUNDED_TO if execution.rounded else 1.0
    for op, part in temp.items():
        total = execution.io[op].count
        words = f"{part.count:,} {op} requests of the lines that spill"
        if total:
            yield FigureCheck(
                "part-of-whole", _down_to(part.count, rounding), words,
                total, f"{total:,} {op} requests in all",
            )  # fmt: skip
        if part.bytes:
            yield FigureCheck(
                "blocks-of-operations", _down_to(part.count * _SECTOR_BYTES, rounding), words,
                part.bytes / rounding, f"{part.bytes:,} bytes",
            )  # fmt: skip
    database_s, words = execution.database_s, f"{format_duration(execution.database_s)} of DB time"
    if execution.parts_s:
        parts = f"{format_duration(execution.parts_s)} of CPU time and waits"
        yield FigureCheck("part-of-whole", execution.parts_s, parts, database_s + 1, words)
    if execution.servers and execution.elapsed_s:
        processes = execution.servers + 1
        times = f"{processes} processes in {format_duration(execution.elapsed_s)}"
        upper_s = processes * (execution.elapsed_s + 1)
        yield FigureCheck("time-at-once", database_s, words, upper_s, times)


def _down_to(value: float, rounding: float) -> Number:
    return Number(value, value * rounding, value)


def _uncounted(execution: MonitoredExecution) -> TempCounts:
    """Temp I/O that only samples show: between one request per sample and all requests.

    The bytes read equal the bytes written, unless there are several passes.
    """
    samples = {
        op: sum(n for event, n in execution.samples.items() if is_like(event, f"*{op} temp"))
        for op in OPS
    }
    written = execution.io["write"]
    size = written.bytes / written.count if written.count else OPERATION_BYTES
    because = "the report has samples in waits for temp files and no requests of them"
    times, max_counts = _by_samples(execution), dict.fromkeys(OPS, written.count)
    return with_count_bounds(times, samples, max_counts, size, because, _REPORT_HINT)


def _notes(execution: MonitoredExecution) -> list[str]:
    remarks = [
        "SQL Monitor has requests and bytes of each line and no single waits: nothing about "
        "latency by size, stalls, or I/O that overlapped other work"
    ]
    if execution.rounded:
        remarks.append(
            "a text report rounds counts and bytes to whole K, M and G; type => 'XML' has them all"
        )
    if 0 < execution.percent < COMPLETE_PERCENT:
        remarks.append(
            f"the lines of the plan have {execution.percent:.3g} % of its activity: some are cut"
        )
    return remarks


def _times(
    execution: MonitoredExecution, temp: Mapping[str, OpCounts]
) -> tuple[TempTimes, list[str]]:
    """Times of reads and writes with the closest bounds, and the assumptions behind them."""
    estimates = []
    if execution.all_samples >= SAMPLES_MIN:
        estimates.append((_by_samples(execution), list[str]()))
    reads, writes = temp["read"].count, temp["write"].count
    requests = sum(counts.count for counts in execution.io.values())
    if execution.io_s and requests >= reads + writes:
        times = _by_requests(execution.io_s, requests, reads, writes)
        estimates.append((times, ["the time of I/O is divided by requests"]))
    usable = [(times, remarks) for times, remarks in estimates if times.read_s is not None]
    most = times_up_to(execution.io_max_s, reads, writes, "the report has no times of them")
    return min(usable, key=lambda pair: _width_s(pair[0]), default=(most, []))


def _width_s(times: TempTimes) -> float:
    return 0.0 if times.within is None else times.within.upper - times.within.lower


def _by_samples(execution: MonitoredExecution) -> TempTimes:
    """Times by the share of samples in waits for temp files, with its sampling error."""
    all_samples = execution.all_samples
    temp = {e: n for e, n in execution.samples.items() if is_like(e, TEMP_EVENTS)}
    in_temp = sum(temp.values())
    if not in_temp:
        return TempTimes(None, None)
    share = in_temp / all_samples
    error = NORMAL_95 * sqrt(share * (1 - share) / all_samples)
    lower_s, io_s, upper_s = (
        min(max(share + sign * error, 0) * execution.database_s, execution.io_max_s)
        for sign in (-1, 0, 1)
    )
    within = Bounds(
        lower_s,
        upper_s,
        f"{in_temp:,} of {format_count(round(all_samples), 'sample')} in waits for temp files",
        TRACE_HINT,
    )
    write_share = sum(n for event, n in temp.items() if "write" in event) / in_temp
    return TempTimes((1 - write_share) * io_s, write_share * io_s, within)


def _by_requests(io_s: float, requests: int, reads: int, writes: int) -> TempTimes:
    """Times by the share of requests; temp requests may take more or less time than others."""
    temp, others = reads + writes, requests - reads - writes

    def share_s(times: float) -> float:
        return io_s * temp * times / (temp * times + others)

    within = None
    if others:
        within = Bounds(
            share_s(1 / REQUEST_FACTOR),
            share_s(REQUEST_FACTOR),
            f"{temp:,} of {format_count(requests, 'request')} for temp files, which may "
            f"take up to {REQUEST_FACTOR:g} times as long as others, or a {REQUEST_FACTOR:g}th",
            TRACE_HINT,
        )
    return TempTimes(share_s(1) * reads / temp, share_s(1) * writes / temp, within)

"""What SQL Monitor knows of an execution, whatever wrote it down -> figures of its temp I/O."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from math import sqrt
from pathlib import Path
from statistics import NormalDist

from spillcast.errors import EvidenceUnknown, NoTempIo
from spillcast.evidence.choice import Item, Selection, pick
from spillcast.evidence.counts import Bounds, Counts
from spillcast.evidence.figures.figures import (
    OPERATION_BYTES,
    TRACE_TELLS,
    TempTimes,
    Uncounted,
    counts_of_figures,
    uncounted,
)
from spillcast.evidence.figures.numbers import Held, Number, hold
from spillcast.evidence.oracle.row_sources import may_spill
from spillcast.recording.event_names import OPS, TEMP_EVENTS, is_like
from spillcast.recording.server_meta import Statement
from spillcast.units import format_count, format_duration

#: Fewer samples in all tell no share.
SAMPLES_MIN = 20
#: A request of temp files may take so many times as long as one of others, or so much less.
APART = 3.0
NINE_IN_TEN = NormalDist().inv_cdf(0.95)
#: Lines of a plan have less of its activity (%) than this where some were cut.
WHOLE_PERCENT = 98.0
#: A text report rounds counts of millions to one digit; no request moves less than a sector.
_ROUNDED_TO, _SECTOR_BYTES = 0.75, 512
_REPORT_HINT = "make the report again, with report_level => 'ALL' and type => 'XML'"


@dataclass(frozen=True)
class Line:
    """A line of the plan; None where the report has no such column."""

    operation: str
    reads: int = 0
    read_bytes: int = 0
    writes: int = 0
    write_bytes: int = 0
    temp_bytes: int | None = None
    #: Samples by event.
    samples: Mapping[str, int] = field(default_factory=dict)
    #: Its percentage of all samples.
    activity: float | None = None

    @property
    def spills(self) -> bool:
        """Whether its I/O is on temp files."""
        if self.temp_bytes or any(is_like(event, TEMP_EVENTS) for event in self.samples):
            return True
        return self.temp_bytes is None and self.writes > 0 and may_spill(self.operation.upper())


@dataclass(frozen=True, kw_only=True)
class Monitored:
    """One execution; times are summed over its sessions but for ``elapsed_s``, 0 if unknown."""

    path: Path
    sql_id: str | None
    exec_id: str | None = None
    plan: str | None = None
    sql_text: str | None = None
    elapsed_s: float
    database_s: float
    #: CPU time and waits of every class.
    parts_s: float = 0.0
    cpu_s: float
    io_s: float | None
    #: Of all its I/O by op, temp or not; 0 where that is not told.
    requests: Mapping[str, int]
    bytes: Mapping[str, int] = field(default_factory=dict)
    lines: Sequence[Line]
    #: Parallel servers; 0 if unknown.
    servers: int = 0
    running: bool = False
    rounded: bool = False

    @property
    def parallel(self) -> bool:
        """Whether its times are sums over several sessions."""
        return self.servers > 0 or any(line.operation.startswith("PX ") for line in self.lines)

    @property
    def samples(self) -> dict[str, int]:
        """Samples of all lines by event."""
        samples: dict[str, int] = {}
        for line in self.lines:
            for event, count in line.samples.items():
                samples[event] = samples.get(event, 0) + count
        return samples

    @property
    def all_samples(self) -> float:
        """Those of lines that were cut from the report among them, as far as percentages tell."""
        in_report = sum(self.samples.values())
        percent = sum(line.activity or 0.0 for line in self.lines)
        return in_report if percent >= WHOLE_PERCENT or not percent else 100 * in_report / percent


def picked(path: Path, executions: Sequence[Monitored], selection: Selection) -> Counts:
    """The counts of the execution that is selected, or of the only one."""
    if not executions:
        raise EvidenceUnknown(f"{path}: holds no whole report of SQL Monitor", _REPORT_HINT)
    items = [
        Item(
            execution,
            execution.elapsed_s or execution.database_s,
            execution.sql_id,
            execution.exec_id,
            execution.plan,
        )
        for execution in executions
    ]
    return counts_of_monitored(pick(path, items, selection), selection)


def counts_of_monitored(monitored: Monitored, selection: Selection) -> Counts:
    """The temp I/O of the lines that spill. InputError where none does."""
    path, spilling = monitored.path, [line for line in monitored.lines if line.spills]
    hold(path, _contradictions(monitored, spilling), _REPORT_HINT)
    if not spilling:
        raise NoTempIo(f"{path}: it does not spill: no line of its plan uses temp space")
    counts = {op: sum(getattr(line, f"{op}s") for line in spilling) for op in OPS}
    size_bytes = {op: sum(getattr(line, f"{op}_bytes") for line in spilling) for op in OPS}
    elapsed_s, elapsed_unknown, remarks = _elapsed(monitored)
    estimate = None
    if any(counts.values()):
        times, why = _times(monitored, counts["read"], counts["write"])
        reads, writes = times.moved(counts, size_bytes)
    else:
        times, why = _sampled(monitored), []
        estimate = _uncounted(monitored, times)
        reads, writes = estimate.middle
    result = counts_of_figures(
        path,
        selection,
        elapsed_s=elapsed_s,
        elapsed_unknown=elapsed_unknown,
        reads=reads,
        writes=writes,
        cpu_s=monitored.cpu_s,
        busy_s=monitored.database_s,
        time_bounds=times.within,
        statement=Statement(monitored.sql_id, monitored.sql_text, 1, 1),
        notes=[*_notes(monitored), *remarks, *why],
    )
    return result if estimate is None else estimate.bounds(result, _REPORT_HINT)


def _elapsed(monitored: Monitored) -> tuple[float, str, list[str]]:
    """The elapsed time, why it is not known, and what it rests on."""
    if monitored.elapsed_s:
        return monitored.elapsed_s, "", []
    if monitored.parallel:
        words = format_duration(monitored.database_s)
        return 0.0, f"Duration is missing, and {words} is the sum over parallel servers", []
    return monitored.database_s, "", ["Duration is missing: the elapsed time is the DB time"]


def _contradictions(monitored: Monitored, spilling: Sequence[Line]) -> Iterator[Held]:
    rounding = _ROUNDED_TO if monitored.rounded else 1.0
    for op in OPS:
        part = sum(getattr(line, f"{op}s") for line in spilling)
        moved = sum(getattr(line, f"{op}_bytes") for line in spilling)
        total = monitored.requests.get(op, 0)
        words = f"{part:,} {op} requests of the lines that spill"
        if total:
            yield Held(
                "part-of-whole", _down_to(part, rounding), words,
                Number.exact(total), f"{total:,} {op} requests in all",
            )  # fmt: skip
        if moved:
            yield Held(
                "blocks-of-operations", _down_to(part * _SECTOR_BYTES, rounding), words,
                Number.exact(moved / rounding), f"{moved:,} bytes",
            )  # fmt: skip
    database = Number.exact(monitored.database_s + 1)
    words = f"{format_duration(monitored.database_s)} of DB time"
    if monitored.parts_s:
        parts = f"{format_duration(monitored.parts_s)} of CPU time and waits"
        yield Held("part-of-whole", Number.exact(monitored.parts_s), parts, database, words)
    if monitored.servers and monitored.elapsed_s:
        processes = monitored.servers + 1
        upper = Number.exact(processes * (monitored.elapsed_s + 1))
        times = f"{processes} processes in {format_duration(monitored.elapsed_s)}"
        yield Held("time-at-once", Number.exact(monitored.database_s), words, upper, times)


def _down_to(value: float, rounding: float) -> Number:
    return Number(value, value * rounding, value)


def _uncounted(monitored: Monitored, times: TempTimes) -> Uncounted:
    """Where samples alone tell of temp I/O: between one request a sample and all requests.

    What is read was written before, so that as many bytes are read, unless in several passes.
    """
    samples = {
        op: sum(n for event, n in monitored.samples.items() if is_like(event, f"*{op} temp"))
        for op in OPS
    }
    written = monitored.requests.get("write", 0)
    size = monitored.bytes.get("write", 0) / written if written else OPERATION_BYTES
    because = "the report has samples in waits for temp files and no requests of them"
    return uncounted(times, samples, dict.fromkeys(OPS, written), size, because)


def _notes(monitored: Monitored) -> list[str]:
    remarks = [
        "SQL Monitor has requests and bytes of each line and no single waits: nothing about "
        "latency by size, stalls, or I/O that overlapped other work"
    ]
    if monitored.running:
        remarks.append("the statement was still running: this is for what it had done by then")
    if monitored.rounded:
        remarks.append(
            "a text report rounds counts and bytes to whole K, M and G; type => 'XML' has them all"
        )
    percent = sum(line.activity or 0.0 for line in monitored.lines)
    if 0 < percent < WHOLE_PERCENT:
        remarks.append(f"the lines of the plan have {percent:.3g} % of its activity: some are cut")
    return remarks


def _times(monitored: Monitored, reads: int, writes: int) -> tuple[TempTimes, list[str]]:
    """Time of reads and of writes, its bounds, and what it rests on: the closest bounds win."""
    estimates = []
    if monitored.all_samples >= SAMPLES_MIN:
        estimates.append((_sampled(monitored), list[str]()))
    if monitored.io_s and sum(monitored.requests.values()) >= reads + writes:
        remarks = ["the time of I/O is divided by requests"]
        estimates.append((_by_requests(monitored, monitored.io_s, reads, writes), remarks))
    known = [(times, remarks) for times, remarks in estimates if times.read_s is not None]
    return min(known, key=lambda it: _width_s(it[0]), default=(TempTimes(None, None), []))


def _width_s(times: TempTimes) -> float:
    return 0.0 if times.within is None else times.within.upper - times.within.lower


def _sampled(monitored: Monitored) -> TempTimes:
    """By the share of samples in waits for temp files; so many samples know it so well."""
    all_samples = monitored.all_samples
    temp = {e: n for e, n in monitored.samples.items() if is_like(e, TEMP_EVENTS)}
    in_temp = sum(temp.values())
    if not in_temp:
        return TempTimes(None, None)
    share = in_temp / all_samples
    error = NINE_IN_TEN * sqrt(share * (1 - share) / all_samples)
    # Reports round the time of all waits for I/O.
    max_s = min(monitored.database_s, (monitored.io_s or monitored.database_s) + 0.5)
    lower_s, io_s, upper_s = (
        min(max(share + sign * error, 0) * monitored.database_s, max_s) for sign in (-1, 0, 1)
    )
    within = Bounds(
        lower_s,
        upper_s,
        f"{in_temp:,} of {format_count(round(all_samples), 'sample')} in waits for temp files",
        TRACE_TELLS,
    )
    write_share = sum(n for event, n in temp.items() if "write" in event) / in_temp
    return TempTimes((1 - write_share) * io_s, write_share * io_s, within)


def _by_requests(monitored: Monitored, io_s: float, reads: int, writes: int) -> TempTimes:
    """By the share of requests: those of temp files may be unlike others."""
    requests = sum(monitored.requests.values())
    temp, others = reads + writes, requests - reads - writes

    def share_s(times: float) -> float:
        return io_s * temp * times / (temp * times + others)

    within = None
    if others:
        within = Bounds(
            share_s(1 / APART),
            share_s(APART),
            f"{temp:,} of {format_count(requests, 'request')} for temp files, which may "
            f"take up to {APART:g} times as long as others, or a {APART:g}th",
            TRACE_TELLS,
        )
    return TempTimes(share_s(1) * reads / temp, share_s(1) * writes / temp, within)

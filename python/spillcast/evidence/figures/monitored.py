"""What SQL Monitor knows of an execution, whatever wrote it down -> figures of its temp I/O."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from math import sqrt
from pathlib import Path
from statistics import NormalDist

from spillcast.errors import InputError
from spillcast.evidence.figures.figures import REPORT, Figures, Moved
from spillcast.recording.event_names import TEMP_EVENTS, is_like
from spillcast.recording.postgres_meta import Statement
from spillcast.recording.timed_within import TimedWithin
from spillcast.units import format_count

#: Operations whose writes go to temp, where a report has no column for temp space.
_WORK_AREAS = ("hash", "sort", "window", "buffer sort", "merge join", "group by", "connect by")
#: Fewer samples in all tell no share.
SAMPLES_MIN = 20
#: A request of temp files may take so many times as long as one of others, or so much less.
APART = 3.0
NINE_IN_TEN = NormalDist().inv_cdf(0.95)
TRACE_TELLS = "a trace (10046) or ASH of the run shows it"


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

    @property
    def spills(self) -> bool:
        """Whether its I/O is on temp files."""
        if self.temp_bytes or any(is_like(event, TEMP_EVENTS) for event in self.samples):
            return True
        known = self.temp_bytes is not None
        return not known and self.writes > 0 and self.operation.lower().startswith(_WORK_AREAS)


@dataclass(frozen=True, kw_only=True)
class Monitored:
    """One execution; times are summed over its sessions but for ``elapsed_s``."""

    path: Path
    sql_id: str | None
    sql_text: str | None = None
    elapsed_s: float
    database_s: float
    cpu_s: float
    io_s: float | None
    #: Of all its I/O, temp or not; 0 where that is not told.
    requests: int
    lines: Sequence[Line]
    running: bool = False
    rounded: bool = False


def figures_of(monitored: Monitored) -> Figures:
    """The temp I/O of the lines that spill. InputError where none does."""
    spilling = [line for line in monitored.lines if line.spills]
    reads, writes = (
        sum(spilling_line.reads for spilling_line in spilling),
        sum(spilling_line.writes for spilling_line in spilling),
    )
    if not reads + writes:
        reason = "no line of its plan read or wrote temp files"
        raise InputError(f"{monitored.path}: it does not spill: {reason}")
    read_s, write_s, within, remarks = _times(monitored, reads, writes)
    return Figures(
        path=monitored.path,
        elapsed_s=monitored.elapsed_s,
        reads=Moved(reads, sum(spilling_line.read_bytes for spilling_line in spilling), read_s),
        writes=Moved(writes, sum(spilling_line.write_bytes for spilling_line in spilling), write_s),
        cpu_s=monitored.cpu_s,
        threads=max(1.0, monitored.database_s / monitored.elapsed_s),
        within=within,
        capture=REPORT,
        statement=Statement(monitored.sql_id, monitored.sql_text, 1, 1),
        untold=[*_untold(monitored), *remarks],
    )


def _untold(monitored: Monitored) -> list[str]:
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
    return remarks


def _times(
    monitored: Monitored, reads: int, writes: int
) -> tuple[float | None, float | None, TimedWithin | None, list[str]]:
    """Time of reads and of writes, its bounds, and what it rests on."""
    samples: dict[str, int] = {}
    for line in monitored.lines:
        for event, count in line.samples.items():
            samples[event] = samples.get(event, 0) + count
    all_samples = sum(samples.values())
    temp = {event: n for event, n in samples.items() if is_like(event, TEMP_EVENTS)}
    if all_samples >= SAMPLES_MIN and temp:
        return _sampled(monitored, temp, all_samples)
    if monitored.io_s and monitored.requests >= reads + writes:
        return _by_requests(monitored, monitored.io_s, reads, writes)
    return None, None, None, []


def _sampled(
    monitored: Monitored, temp: Mapping[str, int], all_samples: int
) -> tuple[float, float, TimedWithin, list[str]]:
    """By the share of samples in waits for temp files; so many samples know it so well."""
    in_temp = sum(temp.values())
    share = in_temp / all_samples
    error = NINE_IN_TEN * sqrt(share * (1 - share) / all_samples)
    least_s, most_s = (max(share + sign * error, 0) * monitored.database_s for sign in (-1, 1))
    within = TimedWithin(
        least_s,
        min(most_s, monitored.database_s),
        f"{in_temp:,} of {format_count(all_samples, 'sample')} in waits for temp files",
        TRACE_TELLS,
        False,
    )
    wrote = sum(n for event, n in temp.items() if "write" in event) / in_temp
    io_s = share * monitored.database_s
    return (1 - wrote) * io_s, wrote * io_s, within, []


def _by_requests(
    monitored: Monitored, io_s: float, reads: int, writes: int
) -> tuple[float, float, TimedWithin | None, list[str]]:
    """By the share of requests, where no sample tells: those of temp files may be unlike others."""
    temp, others = reads + writes, monitored.requests - reads - writes

    def share(times: float) -> float:
        return temp * times / (temp * times + others)

    within = None
    if others:
        within = TimedWithin(
            share(1 / APART) * io_s,
            share(APART) * io_s,
            f"{temp:,} of {format_count(monitored.requests, 'request')} for temp files, which may "
            f"take up to {APART:g} times as long as others, or a {APART:g}th",
            TRACE_TELLS,
            False,
        )
    whole_s = share(1) * io_s
    remarks = ["there are too few samples: the time of I/O is divided by requests"]
    return whole_s * reads / temp, whole_s * writes / temp, within, remarks

"""Extended SQL traces (10046): profiles, windows of time, rows."""

import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from html import unescape
from pathlib import Path
from types import MappingProxyType
from typing import Any, TypeVar

from spillcast import _core
from spillcast.errors import (
    EvidenceDamaged,
    EvidenceIncomplete,
    EvidenceMixed,
    OptionConflict,
    SelectionEmpty,
)
from spillcast.evidence.selection import NO_FILTER, Filter
from spillcast.evidence.text import Repeated, distinct, head_of, plain_copy, with_original_names
from spillcast.evidence.unwrap import unwrapped
from spillcast.interruptible import run_interruptibly
from spillcast.units import format_duration, parse_duration_s

T = TypeVar("T")
Progress = Callable[[int], None]
#: The tables of a trace's rows, in the order in which the reader returns them.
TABLES = ("waits", "calls", "statements", "row_sources", "binds")
#: Groups of a profile, if any, and facts about each file.
Read = tuple[list[dict[str, Any]], Mapping[str, Any]]
#: A line that the core reads, which may have the number of the line or a quote mark before it.
_LINE = re.compile(
    r"^[> ]*+(?:\d++[.:]?\s+)?(?:WAIT|PARSING IN CURSOR|PARSE|EXEC|FETCH|CLOSE|STAT) #\d", re.M
)
#: A wait with a character or an entity of a page in place of a quote or a blank.
_OF_PAGE = re.compile("nam=[\u2018\u2019\u00b4&]|\u00a0nam=|ela=\t")
_BREAK = re.compile(r"<br ?/?>", re.IGNORECASE)
_CHARACTERS = str.maketrans("\u2018\u2019\u00b4\u00a0\t", "'''  ")
#: The beginning of such a line behind other text.
_MARK = re.compile(r"\b(?:WAIT|PARSE|EXEC|FETCH)\s#\d")
#: A line of a trace followed by a mark of omitted lines, or a line truncated before its figures.
_LEFT_OUT = re.compile(
    r"^[> ]*+(?:WAIT|EXEC|FETCH|STAT) #\d(?:.*\n\s*+((?:[^\w\n]{,9}(?:\.\.|…|snip)"
    r"|.{,40}\b(?:lines|rows|waits) (?:omitted|removed|skipped)).{,60})|.*(?:\.\.|…)[ \t]*+$)",
    re.M,
)
#: The first line with a time in microseconds, and the line below it.
_FIRST = re.compile(r"^[> ]*+(?:PARSE|EXEC|FETCH|WAIT) #\d.*\btim=\d{10,}\n.+", re.M)
_TIM = re.compile(r"\btim=(\d+)")
#: A call as printed before release 9, with times in hundredths of a second; and marks of newer
#: releases, or their names.
_OLD = re.compile(r"^(?:PARSE|EXEC|FETCH) #\d+:c=\d+,e=\d+,p=\S{,200},og=\d+,tim=\d{1,9}$", re.M)
_NEWER = re.compile(r" Release \d|^WAIT #.*\btim=\d|\bsqlid='|\btime=\d+ us", re.M)
_LENIENT_HINT = "lines behind other text, such as the file names of grep, are read with --lenient"
#: How much CPU time and waits may overlap, given their different clocks and ticks of 10 ms.
_OVERLAP_SHARE, _TICK_US = 0.01, 10_000
#: Reported share of time outside waits and calls; real traces have up to 0.15, for lack of a CPU.
_UNEXPLAINED_SHARE = 0.5
#: If waits after the last ended call exceed this share of the time, a statement was still running.
OPEN_SHARE = 0.01
#: Local time less ``tim`` differs by less than this on one machine, apart from time zones.
OFFSET_MAX_US = 60_000_000
#: A date with its zone, as in traces since release 12.2. Zones are multiples of 15 minutes.
_ZONED = re.compile(r"^\*\*\* .{,60}T\d\d:\d\d:\d\d\.\d{1,9}([+-]\d\d):(\d\d)", re.M)
_QUARTER_US, _ZONES_US = 900_000_000, 93_600_000_000
_ENDS_US = (-(1 << 63), (1 << 63) - 1)


@contextmanager
def failures_as_errors() -> Iterator[None]:
    """Turns errors of the reader into InputErrors with a remedy."""
    try:
        yield
    except ValueError as error:
        raise EvidenceDamaged(with_original_names(str(error)), _LENIENT_HINT) from error
    except OSError as error:
        raise EvidenceDamaged(str(error.strerror), where=error.filename) from error


@dataclass(frozen=True, kw_only=True)
class TraceOptions:
    """How to read traces: ``lenient`` also reads waits within other text; ``chosen`` is the time.

    ``on_progress`` gets the number of bytes read so far.
    """

    lenient: bool = False
    chosen: Filter = NO_FILTER
    on_progress: Progress | None = None


#: Reads entire traces.
WHOLE = TraceOptions()


@dataclass(frozen=True)
class Traces:
    """The result of reading: groups, and for each file its lines, rows, damage and sessions.

    ``repeated`` are files with the same content as another file; they are not among ``paths``.
    """

    paths: list[Path]
    groups: list[dict[str, Any]]
    files: list[Mapping[str, Any]]
    repeated: list[Repeated] = field(default_factory=list)

    def __post_init__(self) -> None:
        """EvidenceMixed for a file that contains its lines several times."""
        for path, file in zip(self.paths, self.files, strict=True):
            times = max(map(_times_repeated, file["sessions"]), default=1)
            if times > 1:
                raise EvidenceMixed(f"{path} contains its lines {times} times", "give them once")

    def sessions(self) -> list[Mapping[str, Any]]:
        """The times (us) of each session of each file."""
        return [session for file in self.files for session in file["sessions"]]

    def excess_text(self) -> str | None:
        """How waits and CPU time differ from the time of sessions; None if clocks explain it."""
        if any(session["steps_back"] for session in self.sessions()):
            return "times go back: lines are out of order or repeated"
        over_us = sum(
            -session["unaccounted_us"]
            for session in self.sessions()
            if -session["unaccounted_us"] > max(_OVERLAP_SHARE * session["elapsed_us"], _TICK_US)
        )
        left_us = sum(max(session["unaccounted_us"], 0) for session in self.sessions())
        if not over_us and self.total("waits") and left_us > _UNEXPLAINED_SHARE * self.elapsed_us():
            left, whole = (format_duration(us / 1e6) for us in (left_us, self.elapsed_us()))
            text = f"{left} of {whole} are neither waits nor CPU time of calls"
            return f"{text}: lines are missing, a call goes on, or times are damaged"
        if not over_us:
            return None
        text = f"waits and CPU time are {format_duration(over_us / 1e6)} longer than their sessions"
        return f"{text}: times are damaged, or lines are missing or repeated"

    def elapsed_us(self) -> int:
        """The sum of the elapsed times of all sessions (us)."""
        return sum(session["elapsed_us"] for session in self.sessions())

    def wall_s(self) -> float:
        """Time (s) in which any session ran; gaps between sessions do not count."""
        if any(session["steps_back"] for session in self.sessions()):
            return self.elapsed_us() / 1e6
        return sum(last - first for first, last in self._stretches_us()) / 1e6

    @property
    def clocks_unknown(self) -> bool:
        """Whether sessions ran at different times, and no dates show if they share a clock."""
        return len(self._stretches_us()) > 1 and None in map(_local_less_tim_us, self.files)

    def _stretches_us(self) -> list[tuple[int, int]]:
        """The intervals in which sessions ran: the start and end of each."""
        joined = list[tuple[int, int]]()
        more_us = self.more_us()
        for first, last in sorted(
            (session["first_tim_us"] + more, session["last_tim_us"] + more)
            for session, more in zip(self.sessions(), more_us, strict=True)
            if session["first_tim_us"] is not None
        ):
            if joined and first <= joined[-1][1]:
                joined[-1] = joined[-1][0], max(last, joined[-1][1])
            else:
                joined.append((first, last))
        return joined

    def more_us(self) -> list[int]:
        """What to add to each session's ``tim`` (us) for UTC; 0 if one clock applies to all."""
        # A session without a date has the clock of its file.
        clocks: list[tuple[int, Path]] = [
            (session["local_less_tim_us"] or of_file, path)
            for path, file in zip(self.paths, self.files, strict=True)
            for session in file["sessions"]
            if (of_file := _local_less_tim_us(file)) is not None
        ]
        local_us, same = [local for local, _ in clocks], [0] * len(self.sessions())
        if not 0 < len(same) == len(clocks) or max(local_us) - min(local_us) < OFFSET_MAX_US:
            return same
        zones_us = {path: _zone_us(path) for path in self.paths}
        more_us = [local - (zones_us[path] or 0) for local, path in clocks]
        offsets_us = [more - min(more_us) for more in more_us]
        if None in zones_us.values() and max(offsets_us) <= _ZONES_US:
            # Processes of one machine may use different time zones.
            offsets_us = [abs(us - round(us / _QUARTER_US) * _QUARTER_US) for us in offsets_us]
        return same if max(offsets_us) < OFFSET_MAX_US else more_us

    def first_second(self) -> int:
        """The second, by the database's clock, in which the first session began."""
        firsts = [session["first_tim_us"] for session in self.sessions()]
        return min((first for first in firsts if first is not None), default=0) // 1_000_000

    def check(self, chosen: Filter) -> None:
        """InputError if no wait and no call ends within the chosen time."""
        ends = [f"--since {chosen.since}"] * (chosen.since is not None)
        ends += [f"--until {chosen.until}"] * (chosen.until is not None)
        if not ends or any(file["waits"] + file["calls"] for file in self.files):
            return
        raise SelectionEmpty(
            f"no wait and no call of the traces ends there: {' '.join(ends)}",
            "leave these out: --by second shows when they end",
        )

    def total(self, name: str) -> int:
        """The sum of a number over all files: of its ``waits``, ``damaged`` lines and the like.

        ``waits_unmeasured`` are of impossible length: in no group and in no sum of time.
        """
        return sum(file[name] for file in self.files)

    def damaged(self) -> list[dict[str, Any]]:
        """The first damaged lines of each file, with a description of the damage."""
        return [
            {"file": str(path), "line": line, "what": problem}
            for path, file in zip(self.paths, self.files, strict=True)
            for line, problem in file["damage"]
        ]

    @property
    def open_s(self) -> float:
        """The time (s) of waits after the last call that ended."""
        return float(sum(session["open_us"] for session in self.sessions())) / 1e6

    @property
    def is_part(self) -> bool:
        """Whether statements were still running when the traces ended."""
        return any(self.ended()) or self.open_s > OPEN_SHARE * self.elapsed_us() / 1e6

    def ended(self) -> Iterator[str]:
        """Why files may end before the statement did: it failed, or the trace reached a limit."""
        for path, file in zip(self.paths, self.files, strict=True):
            if (line := file["size_limit_line"]) is not None:
                yield f"{path}:{line}: the trace stopped at its size limit (max_dump_file_size)"
            if (error := file["failure"]) is not None:
                yield f"{path}: a statement failed with ORA-{error:05}"


def _local_less_tim_us(file: Mapping[str, Any]) -> int | None:
    """Local time less ``tim`` (us), from a file's dates; None without dates."""
    known_us = (session["local_less_tim_us"] for session in file["sessions"])
    return max((us for us in known_us if us is not None), default=None)


def _zone_us(path: Path) -> int | None:
    """How far (us) the dates of a trace are ahead of UTC; None if they have no zone."""
    zoned = None
    with suppress(EvidenceDamaged):
        zoned = _ZONED.search(head_of(path)) if path.is_file() else None
    if zoned is None:
        return None
    return (60 * int(zoned[1]) + int(zoned[1][0] + zoned[2])) * 60_000_000


def _repeats_first_lines(head: str) -> bool:
    """Whether the first lines with a time occur again after lines with another time."""
    if (first := _FIRST.search(head)) is None:
        return False
    # With a coarse clock, calls in a loop may be equal, but no other time lies between them.
    again = head.rfind(first[0], first.start() + 1)
    return again > 0 and len(set(_TIM.findall(head, first.start(), again))) > 1


def _times_repeated(session: Mapping[str, Any]) -> int:
    """How many times a file contains a session: its time is exactly this multiple of its span."""
    if session["first_tim_us"] is None:
        return 1
    span_us = session["last_tim_us"] - session["first_tim_us"]
    times, rest_us = divmod(session["elapsed_us"], span_us) if span_us > 0 else (1, 0)
    return 1 if rest_us else int(times)


def read_once(paths: Sequence[Path], read: Callable[[list[Path]], Read]) -> Traces:
    """Reads each trace once, even if it is given several times or as a compressed copy.

    A compressed copy is only recognised after it was read; then the other files are read again.
    """
    kept, repeated = distinct(paths)
    groups, facts = read(kept)
    copies = _copies(kept, facts["files"])
    if copies and not any(path.is_fifo() for path in kept):
        removed = {again for again, _ in copies}
        kept = [path for path in kept if path not in removed]
        repeated = [*repeated, *copies]
        groups, facts = read(kept)
    return Traces(kept, groups, facts["files"], repeated)


def _copies(paths: Sequence[Path], files: Sequence[Mapping[str, Any]]) -> list[Repeated]:
    """Files with exactly the counts of another: two sessions never agree to the microsecond."""
    first: dict[str, Path] = {}
    copies = []
    for path, file in zip(paths, files, strict=True):
        if not any(session["first_tim_us"] for session in file["sessions"]):
            continue
        same = first.setdefault(repr(sorted(file.items())), path)
        if same != path:
            copies.append((path, same))
    return copies


def profile_traces(
    paths: Sequence[Path],
    by: Sequence[str],
    options: TraceOptions = WHOLE,
    *,
    calls: bool = True,
    quantiles: Mapping[str, float] = MappingProxyType({}),
) -> Traces:
    """Counts waits and CPU time by the dimensions in ``by``; without ``calls`` only waits.

    ``quantiles`` names shares (0..1); groups have these quantiles of their latencies (us).
    The dimensions are those of ``_core.TraceReader.profile``.
    InputError without trace lines, and for a file that cannot be read.
    """

    def profile(reader: _core.TraceReader) -> Read:
        return reader.profile(list(by), calls=calls, quantiles=list(quantiles.items()))

    traces = read_once(paths, lambda kept: run_reader(kept, options, profile))
    traces.check(options.chosen)
    return traces


def plain_trace(text: str) -> str:
    """The text of a trace without its wrapping; other texts are returned as they are."""
    if _OF_PAGE.search(text):
        text = unescape(_BREAK.sub("", text)).translate(_CHARACTERS)
    is_wrapped = _LINE.search(text) is None and _MARK.search(text) is not None
    plain = unwrapped(text, until=_LINE.search) if is_wrapped else text
    return plain if _LINE.search(plain) else text


def open_reader(
    paths: Sequence[Path], options: TraceOptions = WHOLE
) -> tuple[_core.TraceReader, Callable[[], None] | None]:
    """A reader of some traces, and a function that reports its progress; None without a listener.

    InputError if an end of the chosen time is not a time, and for a trace with missing lines,
    unless the reader is ``lenient``.
    """
    copies = [plain_copy(path, plain_trace) for path in paths]
    for path, copy in [] if options.lenient else zip(paths, copies, strict=True):
        # From a compressed file that is cut, the core reads the lines before the damage.
        with suppress(EvidenceDamaged):
            _check_whole(path, head_of(copy) if path.is_file() else "")
    timed = options.chosen.since is not None or options.chosen.until is not None
    windows = _windows_us(paths, options) if timed else []
    names, on_progress = list(map(str, copies)), options.on_progress
    reader = _core.TraceReader(names, lenient=options.lenient, windows_us=windows)
    if on_progress is None:
        return reader, None
    return reader, lambda: on_progress(reader.progress())


def run_reader(
    paths: Sequence[Path], options: TraceOptions, read: Callable[[_core.TraceReader], T]
) -> T:
    """What ``read`` returns for the reader of some traces; Ctrl-C ends it. InputErrors as above."""
    reader, watch = open_reader(paths, options)
    with failures_as_errors():
        return run_interruptibly(lambda: read(reader), reader.cancel, watch)


def _check_whole(path: Path, head: str) -> None:
    """InputError if the beginning of a trace repeats lines, lacks some, or has old times."""
    if _repeats_first_lines(head):
        raise EvidenceMixed(f"{path} repeats its lines", "give them once")
    if _OLD.search(head) and not _NEWER.search(head):
        hint = "give its first lines, which name the release"
        words = "its times are hundredths of a second before release 9, microseconds since"
        raise EvidenceIncomplete(words, hint, path)
    if (cut := _LEFT_OUT.search(head)) is not None:
        text = f"lines of the trace are left out: {cut[1] or cut[0][:60]}"
        hint = "give all of them, or read those that are there with --lenient"
        raise EvidenceIncomplete(text, hint, path)


def _windows_us(paths: Sequence[Path], options: TraceOptions) -> list[tuple[int, int]]:
    """The chosen time by the clock of each file's ``tim``, for which the files are read twice.

    InputError if an end of it is not a time.
    """
    if pipe := next(filter(Path.is_fifo, paths), None):
        raise OptionConflict(f"--since and --until: {pipe} cannot be read twice", "give a file")
    lenient = TraceOptions(lenient=options.lenient)
    _, facts = run_reader(paths, lenient, lambda reader: reader.profile([]))
    sessions = [session for file in facts["files"] for session in file["sessions"]]
    timed = [session for session in sessions if session["first_tim_us"] is not None]
    first_us = min((session["first_tim_us"] for session in timed), default=0)
    last_us = max((session["last_tim_us"] for session in timed), default=0)
    windows = []
    for path, file in zip(paths, facts["files"], strict=True):
        more_us = _local_less_tim_us(file)
        pair = (("since", options.chosen.since), ("until", options.chosen.until))
        low, high = (
            _tim_us(option, text, path, (first_us, last_us), more_us) for option, text in pair
        )
        windows.append((_ENDS_US[0] if low is None else low, _ENDS_US[1] if high is None else high))
    return windows


def _tim_us(
    option: str, text: str | None, path: Path, ends_us: tuple[int, int], more_us: int | None
) -> int | None:
    """One end (us) by the clock of ``tim``; ``more_us`` is the local time less ``tim``."""
    # This imports numpy, which a trace without a window does not need.
    from spillcast.evidence.oracle.spooled import chosen_time_ns

    if text is None:
        return None
    first_us, last_us = ends_us
    if ":" not in text and "-" not in text.strip():
        return first_us + round(parse_duration_s(text, f"--{option}") * 1e6)
    if more_us is None:
        raise EvidenceIncomplete(
            "no line of it has a date and time",
            f"give the time since its first line: --{option} 30s",
            path,
        )
    ends_ns = 1000 * (first_us + more_us), 1000 * (last_us + more_us)
    return chosen_time_ns(option, text, ends_ns) // 1000 - more_us


def read_rows(paths: Sequence[Path], take: Callable[..., None], *, lenient: bool = False) -> Traces:
    """Calls ``take`` with each batch of rows: a table for each of TABLES. InputErrors as Traces."""
    facts = run_reader(paths, TraceOptions(lenient=lenient), lambda reader: reader.rows(take))
    return Traces(list(paths), [], facts["files"])


def spool_traces(
    paths: Sequence[Path],
    folder: Path,
    options: TraceOptions = WHOLE,
    columns: Sequence[tuple[str, str]] | None = None,
) -> Traces:
    """Writes all rows to ``folder``: a Parquet file for each of TABLES, with its name.

    With ``columns``, pairs of a table and a column, all other columns are written as null.
    """

    def spool(kept: list[Path]) -> Read:
        writers: dict[str, _core.ParquetWriter] = {}

        def take(*tables: _core.Table) -> None:
            for name, table in zip(TABLES, tables, strict=True):
                if name not in writers:
                    writers[name] = _core.ParquetWriter(folder / f"{name}.parquet", table)
                writers[name].write(table)

        try:
            return [], run_reader(kept, options, lambda reader: reader.rows(take, columns=columns))
        finally:
            for writer in writers.values():
                writer.close()

    traces = read_once(paths, spool)
    traces.check(options.chosen)
    return traces

"""Temp files that a server's log names, by the calls that wrote them: as evidence of one call."""

import re
from collections import defaultdict
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from itertools import accumulate, compress, groupby
from math import inf
from pathlib import Path

from spillcast.errors import EvidenceIncomplete
from spillcast.evidence.choice import Item, Selection, pick
from spillcast.evidence.counts import Bounds, Counts
from spillcast.evidence.numbers import number_of
from spillcast.evidence.postgres import BLOCK_BYTES
from spillcast.evidence.postgres.document import LOGGED
from spillcast.evidence.postgres.log_entries import TIME, Entry
from spillcast.evidence.postgres.nodes import MEMORY_BLOCK_S, TempIO, counts_of_blocks
from spillcast.evidence.postgres.text import milliseconds
from spillcast.evidence.postgres.work_memory import rounded_up
from spillcast.recording.meta import ObservedEngine
from spillcast.recording.observed import Statement
from spillcast.redaction import struck_text
from spillcast.units import format_count

#: A server writes bytes; tools that shorten its messages have units.
_TEMP = re.compile(
    r'temporary file: path "?(?P<path>[^",]*)"?, '
    r"size:? (?P<size>\d[\d.,]*+(?:\s?[kKMGT]i?B\b)?)"
)
_NAME = re.compile(
    r"pgsql_tmp(?P<pid>\d+)(?:\.(?P<number>\d+)"
    r"(?P<shared>\.(?:shared)?fileset\b(?:/[io]\d+of\d+\.(?P<participant>p\d+))?)?)?"
)
_DURATION = re.compile(
    r"duration: (?P<ms>\d[\d.,]*) ms(?!\s+(?:parse |bind ))"
    r"(?:\s+(?:statement|execute [^:]*): (?P<query>.*))?",
    re.DOTALL,
)
_LIMITS = (
    (re.compile(r'temporary file size exceeds "?(temp_file_limit)"? (\(\w+\))'), "{} {}"),
    (
        re.compile(r"(?:pgsql_tmp|temporary file)[^\n]*: No space left on device()()"),
        "the device of its temp files",
    ),
    # DuckDB in the server.
    (
        re.compile(r"failed to offload data block[^(\n]*(\(.*\)).*'(\w+)' setting", re.DOTALL),
        "{1} {0}",
    ),
)
_LEVELS = ("ERROR", "FATAL", "PANIC", "LOG")
#: Lines of a message that stand before its statement.
_BESIDE = ("DETAIL", "HINT", "QUERY", "CONTEXT", "LOCATION")
#: The times of messages may be whole seconds.
_RESOLUTION_S = 1.0
#: Calls of one statement may differ in their number of files by this factor.
_ALIKE = 2
_TIMES = "set auto_explain.log_analyze and track_io_timing for plans with times"


@dataclass
class TempFile:
    """A temp file that was removed: its statement and size, and the elapsed time of its call.

    Files of one call have the same ``call``; it is 0 where nothing shows which belong together.
    """

    query: str | None
    queryid: str | None
    bytes: int
    elapsed_s: float | None = None
    call: int = 0
    #: The process that wrote it, by its number or by its place among those of a parallel query.
    process: str = ""


@dataclass
class Exceeded:
    """A limit of temp files that calls of a statement met."""

    limit: str
    #: None where the log does not tell.
    query: str | None
    calls: int = 1


@dataclass(frozen=True)
class _Removal:
    """A message about a file: its place among all, its time and the number in the file's name.

    ``shared`` files are in a set of parallel processes, and have the number of the set. Those of
    a ``worker`` have a process that is not the session's.
    """

    file: TempFile
    place: int
    moment: datetime | None
    number: int | None
    shared: bool
    worker: bool


@dataclass(frozen=True)
class _Call:
    """A call that ended, with the time of its message where the log has one."""

    elapsed_s: float
    query: str | None
    ended: datetime | None


@dataclass
class _Session:
    """The last call of a process, and its removals that wait for the duration of theirs.

    A server removes temp files at the end of a call, or, if the client fetched its rows through a
    portal, at the end of the portal: then their messages follow that of the duration.
    """

    waiting: list[_Removal] = field(default_factory=list)
    last: _Call | None = None


class TempFiles:
    """The temp files of a log and the calls that met a limit of them, as its messages come in."""

    def __init__(self) -> None:
        self.files: list[TempFile] = []
        self.exceeded: list[Exceeded] = []
        self._sessions: dict[str, _Session] = defaultdict(_Session)
        #: By writer of messages, what its last one is about, if the statement follows.
        self._unnamed: dict[str, TempFile | Exceeded] = {}

    def take(self, writer: str, entry: Entry, *, is_named: bool) -> str:
        """Takes a message, and returns its writer.

        Unless the message names its writer, that of a file is in the file's name.
        """
        if entry.level == "STATEMENT":
            if (above := self._unnamed.pop(writer, None)) is not None:
                above.query = struck_text(entry.message)
        elif entry.level not in _BESIDE:
            self._unnamed.pop(writer, None)
        # The statement of a plan may quote any message.
        if LOGGED.match(entry.message):
            return writer
        for pattern, words in _LIMITS:
            limit = pattern.search(entry.message)
            if limit is not None and entry.level in _LEVELS:
                exceeded = Exceeded(words.format(*limit.groups()), entry.query or None)
                self._unnamed[writer] = exceeded
                self.exceeded.append(exceeded)
                break
        for match in _TEMP.finditer(entry.message):  # of a string in a program, several
            writer = self._add(writer, entry, match, is_named=is_named)
        if (duration := _DURATION.match(entry.message)) is not None:
            seconds = milliseconds(duration["ms"]) / 1e3
            call = _Call(seconds, duration["query"], moment_of(entry.at or ""))
            _end_call(self._sessions[writer], call)
        return writer

    def _add(self, writer: str, entry: Entry, match: re.Match[str], *, is_named: bool) -> str:
        size = number_of(match["size"].rstrip(".,").upper())
        if size is None:
            raise ValueError(f"the size of a temp file is not understood: {match['size']}")
        # Nothing was written to an empty file.
        if not size.value:
            return writer
        name = _NAME.search(match["path"])
        owner, number, shared, participant = [None] * 4 if name is None else name.groups()
        writer = owner if owner and not is_named else writer
        process = participant or owner or writer
        file = TempFile(entry.query, entry.queryid, round(size.value), process=process)
        self.files.append(file)
        if entry.query is None:
            self._unnamed[writer] = file
        # The last of the processes that share a set removes it; the leader made it.
        leader = owner if owner and shared else writer
        removal = _Removal(
            file,
            len(self.files),
            moment_of(entry.at or ""),
            None if number is None else int(number),
            shared=shared is not None,
            worker=owner is not None and owner != leader,
        )
        self._sessions[leader].waiting.append(removal)
        return writer

    def by_call(self) -> list[TempFile]:
        """All files, each with its call as far as the log shows it."""
        for session in self._sessions.values():
            if session.last is not None:
                session.waiting = _after(session.last, session.waiting)
            _group(session.waiting)
        return self.files


def _end_call(session: _Session, call: _Call) -> None:
    """Times the waiting files of a call, or of the last one if they are older."""
    older = [its for its in session.waiting if _is_older(its, call)]
    _set_call([its for its in session.waiting if not _is_older(its, call)], call)
    _group(older if session.last is None else _after(session.last, older))
    session.waiting, session.last = [], call


def _after(call: _Call, removals: Sequence[_Removal]) -> list[_Removal]:
    """Times files that were removed right after a call, and returns the others."""
    late = [_seconds_between(call.ended, its.moment, inf) > _RESOLUTION_S for its in removals]
    _set_call([its for its, is_late in zip(removals, late, strict=True) if not is_late], call)
    return list(compress(removals, late))


def _is_older(removal: _Removal, call: _Call) -> bool:
    """Whether a file was removed before the call began, or is too large for it."""
    if 2 * removal.file.bytes / BLOCK_BYTES * MEMORY_BLOCK_S > call.elapsed_s:
        return True
    rounded_s = 0.0 if call.ended is None or call.ended.microsecond else _RESOLUTION_S
    return _seconds_between(removal.moment, call.ended, -inf) > call.elapsed_s + rounded_s


def _set_call(removals: Sequence[_Removal], call: _Call) -> None:
    for its in removals:
        its.file.call, its.file.elapsed_s = removals[0].place, call.elapsed_s
        if not its.file.query and call.query:
            its.file.query = struck_text(call.query)


def _group(removals: Sequence[_Removal]) -> None:
    """Groups files without a duration: those of one statement that existed together."""
    for _, stretch in groupby(removals, key=lambda its: its.file.query):
        for call in _calls_of(list(stretch)):
            for its in call if len(call) > 1 else ():
                its.file.call = call[0].place


def _calls_of(removals: Sequence[_Removal]) -> Iterator[list[_Removal]]:
    """The files of one process and statement, by call.

    A process numbers its files as it creates them. A hash join removes them in another order, batch
    by batch: a file that is removed after one of a higher number existed together with it.
    Workers remove theirs before their leader does. Other parts of the plan remove theirs before or
    after, until the first part comes again.
    """
    numbers = [
        inf if its.number is None or its.shared or its.worker else its.number for its in removals
    ]
    lowest_after = list(accumulate(reversed(numbers), min))[::-1]
    groups: list[list[_Removal]] = []
    any_crosses, highest = False, -1.0
    for at, its in enumerate(removals):
        before = removals[at - 1] if at else None
        in_set = before is not None and its.shared and before.shared and its.number == before.number
        at_once = before is not None and its.moment is not None and its.moment == before.moment
        follows_worker = (
            before is not None
            and before.worker
            and _seconds_between(before.moment, its.moment, 0.0) <= _RESOLUTION_S
        )
        crosses = highest > lowest_after[at]
        if before is None or not (in_set or at_once or crosses or follows_worker):
            groups.append([])
        groups[-1].append(its)
        any_crosses |= in_set or crosses or follows_worker
        highest = highest if numbers[at] == inf else max(highest, numbers[at])
    if not any_crosses:
        yield from groups
        return
    call: list[_Removal] = []
    first = 0
    for group in groups:
        is_repeated = first <= _ALIKE * len(group) and len(group) <= _ALIKE * first
        if call and is_repeated:
            yield call
            call = []
        first = first if call else len(group)
        call += group
    yield call


def _seconds_between(begin: datetime | None, end: datetime | None, unknown_s: float) -> float:
    return unknown_s if begin is None or end is None else (end - begin).total_seconds()


def moment_of(time: str) -> datetime | None:
    """The time of a message; None where it has none."""
    match = TIME.search(time)
    try:
        return None if match is None else datetime.fromisoformat(match[0])
    except ValueError:
        return None


def counts_of_files(
    path: Path, files: Sequence[TempFile], notes: Sequence[str], selection: Selection
) -> Counts:
    """The counts of one call, each file written once and read once.

    InputError where there are several calls, and where no duration is known.
    """
    by_call: dict[int, list[TempFile]] = {}
    for index, file in enumerate(files):
        # A file of no known call is one by itself.
        by_call.setdefault(file.call or -1 - index, []).append(file)
    calls = list(by_call.values())
    items = [
        Item(its, its[0].elapsed_s, size_bytes=sum(f.bytes for f in its), text=its[0].query or "?")
        for its in calls
    ]
    call = pick(path, items, selection, "; spillcast postgres ranks all statements of a log")
    took_s = selection.elapsed_s or call[0].elapsed_s
    if took_s is None:
        raise EvidenceIncomplete(
            f"{path}: the log has the size of temp files, and not how long the call took",
            "give it with --elapsed, or set log_min_duration_statement = 0",
        )
    blocks = max(1, round(sum(file.bytes for file in call) / BLOCK_BYTES))
    query = call[0].query
    processes = len({file.process for file in call})
    return counts_of_blocks(
        path,
        took_s,
        TempIO(blocks, blocks),
        ObservedEngine("postgresql", query=query),
        Bounds(1.0, float(processes), f"its files are of {format_count(processes, 'process')}"),
        ("the log tells only how long the call took", _TIMES) if selection.timed else None,
        files=len(call),
        statement=Statement(call[0].queryid, query, 1, len(calls)),
        notes=["each temp file is assumed to be written once and read once", *notes],
    )


#: The memory of a sort over its temp file, at most: a row of an integer has 13 bytes on disk, and
#: in memory 48 with what precedes it, and up to 48 in an array that grows by doubling. PostgreSQL
#: 15 takes 2.8 to 6.8 times the file.
SORT_TIMES_MAX = 8
KIB, MIB = 1 << 10, 1 << 20


def work_mem_between(files: Sequence[TempFile]) -> tuple[int, int | None]:
    """For all calls of a statement: at least the largest file, at most all files of one call.

    A sort has one file, and its rows take more in memory; a hash has a file a batch. The upper
    bound is None where it is not known which files are of one call.
    """
    by_call: dict[int, int] = {}
    for file in files:
        by_call[file.call] = by_call.get(file.call, 0) + file.bytes
    lower_bytes = max(file.bytes for file in files)
    unit = MIB if lower_bytes >= MIB else KIB
    lower_bytes -= lower_bytes % unit
    if 0 in by_call and len(files) > 1:
        return lower_bytes, None
    return lower_bytes, rounded_up(SORT_TIMES_MAX * max(by_call.values()))

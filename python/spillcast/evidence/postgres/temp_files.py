"""Assigns the temp files in a server's log to calls."""

import re
from bisect import bisect_left
from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import datetime
from functools import cache
from itertools import accumulate, compress, groupby, pairwise
from math import frexp, inf
from operator import itemgetter

from spillcast.evidence.counts import MEMORY_BYTES_PER_S
from spillcast.evidence.numbers import number_of
from spillcast.evidence.postgres.document import LOGGED
from spillcast.evidence.postgres.languages import MILLISECONDS, NO_SPACE, PSQL_TIME
from spillcast.evidence.postgres.log_entries import TIME, LogEntry
from spillcast.evidence.postgres.node_lines import milliseconds
from spillcast.redaction import masked_text

#: A server logs bytes; tools that shorten its messages use units, and a terminal breaks numbers.
_TEMP = re.compile(
    r'temporary file: path "?(?P<path>[^",]{,1000})"?, '
    r"size:? (?P<size>\d(?>[\d.,]|[ '](?=\d{3}(?!\d))|_|\n(?=\d+$))*+(?:\s?[kKMGT]i?B\b)?)",
    re.MULTILINE,
)
_NAME = re.compile(
    r"pgsql_tmp(?P<pid>\d+)(?:\.(?P<number>\d+)"
    r"(?P<shared>\.(?:shared)?fileset\b(?:/[io]\d+of\d+\.(?P<participant>p\d+))?)?)?"
)
_DURATION = re.compile(
    r"duration: (?P<ms>\d[\d.,]*) ms(?!\s+(?:parse |bind ))"
    r"(?:\s+(?:statement|execute (?P<fetch>fetch from )?[^:]*): (?P<query>.*))?",
    re.DOTALL,
)
#: psql's prompt before a continuation line of a statement.
_CONTINUED = re.compile(r"\n[\w.-]{1,63}[-(*'\"$][*!^]?[#>] ?")
#: A statement without its semicolon and what follows it.
_STATEMENT = re.compile(r"\A((?>[^;']++|'[^']*+')*+).*", re.DOTALL)
#: psql's own time, below the server's messages to the session.
_TIMING = re.compile(
    rf"^(?:{PSQL_TIME}) ?[:：] ?(?P<ms>\d[\d.,]*[.,]\d{{3}}) {MILLISECONDS}(?P<query>)(?P<fetch>)"  # noqa: RUF001
    r"(?: ?\([\w:., ]{5,30}\))?$",
    re.MULTILINE,
)
#: A time without a year, or seconds since the epoch.
_CLOCK = re.compile(r"\b(?:\d\d:\d\d:\d\d|\d{10}\.\d{3})\b")
_LIMITS = (
    # The same in all languages.
    (re.compile(r"(temp_file_limit)[^\d\n]{,20}\((\d++) ?\w+\)"), "{} ({}kB)"),
    (
        re.compile(rf"(?:pgsql_tmp|temporary file)[^\n]*: (?:{NO_SPACE})()()"),
        "the device of its temp files",
    ),
    # DuckDB inside the server.
    (
        re.compile(
            r"failed to offload data block[^(\n]*+(\([^()]{,200}\)).{,400}?'(\w+)' setting",
            re.DOTALL,
        ),
        "{1} {0}",
    ),
)
_LEVELS = ("ERROR", "FATAL", "PANIC", "LOG")
#: Levels of lines between a message and its statement.
_DETAIL_LEVELS = ("DETAIL", "HINT", "QUERY", "CONTEXT", "LOCATION")
#: The resolution of the times of messages, which may be whole seconds.
_RESOLUTION_S = 1.0
#: A word, but no hexadecimal number such as the ID of a session.
_WORD = re.compile(r"\b(?![\da-f]++\b)[A-Za-z]\w*+")
#: The maximum ratio between the numbers of files of two calls of a statement.
_FILES_RATIO_MAX = 2


@dataclass(slots=True)
class TempFile:
    """A removed temp file: its statement and size, and the elapsed time of its call.

    Files of one call have the same ``call``; it is 0 if the call is unknown.
    """

    query: str | None
    queryid: str | None
    bytes: int
    elapsed_s: float | None = None
    call: int = 0
    #: The process that wrote it: its ID, or its number among the processes of a parallel query.
    process: str = ""


@dataclass
class ExceededLimit:
    """A limit of temp files that calls of a statement exceeded."""

    limit: str
    #: None if the log does not contain it.
    query: str | None
    calls: int = 1


@dataclass(frozen=True, slots=True)
class _Removal:
    """A message about a file: its position, its time and the number in the file's name.

    ``shared`` files belong to a set of parallel processes, and have the number of the set. Files
    of a ``worker`` were written by a process other than that of the session.
    """

    file: TempFile
    position: int
    time: datetime | None
    number: int | None
    shared: bool
    worker: bool


@dataclass(frozen=True, slots=True)
class _Call:
    """A call that ended, with the time of its message if the log has times."""

    elapsed_s: float
    query: str | None
    ended: datetime | None


#: The time (s) at which a call ended, the call, its process, and the prefix of its message.
_Ended = tuple[float, _Call, str, str]


@dataclass
class _Session:
    """The last call of a process, and removals of files whose call is not known yet.

    A server removes temp files at the end of a call or, if the client fetched the rows through a
    portal, at the end of the portal. In the latter case, removals follow the duration of the call.
    """

    waiting: list[_Removal] = field(default_factory=list)
    last: _Call | None = None


class LoggedTempFiles:
    """Collects the temp files of a log, and the calls that exceeded a limit of temp files.

    ``seen`` has hash values of those of earlier logs of the server, with their times: no file is
    removed twice.
    """

    def __init__(self, seen: set[int]) -> None:
        self.files: list[TempFile] = []
        self._seen = seen
        #: The last process that wrote a file, by statement.
        self._writers: dict[str, str] = {}
        self.exceeded: list[ExceededLimit] = []
        self._sessions: dict[str, _Session] = defaultdict(_Session)
        #: The subject of each writer's last message, if the statement may still follow.
        self._unnamed: dict[str, TempFile | ExceededLimit] = {}
        #: The statement that psql is running when its output shows a message.
        self._prompted: str | None = None
        #: Whether it is the log of a server, and not what a single session shows.
        self._is_of_server = False
        #: By statement: processes whose calls the log does not show, with the prefixes of their
        #: messages; when one of them last removed a file; and calls that may have run then.
        self._others: dict[str, dict[str, str]] = defaultdict(dict)
        self._removed: dict[str, datetime | None] = {}
        self._ended: dict[str, list[_Ended]] = defaultdict(list)
        #: Calls that may be of any session, and the files that were waiting for one.
        self._guesses: list[tuple[_Call, list[_Removal]]] = []

    def add(self, writer: str, entry: LogEntry, *, is_named: bool) -> str:
        """Adds a message and returns its writer: the process named by the message or by a file.

        ``is_named`` is whether messages name their writers.
        """
        self._is_of_server |= entry.level == "STATEMENT" or entry.at is not None
        if entry.level == "STATEMENT":
            self._add_statement(writer, entry, is_named=is_named)
        elif entry.level not in _DETAIL_LEVELS:
            self._unnamed.pop(writer, None)
        if entry.level == "PROMPT":
            text = masked_text(_STATEMENT.sub(r"\1", _CONTINUED.sub("\n", entry.message)))
            self._prompted = None if text.startswith("\\") else text
        # The statement of a logged plan may quote any message.
        if LOGGED.match(entry.message):
            return writer
        if entry.level in _LEVELS:
            self._add_limit(writer, entry)
            # A string in program code may contain several messages; a statement may quote one.
            for match in _TEMP.finditer(entry.message):
                writer = self._add_file(writer, entry, match, is_named=is_named)
        if duration := _DURATION.match(entry.message) or _TIMING.search(entry.message):
            writer = self._add_call(writer, entry, duration, is_named=is_named)
        return writer

    def _add_statement(self, writer: str, entry: LogEntry, *, is_named: bool) -> None:
        """Adds the statement of the writer's last message."""
        if (subject := self._unnamed.pop(writer, None)) is None:
            return
        subject.query = masked_text(entry.message)
        query = _plain(subject.query)
        self._writers[query] = writer
        if is_named and self._sessions[writer].last is None:
            self._others[query][writer] = entry.before
            self._removed[query] = time_of(entry.at or "")

    def _add_limit(self, writer: str, entry: LogEntry) -> None:
        """Adds the first limit that a message names."""
        for pattern, words in _LIMITS:
            if (limit := pattern.search(entry.message)) is not None:
                exceeded = ExceededLimit(words.format(*limit.groups()), entry.query or None)
                self._unnamed[writer] = exceeded
                self.exceeded.append(exceeded)
                return

    def _add_call(
        self, writer: str, entry: LogEntry, duration: re.Match[str], *, is_named: bool
    ) -> str:
        """Adds the end of a call; returns its process as far as messages show it."""
        seconds = milliseconds(duration["ms"]) / 1e3
        call = _Call(seconds, duration["query"], time_of(entry.at or ""))
        query = ""
        # Most logs name all writers and show the calls of each: masking their statements is slow.
        if not is_named or (self._others and call.ended is not None):
            query = _plain(masked_text(call.query or entry.query or ""))
        if not is_named:
            # Another session may have written the previous message.
            writer = self._writers.pop(query, writer)
            waiting = self._sessions[writer].waiting
            known = _plain(waiting[-1].file.query or "") if waiting else ""
            if known and query and known != query:
                return writer
            if self._is_of_server and not (known and query):
                self._guesses.append((call, waiting.copy()))
                return writer
        session = self._sessions[writer]
        if duration["fetch"]:
            # The client fetches the rows of a call in parts; the log may lack the first part.
            last = session.last
            before_s = last.elapsed_s if last and last.query == call.query else -inf
            call = replace(call, elapsed_s=before_s + seconds)
        since_s = _seconds_between(self._removed.get(query), call.ended, inf)
        if call.ended is not None and since_s <= call.elapsed_s + 2 * _RESOLUTION_S:
            self._ended[query].append((_clock_s(call.ended), call, writer, entry.before))
        _end_call(session, call)
        return writer

    def _add_file(
        self, writer: str, entry: LogEntry, match: re.Match[str], *, is_named: bool
    ) -> str:
        size = number_of(match["size"].replace("\n", "").rstrip(".,").upper())
        if size is None:
            raise ValueError(f"the size of a temp file is not understood: {match['size']}")
        if not size.value:
            return writer
        name = _NAME.search(match["path"])
        # A log that was joined from several logs may contain a message twice.
        clock = entry.before if _CLOCK.search(entry.before) else ""
        clock = entry.at[:19].replace("T", " ") if entry.at else clock
        key = hash((match["path"], match["size"], clock))
        if name is None or not clock:
            key = hash(len(self._seen))
        elif key in self._seen:
            return writer
        self._seen.add(key)
        owner, number, shared, participant = [None] * 4 if name is None else name.groups()
        writer = owner if owner and not is_named else writer
        process = participant or owner or writer
        query = entry.query or (None if is_named else self._prompted)
        file = TempFile(query, entry.queryid, round(size.value), process=process)
        self.files.append(file)
        if entry.query is None:
            self._unnamed[writer] = file
        # The leader creates a shared set; the last process that uses the set removes it.
        leader = owner if owner and shared else writer
        removal = _Removal(
            file,
            len(self._seen),
            time_of(entry.at or ""),
            None if number is None else int(number),
            shared=shared is not None,
            worker=owner is not None and owner != leader,
        )
        self._sessions[leader].waiting.append(removal)
        return writer

    def by_call(self) -> list[TempFile]:
        """All files, each with its call if the log shows it."""
        # Of several calls, each may be of a session that wrote no file.
        for call, removals in self._guesses if len(self._guesses) == 1 else ():
            _end_call(_Session([r for r in removals if r.file.elapsed_s is None]), call)
        for session in self._sessions.values():
            session.waiting = [r for r in session.waiting if r.file.elapsed_s is None]
            if session.last is not None:
                session.waiting = _after(session.last, session.waiting)
            _assign_untimed(session.waiting)
        self._assign_workers()
        return self.files

    def _assign_workers(self) -> None:
        """Assigns files of parallel workers to the only call of their statement at that time."""
        calls = {(f.process, f.query, f.elapsed_s): f.call for f in self.files if f.elapsed_s}
        waiting: dict[tuple[str, str], list[_Removal]] = defaultdict(list)
        for writer, session in self._sessions.items():
            for removal in session.waiting if session.last is None else ():
                waiting[writer, _plain(removal.file.query or "")].append(removal)
        for query, others in self._others.items():
            by_length: dict[int, list[_Ended]] = defaultdict(list)
            for each in sorted(self._ended[query], key=itemgetter(0)):
                by_length[frexp(each[1].elapsed_s)[1]].append(each)
            # A prefix is compared with those of many calls.
            words_of = cache(_words)
            for writer, prefix in others.items():
                words = _words(prefix)
                for removal in waiting[writer, query]:
                    leaders = [
                        (call, leader)
                        for _, call, leader, above in _around(removal, by_length)
                        if _was_during(removal, call) and _is_worker(words, words_of(above))
                    ]
                    if len(leaders) == 1:
                        call, leader = leaders[0]
                        key = leader, removal.file.query, call.elapsed_s
                        removal.file.call = calls.setdefault(key, removal.position)
                        removal.file.elapsed_s = call.elapsed_s


def _end_call(session: _Session, call: _Call) -> None:
    """Assigns waiting files to the call that ended, or to the previous call if they are older."""
    older = [removal for removal in session.waiting if _is_older(removal, call)]
    _set_call([removal for removal in session.waiting if not _is_older(removal, call)], call)
    _assign_untimed(older if session.last is None else _after(session.last, older))
    session.waiting, session.last = [], call


def _after(call: _Call, removals: Sequence[_Removal]) -> list[_Removal]:
    """Assigns files that were removed right after a call to it, and returns the others."""
    is_late = [
        _seconds_between(call.ended, r.time, inf) > _RESOLUTION_S or _is_too_large(r, call)
        for r in removals
    ]
    _set_call([r for r, late in zip(removals, is_late, strict=True) if not late], call)
    return list(compress(removals, is_late))


def _is_too_large(removal: _Removal, call: _Call) -> bool:
    """Whether not even memory moves a file in the time of a call, such as a cursor's last fetch."""
    return 2 * removal.file.bytes > MEMORY_BYTES_PER_S * call.elapsed_s


def _is_older(removal: _Removal, call: _Call) -> bool:
    """Whether a file was removed before the call began, or is too large for it."""
    if _is_too_large(removal, call):
        return True
    rounded_s = 0.0 if call.ended is None or call.ended.microsecond else _RESOLUTION_S
    return _seconds_between(removal.time, call.ended, -inf) > call.elapsed_s + rounded_s


def _around(removal: _Removal, by_length: Mapping[int, Sequence[_Ended]]) -> Iterator[_Ended]:
    """The calls that may have been running when a file was removed, of calls by their end.

    Each sequence has calls of less than a power of two of seconds: a long call does not make all
    short ones after it candidates.
    """
    if removal.time is not None:
        at_s = _clock_s(removal.time)
        for exponent, ended in by_length.items():
            begin = bisect_left(ended, at_s - 2 * _RESOLUTION_S, key=itemgetter(0))
            end_s = at_s + 2.0**exponent + 2 * _RESOLUTION_S
            yield from ended[begin : bisect_left(ended, end_s, key=itemgetter(0))]


def _was_during(removal: _Removal, call: _Call) -> bool:
    """Whether a file was removed between the begin and the end of a call."""
    late_s = _seconds_between(call.ended, removal.time, inf)
    return late_s <= _RESOLUTION_S and not _is_older(removal, call)


def _words(prefix: str) -> frozenset[str]:
    return frozenset(_WORD.findall(prefix))


def _is_worker(words: frozenset[str], above: frozenset[str]) -> bool:
    """Whether a prefix with these words is that of a parallel worker: it has no user and client.

    ``above`` are the words of its leader's prefix. With %b in log_line_prefix it names the worker.
    """
    return {"parallel", "worker"} <= words or words < above


def _set_call(removals: Sequence[_Removal], call: _Call) -> None:
    for removal in removals:
        file = removal.file
        file.call, file.elapsed_s = removals[0].position, call.elapsed_s
        if not file.query and call.query:
            file.query = masked_text(call.query)


def _assign_untimed(removals: Sequence[_Removal]) -> None:
    """Assigns files without a duration to calls: those of one statement that existed together."""
    for _, of_statement in groupby(removals, key=lambda removal: removal.file.query):
        for call in _calls_of(list(of_statement)):
            for removal in call if len(call) > 1 else ():
                removal.file.call = call[0].position


def _calls_of(removals: Sequence[_Removal]) -> Iterator[list[_Removal]]:
    """The files of one process and statement, by call.

    A process numbers its files as it creates them. A hash join removes them batch by batch, in
    another order: a file that is removed after one with a higher number existed together with it.
    Workers remove their files before the leader does. Other nodes of the plan remove files before
    or after, until a group as large as the first one begins the next call.
    """
    numbers = [inf if r.number is None or r.shared or r.worker else r.number for r in removals]
    lowest_after = list(accumulate(reversed(numbers), min))[::-1]
    groups = [[removals[0]]]
    is_any_together, highest = False, -1.0
    for at, (before, removal) in enumerate(pairwise(removals), start=1):
        highest = highest if numbers[at - 1] == inf else max(highest, numbers[at - 1])
        in_set = removal.shared and before.shared and removal.number == before.number
        at_once = removal.time is not None and removal.time == before.time
        follows_worker = (
            before.worker and _seconds_between(before.time, removal.time, 0.0) <= _RESOLUTION_S
        )
        is_together = in_set or follows_worker or highest > lowest_after[at]
        if not is_together and not at_once:
            groups.append([])
        groups[-1].append(removal)
        is_any_together |= is_together
    if not is_any_together:
        yield from groups
        return
    call: list[_Removal] = []
    first_size = 0
    for group in groups:
        smaller, larger = sorted((first_size, len(group)))
        if call and larger <= _FILES_RATIO_MAX * smaller:
            yield call
            call = []
        first_size = first_size if call else len(group)
        call += group
    yield call


def _plain(query: str) -> str:
    return " ".join(query.split()).rstrip(" ;")


def _seconds_between(begin: datetime | None, end: datetime | None, unknown_s: float) -> float:
    return unknown_s if begin is None or end is None else (end - begin).total_seconds()


def _clock_s(time: datetime) -> float:
    return (time - datetime.min).total_seconds()


def time_of(text: str) -> datetime | None:
    """The time in a text, such as a message's prefix; None if it has none."""
    match = TIME.search(text)
    try:
        return None if match is None else datetime.fromisoformat(match[0])
    except ValueError:
        return None

"""Reads temp files and plans in a server's logs: files or folders, compressed or wrapped."""

import re
from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from spillcast.errors import (
    EvidenceDamaged,
    EvidenceIncomplete,
    EvidenceMixed,
    EvidenceUnsuited,
    InputError,
    NoTempIo,
)
from spillcast.evidence.counts import Bounds, Counts
from spillcast.evidence.postgres import BLOCK_BYTES, CONSTANT, MARK, TEMP_BLOCKS
from spillcast.evidence.postgres.document import (
    CUT,
    check_sums,
    logged_plan,
    none_spilled,
    pasted_documents,
)
from spillcast.evidence.postgres.document import HINT as HINT_PLAN
from spillcast.evidence.postgres.languages import in_utf8
from spillcast.evidence.postgres.log_entries import LogEntry, entries_of
from spillcast.evidence.postgres.node_lines import milliseconds
from spillcast.evidence.postgres.nodes import TempIO, counts_of_blocks, nodes_of
from spillcast.evidence.postgres.temp_files import ExceededLimit, LoggedTempFiles, TempFile, time_of
from spillcast.evidence.recognise import refuse_other_kinds
from spillcast.evidence.selection import SelectableRun, Selection, select
from spillcast.evidence.text import blocks_of, decoded, head_of
from spillcast.evidence.unwrap import unwrapped
from spillcast.gate import reading
from spillcast.recording.meta import ObservedEngine
from spillcast.recording.observed import CountedStatement
from spillcast.units import format_bytes, format_count

_TIMES_HINT = "set auto_explain.log_analyze and track_io_timing for plans with times"
_NAMED_PID = re.compile(r"\b(?:pid|process|p)[=:] ?\"?(\d+)\b")
#: The format in a log's name, possibly rotated: ``pg-2026.csv``, ``pg.log-20261125``.
_FORMAT = re.compile(r"\.(csv|json|log)(?=(?:[.-]\d{1,20}){,9}$)")
_PACKED = re.compile(r"\.(?:gz|bz2|xz|zst|zip)$")
#: A message about a temp file that is not empty, possibly within program code or in any language.
_TEMP_FILE = re.compile(
    r"(?:temporary file: path (?!\S+, size:? 0\b)[\\\"']*[^\s\"'{}$%]+"
    r"|pgsql_tmp\d+\.\d+(?![\w./]*+\s?[\\\"'«»”]{,4}[,、] ?[^\W\d_]{1,20}:? ?0\b)).*"
)
#: A message that a file could not be written or read, and one that the file has been removed.
_FAILURE = re.compile(
    r"\bcould not \w+ (?:\w+ ){,3}\W?(?:base/)?pgsql_tmp|\bcould not \w+ temporary"
)
_ENGLISH = re.compile(r"temporary file: path")
#: A size at the end of a log, which may be cut, and the length of the end that contains it.
_LINE_LENGTH = 2048
_LAST_SIZE = re.compile(r"temporary file: path [^\n]{,999}, size:? (\d+)\Z")
#: The smallest common value of log_temp_files, except 0.
_SMALL_BYTES = 1 << 20
#: Messages of journald and of rsyslog in place of those that they drop.
_DROPPED = re.compile(
    r"Suppressed \d+ messages from \S{,99}(?:postg|patroni)"
    r"|messages [\w ]{,40}due to rate-limiting"
)
#: The process ID in the name of a temp file that is not shared.
_OWN_FILE = re.compile(r"pgsql_tmp(\d+)\.\d+(?!\.(?:shared)?fileset)\b")
#: The time of an EXPLAIN plan, which the server does not log.
_EXPLAINED = re.compile(
    r'^ *"?(?:Execution Time|Total runtime)"?: (\d[\d.,]*)', re.MULTILINE | re.I
)
#: What answers show of the first node of a plan that does not spill.
_OF_FIRST = (
    *("Node Type", "Actual Loops", *TEMP_BLOCKS, "Local Read Blocks", "Local Written Blocks"),
    *("Local I/O Read Time", "Local I/O Write Time"),
)
HINT = (
    "set log_temp_files = 0, and auto_explain with log_analyze and log_buffers for plans, then "
    "give the server's log folder"
)


@dataclass
class Logs:
    """Temp files and plans of all log files."""

    files: int = 0
    temp: list[TempFile] = field(default_factory=list)
    plans: list[dict[str, Any]] = field(default_factory=list)
    #: The first and the last time of each file.
    times: list[str] = field(default_factory=list)
    #: Calls that failed at a limit of temp files.
    exceeded: list[ExceededLimit] = field(default_factory=list)
    #: Errors of plans that were left out because they are cut or damaged.
    damaged: list[InputError] = field(default_factory=list)
    #: Sizes (bytes) of temp files at the end of a log file, which may be cut.
    last_sizes: list[int] = field(default_factory=list)
    #: Whether journald or rsyslog left out messages.
    dropped: bool = False
    #: Hash values of temp files and plans, each with its time.
    seen: set[int] = field(default_factory=set)
    #: Parts that plans without temp I/O have in common.
    shared: dict[Any, Any] = field(default_factory=dict)

    @property
    def notes(self) -> list[str]:
        """Sentences about plans that were left out, and about sizes that may be cut."""
        plans = format_count(len(self.damaged), "plan")
        left_out = [f"{plans} left out: {error.message}" for error in self.damaged[:1]]
        last = "the last line, if it is cut: a temp file of {} may be larger"
        smallest = min((file.bytes for file in self.temp), default=0)
        small = "temp files below {}, which log_temp_files may leave out: the log has none"
        return [
            *left_out,
            *(last.format(format_bytes(size)) for size in self.last_sizes[:1]),
            *(["temp files of messages that the system dropped at its rate limit"] * self.dropped),
            *([small.format(format_bytes(smallest))] if smallest >= _SMALL_BYTES else ()),
        ]

    @property
    def window_s(self) -> float | None:
        """Seconds between the earliest and the latest time in the logs; None if unknown or 0."""
        times = [time for time in map(time_of, self.times) if time is not None]
        return (max(times) - min(times)).total_seconds() or None if times else None

    def add(self, file: Path, blocks: Iterable[str]) -> None:
        """Adds the temp files and plans of a file; a plan does not include nested statements."""
        temp, times, session = LoggedTempFiles(self.seen), list[str](), ""
        processes, first, last = _Processes(), "~", ""
        plans: list[tuple[str, dict[str, Any]]] = []
        with reading(file, HINT):
            for entry in entries_of(self._checked(blocks), times):
                # A message without a session belongs to the session of the previous message.
                named = processes.of(entry)
                first, last = min(first, entry.at or first), max(last, entry.at or last)
                session = named or session
                if entry.level == "CONTEXT" and plans and plans[-1][0] == session:
                    plans[-1][1].setdefault("Context", entry.message)
                session = temp.add(session, entry, is_named=bool(named))
                try:
                    with reading(file, HINT_PLAN):
                        plan = logged_plan(entry.message)
                except InputError as error:
                    self.damaged.append(error)
                    continue
                at = (entry.at or "")[:19].replace("T", " ")
                key = hash((session, at, entry.message))
                if plan is not None and not (entry.at and key in self.seen):
                    self.seen.add(key)
                    context = {"Context": entry.context} if entry.context else {}
                    plan = {"Query Text": entry.query or "", **plan, **context}
                    plans.append((session, self._kept(plan)))
        self.files += 1
        # Rotated logs may have been joined with the newest first.
        self.times += [*times, first, last]
        self.exceeded += temp.exceeded
        self.temp += [each for each in temp.by_call() if MARK not in (each.query or "")]
        alone = _without_inner(plans)
        self.plans += [plan for plan in alone if MARK not in str(plan["Query Text"])]

    def _kept(self, plan: dict[str, Any]) -> dict[str, Any]:
        """The plan; of one that surely has no temp I/O, only what answers show of it.

        Logs have many such plans: parts that are equal take memory once.
        """
        first, ms = plan["Plan"], plan["Execution Time"]
        if first.get("Actual Total Time", 0.0) > ms or not _counts_no_temp(first):
            return plan
        first = {name: first[name] for name in _OF_FIRST if name in first}
        query = self.shared.setdefault(plan["Query Text"], plan["Query Text"])
        first = self.shared.setdefault(tuple(first.items()), first)
        left = {name: value for name, value in plan.items() if name != "Settings"}
        return {**left, "Query Text": query, "Plan": first}

    def _checked(self, blocks: Iterable[str]) -> Iterator[str]:
        """The blocks; notes dropped messages, and a size at the end of the last block."""
        block = ""
        for block in blocks:
            is_limited = "Suppressed " in block or " rate-limiting" in block
            self.dropped |= is_limited and _DROPPED.search(block) is not None
            yield block
        if last := _LAST_SIZE.search(block[-_LINE_LENGTH:]):
            self.last_sizes.append(int(last[1]))


def read_logs(path: Path) -> Logs:
    """The logs in a file or a folder. InputError if they contain nothing about spills."""
    logs = Logs()
    for file in _each_once(path) if path.is_dir() else [path]:
        logs.add(file, (decoded(in_utf8(block)) for block in blocks_of(file)))
    if logs.damaged and not logs.temp and not logs.plans:
        raise logs.damaged[0]
    with reading(path, HINT):
        return _checked_logs(logs, path)


def _checked_logs(logs: Logs, path: Path) -> Logs:
    """The logs of a file or a folder, or plans that were pasted in place of a log."""
    is_empty = not (logs.temp or logs.plans or logs.exceeded)
    if is_empty and path.is_file():
        refuse_other_kinds(path, "log of PostgreSQL", "plans", "statements")
    text = head_of(path) if path.is_file() else ""
    if calls_s := [file.elapsed_s for file in logs.temp if file.elapsed_s]:
        _check_same_run(text, calls_s)
    is_log = calls_s or logs.plans or logs.exceeded or logs.damaged
    if not is_log and re.search(r"Plan|\((?:cost|actual)|\btemp read=", text):
        # Plans that are not in a log.
        with reading(path, HINT_PLAN):
            pasted = pasted_documents(unwrapped(text))
            spills = any(plan["Plan"].get("Temp Written Blocks") for plan in pasted)
            if pasted and (spills or not logs.temp):
                _check_counted(pasted)
                return Logs(1, plans=pasted)
    if is_empty and (unread := _TEMP_FILE.search(text)) and MARK not in text:
        line = text[: unread.end()].rpartition("\n")[2][:200]
        if _FAILURE.search(line):
            raise EvidenceUnsuited(f"an error about a temp file, and not its size: {line}", HINT)
        hint = "set lc_messages = 'C' if the log is in another language than English"
        if _ENGLISH.search(line):
            hint = "give the log as the server wrote it"
        raise EvidenceDamaged(f"a line is not understood: {line}", hint)
    if is_empty:
        files = format_count(logs.files, "file")
        raise NoTempIo(f"no temp file and no plan in {files}", HINT)
    if not logs.temp and not logs.exceeded:
        _check_counted(logs.plans)
    return logs


def logs_of(path: Path, text: str) -> Logs:
    """The logs in the text of a server's own log; empty if it has no message about a spill."""
    logs = Logs()
    logs.add(path, [text])
    return logs


def _check_same_run(text: str, calls_s: Sequence[float]) -> None:
    """EvidenceMixed for a plan beside a log if no call in the log took as long."""
    for ms in _EXPLAINED.findall(text):
        ran_s = milliseconds(ms) / 1e3
        # A call also includes planning and output.
        if not any(ran_s <= call_s <= 2 * ran_s + 1 for call_s in calls_s):
            words = "a log of PostgreSQL, and a plan of a run that is not in it"
            raise EvidenceMixed(words, "give each in a file of its own")


def _counts_no_temp(first: Mapping[str, Any]) -> bool:
    """Whether the plan below a first node counts temp blocks, and no node has any."""
    if any(first.get(name) != 0 for name in TEMP_BLOCKS) or "Actual Loops" not in first:
        return False
    with suppress(InputError), reading():
        check_sums(nodes_of(first))
        return True
    return False


def _check_counted(plans: Sequence[Mapping[str, Any]]) -> None:
    """InputError if no plan can show whether it spilled, or if one without spills is cut."""
    ran = [plan["Plan"] for plan in plans if "Actual Loops" in plan["Plan"]]
    if not (any("Temp Written Blocks" in plan for plan in ran) or all(map(none_spilled, plans))):
        raise EvidenceIncomplete(
            "plans without figures of ANALYZE or BUFFERS: they do not show what a run spilled", HINT
        )
    if not any(plan.get("Temp Written Blocks") for plan in ran):
        for plan in ran:
            check_sums(nodes_of(plan))
        if any("Excerpt" in plan for plan in plans):
            raise EvidenceIncomplete(CUT, HINT)


def _each_once(folder: Path) -> list[Path]:
    """The files of a folder, each in one format: a server may write the same log in several."""
    # CSV is preferred to JSON, both are preferred to text, and plain files to compressed copies.
    ranks, best = {"csv": 2, "json": 1}, dict[str, tuple[tuple[int, bool], Path]]()
    for file in sorted(path for path in folder.iterdir() if path.is_file()):
        plain = _PACKED.sub("", file.name)
        form = _FORMAT.search(plain)
        rank = ranks.get(form[1] if form else "", 0), plain == file.name
        name = _FORMAT.sub("", plain)
        if name not in best or best[name][0] <= rank:
            best[name] = rank, file
    return sorted(file for _, file in best.values())


def normal(query: str) -> str:
    """A statement with constants as ``?`` and lower case, to compare it with pg_stat_statements."""
    return " ".join(CONSTANT.sub("?", query).split()).rstrip(" ;").lower()


class _Processes:
    """Finds the process ID among a prefix's numbers, by the names of the process's temp files."""

    def __init__(self) -> None:
        self._writers = set[str]()
        #: The places that its ID had among the numbers of each message; empty if they vary.
        self._places: set[int] | None = None
        self._lacking = False

    def of(self, entry: LogEntry) -> str:
        """The process that wrote a message; empty if the prefix does not have it."""
        numbers = _numbers(entry.before)
        if entry.query is None and (file := _OWN_FILE.search(entry.message)):
            self._lacking = file[1] not in numbers and self._writers.isdisjoint(numbers)
            self._writers.add(file[1])
            if places := {at for at, number in enumerate(numbers) if number == file[1]}:
                self._places = places if self._places is None else self._places & places
        at = min(self._places or (), default=len(numbers))
        known = numbers[at:] or [number for number in numbers if number in self._writers]
        return "" if self._lacking else next(iter(known or numbers), "")


def _numbers(prefix: str) -> list[str]:
    """Possible process IDs, the likeliest first; a session ID ends with it in hexadecimal."""
    in_hex = re.findall(r"\b[0-9a-f]{8}\.([0-9a-f]{1,8})\b", prefix)
    return [
        *_NAMED_PID.findall(prefix),
        *re.findall(r"\[(\d+)\]", prefix),
        *re.findall(r"(?<![\w.:-])\[?(\d{2,10})\]?(?![\w.:]|-\d\d)", prefix),
        *(str(int(number, 16)) for number in in_hex),
    ]


def _without_inner(plans: Sequence[tuple[str, dict[str, Any]]]) -> list[dict[str, Any]]:
    """Plans without the temp I/O of nested statements, whose plans precede them."""
    kept: list[dict[str, Any]] = []
    inner: dict[str, list[dict[str, Any]]] = {}
    for session, plan in plans:
        if "Context" in plan:
            inner.setdefault(session, []).append(plan)
            kept.append(plan)
            continue
        called = inner.pop(session, [])
        left = [
            plan["Plan"].get(name, 0) - sum(inside["Plan"].get(name, 0) for inside in called)
            for name in TEMP_BLOCKS
        ]
        nodes = plan["Plan"].get("Plans", ())
        if called and max(left) <= 0 and not any(node.get(TEMP_BLOCKS[1], 0) for node in nodes):
            plan = {**plan, "Plan": {**plan["Plan"], **dict.fromkeys(TEMP_BLOCKS, 0)}}
        kept.append(plan)
    return kept


def counted(failures: Sequence[ExceededLimit]) -> list[ExceededLimit]:
    """One entry for each statement and limit, with the number of calls."""
    calls = Counter[tuple[str, str | None]]()
    for failure in failures:
        calls[failure.limit, failure.query] += failure.calls
    return [ExceededLimit(limit, query, number) for (limit, query), number in calls.items()]


def counts_of_logs(logs: Logs, selection: Selection) -> Counts:
    """The counts of one call, each file written once and read once.

    InputError if there are no files, or several calls, or if no duration is known.
    """
    if not logs.temp:
        limit = logs.exceeded[0].limit
        raise EvidenceIncomplete(
            f"no temp file and no plan, but a call that spilled more than {limit} allows",
            "forecast a plan or a recording of it; spillcast postgres lists all such calls",
        )
    by_call: dict[int, list[TempFile]] = defaultdict(list)
    for index, file in enumerate(logs.temp):
        # A file whose call is unknown counts as a call of its own.
        by_call[file.call or -1 - index].append(file)
    items = [
        SelectableRun(c, c[0].elapsed_s, size_bytes=sum(f.bytes for f in c), text=c[0].query or "?")
        for c in by_call.values()
    ]
    call = select(items, selection, "; spillcast postgres ranks all statements of a log")
    elapsed_s = selection.elapsed_s or call[0].elapsed_s
    if elapsed_s is None:
        raise EvidenceIncomplete(
            "the log has the size of temp files, and not how long the call took",
            "give it with --elapsed, or set log_min_duration_statement = 0, and lc_messages = 'C' "
            "if the log is in another language",
        )
    blocks = max(1, round(sum(file.bytes for file in call) / BLOCK_BYTES))
    query = call[0].query
    notes = ["each temp file is assumed to be written once and read once", *logs.notes]
    if query and any(
        each is not call
        and (not each[0].query or (each[0].query, each[0].elapsed_s) == (query, None))
        for each in by_call.values()
    ):
        notes.append(
            "temp files without a statement or duration, which its parallel workers may have "
            "written, do not count; %b in log_line_prefix, csvlog or jsonlog shows whose they are"
        )
    processes = len({file.process for file in call})
    return counts_of_blocks(
        elapsed_s,
        TempIO(blocks, blocks),
        ObservedEngine("postgresql", query=query),
        Bounds(1.0, float(processes), f"its files are of {format_count(processes, 'process')}"),
        ("the log shows only how long the call took", _TIMES_HINT) if selection.timed else None,
        files=len(call),
        statement=CountedStatement(call[0].queryid, query, 1, len(by_call)),
        notes=notes,
    )

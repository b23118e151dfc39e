"""Reads the messages of a server's log in text, CSV or JSON, with or without a shipper's prefix."""

import csv
import json
import re
from collections.abc import Iterable, Iterator
from contextlib import suppress
from dataclasses import dataclass
from functools import cached_property, lru_cache
from itertools import chain, pairwise, takewhile
from typing import Any

from spillcast.errors import EvidenceUnsuited
from spillcast.evidence.postgres.document import LOGGED
from spillcast.evidence.postgres.languages import ENGLISH, LEVEL, in_english, temp_file_at
from spillcast.evidence.shippers import program_of, without_shipper
from spillcast.evidence.text import json_or_none
from spillcast.evidence.unwrap import CSV_LOG, unwrapped
from spillcast.redaction import masked_text

#: A message with more lines is cut, and its plan is not read.
LINES_MAX = 20_000
#: Texts that occur in messages about spills.
_MARKS = (
    "pgsql_tmp",
    "temporary file: path",
    "plan:",
    "temp_file_limit",
    ": No space left on device",
    "failed to offload data block",
)
#: Lines after a mark that may contain its statement and duration.
_LINES_BELOW = 200
#: Lines before a mark that may contain the duration of its call.
_LINES_ABOVE = 20
#: The maximum length of a pasted text.
_PASTED_MAX = 1 << 20
#: The length at each end of a log that is searched for its first and its last time.
_EDGE = 1 << 16
#: The length of the part of a line that is searched for its level.
_PREFIX_MAX = 4096
_LEVEL = re.compile(rf"(?P<before>.*?)\b(?P<level>{LEVEL}) ?:\s{{1,2}}(?P<message>.*)", re.DOTALL)
#: The start of a message without its prefix, possibly within program code.
_BARE = re.compile(r"[ '\"]*(?=duration: \d+\.\d+ ms\b|temporary file: path)")
#: The start of a line with its prefix, within program code.
_QUOTED = re.compile(r"^\s*['\"`]+\s*(?=\d{4}-\d\d-\d\d \d\d:\d\d:\d\d.*\b(?:LOG|STATEMENT):  )")
#: psql's prompt before a command, in a session that also receives server messages. A statement may
#: contain ``name=> value`` if its lines lost their tabs.
_PROMPT = re.compile(
    r"[\w.-]{1,63}=[*!^]?[#>] +(?=\\|(?:select|with|insert|update|delete|merge|create|alter|reindex"
    r"|refresh|cluster|vacuum|analyze|explain|copy|set|begin|call|do|execute|fetch|table)\b)",
    re.IGNORECASE,
)
TIME = re.compile(r"\d{4}-\d\d-\d\d[ T]\d\d:\d\d:\d\d(?:\.\d+)?")
_DATED = re.compile(r"\s*[\[\"]?\d{4}-\d\d-\d\d[ T]\d\d:\d\d:\d\d")
#: What grep prints between groups of lines.
_BETWEEN_MATCHES = "--"
#: The heading of a CSV export.
_HEADING = re.compile(r'"?@?[A-Za-z_][\w @."()\[\]]*(?:[,;\t]"?@?[A-Za-z_][\w @."()\[\]]*)+')
#: Positions of columns in a line of csvlog.
_CSV_COLUMNS = {
    "timestamp": 0, "pid": 3, "errorseverity": 11, "message": 13, "context": 18, "statement": 19,
    "leaderpid": 24, "queryid": 25,
}  # fmt: skip
_CSV_COLUMNS_MIN = 23
#: Keys under which shippers put a server's record in JSON, and keys of the text of a line.
_RECORDS = ("jsonPayload", "_source", "json", "properties", "record")
_TEXTS = (
    *("textpayload", "message", "msg", "log", "raw", "line", "body", "event", "eventmessage"),
    "content",
)
#: Exports in which other fields, or the ends of wrapped lines, follow a message.
_FOLLOWED = re.compile(r"^(?:EVENTS\t|textPayload: )", re.MULTILINE)
_AS_JSON = "export it as JSON: aws ... --output json, gcloud logging read --format=json"
#: Names that only the server's own records have.
_RECORD_NAMES = {"errorseverity", "errorlevel", "statement"}


@dataclass
class LogEntry:
    """A message of the log, with its statement if the format has it in the same record."""

    at: str | None
    level: str
    lines: list[str]
    before: str = ""
    context: str = ""
    #: None if the format has a separate line for it.
    query: str | None = None
    queryid: str | None = None

    @cached_property
    def message(self) -> str:
        """All lines joined; only valid once they are complete."""
        return "\n".join(self.lines)


def entries_of(blocks: Iterator[str], times: list[str]) -> Iterator[LogEntry]:
    """The messages that may be about spills; adds the first and the last time to ``times``.

    ``blocks`` hold whole lines. EvidenceUnsuited for an export in which other text follows each
    message.
    """
    first, second = next(blocks, ""), next(blocks, None)
    if _FOLLOWED.search(first[:_EDGE]):
        raise EvidenceUnsuited("a log in which fields follow each message", _AS_JSON)
    if second is not None:
        return _entries(_lines(chain((first, second), blocks), times))
    # A pasted or exported log may have wrappings, and the newest message first.
    if (messages := _messages(first)) is None and len(first) <= _PASTED_MAX:
        first = unwrapped(first)
        messages = _messages(first)
    first = first if messages is None else "\n".join(messages)
    entries = list(_entries(_lines([first], times)))
    return reversed(entries) if _is_newest_first(entries) else iter(entries)


def _is_newest_first(entries: list[LogEntry]) -> bool:
    """Whether times decrease; if all are equal, whether a statement precedes its message."""
    times = [entry.at for entry in entries if entry.at is not None]
    if not times or len(set(times)) == 1:
        is_statement = [entry.level == "STATEMENT" for entry in (entries[:1] + entries[-1:])]
        return is_statement == [True, False]
    falls = sum(before > after for before, after in pairwise(times))
    return falls > sum(before < after for before, after in pairwise(times))


def _messages(text: str) -> list[str] | None:
    """The rows of a CSV export, as from CloudWatch, in JSON; None for other texts."""
    heading = text[:_PREFIX_MAX].split("\n", 1)[0]
    if _HEADING.fullmatch(heading) is None:
        return None
    separator = max(",;\t", key=heading.count)
    rows = list(csv.DictReader(text.splitlines(True), delimiter=separator))
    is_log = any(next(_messages_in(row), None) is not None for row in rows)
    return list(map(json.dumps, rows)) if is_log else None


def _lines(blocks: Iterable[str], times: list[str]) -> Iterator[str]:
    """The lines with marks, and those around them.

    Adds the first and the last time of the log to ``times``.
    """
    left, edge = 0, ""
    for block in blocks:
        if not times:
            times += _times(block[:_EDGE].split("\n"))
        edge = block[-_EDGE:]
        if block.lstrip()[:2] in ("[\n", "[{", "[ ", "{\n"):
            # A block that is not JSON may contain lines in other formats.
            is_json = json_or_none(block) is not None
            yield from [block.replace("\n", " ")] if is_json else block.split("\n")
            continue
        at, next_mark, places = 0, -1, dict.fromkeys(_MARKS, -1)
        while at < len(block):
            if next_mark < at:
                # A mark is searched again only after the search has passed its last position.
                for mark in [mark for mark, place in places.items() if place < at]:
                    place = block.find(mark, at)
                    places[mark] = len(block) if place < 0 else place
                next_mark = min(places.values())
            if not left:
                if next_mark == len(block):
                    break
                at, left = _block_begin(block, at, next_mark), _LINES_BELOW
            end = block.find("\n", at) + 1 or len(block)
            line = block[at:end]
            if next_mark < end:
                left = _LINES_BELOW
            elif left > 1 or _begins(line):
                left -= 1
            at = end
            yield line.rstrip("\n")
    times += _times(reversed(edge.split("\n")))


def _block_begin(block: str, begin: int, mark: int) -> int:
    """The position where the messages before a mark begin."""
    starts = [block.rfind("\n", 0, mark) + 1]
    while len(starts) <= _LINES_ABOVE and starts[-1] > begin:
        starts.append(max(begin, block.rfind("\n", begin, starts[-1] - 1) + 1))
    messages = (at for at in reversed(starts) if _begins(block[at : at + _PREFIX_MAX]))
    return next(messages, starts[0])


def _times(lines: Iterable[str]) -> list[str]:
    """The time of the first line that begins a message, as a list; empty if there is none."""
    times = (TIME.search(line) for line in lines if line and _begins(line))
    return next(([match[0]] for match in times if match is not None), [])


def _begins(line: str) -> bool:
    """Whether a line begins a message."""
    text = line[:_PREFIX_MAX]
    return bool(_DATED.match(text) or _LEVEL.match(text) or _PROMPT.match(text) or text[:1] == "{")


def _entries(lines: Iterator[str]) -> Iterator[LogEntry]:
    """The messages of lines, each in any format."""
    entry: LogEntry | None = None
    # Lines after a blank line of a statement: part of it if a message follows, else not of the log.
    below: list[str] = []
    is_below, head = False, ""
    texts = _without_json(lines)
    more = (text for text, _ in texts if isinstance(text, str))
    for line, at in texts:
        has_room = entry is not None and len(entry.lines) + len(below) <= LINES_MAX
        if isinstance(line, str) and line.startswith("\t") and _QUOTED.match(line) is None:
            if entry and has_room:
                entry.lines.append(line[1:])
            continue
        if isinstance(line, LogEntry):
            new: LogEntry | None = line
        else:
            new = _of_csv(line, more) if CSV_LOG.match(line) else _of_text(line)
        if new is not None:
            if entry is not None:
                entry.lines += below
                yield entry
            entry, below, is_below = new, [], False
            head = line if isinstance(line, str) else ""
            entry.at = entry.at or at
        elif line == _BETWEEN_MATCHES:
            pass
        elif isinstance(line, str) and len({program_of(head), program_of(line)} - {None}) > 1:
            # Another program writes to the same log.
            pass
        elif isinstance(line, str) and entry and has_room:
            # Removes the prefixes of shipper and server.
            text = _without_prefix(line, head)
            if text.startswith("\t"):
                entry.lines.append(text[1:])
            elif not line.strip():
                # Each further line of a statement begins with a tab, unless a paste lost it.
                is_below = entry.level == "STATEMENT" or " ms  statement: " in entry.lines[0]
            elif not _DATED.match(text):
                (below if is_below else entry.lines).append(text)
    if entry is not None:
        yield entry


def _without_prefix(line: str, head: str) -> str:
    """A continuation line of a message, without the prefix that a shipper put before each line."""
    line = line.replace("#011", "\t")
    masked = [re.sub(r"\d+", "0", text[:_PREFIX_MAX]) for text in (head, line)]
    pairs = takewhile(lambda pair: pair[0] == pair[1], zip(*masked, strict=False))
    same = "".join(char for char, _ in pairs)
    # Terminals and pages may have blanks in place of the tab.
    is_blank = same.strip() and masked[1][len(same) - 1 : len(same) + 1] == "  "
    if is_blank and (prefix := re.match(re.escape(same).replace("0", r"\d+"), line)):
        return "\t" + line[prefix.end() :]
    tabs = masked[1].count("\t", 0, len(same) + 1)
    return "\t" + line.split("\t", tabs)[tabs] if tabs else without_shipper(line)


def _of_text(line: str) -> LogEntry | None:
    line = _QUOTED.sub("", line)
    if bare := _BARE.match(line):
        return LogEntry(None, "LOG", [line[bare.end() :]])
    if prompt := _PROMPT.match(line):
        return LogEntry(None, "PROMPT", [line[prompt.end() :]])
    if line.startswith("\t"):
        return None
    if (match := _LEVEL.match(line[:_PREFIX_MAX])) is not None:
        level, before = ENGLISH.get(match["level"], match["level"]), match["before"]
        message = match["message"] + line[_PREFIX_MAX:]
    elif (start := temp_file_at(line[:_PREFIX_MAX])) is not None:
        level, before, message = "LOG", line[:start], line[start:]
    else:
        return None
    at = TIME.search(before)
    message = in_english(message) if level == "LOG" else message
    return LogEntry(at[0] if at else None, level, [message], before)


def _of_csv(line: str, more: Iterator[str]) -> LogEntry | None:
    lines, quotes = [line], line.count('"')
    while quotes % 2 and len(lines) < LINES_MAX and (below := next(more, None)) is not None:
        lines.append(below)
        quotes += below.count('"')
    row = next(csv.reader(["\n".join(lines)]), [])
    if len(row) < _CSV_COLUMNS_MIN:
        return None
    values = {name: row[at] for name, at in _CSV_COLUMNS.items() if at < len(row)}
    return _of_record(values["message"], values, None)


def _without_json(lines: Iterable[str]) -> Iterator[tuple[str | LogEntry, str | None]]:
    """Messages in JSON, and lines of text, each with the time of its record."""
    for line in lines:
        messages: list[tuple[str | LogEntry, str | None]] = []
        end = "" if line.startswith("\t") else line.rstrip("] \t")
        if end.endswith(("}", '"') if line[:1] == "[" else "}"):
            # JSON may follow a prefix; Fluent Bit prints ``=>`` in place of colons.
            for text in (line, end[end.find('{"') :].replace('"=>', '":')):
                with suppress(RecursionError):
                    messages = messages or list(_messages_in(json_or_none(text)))
        yield from messages or [(line, None)]


def _messages_in(value: Any) -> Iterator[tuple[str | LogEntry, str | None]]:
    """The messages of a document as entries, or as lines of text."""
    if isinstance(value, list):
        if value and all(isinstance(pair, dict) and "field" in pair for pair in value):
            # CloudWatch has a name-value pair for each column.
            value = {pair["field"]: pair.get("value") for pair in value}
        elif value and all(isinstance(text, str) for text in value):
            # Rows, such as those of Loki, begin with a time and end with a line.
            are_lines = any(map(_begins_message, value[:-1]))
            line = "\n".join(value) if are_lines else value[-1]
            value = {"time": value[0], "line": line}
        else:
            for row in value:
                yield from _messages_in(row)
    if not isinstance(value, dict):
        return
    for name in _RECORDS:
        value = value[name] if isinstance(value.get(name), dict) else value
    texts = {_plain(name): text for name, text in value.items() if isinstance(text, str)}
    text = next((texts[name] for name in _TEXTS if name in texts), None)
    if text is None:
        rows = [message for inner in value.values() for message in _messages_in(inner)]
        text = next(filter(_begins_message, texts.values()), None)
        if rows or text is None:
            yield from rows
            return
    values = _values(value)
    time = TIME.search(json.dumps(value))
    at = None if time is None else time[0]
    if LOGGED.match(text) or _RECORD_NAMES & values.keys():
        # Lines of a plan are never messages, even if they look like one.
        yield _of_record(text, values, at), at
    else:
        # A container's line may hold a record of the server, or of another shipper.
        parts = _without_json(text.rstrip("\n").split("\n"))
        yield from ((part, inner_at or at) for part, inner_at in parts)


def _begins_message(text: str) -> bool:
    return bool(_BARE.match(text) or _LEVEL.match(text[:_PREFIX_MAX]))


@lru_cache
def _plain(name: Any) -> str:
    """A normalised name, from ``error_severity``, ``errorLevel_s``, ``@message`` and the like."""
    return re.sub(r"_[sd]$|[\W_]", "", str(name)).lower()


def _values(record: dict[str, Any]) -> dict[str, Any]:
    """The values of a record by normalised name; its own take precedence over nested ones."""
    values: dict[str, Any] = {}
    for value in record.values():
        value = value[0] if isinstance(value, list) and len(value) == 1 else value
        values |= _values(value) if isinstance(value, dict) else {}
    return values | {_plain(name): value for name, value in record.items()}


def _of_record(text: str, values: dict[str, Any], at: str | None) -> LogEntry:
    """The entry of a record, whose text may also have the prefix of a line."""
    # A record of the server itself has no prefix, nor has a text that begins with a message.
    is_bare = "errorseverity" in values or text.startswith("duration: ") or _BARE.match(text)
    line = None if is_bare else _of_text(text)
    query = values.get("statement", values.get("query"))
    queryid = str(values.get("queryid") or "")
    # A parallel worker belongs to the session of its leader.
    pid = values.get("leaderpid") or values.get("pid") or values.get("processid") or ""
    return LogEntry(
        str(values.get("timestamp") or values.get("logtime") or at or "") or None,
        "LOG" if line is None else line.level,
        (in_english(text) if line is None else line.message).split("\n"),
        f"[{pid}]" if pid else ("" if line is None else line.before),
        str(values.get("context") or ""),
        masked_text(str(query or "")) if query or line is None else None,
        queryid if queryid not in ("", "0") else None,
    )

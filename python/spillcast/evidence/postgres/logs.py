"""Temp files and plans in a server's logs: as text, CSV or JSON, packed or not."""

import csv
import gzip
import json
import re
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path
from typing import Any, TextIO

from spillcast.errors import InputError
from spillcast.evidence.postgres.document import logged_plans
from spillcast.gate import reading
from spillcast.redaction import struck_text
from spillcast.units import format_count

#: Each statement of ours ends with it: counts and logs of a server keep it, and we leave it out.
MARK = "/* spillcast */"
#: A message of more lines is cut: its plan is not read then.
LINES_MAX = 20_000
_LEVEL = re.compile(r"(?P<before>.*?)\b(?P<level>LOG|STATEMENT|DETAIL|HINT|CONTEXT|ERROR|FATAL|"
                    r"PANIC|WARNING|NOTICE|INFO|QUERY|LOCATION):\s{1,2}(?P<said>.*)")  # fmt: skip
_TEMP = re.compile(r'temporary file: path "(?P<path>[^"]*)", size (?P<size>\d+)')
_TIME = re.compile(r"\d{4}-\d\d-\d\d[ T]\d\d:\d\d:\d\d(?:\.\d+)?")
_PID = re.compile(r"pgsql_tmp(\d+)")
#: A log's name, also after it was rotated: ``pg-2026.csv``, ``pg.json.1``, ``pg.log-20261125.gz``.
_NAME = re.compile(
    r"(?P<name>.*?)(?:\.(?P<format>csv|json|log))?(?P<rotated>(?:[.-]\d{1,20}){,9})(?:\.gz)?",
    re.DOTALL,
)
#: Lines of a message that stand before its statement.
_BESIDE = ("DETAIL", "HINT", "QUERY", "CONTEXT", "LOCATION")
#: Positions in a line of csvlog.
_CSV_TIME, _CSV_MESSAGE, _CSV_QUERY, _CSV_ID, _CSV_MIN = 0, 13, 19, 25, 23
HOW = "set log_temp_files = 0, and auto_explain for plans, then give the server's log folder"


@dataclass(frozen=True)
class TempFile:
    """A temp file that ended: whose it was, and how large."""

    query: str | None
    queryid: str | None
    bytes: int


@dataclass(frozen=True)
class Logs:
    """What all files told; ``window_s`` is from the first line with a time to the last."""

    files: int
    temp: list[TempFile]
    plans: list[dict[str, Any]]
    window_s: float | None
    #: The first and the last of each file.
    times: Sequence[str] = ()


@dataclass
class _Entry:
    """A message of the log, its statement where the format has it beside."""

    at: str | None
    level: str
    said: str
    query: str | None = None
    queryid: str | None = None


def read_logs(path: Path) -> Logs:
    """Of a file, or of all files of a folder. InputError where there is nothing of spills."""
    files = _each_once(path) if path.is_dir() else [path]
    read = []
    for file in files:
        with reading(file, HOW), _opened(file) as lines:
            read.append(logs_of(file, lines))
    temp = [plan for logs in read for plan in logs.temp]
    plans = [plan for logs in read for plan in logs.plans]
    times = [time for logs in read for time in logs.times]
    if not temp and not plans:
        raise InputError(
            f"{path}: no temp file and no plan in {format_count(len(files), 'file')}",
            f"{HOW}; its messages have to be in English (lc_messages = 'C')",
        )
    return Logs(len(files), temp, plans, _window_s(times))


def logs_of(file: Path, lines: TextIO) -> Logs:
    """Of the text of a file, whose name tells its format."""
    temp: list[TempFile] = []
    plans: list[dict[str, Any]] = []
    times: list[str] = []
    with reading(file, HOW):
        _read(file, _entries(file, lines), temp, plans, times)
    temp = [plan for plan in temp if MARK not in (plan.query or "")]
    plans = [plan for plan in plans if MARK not in str(plan.get("Query Text", ""))]
    return Logs(1, temp, plans, _window_s(times), times)


def _each_once(folder: Path) -> list[Path]:
    """The files of a folder, one format of each: a server may write the same in several."""
    paths: dict[str, Path] = {}
    # The last of a name stays: CSV rather than JSON, either rather than text, and no packed copy.
    formats = {"csv": 2, "json": 1}
    files = sorted(path for path in folder.iterdir() if path.is_file())
    for file in sorted(files, key=lambda one: (formats.get(_format(one), 0), one.suffix != ".gz")):
        name = _NAME.fullmatch(file.name)
        paths[file.name if name is None else name["name"] + name["rotated"]] = file
    return sorted(paths.values())


def _format(file: Path) -> str:
    """``csv``, ``json``, or another for text, by the file's name."""
    name = _NAME.fullmatch(file.name)
    return "" if name is None else name["format"] or ""


def normal(query: str) -> str:
    """A statement without its constants, as pg_stat_statements has it but for their numbers."""
    text = re.sub(r"'(?:[^']|'')*'", "?", query)
    text = re.sub(r"\$\d+|\b\d+(?:\.\d+)?\b", "?", text)
    return " ".join(text.split()).rstrip(" ;").lower()


def _opened(file: Path) -> TextIO:
    if file.suffix == ".gz":
        return gzip.open(file, "rt", encoding="utf-8", errors="replace", newline="")
    return file.open(encoding="utf-8", errors="replace", newline="")


def _read(
    file: Path,
    entries: Iterable[_Entry],
    temp: list[TempFile],
    plans: list[dict[str, Any]],
    times: list[str],
) -> None:
    """Take what the entries of one file tell. A text log has a temp file's statement below it."""
    waiting: TempFile | None = None
    first: str | None = None
    last: str | None = None
    for entry in entries:
        if entry.at is not None:
            first, last = first or entry.at, entry.at
        # What a function runs has lines of its own between both.
        if waiting is not None and entry.level not in _BESIDE:
            query = entry.said if entry.level == "STATEMENT" else None
            temp.append(TempFile(query and struck_text(query), None, waiting.bytes))
            waiting = None
        if match := _TEMP.search(entry.said):
            temp_file = TempFile(entry.query, entry.queryid, int(match["size"]))
            if entry.query is None:
                waiting = temp_file
            else:
                temp.append(temp_file)
        elif " plan:" in entry.said[:200]:
            below = entry.said.split("\n")
            for plan in logged_plans(file, [below[0], *(f"\t{line}" for line in below[1:])]):
                plans.append({"Query Text": entry.query or "", **plan})
    if waiting is not None:
        temp.append(waiting)
    times += [time for time in (first, last) if time is not None]


def _entries(file: Path, lines: TextIO) -> Iterator[_Entry]:
    """By the format that the name tells."""
    of_format = {"csv": _of_csv, "json": _of_json}.get(_format(file), _of_text)
    return of_format(lines)


def _of_csv(lines: TextIO) -> Iterator[_Entry]:
    csv.field_size_limit(1 << 30)
    for row in csv.reader(lines):
        if len(row) >= _CSV_MIN:
            queryid = row[_CSV_ID] if len(row) > _CSV_ID else ""
            query = struck_text(row[_CSV_QUERY]) if row[_CSV_QUERY] else ""
            yield _Entry(row[_CSV_TIME], "LOG", row[_CSV_MESSAGE], query, _known(queryid))


def _of_json(lines: TextIO) -> Iterator[_Entry]:
    for line in lines:
        try:
            document = json.loads(line)
        except ValueError:
            continue
        if isinstance(document, dict) and isinstance(document.get("message"), str):
            query = struck_text(str(document.get("statement") or ""))
            queryid = _known(str(document.get("query_id") or ""))
            yield _Entry(str(document.get("timestamp")), "LOG", document["message"], query, queryid)


def _known(queryid: str) -> str | None:
    return queryid if queryid not in ("", "0") else None


def _of_text(lines: TextIO) -> Iterator[_Entry]:
    """Lines that begin with a tab go on with what stands above."""
    entry: _Entry | None = None
    below: list[str] = []
    for line in lines:
        text = line.rstrip("\r\n")
        if text.startswith("\t") and entry is not None:
            if len(below) < LINES_MAX:
                below.append(text[1:])
            continue
        if entry is not None:
            entry.said = "\n".join([entry.said, *below])
            yield entry
        match = _LEVEL.match(text)
        entry, below = None, []
        if match is not None:
            at = _TIME.search(match["before"])
            entry = _Entry(at[0] if at else None, match["level"], match["said"])
    if entry is not None:
        entry.said = "\n".join([entry.said, *below])
        yield entry


def _window_s(times: list[str]) -> float | None:
    moments = [moment for moment in map(_moment, times) if moment is not None]
    # By its name the newest file may be the first.
    return (max(moments) - min(moments)).total_seconds() or None if moments else None


def _moment(time: str) -> datetime | None:
    """A time of the log; None where it is none, as in a damaged line."""
    try:
        match = _TIME.search(time)
        return match and datetime.fromisoformat(match[0])
    except ValueError:
        return None

"""Temp files and plans in a server's logs, however they are packed, wrapped and called."""

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from datetime import datetime
from pathlib import Path
from typing import Any

from spillcast.errors import EvidenceUnknown, NoTempIo
from spillcast.evidence.postgres.document import LOGGED, documents_of, logged_plan
from spillcast.evidence.postgres.log_entries import TIME, Entry, entries_of
from spillcast.evidence.postgres.log_limits import Exceeded, ExceededLimits
from spillcast.evidence.recognise import recognise
from spillcast.evidence.text import blocks_of, head_of
from spillcast.evidence.unwrap import unwrapped
from spillcast.gate import reading
from spillcast.redaction import struck_text
from spillcast.units import format_count

#: Each statement of ours ends with it: counts and logs of a server keep it, and we leave it out.
MARK = "/* spillcast */"
_TEMP = re.compile(r'temporary file: path "(?P<path>[^"]*)", size (?P<size>\d+)')
_PID = re.compile(r"pgsql_tmp(\d+)")
_DURATION = re.compile(
    r"duration: (?P<ms>[\d.]+) ms(?:\s+(?:statement|execute [^:]*): (?P<query>.*))?", re.DOTALL
)
#: A log's name, also after it was rotated: ``pg-2026.csv``, ``pg.json.1``, ``pg.log-20261125.gz``.
_NAME = re.compile(
    r"(?P<name>.*?)(?:\.(?P<format>csv|json|log))?(?P<rotated>(?:[.-]\d{1,20}){,9})"
    r"(?:\.(?:gz|bz2|xz|zst|zip))?",
    re.DOTALL,
)
#: Lines of a message that stand before its statement.
_BESIDE = ("DETAIL", "HINT", "QUERY", "CONTEXT", "LOCATION")
HOW = "set log_temp_files = 0, and auto_explain for plans, then give the server's log folder"


@dataclass(frozen=True)
class TempFile:
    """A temp file that ended: whose it was, how large, and in how long a call where that is known.

    Files of one call have the same ``call``.
    """

    query: str | None
    queryid: str | None
    bytes: int
    elapsed_s: float | None = None
    call: int = 0


@dataclass(frozen=True)
class Logs:
    """What all files told; ``window_s`` is from the first line with a time to the last."""

    files: int
    temp: list[TempFile]
    plans: list[dict[str, Any]]
    window_s: float | None
    #: The first and the last of each file.
    times: Sequence[str] = ()
    #: Calls that failed at a limit of temp files.
    exceeded: Sequence[Exceeded] = ()


def read_logs(path: Path) -> Logs:
    """Of a file, or of all files of a folder. InputError where there is nothing of spills."""
    files = _each_once(path) if path.is_dir() else [path]
    return _need(path, [_of_blocks(file, blocks_of(file, HOW)) for file in files])


def logs_of(path: Path, text: str) -> Logs:
    """Of the text of a server's own log; nothing where there is nothing of spills."""
    return _of_blocks(path, iter([text.encode()]))


def _need(path: Path, each: Sequence[Logs]) -> Logs:
    temp = [file for logs in each for file in logs.temp]
    plans = [plan for logs in each for plan in logs.plans]
    times = [time for logs in each for time in logs.times]
    exceeded = [failure for logs in each for failure in logs.exceeded]
    if not temp and not plans and not exceeded and path.is_file() and (pasted := _pasted(path)):
        return Logs(1, [], pasted, None)
    if not temp and not plans and not exceeded:
        recognised = recognise(path) if path.is_file() else None
        if recognised is not None and recognised.kind.name == "figures":
            raise EvidenceUnknown(
                f"{path}: figures of a run, and no log of PostgreSQL",
                "forecast that run: spillcast forecast FILE --to TARGET",
            )
        raise NoTempIo(
            f"{path}: no temp file and no plan in {format_count(len(each), 'file')}",
            f"{HOW}; its messages have to be in English (lc_messages = 'C')",
        )
    return Logs(len(each), temp, plans, _window_s(times), times, exceeded)


def _pasted(path: Path) -> list[dict[str, Any]]:
    """Plans that are in no log."""
    text = head_of(path)
    return documents_of(unwrapped(text), path) if re.search(r"Plan|\((?:cost|actual)", text) else []


def _of_blocks(file: Path, blocks: Iterator[bytes]) -> Logs:
    times: list[str] = []
    limits = ExceededLimits()
    with reading(file, HOW):
        temp, plans = _read(file, entries_of(blocks, times), limits)
    temp = [temp_file for temp_file in temp if MARK not in (temp_file.query or "")]
    plans = [plan for plan in plans if MARK not in str(plan.get("Query Text", ""))]
    return Logs(1, temp, plans, _window_s(times), times, limits.each)


def _each_once(folder: Path) -> list[Path]:
    """The files of a folder, one format of each: a server may write the same in several."""
    last: dict[str, Path] = {}
    # The last of a name stays: CSV rather than JSON, either rather than text, and no packed copy.
    formats = {"csv": 2, "json": 1}
    files = sorted(path for path in folder.iterdir() if path.is_file())
    for file in sorted(
        files, key=lambda candidate: (formats.get(_format(candidate), 0), candidate.suffix != ".gz")
    ):
        name = _NAME.fullmatch(file.name)
        last[file.name if name is None else name["name"] + name["rotated"]] = file
    return sorted(last.values())


def _format(file: Path) -> str:
    """``csv``, ``json``, or another for text, by the file's name."""
    name = _NAME.fullmatch(file.name)
    return "" if name is None else name["format"] or ""


def normal(query: str) -> str:
    """A statement without its constants, as pg_stat_statements has it but for their numbers."""
    text = re.sub(r"'(?:[^']|'')*'", "?", query)
    text = re.sub(r"\$\d+|\b\d+(?:\.\d+)?\b", "?", text)
    return " ".join(text.split()).rstrip(" ;").lower()


def _read(
    file: Path, entries: Iterator[Entry], limits: ExceededLimits
) -> tuple[list[TempFile], list[dict[str, Any]]]:
    """Temp files with their statements and calls; plans, each of what it did itself."""
    temp: list[TempFile] = []
    plans: list[tuple[str, dict[str, Any]]] = []
    #: By session: which of ``temp`` wait for their statement, and for their duration.
    unnamed: dict[str, list[int]] = {}
    untimed: dict[str, list[int]] = {}
    session = ""
    for entry in entries:
        # Where the prefix does not tell, a message belongs to the session of the one above.
        session = _session(entry) or session
        limits.take(session, entry)
        if match := _TEMP.search(entry.message):
            pid = _PID.search(match["path"])
            session = pid[1] if pid and not _session(entry) else session
            if entry.query is None:
                unnamed.setdefault(session, []).append(len(temp))
            untimed.setdefault(session, []).append(len(temp))
            temp.append(TempFile(entry.query, entry.queryid, int(match["size"])))
            continue
        waiting = unnamed.get(session, [])
        if entry.level == "STATEMENT" and waiting:
            temp[waiting[-1]] = replace(temp[waiting[-1]], query=struck_text(entry.message))
            unnamed[session] = []
        elif entry.level == "CONTEXT" and plans and plans[-1][0] == session:
            plans[-1][1].setdefault("Context", entry.message)
        elif entry.level not in _BESIDE:
            unnamed[session] = []
        if (match := LOGGED.match(entry.message)) is not None:
            plan = logged_plan(entry.message, file)
            if plan is not None:
                named = {"Query Text": entry.query} if entry.query else {"Query Text": ""}
                plans.append((session, {**named, **plan, **_context(entry)}))
        elif duration := _DURATION.match(entry.message):
            _time(temp, untimed.pop(session, []), duration)
    return temp, _without_inner(plans)


def _session(entry: Entry) -> str:
    """The process that wrote a message, where its prefix tells; workers write their own."""
    numbers = re.findall(r"(?<![\w.:-])\[?(\d{2,10})\]?(?![\w.:]|-\d\d)", entry.before)
    bracketed = re.findall(r"\[(\d+)\]", entry.before)
    return str((bracketed or numbers or [""])[0])


def _context(entry: Entry) -> dict[str, Any]:
    return {"Context": entry.context} if entry.context else {}


def _time(temp: list[TempFile], files: Sequence[int], duration: re.Match[str]) -> None:
    """All files of a session since its last call are of the call that took so long."""
    call = min(files, default=0) + 1
    for at in files:
        query = duration["query"]
        text = temp[at].query or (struck_text(query) if query else None)
        temp[at] = replace(temp[at], query=text, elapsed_s=float(duration["ms"]) / 1e3, call=call)


def _without_inner(plans: Sequence[tuple[str, dict[str, Any]]]) -> list[dict[str, Any]]:
    """Plans without the temp I/O of statements that they called, whose plans stand above them."""
    kept: list[dict[str, Any]] = []
    inner: dict[str, list[dict[str, Any]]] = {}
    names = ("Temp Read Blocks", "Temp Written Blocks")
    for session, plan in plans:
        if "Context" in plan:
            inner.setdefault(session, []).append(plan)
            kept.append(plan)
            continue
        called = inner.pop(session, [])
        left = [
            plan["Plan"].get(name, 0)
            - sum(called_plan["Plan"].get(name, 0) for called_plan in called)
            for name in names
        ]
        nodes = plan["Plan"].get("Plans", ())
        if called and max(left) <= 0 and not any(node.get(names[1], 0) for node in nodes):
            plan = {**plan, "Plan": {**plan["Plan"], names[0]: 0, names[1]: 0}}
        kept.append(plan)
    return kept


def _window_s(times: list[str]) -> float | None:
    moments = [moment for moment in map(_moment, times) if moment is not None]
    # By its name the newest file may be the first.
    return (max(moments) - min(moments)).total_seconds() or None if moments else None


def _moment(time: str) -> datetime | None:
    """A time of the log; None where it is none, as in a damaged line."""
    try:
        match = TIME.search(time)
        return match and datetime.fromisoformat(match[0])
    except ValueError:
        return None

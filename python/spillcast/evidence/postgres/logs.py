"""Temp files and plans in a server's logs, however they are packed, wrapped and called."""

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from spillcast.errors import EvidenceIncomplete, EvidenceUnknown, InputError, NoTempIo
from spillcast.evidence.choice import Selection
from spillcast.evidence.counts import Counts
from spillcast.evidence.postgres import MARK
from spillcast.evidence.postgres.document import LOGGED, logged_plan, pasted_documents
from spillcast.evidence.postgres.log_entries import Entry, entries_of
from spillcast.evidence.postgres.nodes import nodes_of
from spillcast.evidence.postgres.plan import check_sums
from spillcast.evidence.postgres.temp_files import (
    Exceeded,
    TempFile,
    TempFiles,
    counts_of_files,
    moment_of,
)
from spillcast.evidence.recognise import recognise
from spillcast.evidence.text import blocks_of, head_of
from spillcast.evidence.unwrap import unwrapped
from spillcast.gate import reading
from spillcast.units import format_count

_NAMED_PID = re.compile(r"\b(?:pid|process|p)[=:] ?\"?(\d+)\b")
#: The format in a log's name, also after it was rotated: ``pg-2026.csv``, ``pg.log-20261125``.
_FORMAT = re.compile(r"\.(csv|json|log)(?=(?:[.-]\d{1,20}){,9}$)")
_PACKED = re.compile(r"\.(?:gz|bz2|xz|zst|zip)$")
HOW = (
    "set log_temp_files = 0, and auto_explain with log_buffers for plans, then give the server's "
    "log folder"
)


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
    #: Errors of plans that are cut or damaged, and left out.
    damaged: Sequence[InputError] = ()

    @property
    def notes(self) -> list[str]:
        """What was left out."""
        plans = format_count(len(self.damaged), "plan")
        return [f"{plans} left out: {error.message}" for error in self.damaged[:1]]


def read_logs(path: Path) -> Logs:
    """Of a file, or of all files of a folder. InputError where there is nothing of spills."""
    files = _each_once(path) if path.is_dir() else [path]
    return _merged(path, [_of_blocks(file, blocks_of(file, HOW)) for file in files])


def logs_of(path: Path, text: str) -> Logs:
    """Of the text of a server's own log; nothing where there is nothing of spills."""
    return _of_blocks(path, iter([text.encode()]))


def _merged(path: Path, logs_by_file: Sequence[Logs]) -> Logs:
    temp = [file for logs in logs_by_file for file in logs.temp]
    plans = [plan for logs in logs_by_file for plan in logs.plans]
    times = [time for logs in logs_by_file for time in logs.times]
    exceeded = [failure for logs in logs_by_file for failure in logs.exceeded]
    damaged = [error for logs in logs_by_file for error in logs.damaged]
    untimed = not any(file.elapsed_s for file in temp)
    if damaged and not temp and not plans:
        raise damaged[0]
    if not temp and not plans and not exceeded and path.is_file():
        _check_kind(path)
    is_pasted = not plans and not exceeded and not damaged and untimed and path.is_file()
    if is_pasted and (pasted := _pasted(path)):
        _check_counted(path, pasted)
        return Logs(1, [], pasted, None)
    if not temp and not plans and not exceeded:
        raise NoTempIo(
            f"{path}: no temp file and no plan in {format_count(len(logs_by_file), 'file')}",
            f"{HOW}; its messages have to be in English (lc_messages = 'C')",
        )
    if not temp and not exceeded:
        _check_counted(path, plans)
    return Logs(len(logs_by_file), temp, plans, _window_s(times), times, exceeded, damaged)


def _check_kind(path: Path) -> None:
    """EvidenceUnknown for evidence of another kind."""
    recognised = recognise(path)
    if recognised is not None and (kind := recognised.kind).name == "figures":
        raise EvidenceUnknown(
            f"{path}: {kind.reason or kind.words}, and no log of PostgreSQL",
            kind.hint or "forecast that run: spillcast forecast FILE --to TARGET",
        )


def _check_counted(path: Path, plans: Sequence[Mapping[str, Any]]) -> None:
    """InputError where plans were run, and no plan can tell whether it spilled."""
    ran = [plan["Plan"] for plan in plans if "Actual Loops" in plan["Plan"]]
    if ran and not any("Temp Written Blocks" in plan for plan in ran):
        raise EvidenceIncomplete(f"{path}: plans without BUFFERS: they have no temp blocks", HOW)
    if not any(plan.get("Temp Written Blocks") for plan in ran):
        for plan in ran:
            check_sums(path, nodes_of(plan))


def _pasted(path: Path) -> list[dict[str, Any]]:
    """Plans that are in no log."""
    text = head_of(path)
    if not re.search(r"Plan|\((?:cost|actual)|\btemp read=", text):
        return []
    return pasted_documents(unwrapped(text), path)


def _of_blocks(file: Path, blocks: Iterator[bytes]) -> Logs:
    times: list[str] = []
    with reading(file, HOW):
        calls, plans, damaged = _read(file, entries_of(blocks, times))
    temp = [temp_file for temp_file in calls.by_call() if MARK not in (temp_file.query or "")]
    plans = [plan for plan in plans if MARK not in str(plan.get("Query Text", ""))]
    return Logs(1, temp, plans, _window_s(times), times, calls.exceeded, damaged)


def _each_once(folder: Path) -> list[Path]:
    """The files of a folder, one format of each: a server may write the same in several."""
    # CSV is taken rather than JSON, either rather than text, and no packed copy.
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
    """A statement without its constants, as pg_stat_statements has it but for their numbers."""
    text = re.sub(r"'(?:[^']|'')*'", "?", query)
    text = re.sub(r"\$\d+|\b\d+(?:\.\d+)?\b", "?", text)
    return " ".join(text.split()).rstrip(" ;").lower()


def _read(
    file: Path, entries: Iterator[Entry]
) -> tuple[TempFiles, list[dict[str, Any]], list[InputError]]:
    """Temp files with their statements; plans, each of what it did itself; damage."""
    temp = TempFiles()
    damaged: list[InputError] = []
    plans: list[tuple[str, dict[str, Any]]] = []
    session = ""
    for entry in entries:
        # Where the prefix does not tell, a message belongs to the session of the one above.
        named = _session(entry)
        session = named or session
        if entry.level == "CONTEXT" and plans and plans[-1][0] == session:
            plans[-1][1].setdefault("Context", entry.message)
        session = temp.take(session, entry, is_named=bool(named))
        if LOGGED.match(entry.message) is None:
            continue
        try:
            plan = logged_plan(entry.message, file)
        except InputError as error:
            damaged.append(error)
            continue
        if plan is not None:
            context = {"Context": entry.context} if entry.context else {}
            plans.append((session, {"Query Text": entry.query or "", **plan, **context}))
    return temp, _without_inner(plans), damaged


def _session(entry: Entry) -> str:
    """The process that wrote a message, where its prefix tells; workers write their own."""
    if named := _NAMED_PID.search(entry.before):
        return named[1]
    numbers = re.findall(r"(?<![\w.:-])\[?(\d{2,10})\]?(?![\w.:]|-\d\d)", entry.before)
    bracketed = re.findall(r"\[(\d+)\]", entry.before)
    return str((bracketed or numbers or [""])[0])


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
    moments = [moment for moment in map(moment_of, times) if moment is not None]
    # By its name the newest file may be the first.
    return (max(moments) - min(moments)).total_seconds() or None if moments else None


def counted(failures: Sequence[Exceeded]) -> list[Exceeded]:
    """One for each statement and limit, with the number of calls."""
    calls: dict[tuple[str, str | None], int] = {}
    for failure in failures:
        key = failure.limit, failure.query
        calls[key] = calls.get(key, 0) + failure.calls
    return [Exceeded(limit, query, number) for (limit, query), number in calls.items()]


def counts_of_logs(path: Path, logs: Logs, selection: Selection) -> Counts:
    """The counts of one call by its temp files. InputError as of ``counts_of_files``."""
    if not logs.temp:
        limit = logs.exceeded[0].limit
        raise EvidenceIncomplete(
            f"{path}: no temp file and no plan, but a call that spilled more than {limit} allows",
            "forecast a plan or a recording of it; spillcast postgres lists all such calls",
        )
    return counts_of_files(path, logs.temp, logs.notes, selection)

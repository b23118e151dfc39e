"""Counts the temp waits of AWR, Statspack, wait views and profiles, or a statement's share."""

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from spillcast.errors import (
    EvidenceAmbiguous,
    EvidenceIncomplete,
    EvidenceUnknown,
    EvidenceUnsuited,
    InputError,
    NoTempIo,
)
from spillcast.evidence.counts import (
    OPERATION_BLOCKS,
    Bounds,
    Counts,
    TempCounts,
    TempTimes,
    counts_of_figures,
    printed_times,
    with_unlisted,
)
from spillcast.evidence.numbers import ZERO, Number, check_all, number_of, seconds_of, value_of
from spillcast.evidence.oracle import ORACLE
from spillcast.evidence.oracle.report_tables import (
    ReportRow,
    ReportTable,
    plain_of,
    report_text,
    tables_of,
)
from spillcast.evidence.oracle.wait_lists import EventWaits, WaitList, checks, wait_lists
from spillcast.evidence.selection import SelectableRun, Selection, select
from spillcast.gate import reading
from spillcast.recording import OPS, TEMP_EVENTS, is_like
from spillcast.recording.observed import CountedStatement
from spillcast.units import format_duration

HINT = (
    "make it with awrrpt.sql or spreport.sql, of the snapshots around the run; a list of waits "
    "needs a heading over names, counts and times, as event, total_waits and time_waited_micro of "
    "v$session_event, or as tkprof prints it (Event waited on)"
)
_COMPARED = re.compile(r"COMPARE PERIOD REPORT|WORKLOAD REPOSITORY COMPARE", re.IGNORECASE)
_SUMS_ONLY = (
    "an AWR or Statspack report has sums over all sessions of an interval: nothing about one run, "
    "its phases, latency by size, or I/O that overlapped other work"
)
_OF_ALL_SESSIONS = (
    "this is for the DB time of all sessions together; --sql-id takes a statement of the report, "
    "whose part of the temp I/O has only bounds"
)
_OF_ONE_RUN = "a list of waits has sums: nothing about phases, latency by size, or overlap"
_OF_VIEW = "views of waits count all that a session or an instance did since it began"
_HINT = "SQL Monitor, ASH or a trace of the statement shows it"
_MINUTES = re.compile(r"(Elapsed|DB\s+time)\s*:\s*([\d,.]+)\s*\(mins?\)", re.IGNORECASE)
#: Marks of old releases: the release number, or a heading of their Statspack.
_BEFORE_10G = re.compile(r"(?<![\d.])[89]\.[012]\.\d\.\d|\bEla Time\b")
#: A row of temp waits with a number above 0.
_TEMP_FIGURES = re.compile(
    r"direct path (?:read|write) temp\b(?:[^\n1-9]*[1-9]|\s*\n\w+ *:)"
    r"|\d[\s,;|\"]+direct path (?:read|write) temp\"?[ \t]*$",
    re.IGNORECASE | re.MULTILINE,
)
#: Facts that a report has once: its first snapshot and its DB time.
_ONCE = re.compile(r"\b(Begin\s+Snap|DB\s+Time)\s*:\s*([\d,.]+)", re.IGNORECASE)
_OWN_FILE_HINT = "give each report in a file of its own"
_SQL_ID = re.compile(r"[0-9a-z]{13}|\d{6,10}")
_CPU = ("DB CPU", "CPU time")
#: The maximum number of events in a list of top events; longer lists have all events.
_TOP = 10
#: A percentage gives DB time if rounding changes it by less than this share of itself,
_PRECISE = 0.05
#: or by less than this, as for a percentage with one decimal.
_DECIMAL = 0.005


@dataclass(frozen=True)
class Sql:
    """Sums over the executions of a statement; ``waited_s`` is waits for I/O, or else all waits."""

    executions: float
    elapsed_s: float
    waited_s: float


@dataclass(frozen=True)
class Report:
    """The figures of a report; ``database_s`` is DB time or the time of a profile, 0 if unknown."""

    database_s: float
    #: Whether the figures are of all sessions, not of one run as in a trace's profile.
    of_all_sessions: bool
    #: Whether the figures are rows of a wait view.
    of_view: bool
    cpu_s: float | None
    user_io_s: float | None
    waits: dict[str, EventWaits]
    #: Mean bytes of an I/O operation on temp files, by op.
    sizes: dict[str, float]
    statements: dict[str, Sql]
    notes: list[str]
    #: The time (s) of temp waits that a list of top events may have omitted.
    left_out: Number


@reading(hint=HINT)
def read(path: Path, selection: Selection) -> Counts:
    """The temp I/O of all sessions, or of one execution of a statement.

    InputError if the report has no waits for temp files.
    """
    text = report_text(path)
    if _COMPARED.search(text):
        raise EvidenceUnknown("a report that compares two periods is not read")
    report = _report(text, selection)
    if selection.sql_id is None:
        return _of_all(report, selection)
    items = [SelectableRun(sql, sql.elapsed_s, name) for name, sql in report.statements.items()]
    return _of_statement(report, select(items, selection), selection)


def _of_all(report: Report, selection: Selection) -> Counts:
    about = [_SUMS_ONLY, _OF_ALL_SESSIONS] if report.of_all_sessions else [_OF_ONE_RUN]
    unknown = "it has no DB time in minutes, no percentages of it, and no row of totals"
    if report.of_view:
        about.append(_OF_VIEW)
        unknown = "the view has waits since the session or the instance began"
    times = printed_times(*(report.waits[op].total if op in report.waits else None for op in OPS))
    if report.left_out.high:
        times = with_unlisted(
            times, report.left_out.high, "a list of top events leaves out what took less"
        )
    return counts_of_figures(
        selection,
        _moved(report, 1.0, times, selection),
        engine=ORACLE,
        elapsed_s=report.database_s,
        elapsed_unknown=unknown,
        cpu_s=report.cpu_s,
        subject="the DB time of all sessions" if report.of_all_sessions else None,
        notes=[*about, *report.notes],
    )


def _of_statement(report: Report, sql: Sql, selection: Selection) -> Counts:
    """One execution: its share of the temp waits is assumed to equal its share of waits for I/O."""
    temp_s = sum(wait.total.value for wait in report.waits.values())
    upper_s = min(sql.waited_s, temp_s)
    total_s = max(report.user_io_s or report.database_s, sql.waited_s, temp_s)
    lower_s = max(0.0, temp_s - (total_s - sql.waited_s)) if report.user_io_s else 0.0
    middle_s = min(max(temp_s * sql.waited_s / total_s, lower_s), upper_s) if total_s else 0.0
    if middle_s <= 0:
        raise NoTempIo("this statement did not wait for I/O", _HINT)
    runs = max(sql.executions, 1.0)
    within = Bounds(
        lower_s / runs,
        upper_s / runs,
        "the report has no waits by statement: its waits for temp files may be all of its waits "
        "for I/O, or only what other statements leave",
        _HINT,
    )
    notes = [
        _SUMS_ONLY,
        "the times of parallel servers are summed as if they ran one after the other",
        *report.notes,
    ]
    if runs > 1:
        notes.append(f"this is the mean of {runs:,.0f} executions")
    share = middle_s / temp_s / runs
    read_s, write_s = (
        report.waits[op].total.value * share if op in report.waits else 0.0 for op in OPS
    )
    times = TempTimes(read_s, write_s, None if within.lower == within.upper else within)
    return counts_of_figures(
        selection,
        _moved(report, share, times, selection),
        engine=ORACLE,
        elapsed_s=sql.elapsed_s / runs,
        counts_follow_time=True,
        statement=CountedStatement(selection.sql_id, None, round(runs), 1),
        notes=notes,
    )


def _moved(report: Report, share: float, times: TempTimes, selection: Selection) -> TempCounts:
    """Reads and writes of a share of all temp waits."""
    waits = {op: report.waits[op].count.value if op in report.waits else 0.0 for op in OPS}
    counts = {op: round(count * share) or (1 if count else 0) for op, count in waits.items()}
    size = float(OPERATION_BLOCKS * selection.block_bytes)
    return times.moved({op: (n, n * report.sizes.get(op, size)) for op, n in counts.items()})


def _of_owner(lists: Sequence[WaitList], selection: Selection) -> Sequence[WaitList]:
    """The lists, or the selected one if a view has rows of several sessions or instances."""
    items = [
        SelectableRun(
            waits, sum(wait.total.value for wait in waits.temp), session=waits.owner or None
        )
        for waits in lists
        if waits.owner is not None and waits.temp
    ]
    if not items:
        return lists
    chosen = select(items, selection)
    if "direct path write temp" not in {wait.event.lower() for wait in chosen.waits}:
        raise EvidenceIncomplete(
            "it has reads of temp files and lacks the row of direct path write temp"
        )
    return [chosen]


def _report(text: str, selection: Selection) -> Report:
    """The figures of a report. InputError if those of temp files are missing or impossible."""
    tables = tables_of(text)
    plain = plain_of(text)
    facts = {(name[:2].lower(), value) for name, value in _ONCE.findall(plain)}
    if len(facts) > len({name for name, _ in facts}):
        raise EvidenceAmbiguous("reports of several intervals", _OWN_FILE_HINT)
    lists = _of_owner(list(wait_lists(tables)), selection)
    all_waits = [wait for events in lists for wait in events.waits]
    waits = _by_op(wait for wait in all_waits if is_like(wait.event, TEMP_EVENTS))
    if not any(events.temp for events in lists):
        raise _without_temp(plain, lists, is_complete=bool(waits))
    minutes = _minutes(tables, plain)
    model = dict(_pairs(tables, "statistic", "time(s"))
    classes = dict(_pairs(tables, "waitclass", "totalwaittime(s", "waittime(s"))
    notes = []
    stated = model.get("DB time") or minutes.get("db")
    database_s, span_s = stated, minutes.get("el", ZERO).value
    totals = [events.elapsed for events in lists if events.elapsed is not None]
    if database_s is None and totals:
        database_s = max(totals, key=lambda total: total.value)
    elif database_s is None and (by_share := _from_shares(all_waits)) is not None:
        stated = database_s = by_share
        notes.append("the time in all follows from a wait's percentage of it")
    sizes = _sizes(tables, span_s)
    if not sizes:
        notes.append(
            "there is no I/O by type of file: "
            f"each I/O is assumed to move {OPERATION_BLOCKS} blocks"
        )
    left_out = _left_out(lists, waits)
    if left_out.high:
        (op,) = set(OPS) - waits.keys()
        upper = format_duration(left_out.high)
        notes.append(f"direct path {op} temp is not among the top events: at most {upper} of it")
    check_all(checks(list(waits.values()), database_s), f"{_OWN_FILE_HINT}; {HINT}")
    cpu = model.get("DB CPU") or next((w.total for w in all_waits if w.event in _CPU), None)
    return Report(
        database_s=value_of(database_s) or 0.0,
        of_all_sessions=stated is not None and not any(events.owner for events in lists),
        of_view=stated is None and any(events.owner is not None for events in lists),
        cpu_s=value_of(cpu),
        user_io_s=value_of(classes.get("User I/O")),
        waits=waits,
        sizes=sizes,
        statements=_statements(tables),
        notes=notes,
        left_out=left_out,
    )


def _without_temp(plain: str, lists: Sequence[WaitList], *, is_complete: bool) -> InputError:
    """The error for a report without waits for temp files; ``is_complete``: its lists have all."""
    # A list of all events omits those that took less than a millisecond.
    is_complete = is_complete or any(len(events.waits) > _TOP for events in lists)
    has_waits = any(events.waits for events in lists)
    if not is_complete and (not has_waits or _TEMP_FIGURES.search(plain)):
        return EvidenceIncomplete(
            "no table has its waits for temp files with their number and time",
            f"{HINT}; for ASH, export the samples: spillcast collect oracle",
        )
    if _BEFORE_10G.search(plain) and re.search("direct path (read|write)", plain):
        return EvidenceUnsuited(
            "up to release 9.2 temp files have the same wait events as other direct I/O",
            "trace the statement with waits: tkprof shows its temp I/O by row source",
        )
    return NoTempIo("it has no waits for temp files among its wait events", HINT)


def _minutes(tables: Sequence[ReportTable], plain: str) -> dict[str, Number]:
    """Seconds of the interval as ``el``, and of DB time as ``db``."""
    stated: dict[str, Number] = {}
    for match in _MINUTES.finditer(plain):
        if (number := number_of(match[2])) is not None:
            stated.setdefault(match[1].lower()[:2], number * 60)
    for table in tables:
        # A report of RAC has columns with the times of all instances.
        names = (("db", table.named("dbtime")), ("el", table.named("elapsedtime")))
        for row in table.rows if table.has("rac", "dbtime", "elapsedtime") else ():
            for key, name in names:
                if (number := number_of(row.get(name or "", ""))) is not None:
                    stated.setdefault(key, number * 60)
    return stated


def _pairs(tables: Sequence[ReportTable], key: str, *values: str) -> Iterator[tuple[str, Number]]:
    """Names and numbers in the first table whose columns are ``key`` and one of ``values``."""
    for value in values:
        for table in tables:
            name, column = next(iter(table.names), ""), table.named(value)
            if name.startswith(key) and column is not None:
                for row in table.rows:
                    if (number := seconds_of(row.get(column, ""))) is not None:
                        yield row[name], number
                return


def _left_out(lists: Sequence[WaitList], waits: Mapping[str, EventWaits]) -> Number:
    """The time (s) of temp waits that took too little for a list of top events."""
    is_complete = any(len(events.waits) > _TOP or events.owner is not None for events in lists)
    if len(waits) == len(OPS) or is_complete:
        return ZERO
    (listed,) = waits.values()
    with_temp = (e.waits for e in lists if listed.event in [wait.event for wait in e.waits])
    longest = max(with_temp, key=len)
    upper_s = min((wait.total.high for wait in longest if wait.total.high), default=0.0)
    return Number(upper_s / 2, 0.0, upper_s)


def _by_op(waits: Iterator[EventWaits]) -> dict[str, EventWaits]:
    """The waits of each op from the list with the most time, or, if equal, the least rounding."""
    chosen: dict[str, EventWaits] = {}
    for wait in waits:
        if wait.mean is not None and wait.count.value:
            product = wait.count * wait.mean
            if product.low <= wait.total.high and wait.total.low <= product.high:
                wait = replace(wait, total=min(wait.total, product, key=lambda n: n.width))
        op = wait.event.lower().split()[2]
        total, former = wait.total, chosen[op].total if op in chosen else None
        if former is not None and total.low <= former.high and former.low <= total.high:
            is_better = total.width <= former.width and total != former
        else:
            is_better = former is None or total.value > former.value
        if is_better:
            chosen[op] = wait
    return chosen


def _from_shares(waits: Sequence[EventWaits]) -> Number | None:
    """DB time from the most precise percentage of a wait; None if all are too imprecise."""
    precise = [
        wait
        for wait in waits
        if wait.share is not None
        and wait.share.width > 0
        and (wait.share.width < _DECIMAL or wait.share.spread < _PRECISE)
    ]
    if not precise:
        return None
    best = min(precise, key=lambda wait: (wait.share or ZERO).spread)
    return best.total / (best.share or ZERO)


def _sizes(tables: Sequence[ReportTable], span_s: float) -> dict[str, float]:
    """Mean bytes of reads and writes of temp files, from a table of I/O by file type."""
    sizes: dict[str, float] = {}
    rows = [cells for table in tables if table.has("filetypename") for cells in table.cells]
    for cells in rows:
        if len(cells) < 7 or cells[0].lower() != "temp file":
            continue
        for op, at in (("read", 1), ("write", 4)):
            moved, per_s, bytes_per_s = (
                number_of(cells[at + offset], step=step)
                for offset, step in ((0, 1024), (1, 1000), (2, 1024))
            )
            if per_s is None or not per_s.value:
                continue
            estimates = [bytes_per_s / per_s] if bytes_per_s and bytes_per_s.value else []
            if moved is not None and moved.value and span_s:
                estimates.append(moved / (per_s * span_s))
            if estimates:
                sizes[op] = min(estimates, key=lambda size: size.spread).value
    return sizes


def _statements(tables: Sequence[ReportTable]) -> dict[str, Sql]:
    """Statements by SQL_ID or old hash value, from the first list with their elapsed times."""
    statements: dict[str, Sql] = {}
    for table in tables:
        key = table.named("sqlid") or table.named("hashvalue")
        elapsed = next((n for n in table.names if n.startswith("elapsedtime(s")), None)
        if key is None or elapsed is None:
            continue
        for row in table.rows:
            name, elapsed_s = row.get(key, ""), _value(row, elapsed)
            if not _SQL_ID.fullmatch(name) or name in statements or elapsed_s is None:
                continue
            cpu_s, io_percent = _value(row, "cputime(s)"), _value(row, "%io")
            if cpu_s is None:
                cpu_s = (_value(row, "%cpu") or 0.0) / 100 * elapsed_s
            waited_s = max(elapsed_s - cpu_s, 0.0)
            if io_percent is not None:
                waited_s = io_percent / 100 * elapsed_s
            statements[name] = Sql(_value(row, "executions") or 0.0, elapsed_s, waited_s)
    return statements


def _value(row: ReportRow, name: str) -> float | None:
    return value_of(number_of(row.get(name, "")))

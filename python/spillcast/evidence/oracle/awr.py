"""AWR and Statspack reports, text or HTML: temp waits of the instance, or a statement's part."""

import re
from collections.abc import Sequence
from pathlib import Path

from spillcast.errors import EvidenceUnknown, NoTempIo
from spillcast.evidence.counts import Bounds
from spillcast.evidence.figures.choice import Choice, Item, pick
from spillcast.evidence.figures.figures import REPORT, Figures, Moved
from spillcast.evidence.figures.temp_times import printed, with_more
from spillcast.evidence.oracle.awr_tables import Report, Sql, report_of
from spillcast.evidence.oracle.report_text import report_text
from spillcast.recording.event_names import OPS
from spillcast.recording.postgres_meta import Statement

#: Blocks of a temp read or write where the report has no I/O by type of file.
BLOCKS = 31
HOW = "make it with awrrpt.sql or spreport.sql, of the snapshots around the run"
_COMPARED = re.compile(r"COMPARE PERIOD REPORT|WORKLOAD REPOSITORY COMPARE", re.IGNORECASE)
_UNTOLD = (
    "an AWR or Statspack report has sums over all sessions of an interval: nothing about one run, "
    "its phases, latency by size, or I/O that overlapped other work"
)
_HINT = "SQL Monitor, ASH or a trace of the statement shows it"


def read(paths: Sequence[Path], choice: Choice) -> Figures:
    """The temp I/O of all sessions, or of one execution of a statement.

    InputError where the report has no wait for temp files.
    """
    (path,) = paths
    text = report_text(path, HOW)
    if _COMPARED.search(text):
        raise EvidenceUnknown(f"{path}: a report that compares two periods is not read", HOW)
    report = report_of(path, text, HOW)
    if choice.sql_id is None:
        return _of_all(path, report, choice)
    items = [Item(sql, sql.elapsed_s, name) for name, sql in report.statements.items()]
    return _of_statement(path, report, pick(path, items, choice), choice)


def _of_all(path: Path, report: Report, choice: Choice) -> Figures:
    untold = [
        _UNTOLD,
        "this is for the DB time of all sessions together; --sql-id takes a statement of the "
        "report, whose part of the temp I/O has only bounds",
        *report.untold,
    ]
    times = printed(*(report.waits[op].total if op in report.waits else None for op in OPS))
    if report.left_out.high:
        times = with_more(
            times, report.left_out.high, "a list of top events leaves out what took less"
        )
    reads, writes = (
        _moved(report, op, 1.0, time_s, choice)
        for op, time_s in (("read", times.read_s), ("write", times.write_s))
    )
    return Figures(
        path=path,
        elapsed_s=report.database_s,
        reads=reads,
        writes=writes,
        time_bounds=times.within,
        cpu_s=report.cpu_s,
        source=REPORT,
        untold=untold + _sizes_untold(report),
    )


def _of_statement(path: Path, report: Report, sql: Sql, choice: Choice) -> Figures:
    """One execution: its part of the temp waits goes with its part of all waits for I/O."""
    temp_s = sum(wait.total.value for wait in report.waits.values())
    waited_s = sql.io_s
    if waited_s is None:
        waited_s = max(sql.elapsed_s - (sql.cpu_s or 0.0), 0.0)
    most_s = min(waited_s, temp_s)
    all_s = max(report.user_io_s or report.database_s, waited_s, temp_s)
    least_s = max(0.0, temp_s - (all_s - waited_s)) if report.user_io_s else 0.0
    middle_s = min(max(temp_s * waited_s / all_s, least_s), most_s) if all_s else 0.0
    if middle_s <= 0:
        raise NoTempIo(f"{path}: this statement did not wait for I/O", _HINT)
    runs = max(sql.executions, 1.0)
    within = Bounds(
        least_s / runs,
        most_s / runs,
        "the report has no waits by statement: its waits for temp files may be all of its waits "
        "for I/O, or only what other statements leave",
        _HINT,
    )
    untold = [
        _UNTOLD,
        "the times of parallel servers are summed as if they ran one after the other",
        *report.untold,
    ]
    if runs > 1:
        untold.append(f"this is the mean of {runs:,.0f} executions")
    share = middle_s / temp_s / runs
    reads, writes = (
        _moved(report, op, share, report.waits[op].total.value * share, choice)
        if op in report.waits
        else Moved(time_s=0.0)
        for op in OPS
    )
    return Figures(
        path=path,
        elapsed_s=sql.elapsed_s / runs,
        reads=reads,
        writes=writes,
        time_bounds=None if within.lower == within.upper else within,
        counts_follow_time=True,
        source=REPORT,
        statement=Statement(choice.sql_id, None, round(runs), 1),
        untold=untold + _sizes_untold(report),
    )


def _moved(report: Report, op: str, share: float, time_s: float | None, choice: Choice) -> Moved:
    waits = report.waits[op].count.value if op in report.waits else 0.0
    count = round(waits * share) or (1 if waits else 0)
    size = report.sizes.get(op, float(BLOCKS * choice.block_bytes))
    return Moved(count, round(count * size), time_s)


def _sizes_untold(report: Report) -> list[str]:
    if report.sizes:
        return []
    return [f"there is no I/O by type of file: each I/O is assumed to move {BLOCKS} blocks"]

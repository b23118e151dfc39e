"""AWR and Statspack reports, text or HTML: temp waits of the instance, or a statement's part."""

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

from spillcast.errors import InputError
from spillcast.evidence.figures.choice import Choice, chosen
from spillcast.evidence.figures.figures import REPORT, Figures, Moved
from spillcast.evidence.figures.report_tables import Row, Table, tables_of
from spillcast.gate import COUNT_MAX, text_of
from spillcast.recording.event_names import TEMP_EVENTS, is_like
from spillcast.recording.postgres_meta import Statement
from spillcast.recording.timed_within import TimedWithin

#: Blocks of a temp read or write where the report has no I/O by type of file.
BLOCKS = 31
HOW = "make it with awrrpt.sql or spreport.sql, of the snapshots around the run"
_MINUTES = re.compile(r"(Elapsed|DB\s+time)\s*:\s*([\d,.]+)\s*\(mins?\)", re.IGNORECASE)
_NUMBER = re.compile(r"\.?\d[\d,]*\.?\d*|\.\d+")
_SECONDS = {"s": 1.0, "ms": 1e-3, "us": 1e-6, "ns": 1e-9}
_SIZES = {"": 1, "K": 1 << 10, "M": 1 << 20, "G": 1 << 30, "T": 1 << 40}
_SQL_ID = re.compile(r"[0-9a-z]{13}|\d{6,10}")
_UNTOLD = (
    "an AWR or Statspack report has sums over all sessions of an interval: nothing about one run, "
    "its phases, latency by size, or I/O that overlapped other work"
)
_HINT = "SQL Monitor, ASH or a trace of the statement shows it"


@dataclass(frozen=True)
class Sql:
    """Sums over the executions of one statement in the interval; None where they are not told."""

    executions: float
    elapsed_s: float
    cpu_s: float | None
    io_s: float | None


@dataclass(frozen=True)
class Report:
    """What a report says: seconds of the database, its waits for temp by op, its statements."""

    elapsed_s: float
    database_s: float
    cpu_s: float | None
    user_io_s: float | None
    waits: dict[str, tuple[float, float]]
    #: Mean bytes of an I/O on temp files by op.
    sizes: dict[str, float]
    statements: dict[str, Sql]


def read(paths: Sequence[Path], choice: Choice) -> Figures:
    """The temp I/O of all sessions, or of one execution of a statement.

    InputError where the report has no wait for temp files.
    """
    (path,) = paths
    report = _report(path, text_of(path, HOW))
    if choice.sql_id is None:
        return _of_all(path, report, choice)
    statement = chosen(
        path,
        report.statements,
        choice.sql_id,
        "--sql-id",
        {name: sql.elapsed_s for name, sql in report.statements.items()},
    )
    return _of_statement(path, report, statement, choice)


def _of_all(path: Path, report: Report, choice: Choice) -> Figures:
    untold = [
        _UNTOLD,
        "this is for the DB time of all sessions together; --sql-id takes a statement of the "
        "report, whose part of the temp I/O has only bounds",
    ]
    return Figures(
        path=path,
        elapsed_s=report.database_s,
        reads=_moved(report, "read", 1.0, choice),
        writes=_moved(report, "write", 1.0, choice),
        cpu_s=report.cpu_s,
        capture=REPORT,
        untold=untold + _sizes_untold(report),
    )


def _of_statement(path: Path, report: Report, sql: Sql, choice: Choice) -> Figures:
    """One execution: its part of the temp waits goes with its part of all waits for I/O."""
    temp_s = sum(total_s for _, total_s in report.waits.values())
    waited_s = sql.io_s
    if waited_s is None:
        waited_s = max(sql.elapsed_s - (sql.cpu_s or 0.0), 0.0)
    most_s = min(waited_s, temp_s)
    all_s = max(report.user_io_s or report.database_s, waited_s, temp_s)
    least_s = max(0.0, temp_s - (all_s - waited_s)) if report.user_io_s else 0.0
    middle_s = min(max(temp_s * waited_s / all_s, least_s), most_s)
    if middle_s <= 0:
        raise InputError(f"{path}: this statement did not wait for I/O", _HINT)
    runs = max(sql.executions, 1.0)
    within = TimedWithin(
        least_s / runs,
        most_s / runs,
        "the report has no waits by statement: its waits for temp files may be all of its waits "
        "for I/O, or only what other statements leave",
        _HINT,
        True,
    )
    untold = [
        _UNTOLD,
        "the times of parallel servers are summed as if they ran one after the other",
    ]
    if runs > 1:
        untold.append(f"this is the mean of {runs:,.0f} executions")
    share = middle_s / temp_s / runs
    return Figures(
        path=path,
        elapsed_s=sql.elapsed_s / runs,
        reads=_moved(report, "read", share, choice),
        writes=_moved(report, "write", share, choice),
        within=None if within.least_s == within.most_s else within,
        capture=REPORT,
        statement=Statement(choice.sql_id, None, round(runs), 1),
        untold=untold + _sizes_untold(report),
    )


def _moved(report: Report, op: str, share: float, choice: Choice) -> Moved:
    waits, total_s = report.waits.get(op, (0.0, 0.0))
    count = round(waits * share) or (1 if waits else 0)
    size = report.sizes.get(op, float(BLOCKS * choice.block_bytes))
    return Moved(count, round(count * size), total_s * share)


def _sizes_untold(report: Report) -> list[str]:
    if report.sizes:
        return []
    return [f"there is no I/O by type of file: each I/O is assumed to move {BLOCKS} blocks"]


def _report(path: Path, text: str) -> Report:
    tables = tables_of(text)
    plain = re.sub(r"<[^<>]{,200}>", " ", text) if "<" in text else text
    minutes = {m[1].lower()[:2]: _number(m[2]) for m in _MINUTES.finditer(plain)}
    model = dict(_pairs(tables, "statistic", "time(s"))
    classes = dict(_pairs(tables, "waitclass", "totalwaittime(s", "waittime(s"))
    database_s = model.get("DB time", minutes.get("db", 0.0) * 60)
    elapsed_s = minutes.get("el", 0.0) * 60
    waits = _temp_waits(tables)
    if not waits:
        raise InputError(f"{path}: it has no waits for temp files among its wait events", HOW)
    if database_s <= 0:
        raise InputError(f"{path}: it has no DB time", HOW)
    return Report(
        elapsed_s,
        database_s,
        model.get("DB CPU"),
        classes.get("User I/O"),
        waits,
        _sizes(tables, elapsed_s),
        _statements(tables),
    )


def _pairs(tables: Sequence[Table], key: str, *values: str) -> Iterator[tuple[str, float]]:
    """Names and numbers of the first table that begins with ``key`` and has one of the others."""
    for value in values:
        for table in tables:
            name, column = next(iter(table.names), ""), table.named(value)
            if name.startswith(key) and column is not None:
                yield from ((row[name], _number(row.get(column, ""))) for row in table.rows)
                return


def _temp_waits(tables: Sequence[Table]) -> dict[str, tuple[float, float]]:
    """Waits for temp files and their seconds, by op: of several lists the fullest."""
    waits: dict[str, tuple[float, float]] = {}
    for table in tables:
        if not table.has("event", "waits", "time(s"):
            continue
        total, mean = table.named("time(s"), table.named("avgwait") or table.named("wait(ms")
        assert total is not None
        for row in table.rows:
            event = row.get("event", "").lower()
            if not is_like(event, TEMP_EVENTS):
                continue
            op, count = event.split()[2], _number(row.get("waits", ""))
            total_s = _total_s(count, row.get(total, ""), row.get(mean or "", ""))
            if total_s > waits.get(op, (0.0, 0.0))[1]:
                waits[op] = (count, total_s)
    return waits


def _total_s(count: float, total: str, mean: str) -> float:
    """The time in all; a mean with a unit is more exact than whole seconds."""
    match = re.fullmatch(r"([\d,.]+)\s*(s|ms|us|ns)", mean)
    if match is not None and "." not in total:
        return count * _number(match[1]) * _SECONDS[match[2]]
    return _number(total)


def _sizes(tables: Sequence[Table], elapsed_s: float) -> dict[str, float]:
    """Mean bytes of reads and writes of temp files, by the I/O of each type of file."""
    sizes: dict[str, float] = {}
    for table in tables:
        if not table.has("filetypename"):
            continue
        for cells in table.cells:
            if not cells or cells[0].lower() != "temp file" or len(cells) < 6:
                continue
            for op, at in (("read", 1), ("write", 4)):
                requests = _number(cells[at + 1]) * elapsed_s
                if requests > 0 and (moved := _bytes(cells[at])) > 0:
                    sizes[op] = moved / requests
    return sizes


def _statements(tables: Sequence[Table]) -> dict[str, Sql]:
    """By SQL_ID or old hash value: of several lists the first that has the elapsed time."""
    statements: dict[str, Sql] = {}
    for table in tables:
        key = table.named("sqlid") or table.named("hashvalue")
        elapsed = next((n for n in table.names if n.startswith("elapsedtime(s")), None)
        if key is None or elapsed is None:
            continue
        for row in table.rows:
            name = row.get(key, "")
            if _SQL_ID.fullmatch(name) and name not in statements and row.get(elapsed):
                statements[name] = _sql(row, elapsed)
    return statements


def _sql(row: Row, elapsed: str) -> Sql:
    elapsed_s = _number(row[elapsed])

    def of_elapsed(name: str) -> float | None:
        return _number(row[name]) / 100 * elapsed_s if row.get(name) else None

    cpu_s = _number(row["cputime(s)"]) if row.get("cputime(s)") else of_elapsed("%cpu")
    return Sql(_number(row.get("executions", "")), elapsed_s, cpu_s, of_elapsed("%io"))


def _number(text: str) -> float:
    match = _NUMBER.match(text.strip())
    value = float(match[0].replace(",", "")) if match else 0.0
    if value > COUNT_MAX:
        raise ValueError(f"{text} is neither a count nor a time")
    return value


def _bytes(text: str) -> float:
    match = re.fullmatch(r"\s*([\d,.]+)\s*+([KMGT]?)B?\s*", text)
    return _number(match[1]) * _SIZES[match[2]] if match else 0.0

"""Counts the mean call of a statement in rows of pg_stat_statements of any version."""

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from spillcast.errors import (
    EvidenceIncomplete,
    EvidenceMixed,
    EvidenceUnknown,
    FileTooLarge,
    InputError,
    NoTempIo,
    NotSpilled,
    Refusal,
    SelectionEmpty,
    SpillcastError,
    TimesContradictory,
)
from spillcast.evidence.counts import Bounds, Counts, feasible_processes
from spillcast.evidence.numbers import Number, amount, check_all, whole, with_decimal_points
from spillcast.evidence.postgres import BLOCK_BYTES
from spillcast.evidence.postgres.columns import (
    in_standard_units,
    renamed,
    selected_columns,
    total_checks,
    with_total,
)
from spillcast.evidence.postgres.nodes import WORKERS_MAX, TempIO, counts_of_blocks
from spillcast.evidence.postgres.plan import Executed, executed
from spillcast.evidence.selection import LISTED_MAX, ONLY_RUN, TEXT_MAX, Selection, ambiguous
from spillcast.evidence.table_rows import is_table, rows_of, table_of
from spillcast.evidence.text import text_of
from spillcast.evidence.unwrap import unwrapped
from spillcast.gate import damaged, reading
from spillcast.recording import OPS
from spillcast.recording.meta import ObservedEngine
from spillcast.recording.observed import CountedStatement
from spillcast.redaction import masked_text
from spillcast.text import one_line
from spillcast.units import format_bytes, format_count, format_duration

#: Columns that a forecast needs, and a ranking only in part; --elapsed replaces the last.
_OF_FORECASTS = ("temp_blks_read", "temp_blks_written", "total_exec_time")
#: The largest width of a rounded figure, relative to it.
_ROUNDING_MAX = 0.1
TEMP_TIMES = ("temp_blk_read_time", "temp_blk_write_time")
#: A number with separators, before the format of its column is known.
_DIGITS = re.compile(r"\d[\d.,' \u00a0\u202f]*")
#: Times of all other blocks; up to version 16, names for shared blocks lack "shared".
_OTHER_TIMES = tuple(f"{kind}blk_{op}_time" for kind in ("", "shared_", "local_") for op in OPS)
#: The columns that identify a row, and the start of a timestamp.
_IDENTITY = ("userid", "dbid", "queryid", "toplevel")
_MOMENT = re.compile(r"\d{4}-\d\d-\d\d[ T]\d\d:\d\d")
#: What a spreadsheet, a data frame or a narrow column leaves of an identifier, as 5.23E+18 or ####:
#: several statements may then share it.
_ROUNDED = re.compile(r"[^\w-]|^-*$")
#: The server keeps 5,000 statements by default. Rows take up to 20 times the memory of their text.
_BYTES_MAX, _LINES_MAX = 64 << 20, 1_000_000
PER_GATHER = "max_parallel_workers_per_gather"
MAINTENANCE = "max_parallel_maintenance_workers"
_SHORTER = "export those that spill: select * from pg_stat_statements where temp_blks_written > 0"
HINT = "export it with: \\copy (select * from pg_stat_statements) to 'statements.csv' csv header"

_ADDED = (
    "calls", "elapsed_s", "read_blocks", "written_blocks", "read_s", "write_s", "other_s",
    "workers",
)  # fmt: skip


@dataclass(frozen=True)
class StatementRow:
    """Sums over the calls of one statement; times of blocks are also summed over its processes."""

    #: None, like ``query``, if the exporting role may not see the statement.
    queryid: str | None
    query: str | None
    calls: int
    elapsed_s: float
    read_blocks: int
    written_blocks: int
    #: Times of temp blocks; None before version 15, 0 if track_io_timing was off.
    read_s: float | None
    write_s: float | None
    other_s: float
    #: Parallel workers that were launched; None before version 18.
    workers: int | None
    #: Settings that were exported in the same row.
    per_gather: int | None
    maintenance: int | None
    #: A column that a forecast needs and the export lacks: its figure here is 0.
    missing: str | None = None
    #: Whether the export has the blocks that were read.
    has_reads: bool = True
    #: Standard deviation of the calls' times over their mean; None if unknown.
    spread: float | None = None
    #: How many samples of sessions showed it running, and the most parallel workers in any of them.
    looks: int = 0
    workers_seen: int = 0

    @property
    def blocks(self) -> int:
        """Temp blocks read and written."""
        return self.read_blocks + self.written_blocks

    @property
    def temp_s(self) -> float:
        """Time of temp I/O, 0 if it was not timed."""
        return (self.read_s or 0.0) + (self.write_s or 0.0)

    @property
    def spills(self) -> bool:
        """Whether it did any temp I/O."""
        return self.blocks > 0 and self.calls > 0

    @classmethod
    def of(cls, values: Mapping[str, Any]) -> "StatementRow":
        """A row from its values by column. ValueError if they are not numbers."""
        queryid, query = values.get("queryid"), values.get("query")
        calls = whole(values["calls"], "calls")
        return cls(
            queryid=None if queryid is None or _ROUNDED.search(str(queryid)) else str(queryid),
            query=None if query is None else masked_text(str(query)),
            calls=calls,
            elapsed_s=_seconds(values, "total_exec_time") or 0.0,
            read_blocks=whole(values.get("temp_blks_read", 0), "temp_blks_read"),
            written_blocks=whole(values["temp_blks_written"], "temp_blks_written"),
            read_s=_seconds(values, TEMP_TIMES[0]),
            write_s=_seconds(values, TEMP_TIMES[1]),
            other_s=sum((_seconds(values, name) or 0.0 for name in _OTHER_TIMES), 0.0),
            workers=_integer(values, "parallel_workers_launched", WORKERS_MAX * (calls or 1)),
            per_gather=_integer(values, PER_GATHER, WORKERS_MAX),
            maintenance=_integer(values, MAINTENANCE, WORKERS_MAX),
            missing=_missing(values),
            has_reads="temp_blks_read" in values,
            spread=_spread(values),
            looks=values.get("looks", 0),
            workers_seen=values.get("workers_seen", 0),
        )

    def plus(self, other: "StatementRow") -> "StatementRow":
        """The sum with a row of the same statement: of another user, or in another database."""
        sums = {name: _sum(getattr(self, name), getattr(other, name)) for name in _ADDED}
        return replace(self, **sums, spread=None)


def read_rows(path: Path) -> list[StatementRow]:
    """The statements of an export. InputError if it is cut, damaged or lacks columns."""
    with reading(path, HINT):
        try:
            whole_text = text_of(path, bytes_max=_BYTES_MAX)
        except FileTooLarge as error:
            raise FileTooLarge(error.message, _SHORTER) from error
        # Most wrappings do not hide the heading, and looking for all of them takes longer.
        with suppress(SpillcastError):
            return _rows_of_text(whole_text, unwrapped(whole_text, until=is_table))
        return _rows_of_text(whole_text, unwrapped(whole_text))


def _rows_of_text(whole_text: str, plain: str) -> list[StatementRow]:
    """The statements of a text and of the same text without its wrapping."""
    with reading():
        text = table_of(plain)
        if text.count("\n") > _LINES_MAX:
            raise FileTooLarge(f"more than {_LINES_MAX:,} lines of statements", _SHORTER)
        columns = selected_columns(whole_text)
        rows = _with_points([renamed(row, columns) for row in rows_of(text)])
        if not rows:
            raise EvidenceUnknown("holds no row of pg_stat_statements")
        rows = list(_of_one_export(rows))
        is_timed = any(_seconds(row, name) for row in rows for name in TEMP_TIMES)
        for name in ("calls", "temp_blks_written", *(("temp_blks_read", *TEMP_TIMES) * is_timed)):
            if any(name not in row for row in rows):
                raise EvidenceIncomplete(f"pg_stat_statements without {name}")
        rows = [with_total(in_standard_units(row)) for row in rows]
        check_all(held for row in rows for held in total_checks(row))
        return merged(_without_sums([StatementRow.of(row) for row in rows]))


def _without_sums(rows: list[StatementRow]) -> list[StatementRow]:
    """The rows without a last row that only adds up the others, as in a spreadsheet."""
    *others, last = rows
    sums = sum(row.calls for row in others), sum(row.blocks for row in others)
    is_sum = len(others) > 1 and " " not in (last.query or "") and sums == (last.calls, last.blocks)
    return others if is_sum else rows


def _with_points(rows: Sequence[Mapping[str, Any]]) -> list[dict[str, Any]]:
    """Rows with 93250.25 in place of 93 250,25, 93.250,25 or 93,250.25."""
    cells = [cell for row in rows for cell in row.values() if isinstance(cell, str)]
    numbers = list(dict.fromkeys(filter(_DIGITS.fullmatch, cells)))
    joined = with_decimal_points(
        "\n".join("".join(number.replace("'", "").split()) for number in numbers)
    )
    pointed = dict(zip(numbers, joined.replace(",", "").splitlines(), strict=True))
    return [{name: pointed.get(str(cell), cell) for name, cell in row.items()} for row in rows]


def _of_one_export(rows: Sequence[dict[str, Any]]) -> Iterator[dict[str, Any]]:
    """The rows without duplicates. InputError if a statement has counts from several times.

    Later counts include the earlier ones, except for buckets of pg_stat_monitor and intervals with
    a start and an end.
    """
    names = rows[0].keys()
    is_split = {"start_time", "end_time"} <= names or any(n.startswith("bucket") for n in names)
    first_rows, known = dict[tuple[str, ...], Mapping[str, Any]](), set[int]()
    for row in rows:
        queryid = row.get("queryid")
        if queryid is None or is_split:
            yield row
            continue
        first = first_rows.setdefault(tuple(str(row.get(name)) for name in _IDENTITY), row)
        others = [name for name in row if row[name] != first.get(name)]
        are_counts = all(_DIGITS.fullmatch(str(r.get(n))) for n in others for r in (row, first))
        is_counted_again = others and are_counts and set(_IDENTITY) <= names
        is_later = _moments(row) != _moments(first) or is_counted_again
        if is_later and not _ROUNDED.search(str(queryid)):
            problem = f"queryid {queryid} has the counts of several moments"
            raise EvidenceMixed(problem, "give the rows of the last moment alone")
        # The text of each row would take as much memory as the row.
        if (key := hash(repr(row))) not in known:
            known.add(key)
            yield row


def _moments(row: Mapping[str, Any]) -> list[str]:
    """The timestamps in a row, except the start of its counting."""
    cells = (str(cell) for name, cell in row.items() if "since" not in name)
    return list(filter(_MOMENT.match, cells))


def merged(rows: Iterable[StatementRow]) -> list[StatementRow]:
    """One row for each statement, the sum of its rows; rows without an identifier stay separate."""
    by_id: dict[str | int, StatementRow] = {}
    for number, row in enumerate(rows):
        name = number if row.queryid is None else row.queryid
        by_id[name] = by_id[name].plus(row) if name in by_id else row
    return list(by_id.values())


def _missing(values: Mapping[str, Any]) -> str | None:
    """A column that a forecast needs but that is absent, or that a query rounded."""
    for name in _OF_FORECASTS:
        value = values.get(name)
        if isinstance(value, Number) and value.value and value.spread > _ROUNDING_MAX:
            return f"exact {name}"
        # A statement without its reads has assumed ones.
        if name not in values and name != "temp_blks_read":
            return name
    return None


def _integer(values: Mapping[str, Any], name: str, max_value: int) -> int | None:
    return None if values.get(name) is None else whole(values[name], name, max_value)


def _spread(values: Mapping[str, Any]) -> float | None:
    names = ("mean_exec_time", "stddev_exec_time")
    if any(values.get(name) is None for name in names):
        return None
    mean_ms, deviation_ms = (amount(values[name], name) for name in names)
    return deviation_ms / mean_ms if mean_ms else None


def _seconds(values: Mapping[str, Any], name: str) -> float | None:
    return None if values.get(name) is None else amount(values[name], name) / 1e3


def _sum(left: Any, other: Any) -> Any:
    return other if left is None else left if other is None else left + other


_FROM = "or name the storage with --from"
_NOT_TIMED = "its times are 0 or missing, so it took from the speed of memory to the whole call"
#: The remedy if the server can time temp I/O.
_UNTIMED = (
    "set track_io_timing = on, call pg_stat_statements_reset(), and export it again after some "
    f"calls; {_FROM}"
)
#: The remedy if the server is too old for that.
_NO_TIMES = f"PostgreSQL 15 or newer times temp I/O, as temp_blk_read_time; {_FROM}"
#: A sort or a batch of a hash is read once; rows that are stored may be read several times.
READ_ONCE = (
    "blocks read: the export lacks temp_blks_read, so each temp block is assumed to be read once"
)
_RARE = "forecast a plan of a call that does, or a log with log_temp_files = 0"
#: The remedy for more I/O than the processes could do.
_MORE_PROCESSES = (
    f"export the setting as a column, current_setting('{PER_GATHER}') as {PER_GATHER}, or forecast "
    "a plan of EXPLAIN (ANALYZE, BUFFERS)"
)
#: Workers of a query, or of an index build, if no other number is set.
DEFAULT_WORKERS = 2
#: With this many samples and no worker in any, the statement has a worker for less than a seventh
#: of its time, at 95 % confidence.
LOOKS_MIN = 20
#: What may precede a statement: comments, parentheses.
_BEGIN = r"(?s)(?:\s|/\*(?:(?!\*/).)*\*/|--[^\n]*\n|\()*"
#: Statements whose processes are those of a plan: other statements may also build indexes.
_QUERY = re.compile(_BEGIN + r"(?:select|with|insert|update|delete|merge)\b", re.IGNORECASE)
#: Statements that sort for an index; another setting limits their memory.
_SORTS_INDEX = re.compile(
    _BEGIN + r"(?:create\s+(?:unique\s+)?index|reindex|cluster|alter\s+table|vacuum)\b",
    re.IGNORECASE,
)
#: A statement that reads a table, not only a function. The counts of queries inside a function are
#: added to those of the calling statement, but their workers are not.
_OF_TABLES = re.compile(r"\bfrom\s+(?:only\s+)?[\w\".]+(?![\w\".]|\s*\()", re.IGNORECASE)


def read_statements(path: Path, selection: Selection = ONLY_RUN) -> Counts:
    """The counts of one query: the mean of its calls.

    InputError for a file that is cut or lacks columns, and if no query or more than one spills;
    Refusal if no possible number of processes can have done the I/O.
    """
    with reading(path, HINT):
        row = chosen(read_rows(path), selection)
        counts = counts_of_row(row, elapsed_s=selection.elapsed_s, timed=selection.timed)
        return counts.of_file(path)


def counts_of_row(
    row: StatementRow, *, elapsed_s: float | None = None, timed: bool = True
) -> Counts:
    """The counts of the mean call of a row.

    NotSpilled if the mean call spills less than a block, EvidenceIncomplete if a column is missing;
    other Refusals as for ``read_statements``.
    """
    elapsed_s = _call_s(row, elapsed_s)
    read_blocks = row.read_blocks if row.has_reads else row.written_blocks
    read, written = (round(blocks / row.calls) for blocks in (read_blocks, row.written_blocks))
    if not read + written:
        rare = f"{format_count(row.blocks, 'temp block')} in {format_count(row.calls, 'call')}"
        raise NotSpilled(f"{rare}: most of its calls do not spill", _RARE)
    read_s, write_s = ((s or 0.0) / row.calls for s in (row.read_s, row.write_s))
    temp = TempIO(read, written, read_s, write_s)
    other_s = row.other_s / row.calls
    try:
        shared = feasible_processes(processes_of(row), elapsed_s, temp.total_s, other_s)
    except Refusal as refusal:
        raise TimesContradictory(str(refusal), _MORE_PROCESSES) from refusal
    return counts_of_blocks(
        elapsed_s,
        temp,
        ObservedEngine("postgresql", query=row.query),
        shared,
        (_NOT_TIMED, _NO_TIMES if row.read_s is None else _UNTIMED) if timed else None,
        other_s=other_s / shared.upper,
        statement=CountedStatement(row.queryid, row.query, row.calls, 1, row.spread),
        notes=() if row.has_reads else (READ_ONCE,),
    )


def _call_s(row: StatementRow, elapsed_s: float | None) -> float:
    is_time = row.missing is not None and row.missing.endswith(_OF_FORECASTS[-1])
    if row.missing and not (elapsed_s and is_time):
        hint = f"give the time of a call with --elapsed, or {HINT}" if is_time else HINT
        raise EvidenceIncomplete(f"pg_stat_statements without {row.missing}", hint)
    return elapsed_s or row.elapsed_s / row.calls


def chosen(rows: Sequence[StatementRow], selection: Selection = ONLY_RUN) -> StatementRow:
    """The selected row that spills, or the only one that does.

    InputError if none does, and a ranked list if several do.
    """
    spilling = spilling_rows(rows)
    if selection.queryid is not None:
        named_row = row_of_queryid(rows, selection)
        if not named_row.spills:
            raise NoTempIo("this query does not spill: there are no temp blocks")
        return named_row
    if not spilling:
        raise NoTempIo("its queries do not spill: there are no temp blocks")
    if selection.item is not None and selection.item > len(spilling):
        raise SelectionEmpty(f"there is no item {selection.item}", f"there are {len(spilling):,}")
    if selection.item is None and len(spilling) > 1:
        summary = f"{len(spilling):,} statements spill, the most temp I/O first:"
        raise ambiguous_rows(spilling, summary)
    return spilling[(selection.item or 1) - 1]


def row_of_queryid(rows: Sequence[StatementRow], selection: Selection) -> StatementRow:
    """The row of a ``queryid``, whether it spills or not; without a ``queryid`` as ``chosen``.

    InputError if there is none.
    """
    queryid = selection.queryid
    if queryid is None:
        return rows[0] if len(rows) == 1 else chosen(rows, selection)
    match = next((row for row in rows if row.queryid == queryid.strip()), None)
    if match is None:
        known = [row.queryid for row in (*spilling_rows(rows), *rows) if row.queryid is not None]
        examples = ", ".join(list(dict.fromkeys(known))[:5]) or "none, but --item selects a row"
        raise SelectionEmpty(f"no row has queryid {queryid}", f"there are: {examples}")
    return match


def ambiguous_rows(rows: Sequence[StatementRow], summary: str) -> InputError:
    """The error for several statements, with a list of the first ones."""
    option = "item" if any(row.queryid is None for row in rows) else "queryid"
    hint = f"name one with --{option}"
    if any((row.query or "").startswith("<insufficient") for row in rows):
        hint += "; a role with pg_read_all_stats can export what is hidden"
    heading = (option, "calls", "mean time", "temp I/O", "statement")
    timed = all(row.temp_s > 0 for row in rows)
    listed = [
        (
            f"{at}" if option == "item" else row.queryid or "",
            f"{row.calls:,}",
            format_duration(row.elapsed_s / row.calls) if row.elapsed_s else "-",
            format_duration(row.temp_s) if timed else format_bytes(row.blocks * BLOCK_BYTES),
            one_line(row.query or "?", TEXT_MAX),
        )
        for at, row in enumerate(rows[:LISTED_MAX], start=1)
    ]
    return ambiguous(summary, heading, listed, len(rows), hint)


def spilling_rows(rows: Sequence[StatementRow]) -> list[StatementRow]:
    """The rows that spill, by the time of temp I/O in all calls, or by its size if one has none."""
    spilling = [row for row in rows if row.spills]
    timed = all(row.temp_s > 0 for row in spilling)
    return sorted(spilling, key=lambda row: row.temp_s if timed else row.blocks, reverse=True)


def processes_of(row: StatementRow) -> Bounds[float]:
    """Bounds of the number of processes: from one to what the server's settings allow."""
    query = row.query or ""
    is_query = _QUERY.match(query) is not None
    if row.workers == 0 and is_query and _OF_TABLES.search(query):
        return Bounds(1.0, 1.0, "its calls launched no parallel workers")
    if row.workers is None and row.looks >= LOOKS_MIN:
        seen = "no parallel worker"
        if row.workers_seen:
            seen = f"at most {format_count(row.workers_seen, 'parallel worker')}"
        because = f"{row.looks:,} looks at its sessions saw {seen}"
        return Bounds(1.0, 1.0 + row.workers_seen, because)
    settings = {PER_GATHER: row.per_gather, MAINTENANCE: row.maintenance}
    if is_query:
        del settings[MAINTENANCE]
    workers = {
        name: DEFAULT_WORKERS if value is None else value for name, value in settings.items()
    }
    name = max(workers, key=workers.__getitem__)
    max_workers, because = workers[name], f"{name} is {workers[name]}, as exported"
    if settings[name] is None:
        because = f"{name} is not in the file and assumed to be {max_workers}, PostgreSQL's default"
    launched = -(-(row.workers or 0) // row.calls)
    if launched > max_workers:
        max_workers, because = launched, f"a call launched about {format_count(launched, 'worker')}"
    return Bounds(1.0, 1.0 + max_workers, because)


def other_memory(query: str | None) -> str | None:
    """The setting that limits a statement's sort memory; None if it is work_mem."""
    return "maintenance_work_mem" if _SORTS_INDEX.match(query or "") else None


def executed_statement(path: Path, selection: Selection) -> Executed:
    """The mean call of a statement in an export of pg_stat_statements. InputError if not found."""
    with reading(path, HINT):
        row = row_of_queryid(read_rows(path), selection)
        if not row.calls:
            raise SelectionEmpty(f"queryid {row.queryid} was never called")
        return executed_row(row, selection.elapsed_s)


def executed_row(row: StatementRow, elapsed_s: float | None = None) -> Executed:
    """The mean call of a row with at least one call."""
    call_s = _call_s(row, elapsed_s)
    blocks = round(row.blocks / row.calls)
    return executed(call_s, blocks, lambda: counts_of_row(row, elapsed_s=elapsed_s))


def rows_of_document(document: Any) -> Sequence[StatementRow]:
    """The rows of one statement in a recording, merged. InputError for another document."""
    if not isinstance(document, list) or not all(isinstance(row, dict) for row in document):
        raise damaged("no rows of pg_stat_statements")
    return merged(map(StatementRow.of, document))

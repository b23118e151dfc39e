"""Exports of system.query_log in ClickHouse's output formats -> finished queries."""

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from pathlib import Path
from typing import Any

from spillcast.errors import EvidenceIncomplete, SelectionEmpty
from spillcast.evidence.tables import cells_of, drawn, rows_of
from spillcast.evidence.text import text_of
from spillcast.evidence.unwrap import unwrapped
from spillcast.gate import damaged, reading
from spillcast.redaction import struck_text
from spillcast.tabular import plain_rows

HOW = (
    "export it with: SELECT * FROM system.query_log WHERE type != 'QueryStart' "
    "INTO OUTFILE 'log.jsonl' FORMAT JSONEachRow"
)
#: Columns from the duration to the text of the query, in the order of every version since 18.
_AFTER_TIMES = (
    *("query_duration_ms", "read_rows", "read_bytes", "written_rows", "written_bytes"),
    *("result_rows", "result_bytes", "memory_usage", "current_database", "query"),
)
_FINISHED = "QueryFinish"
#: ``type`` as a name, or as the number that some clients show.
_TYPES = {"1": "QueryStart", "2": _FINISHED, "3": "ExceptionBeforeStart",
          "4": "ExceptionWhileProcessing"}  # fmt: skip
_HEADINGLESS = re.compile(
    r"(?:QueryStart|QueryFinish|Exception\w+)[\"\t,]+\"?\d{4}-\d\d-\d\d[\"\t,].*\{'\w+':\d"
)
_COLUMN = re.compile(r"(?:^|[\s\"',;|│┃─━{])query_duration_ms(?:[\s\"',;:|│┃─━]|$)")
#: What stands for an event where it has a column of its own.
_EVENT_COLUMN = re.compile(
    r"(?:ProfileEvents(?:\['|[._]|, ')|ProfileEvent_)(\w+)(?:'[\])])?|arrayElement\(.*'(\w+)'\)"
)
_EVENT_NAME = re.compile(
    r"External(?:Sort|Aggregation|Join|Distinct|Processing)\w+|(?:Write|Read)BufferFrom\w+"
    r"|Disk(?:Read|Write)Elapsed\w+|ThreadPoolReader\w+|OS[A-Z]\w+|(?:User|System|Real)Time\w+"
)
_PAIR = re.compile(r"\s*'((?:[^'\\]|\\.)*)'\s*:\s*(-?\d+|'(?:[^'\\]|\\.)*')\s*(?:,|$)")
_WORDS = re.compile(r"'((?:[^'\\]|\\.)*)'")
_PASTED_LENGTH = 1 << 20
#: What Pretty formats of earlier versions write around heads.
_BOLD = re.compile(r"\x1b\[[\d;]*m")
_MAPS_CUT = (
    "output_format_pretty_max_value_width cuts long values: set it to 0, or export FORMAT "
    "JSONEachRow"
)
Row = Mapping[str, Any]


@dataclass(frozen=True, kw_only=True)
class LoggedQuery:
    """A query that finished on a server, with the events that this server counted for it."""

    query_id: str | None
    #: Equal for queries that differ only in constants.
    normalized_hash: str | None
    #: Its text, without secrets.
    query: str | None
    elapsed_s: float
    #: Unix time of its start by the server's clock; None if the export lacks it.
    started_s: float | None
    peak_memory_bytes: int | None
    events: Mapping[str, int]
    settings: Mapping[str, str] = field(default_factory=dict)
    #: Threads that existed at the same time, those that only wait included.
    threads: int | None = None
    version: str | None = None
    host: str | None = None
    #: Whether a client sent it, and no other server.
    is_initial: bool = True

    def event(self, *names: str) -> int:
        """The sum of the events; those that the server did not count are 0."""
        return sum(self.events.get(name, 0) for name in names)


def is_query_log(text: str) -> bool:
    """Whether the beginning of a text is rows of system.query_log."""
    text = _BOLD.sub("", text)
    return _COLUMN.search(text) is not None or _HEADINGLESS.search(text) is not None


def is_parquet_log(path: Path) -> bool:
    """Whether the schema at the end of a Parquet file has the columns of system.query_log."""
    with path.open("rb") as file:
        file.seek(max(0, path.stat().st_size - (1 << 18)))
        return b"query_duration_ms" in file.read()


def read_rows(path: Path) -> list[LoggedQuery]:
    """The queries of an export that finished. InputError where it is damaged or lacks columns."""
    with reading(path, HOW):
        rows = list(_rows_of(path))
        queries = [
            logged_query(row, item, path)
            for item, row in enumerate(rows, 1)
            if _type(row) == _FINISHED
        ]
    if not queries:
        hint = "export rows with type = 'QueryFinish'"
        raise SelectionEmpty(f"{path}: no query finished in its {len(rows):,} rows", hint)
    return queries


def logged_query(row: Row, item: int, where: Path) -> LoggedQuery:
    """A row as a query. EvidenceIncomplete where it has no duration or no events."""
    if row.get("query_duration_ms") in (None, ""):
        raise EvidenceIncomplete(f"{where}: row {item} has no query_duration_ms", HOW)
    settings = _mapping(row, "Settings", item, where)
    threads = row.get("peak_threads_usage") or len(re.findall(r"\d+", str(row.get("thread_ids"))))
    query = row.get("query")
    return LoggedQuery(
        query_id=_text(row.get("query_id")),
        normalized_hash=_text(row.get("normalized_query_hash")),
        query=None if query is None else struck_text(str(query)),
        elapsed_s=_whole(row["query_duration_ms"], "query_duration_ms", item, where) / 1e3,
        started_s=_moment(row),
        peak_memory_bytes=_whole(row.get("memory_usage") or 0, "memory_usage", item, where) or None,
        events=_events(row, item, where),
        settings={name: str(value) for name, value in (settings or {}).items()},
        threads=int(threads) or None,
        version=_version(row),
        host=_text(row.get("hostname") or row.get("hostName()")),
        is_initial=str(row.get("is_initial_query", 1)).lower() in ("1", "true"),
    )


def _type(row: Row) -> str:
    return _TYPES.get(str(row.get("type")), str(row.get("type", _FINISHED)))


def _version(row: Row) -> str | None:
    version = _text(row.get("clickhouse_version"))
    return version or _text(row.get("version()"))


def _text(value: Any) -> str | None:
    return None if value in (None, "") else str(value)


def _moment(row: Row) -> float | None:
    value = row.get("query_start_time_microseconds") or row.get("query_start_time")
    try:
        return datetime.fromisoformat(str(value)).timestamp()
    except ValueError:
        return None


def _whole(value: Any, name: str, item: int, where: Path) -> int:
    try:
        number = int(str(value).strip())
    except ValueError:
        number = -1
    if number < 0:
        raise damaged(where, f"row {item}: {name} is {str(value)[:40]!r}, which is no count", HOW)
    return number


def _events(row: Row, item: int, where: Path) -> dict[str, int]:
    """The events of a map, of a pair of arrays as before version 21.9, or of columns."""
    values: Mapping[str, Any] | None = _mapping(row, "ProfileEvents", item, where)
    names = row.get("ProfileEvents.Names")
    if values is None and names is not None:
        counts = row.get("ProfileEvents.Values", [])
        words = names if isinstance(names, list) else _WORDS.findall(names)
        numbers = counts if isinstance(counts, list) else re.findall(r"\d+", counts)
        if len(words) != len(numbers):
            text = f"row {item}: {len(words)} names of events and {len(numbers)} values"
            raise damaged(where, text, HOW)
        values = dict(zip(words, numbers, strict=True))
    columns = {name: value for column, value in row.items() if (name := _event_of(column))}
    if values is None and not columns:
        raise EvidenceIncomplete(
            f"{where}: it has no ProfileEvents, which count temp files and their I/O", HOW
        )
    counted = {**(values or {}), **columns}
    return {name: _whole(value, name, item, where) for name, value in counted.items()}


def _event_of(column: str) -> str | None:
    """The event that a column is of."""
    if column in ("ProfileEvents.Names", "ProfileEvents.Values"):
        return None
    if match := _EVENT_COLUMN.fullmatch(column):
        return match[1] or match[2]
    return column if _EVENT_NAME.fullmatch(column) else None


def _mapping(row: Row, name: str, item: int, where: Path) -> Mapping[str, Any] | None:
    """A column of type Map: an object, or the text of one. InputError where it is cut."""
    value = row.get(name)
    if value is None or isinstance(value, Mapping):
        return value
    text = str(value).strip()
    inner, at, pairs = text[1:-1], 0, dict[str, Any]()
    while at < len(inner) and (match := _PAIR.match(inner, at)) is not None:
        pairs[match[1]] = match[2].strip("'")
        at = match.end()
    if text[:1] != "{" or text[-1:] != "}" or at < len(inner):
        raise damaged(where, f"row {item}: the map {name} is cut", _MAPS_CUT)
    return pairs


def _rows_of(path: Path) -> Iterable[Row]:
    with path.open("rb") as file:
        if file.read(4) == b"PAR1":
            return _parquet(path)
    text = _BOLD.sub("", text_of(path, HOW))
    if text.lstrip()[:1] in ("{", "["):
        return rows_of(text, path, HOW)
    # What a person pastes is short, and has more around it.
    return _table(unwrapped(text) if len(text) < _PASTED_LENGTH else drawn(text), path)


def _parquet(path: Path) -> Iterator[Row]:
    import duckdb

    table = duckdb.connect().sql("from read_parquet(?)", params=[str(path)])
    for row in plain_rows(table):
        yield dict(zip(table.columns, row, strict=True))


def _table(text: str, path: Path) -> Iterator[Row]:
    """Rows of a table, or of TSV or CSV without a heading."""
    if (heading := _COLUMN.search(text)) is not None:
        yield from rows_of(text[text.rfind("\n", 0, heading.start() + 1) + 1 :], path, HOW)
        return
    width = 0
    for number, row in enumerate(cells_of(text), 1):
        width = width or len(row)
        if len(row) != width:
            problem = f"row {number} has {len(row)} values and not {width}: it is cut"
            raise damaged(path, problem, HOW)
        yield _by_place(row, number, path)


def _by_place(cells: Sequence[str], number: int, path: Path) -> Row:
    """A row of a table without a heading, by the order of columns that all versions share."""
    types = [at for at, cell in enumerate(cells) if cell in _TYPES.values()]
    at = types[0] + 1 if types else len(cells)
    while at < len(cells) and re.fullmatch(r"\d{4}-\d\d-\d\d.*", cells[at]):
        at += 1
    maps = [cell for cell in cells if cell.startswith("{'")]
    if at + len(_AFTER_TIMES) > len(cells) or not maps:
        text = f"row {number} is cut, or its columns are not those of SELECT * and have no names"
        raise damaged(path, text, "export FORMAT TSVWithNames or CSVWithNames")
    row = dict(zip(_AFTER_TIMES, cells[at:], strict=False))
    hashes = (cell for cell in cells[at + len(_AFTER_TIMES) :] if re.fullmatch(r"\d{12,20}", cell))
    settings = {"Settings": maps[1]} if len(maps) > 1 else {}
    return {
        **row,
        **settings,
        "type": cells[types[0]],
        "query_start_time": cells[at - 1],
        "ProfileEvents": maps[0],
        "normalized_query_hash": next(hashes, None),
    }

"""Rows of pg_stat_statements out of CSV or JSON, as numbers, of whatever version the server is."""

import re
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from spillcast.errors import EvidenceIncomplete, FileTooLarge
from spillcast.evidence.figures.numbers import Held, Number, hold
from spillcast.evidence.postgres.nodes import WORKERS_MAX
from spillcast.evidence.tables import rows_of, table_of
from spillcast.evidence.text import text_of
from spillcast.evidence.unwrap import unwrapped
from spillcast.gate import COUNT_MAX, reading
from spillcast.recording.event_names import OPS
from spillcast.redaction import struck_text

#: Names of versions up to 12, by those of later ones.
_FORMER = {
    "total_time": "total_exec_time",
    "mean_time": "mean_exec_time",
    "stddev_time": "stddev_exec_time",
}
_NEEDED = ("calls", "total_exec_time", "temp_blks_read", "temp_blks_written")
#: Times of all other blocks: up to version 16 those of shared ones have a name without "shared".
_OTHER_TIMES = tuple(f"{kind}blk_{op}_time" for kind in ("", "shared_", "local_") for op in OPS)
#: The server keeps 5,000 statements, unless it is told to keep more.
_BYTES_MAX, _LINES_MAX = 64 << 20, 1_000_000
PER_GATHER = "max_parallel_workers_per_gather"
MAINTENANCE = "max_parallel_maintenance_workers"
HOW = "export it with: \\copy (select * from pg_stat_statements) to 'statements.csv' csv header"


@dataclass(frozen=True)
class Row:
    """Sums over the calls of one statement; times of blocks also over all of its processes."""

    #: None, and so is ``query``, where who exported it may not see the statement.
    queryid: str | None
    query: str | None
    calls: int
    elapsed_s: float
    read_blocks: int
    written_blocks: int
    #: Of temp blocks; None before version 15, 0 where nothing was timed.
    read_s: float | None
    write_s: float | None
    other_s: float
    #: Parallel workers that its plan launched; None before version 18.
    workers: int | None
    #: Settings that were exported beside it.
    per_gather: int | None
    maintenance: int | None
    #: Standard deviation of the calls' times over their mean; None where that is not known.
    spread: float | None = None
    #: How often it was seen at work, and with how many parallel workers at most.
    looks: int = 0
    workers_seen: int = 0

    @property
    def blocks(self) -> int:
        """Temp blocks read and written."""
        return self.read_blocks + self.written_blocks

    @property
    def temp_s(self) -> float:
        """Time of temp I/O, 0 where it was not taken."""
        return (self.read_s or 0.0) + (self.write_s or 0.0)

    @property
    def spills(self) -> bool:
        """Whether it did any temp I/O."""
        return self.blocks > 0 and self.calls > 0

    @classmethod
    def of(cls, values: Mapping[str, Any]) -> "Row":
        """From a row's values by column. ValueError or TypeError where they are no such numbers."""
        queryid, query = values.get("queryid"), values.get("query")
        calls = int(_number(values["calls"]))
        return cls(
            queryid=None if queryid is None else str(queryid),
            query=None if query is None else struck_text(str(query)),
            calls=calls,
            elapsed_s=_number(values["total_exec_time"]) / 1e3,
            read_blocks=int(_number(values["temp_blks_read"])),
            written_blocks=int(_number(values["temp_blks_written"])),
            read_s=_seconds(values.get("temp_blk_read_time")),
            write_s=_seconds(values.get("temp_blk_write_time")),
            other_s=sum((_seconds(values.get(name)) or 0.0 for name in _OTHER_TIMES), 0.0),
            workers=_integer(values, "parallel_workers_launched", WORKERS_MAX * (calls or 1)),
            per_gather=_integer(values, PER_GATHER, WORKERS_MAX),
            maintenance=_integer(values, MAINTENANCE, WORKERS_MAX),
            spread=_spread(values),
            looks=values.get("looks", 0),
            workers_seen=values.get("workers_seen", 0),
        )

    def plus(self, other: "Row") -> "Row":
        """With the calls of the same statement by another user, or in another database."""
        return replace(
            self,
            calls=self.calls + other.calls,
            elapsed_s=self.elapsed_s + other.elapsed_s,
            read_blocks=self.read_blocks + other.read_blocks,
            written_blocks=self.written_blocks + other.written_blocks,
            read_s=_sum(self.read_s, other.read_s),
            write_s=_sum(self.write_s, other.write_s),
            other_s=self.other_s + other.other_s,
            workers=_sum(self.workers, other.workers),
            spread=None,
        )


def read_rows(path: Path) -> list[Row]:
    """One for each statement. InputError for a file that is cut, damaged or lacks columns."""
    text = table_of(unwrapped(text_of(path, bytes_max=_BYTES_MAX)))
    if text.count("\n") > _LINES_MAX:
        raise FileTooLarge(f"{path}: more than {_LINES_MAX:,} lines of statements", HOW)
    with reading(path, HOW):
        rows = [_renamed(row) for row in rows_of(text, path, HOW)]
        for name in _NEEDED:
            if any(name not in row for row in rows) or not rows:
                raise EvidenceIncomplete(f"{path}: pg_stat_statements without {name}", HOW)
        hold(path, (held for row in rows for held in _held(row)), HOW)
        return merged([Row.of(row) for row in rows])


def _renamed(row: Mapping[str, Any]) -> dict[str, Any]:
    """By the names of the newest version: up to 12 execution was all that was timed."""
    row = {str(name).strip().lower(): value for name, value in row.items()}
    return {_FORMER.get(name, name) if _FORMER.get(name) not in row else name: value
            for name, value in row.items()}  # fmt: skip


def _held(row: Mapping[str, Any]) -> Iterator[Held]:
    """The mean of a call times the calls is the total, as far as both are exported."""
    total, mean, calls = (row.get(name) for name in ("total_exec_time", "mean_exec_time", "calls"))
    if None in (total, mean, calls) or not _number(mean):
        return
    product = _rounded(mean) * _number(calls)
    yield Held(
        "count-mean-total",
        product,
        f"{calls} calls of {mean} ms",
        _rounded(total),
        f"a total of {total} ms",
    )


def merged(rows: Iterable[Row]) -> list[Row]:
    """Rows of one statement added up; one that is hidden is like no other."""
    by_id: dict[str | int, Row] = {}
    for number, row in enumerate(rows):
        name = number if row.queryid is None else row.queryid
        by_id[name] = by_id[name].plus(row) if name in by_id else row
    return list(by_id.values())


def _number(value: Any) -> float:
    if not isinstance(value, str | int | float):
        raise ValueError(f"{value} is no number")
    number = float(_plain(value) if isinstance(value, str) else value)
    if not 0 <= number <= COUNT_MAX:
        raise ValueError(f"{value} is neither a count nor a time")
    return number


def _rounded(value: Any) -> Number:
    """A time with the rounding of its last digit."""
    number = _number(value)
    decimals = re.search(r"[.,](\d+)$", str(value))
    half = 0.5 * 10.0 ** -(len(decimals[1]) if decimals else 0)
    return Number(number, max(0.0, number - half), number + half)


def _plain(text: str) -> str:
    """A number as other languages and settings write it: 93250,25, 93.250,25 or 93,250.25."""
    text = re.sub(r"[\s\u00a0\u202f']", "", text)
    point, comma = text.rfind("."), text.rfind(",")
    if comma < 0:
        return text.replace(".", "") if text.count(".") > 1 else text
    if point > comma or re.fullmatch(r"\d{1,3}(?:,\d{3})+", text):
        return text.replace(",", "")
    return text.replace(".", "").replace(",", ".")


def _integer(values: Mapping[str, Any], name: str, max_value: int) -> int | None:
    value = values.get(name)
    number = None if value is None else int(_number(value))
    if number is not None and number > max_value:
        raise ValueError(f"{name} is {number:,}, more than {max_value:,}")
    return number


def _spread(values: Mapping[str, Any]) -> float | None:
    mean, deviation = values.get("mean_exec_time"), values.get("stddev_exec_time")
    if mean is None or deviation is None or not _number(mean):
        return None
    return _number(deviation) / _number(mean)


def _seconds(milliseconds: Any) -> float | None:
    return None if milliseconds is None else _number(milliseconds) / 1e3


def _sum(left: Any, other: Any) -> Any:
    return other if left is None else left if other is None else left + other

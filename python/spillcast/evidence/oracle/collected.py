"""Reads files of ``spillcast collect oracle``: parameters, statistics, work areas, temp usage."""

import re
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from spillcast.columns import ColumnValues
from spillcast.errors import EvidenceIncomplete, EvidenceMixed, InputError
from spillcast.evidence.oracle.spooled import Damage, parse_integer, read_spooled
from spillcast.evidence.selection import BLOCK_BYTES, BLOCK_SIZES, parse_block
from spillcast.evidence.text import head_of
from spillcast.gate import reading
from spillcast.tables import Table
from spillcast.text import several
from spillcast.units import format_bytes

#: Block numbers have 32 bits; a line with a larger one is damaged.
BLOCKS_MAX = (1 << 32) - 1
_PARAMETER = "db_block_size"
#: The leading bytes of a trace that are searched for its header.
_HEADER_BYTES = 64 << 10
#: The parameter in a parameter dump, with which a trace may begin.
_BLOCK_SIZE = re.compile(rb"\bdb_block_size\s*+(?:[=:]\s*+)?\"?(\d{4,5})\b")


@dataclass(frozen=True)
class BlockSize:
    """Bytes of a block, and where they are stated; ``known_from`` is None if assumed."""

    bytes: int
    known_from: str | None = None


#: Oracle's default, which few databases change.
ASSUMED_BLOCK = BlockSize(BLOCK_BYTES)


def block_size(
    option: str | None = None, parameters: Sequence[Path] = (), traces: Sequence[Path] = ()
) -> BlockSize:
    """The size from ``option``, else from spooled parameters, else from the first header with one.

    InputError for a size that no block can have, and for parameters with different sizes.
    """
    if option is not None:
        return BlockSize(parse_block(option), "--block")
    sizes = {
        size: path for path in parameters if (size := _possible(parameter_of(path, _PARAMETER)))
    }
    if len(sizes) > 1:
        sizes_text = " and ".join(f"{format_bytes(size)} in {path}" for size, path in sizes.items())
        raise EvidenceMixed(f"{_PARAMETER} is {sizes_text}", "give the parameters of one database")
    for size, path in sizes.items():
        return BlockSize(size, path.name)
    for path in traces:
        match = _BLOCK_SIZE.search(header_of(path)) if path.is_file() else None
        if match is not None and (size := _possible(int(match[1]))):
            return BlockSize(size, f"the header of {path.name}")
    return ASSUMED_BLOCK


def header_of(path: Path) -> bytes:
    """The first bytes of a trace, decompressed; empty if it cannot be decompressed."""
    with suppress(InputError):
        return head_of(path, _HEADER_BYTES).encode()
    return b""


def _possible(size: int | None) -> int:
    return size if size in BLOCK_SIZES else 0


def parameter_of(path: Path, name: str) -> int | None:
    """The value of a parameter in spooled parameters; None if it is missing or not a number."""
    rows = read_spooled(path, {"name": "name", "value": "value"}).rows
    values = {row.get("name"): row.get("value") for row in rows}
    return parse_integer(str(values.get(name) or ""))


_NAMES = {
    **{name: name for name in ("name", "value", "per_second", "accumulated")},
    "statistic_name": "name",
    **dict.fromkeys(("value_per_second", "value_per_sec"), "per_second"),
    "value_accumulated": "accumulated",
}
#: Column names by heading of the spool; sizes are in bytes.
_WORK_AREAS = {
    "inst_id": "instance",
    "sid": "session",
    "qcsid": "coordinator",
    **{name: name for name in ("sql_id", "sql_exec_id", "policy", "active_us", "tablespace")},
    "operation_id": "plan_line",
    "operation_type": "operation",
    "active_time": "active_us",
    "work_area_size": "work_area_bytes",
    "actual_mem_used": "memory_bytes",
    "max_mem_used": "memory_bytes_max",
    "number_passes": "passes",
    "tempseg_size": "temp_bytes",
    "estimated_optimal_size": "optimal_bytes",
    "estimated_onepass_size": "one_pass_bytes",
}
_TEMP_USAGE = {
    "inst_id": "instance",
    "sid": "session",
    **{name: name for name in ("serial", "sql_id", "tablespace", "extents", "blocks")},
    "username": "user",
    "segtype": "segment",
    "file_number": "file",
}
#: Statistics of the temp I/O that the flash cache served, by op.
_ON_FLASH = {
    "read": "cell flash cache read hits for temp IO",
    "write": "cell writes to flash cache for temp IO",
}
_TEXTS = {"name", "sql_id", "operation", "policy", "tablespace", "user", "segment"}


@dataclass(frozen=True)
class Statistics:
    """The statistics of a session, interval by interval.

    ``rows`` has the columns ``interval`` (from 0), ``name``, ``value`` (growth in the interval),
    ``per_second`` and ``accumulated`` (since logon).
    """

    rows: Table
    damaged: list[Damage]

    def total(self, name: str) -> int:
        """Growth of one statistic over all intervals; 0 if it was not spooled."""
        return int(self.rows["value"].filled(0)[self.rows["name"].equals(name)].sum())


def read_statistics(paths: str | Path | Sequence[str | Path]) -> Statistics:
    """Reads spooled statistics: columns NAME and VALUE, and PER_SECOND and ACCUMULATED.

    A new interval begins when a name is repeated. InputError if a file lacks the columns.
    """
    files = list(map(Path, several(paths)))
    tables, damaged = _read(files, _NAMES, ("name", "value"), "statistics need")
    intervals: list[int] = []
    for table in tables:
        interval, seen = (intervals[-1] + 1 if intervals else 0), set[str | None]()
        for name in table["name"].to_pylist():
            if name in seen:
                interval, seen = interval + 1, set()
            seen.add(name)
            intervals.append(interval)
    rows = Table.concat(tables)
    columns = {"interval": ColumnValues.of(intervals, "int64"), **rows.columns}
    return Statistics(Table(columns), damaged)


def temp_on_flash(statistics: Statistics) -> dict[str, float]:
    """By op, the share (0..1) of temp requests that the flash cache of Exadata's cells served.

    Ops without temp requests are omitted. The cells count requests, but the database counts temp
    I/O in blocks, so the share of temp requests is assumed to be that of temp blocks. A write to
    flash counts once for each of its mirrors, so shares are limited to 1.
    """
    shares = {}
    for op, flash in _ON_FLASH.items():
        blocks = statistics.total(f"physical {op}s")
        temp_blocks = statistics.total(f"physical {op}s direct temporary tablespace")
        temp_requests = statistics.total(f"physical {op} IO requests") * temp_blocks
        if blocks > 0 and temp_requests > 0:
            shares[op] = min(1.0, statistics.total(flash) * blocks / temp_requests)
    return shares


def read_work_areas(paths: Sequence[Path]) -> Table:
    """A row for each work area in use at collection, with its temp segment if it spilled.

    InputError if a file lacks the columns.
    """
    needed = ("plan_line", "operation", "passes")
    return Table.concat(_read(paths, _WORK_AREAS, needed, "work areas need")[0])


def read_temp_usage(paths: Sequence[Path]) -> Table:
    """A row for each temp segment of a session. InputError if a file lacks the columns."""
    return Table.concat(_read(paths, _TEMP_USAGE, ("segment", "blocks"), "temp usage needs")[0])


def _read(
    paths: Sequence[Path], names: dict[str, str], needed: Sequence[str], words: str
) -> tuple[list[Table], list[Damage]]:
    """A table for each file with the columns of ``names``, and the lines that were not read."""
    tables, damaged = [], list[Damage]()
    for path in paths:
        with reading(path, "export it again"):
            spooled = read_spooled(path, names)
            if lacking := [name for name in needed if name not in spooled.columns]:
                headings = ", ".join(spooled.heading[:20]) or "nothing"
                raise EvidenceIncomplete(f"{words} {', '.join(lacking)}; found: {headings}")
            converted = {
                name: spooled.texts(name) if name in _TEXTS else spooled.numbers(name)
                for name in names.values()
            }
        tables.append(Table(converted))
        damaged += spooled.damaged
    return tables, damaged


#: The SQL_ID of a plan, and the number of a line in it.
LineKey = tuple[str | None, int | None]


def passes_by_line(areas: Sequence[Mapping[str, Any]]) -> dict[LineKey, int]:
    """The maximum number of passes of a work area, by statement and plan line; 0 if it fits."""
    passes: dict[LineKey, int] = {}
    for row in areas:
        key = row["sql_id"], row["plan_line"]
        passes[key] = max(passes.get(key, 0), row["passes"] or 0)
    return passes

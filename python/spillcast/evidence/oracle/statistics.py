"""Session statistics as ``spillcast collect oracle`` spools them; flash's share of temp I/O."""

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import pyarrow as pa
import pyarrow.compute as pc

from spillcast.errors import EvidenceIncomplete
from spillcast.evidence.oracle.ash.values import parse_integer
from spillcast.evidence.oracle.spooled import Damage, Spooled, read_spooled

_NAMES = {
    "name": "name",
    "statistic_name": "name",
    "value": "value",
    "per_second": "per_second",
    "value_per_second": "per_second",
    "value_per_sec": "per_second",
    "accumulated": "accumulated",
    "value_accumulated": "accumulated",
}
_NUMBERS = ("value", "per_second", "accumulated")
_SCHEMA = pa.schema(
    [("interval", pa.int64()), ("name", pa.string())] + [(name, pa.int64()) for name in _NUMBERS]
)


@dataclass(frozen=True)
class Statistics:
    """Holds the statistics of a session, interval by interval.

    ``rows`` has the columns ``interval`` (from 0), ``name``, ``value`` (growth in the interval),
    ``per_second`` and ``accumulated`` (since logon).
    """

    rows: pa.Table
    damaged: list[Damage]

    def total(self, name: str) -> int:
        """Growth of one statistic over all intervals; 0 where it was not spooled."""
        chosen = self.rows.filter(pc.equal(self.rows["name"], name))
        return pc.sum(chosen["value"], min_count=0).as_py() or 0


@dataclass(frozen=True)
class TempOnFlash:
    """Shares (0..1) of temp requests that the cells' flash cache served; None: there were none."""

    read: float | None
    write: float | None


def read_statistics(paths: str | Path | Sequence[str | Path]) -> Statistics:
    """Read spooled statistics: columns NAME and VALUE, and PER_SECOND and ACCUMULATED.

    A new interval begins where a name comes again. InputError where a file lacks the columns.
    """
    tables: list[pa.Table] = []
    damaged: list[Damage] = []
    first = 0
    for path in [paths] if isinstance(paths, str | Path) else paths:
        spooled = read_spooled(Path(path), _NAMES)
        if not {"name", "value"} <= spooled.columns.keys():
            columns = ", ".join(spooled.heading[:20]) or "nothing"
            raise EvidenceIncomplete(f"{path}: statistics need NAME and VALUE; found: {columns}")
        intervals = _intervals(spooled.columns["name"], first)
        first = intervals[-1] + 1 if intervals else first
        numbers = [_numbers(spooled, name, damaged) for name in _NUMBERS]
        tables.append(pa.table([intervals, spooled.columns["name"], *numbers], _SCHEMA))
        damaged += spooled.damaged
    return Statistics(pa.concat_tables(tables), damaged)


def temp_on_flash(statistics: Statistics) -> TempOnFlash:
    """The share of temp reads and writes that the flash cache of Exadata's cells served.

    Cells count requests and the database counts temp I/O in blocks, so the requests that were
    for temp are taken as the share of blocks that was. A write to flash counts once for each of
    its mirrors, which is why a share is cut at 1.
    """
    return TempOnFlash(
        read=_share(
            statistics,
            flash="cell flash cache read hits for temp IO",
            requests="physical read IO requests",
            temp_blocks="physical reads direct temporary tablespace",
            blocks="physical reads",
        ),
        write=_share(
            statistics,
            flash="cell writes to flash cache for temp IO",
            requests="physical write IO requests",
            temp_blocks="physical writes direct temporary tablespace",
            blocks="physical writes",
        ),
    )


def _share(
    statistics: Statistics, *, flash: str, requests: str, temp_blocks: str, blocks: str
) -> float | None:
    all_blocks = statistics.total(blocks)
    if all_blocks <= 0:
        return None
    temp_requests = statistics.total(requests) * statistics.total(temp_blocks) / all_blocks
    if temp_requests <= 0:
        return None
    return min(1.0, statistics.total(flash) / temp_requests)


def _numbers(spooled: Spooled, name: str, damaged: list[Damage]) -> list[int | None]:
    cells = spooled.columns.get(name, [None] * len(spooled.lines))
    numbers = [None if cell is None else parse_integer(cell) for cell in cells]
    for line, cell, number in zip(spooled.lines, cells, numbers, strict=True):
        if cell is not None and number is None:
            problem = f"{name} is {cell!r}: treated as unknown"
            damaged.append(Damage(str(spooled.path), line, problem))
    return numbers


def _intervals(names: Sequence[str | None], first: int) -> list[int]:
    seen: set[str | None] = set()
    intervals = []
    for name in names:
        if name in seen:
            first += 1
            seen = set()
        seen.add(name)
        intervals.append(first)
    return intervals

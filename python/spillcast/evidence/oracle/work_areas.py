"""Oracle's work areas and temp segments as ``spillcast collect oracle`` spools them."""

from collections.abc import Sequence
from pathlib import Path

import pyarrow as pa

from spillcast.errors import EvidenceIncomplete
from spillcast.evidence.oracle.ash.values import parse_integer
from spillcast.evidence.oracle.spooled import read_spooled

#: Headings of the spool and what they are called here; sizes are bytes.
_WORK_AREAS = {
    "inst_id": "instance",
    "sid": "session",
    "qcsid": "coordinator",
    "sql_id": "sql_id",
    "sql_exec_id": "sql_exec_id",
    "operation_id": "plan_line",
    "operation_type": "operation",
    "policy": "policy",
    "active_us": "active_us",
    "active_time": "active_us",
    "work_area_size": "work_area_bytes",
    "actual_mem_used": "memory_bytes",
    "max_mem_used": "memory_bytes_max",
    "number_passes": "passes",
    "tempseg_size": "temp_bytes",
    "tablespace": "tablespace",
    "estimated_optimal_size": "optimal_bytes",
    "estimated_onepass_size": "one_pass_bytes",
}
_TEMP_USAGE = {
    "inst_id": "instance",
    "sid": "session",
    "serial": "serial",
    "username": "user",
    "sql_id": "sql_id",
    "tablespace": "tablespace",
    "segtype": "segment",
    "file_number": "file",
    "extents": "extents",
    "blocks": "blocks",
}
_TEXTS = {"sql_id", "operation", "policy", "tablespace", "user", "segment"}


def read_work_areas(paths: Sequence[Path]) -> pa.Table:
    """A row for each work area in use at that moment, with its temp segment if it spilled.

    InputError where a file lacks the columns.
    """
    return _read(paths, _WORK_AREAS, ("plan_line", "operation", "passes"), "work areas need")


def read_temp_usage(paths: Sequence[Path]) -> pa.Table:
    """A row for each temp segment of a session. InputError where a file lacks the columns."""
    return _read(paths, _TEMP_USAGE, ("segment", "blocks"), "temp usage needs")


def _read(
    paths: Sequence[Path], names: dict[str, str], needed: Sequence[str], words: str
) -> pa.Table:
    columns = list(dict.fromkeys(names.values()))
    types = [pa.string() if name in _TEXTS else pa.int64() for name in columns]
    tables = []
    for path in paths:
        spooled = read_spooled(path, names)
        if lacking := [name for name in needed if name not in spooled.columns]:
            heading_words = ", ".join(spooled.heading[:20]) or "nothing"
            raise EvidenceIncomplete(
                f"{path}: {words} {', '.join(lacking)}; found: {heading_words}"
            )
        nothing: list[str | None] = [None] * len(spooled.lines)
        cells = [spooled.columns.get(name, nothing) for name in columns]
        converted = [
            texts if name in _TEXTS else [None if t is None else parse_integer(t) for t in texts]
            for name, texts in zip(columns, cells, strict=True)
        ]
        tables.append(pa.table(converted, pa.schema(list(zip(columns, types, strict=True)))))
    return pa.concat_tables(tables)


def passes_by_line(areas: pa.Table) -> dict[tuple[str | None, int | None], int]:
    """The most passes that a work area of each statement and plan line took; 0: it fits."""
    passes: dict[tuple[str | None, int | None], int] = {}
    for row in areas.to_pylist():
        key = row["sql_id"], row["plan_line"]
        passes[key] = max(passes.get(key, 0), row["passes"] or 0)
    return passes

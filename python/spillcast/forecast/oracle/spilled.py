"""Reads which lines of an Oracle plan spill, and what more PGA would do about it."""

import tempfile
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pyarrow as pa

from spillcast.evidence.find import Evidence
from spillcast.evidence.oracle.block_size import bytes_of, read_parameters
from spillcast.evidence.oracle.row_sources import (
    RowSource,
    row_sources_of_samples,
    row_sources_of_trace,
    spilling,
)
from spillcast.evidence.oracle.statistics import read_work_areas
from spillcast.evidence.oracle.trace import spool_traces
from spillcast.forecast.work_memory import PGA_TARGET, MorePga, Spilled, SpillingLine

#: STAT lines stand at the end of a trace, which is read once more for them; not of a larger one.
_TRACES_BYTES_MAX = 64 << 20


def spilled_of(
    evidence: Evidence, samples: pa.Table | None, block_bytes: int, *, lenient: bool
) -> Spilled | None:
    """What the evidence tells of it; None where that is nothing."""
    areas = read_work_areas(evidence.work_areas).to_pylist() if evidence.work_areas else []
    try:
        if samples is not None:
            sources = row_sources_of_samples(samples, block_bytes)
        else:
            sources = _of_traces(evidence.traces, lenient)
    except ModuleNotFoundError:
        # The base install has no SQL; a forecast from traces needs none.
        sources = []
    lines = _lines(sources, areas)
    more = _more_pga([row for row in areas if row["temp_bytes"]], evidence.parameters)
    return Spilled(lines, more) if lines or more is not None else None


def _of_traces(paths: Sequence[Path], lenient: bool) -> list[RowSource]:
    files = [path for path in paths if path.is_file()]
    whole = sum(path.stat().st_size for path in files)
    if len(files) < len(paths) or not 0 < whole < _TRACES_BYTES_MAX:
        return []
    with tempfile.TemporaryDirectory(prefix="spillcast-") as folder:
        spool_traces(files, Path(folder), lenient=lenient)
        # Shares do not depend on how large a block is.
        return row_sources_of_trace(Path(folder), 1)


def _lines(sources: Sequence[RowSource], areas: Sequence[dict[str, Any]]) -> list[SpillingLine]:
    """Of samples or STAT lines; else of the work areas, by their temp segments."""
    passes: dict[tuple[str | None, int | None], int] = {}
    names: dict[tuple[str | None, int | None], str] = {}
    temp: dict[tuple[str | None, int | None], int] = {}
    for area in areas:
        key = area["sql_id"], area["plan_line"]
        passes[key] = max(passes.get(key, 0), area["passes"] or 0)
        names[key] = (area["operation"] or "").replace("-", " ")
        temp[key] = temp.get(key, 0) + (area["temp_bytes"] or 0)
    shares: list[tuple[str | None, int | None, str, float, int | None]] = [
        (source.sql_id, source.plan_line, source.operation, share, source.passes)
        for source, share in spilling(sources)
        if source.plan_line is not None
    ]
    if not shares and (whole := sum(temp.values())):
        ranked = sorted(temp, key=lambda key: -temp[key])
        shares = [(*key, "", temp[key] / whole, None) for key in ranked if temp[key]]
    return [
        SpillingLine(
            sql,
            line,
            name or names.get((sql, line), ""),
            share,
            passes.get((sql, line), operation_line),
        )
        for sql, line, name, share, operation_line in shares
    ]


def _more_pga(areas: Sequence[dict[str, Any]], parameters: Sequence[Path]) -> MorePga | None:
    """Of the work areas that had spilled when they were looked at."""
    if not areas:
        return None
    needed, estimated = 0, True
    for area in areas:
        held = area["memory_bytes_max"] or 0
        optimal = area["optimal_bytes"] or 0
        # What it held was too little, whatever the optimizer thought.
        known = optimal > held
        needed += optimal if known else held + area["temp_bytes"]
        estimated = estimated and known
    targets = [size for path in parameters if (size := bytes_of(read_parameters(path), PGA_TARGET))]
    held = sum(area["memory_bytes_max"] or 0 for area in areas)
    return MorePga(held, needed, estimated, len(areas), targets[0] if targets else None)

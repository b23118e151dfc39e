"""What of an Oracle query spills, and whether more PGA would spare it: the other cure."""

import tempfile
from collections.abc import Sequence
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any

import pyarrow as pa

from spillcast.evidence.find import Evidence
from spillcast.recording.parameters import bytes_of, read_parameters
from spillcast.recording.row_sources import (
    RowSource,
    line_words,
    row_sources_of_samples,
    row_sources_of_trace,
    spilling,
)
from spillcast.recording.trace_spool import spool_traces
from spillcast.recording.work_areas import read_work_areas
from spillcast.units import format_bytes, format_duration

#: STAT lines stand at the end of a trace, which is read once more for them; not of a larger one.
_TRACES_BYTES_MAX = 64 << 20
#: Part of pga_aggregate_target that a work area of a serial query gets at most, and that those of
#: a parallel one get together, by parameters that Oracle does not document (releases since 10.2).
SERIAL_SHARE, PARALLEL_SHARE = 0.1, 0.5


@dataclass(frozen=True)
class SpillingLine:
    """A line of the plan: its share of all that spills, and passes where they are known."""

    sql_id: str | None
    plan_line: int | None
    operation: str
    share: float
    passes: int | None


@dataclass(frozen=True)
class MorePga:
    """What the work areas that spill have, and what would keep them in memory.

    ``estimated`` where that is Oracle's estimate, else it is what they held and spilled by then.
    """

    held_bytes: int
    needed_bytes: int
    estimated: bool
    work_areas: int
    pga_target_bytes: int | None
    #: Elapsed time without the waits for temp; set when that is known.
    forecast_s: float | None = None
    interval_s: tuple[float, float] | None = None


@dataclass(frozen=True)
class Spilled:
    """Which lines of the plan spill, the most first, and what more PGA would do."""

    lines: Sequence[SpillingLine]
    more_pga: MorePga | None

    def with_cure(self, forecast_s: float, interval_s: tuple[float, float]) -> "Spilled":
        """The same, with the elapsed time that no temp I/O would leave."""
        if self.more_pga is None:
            return self
        more = replace(self.more_pga, forecast_s=forecast_s, interval_s=interval_s)
        return replace(self, more_pga=more)

    def to_json(self) -> dict[str, Any]:
        """The entry of docs/schema.md."""
        return asdict(self)

    def sentences(self) -> list[str]:
        """In words."""
        lines = []
        if self.lines:
            most = self.lines[0]
            passes = "" if most.passes is None else f", in {_passes(most.passes)}"
            name = line_words(most.operation, most.plan_line)
            lines.append(f"{name} spills {most.share:.0%} of it{passes}.")
        if self.more_pga is not None:
            lines += _cure(self.more_pga)
        return lines


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
    targets = [size for path in parameters if (size := bytes_of(read_parameters(path), _TARGET))]
    held = sum(area["memory_bytes_max"] or 0 for area in areas)
    return MorePga(held, needed, estimated, len(areas), targets[0] if targets else None)


_TARGET = "pga_aggregate_target"


def _cure(more: MorePga) -> list[str]:
    several = more.work_areas > 1
    who = f"its {more.work_areas} work areas that spill" if several else "the work area that spills"
    by = "by Oracle's estimate" if more.estimated else "by what it held and spilled so far"
    text = (
        f"More PGA instead: {who} held {format_bytes(more.held_bytes)} and would need about "
        f"{format_bytes(more.needed_bytes)}, {by}"
    )
    if more.forecast_s is not None and more.interval_s is not None:
        low, high = map(format_duration, more.interval_s)
        text += (
            f"; that would leave about {format_duration(more.forecast_s)} ({low} to {high}), "
            "if the plan stays as it is"
        )
    lines = [f"{text}."]
    if more.pga_target_bytes:
        share = PARALLEL_SHARE if several else SERIAL_SHARE
        most = format_bytes(round(share * more.pga_target_bytes))
        scope = "all of a parallel query get" if several else "a work area of a serial query gets"
        lines.append(
            f"Of {_TARGET} ({format_bytes(more.pga_target_bytes)}) {scope} about {most} at most."
        )
    return lines


def _passes(number: int) -> str:
    return {0: "memory by then", 1: "one pass"}.get(number, f"{number} passes")

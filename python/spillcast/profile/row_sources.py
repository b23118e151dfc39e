"""Time, temp I/O and passes of each line of a plan: which operation it is that spills."""

import tempfile
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from spillcast.errors import EvidenceUnsuited, OptionConflict
from spillcast.evidence.find import Evidence
from spillcast.evidence.oracle.ash import ALL, Chosen, hints, read_ash
from spillcast.evidence.oracle.block_size import BlockSize, block_size
from spillcast.evidence.oracle.row_sources import (
    RowSource,
    line_words,
    row_sources_of_samples,
    row_sources_of_trace,
    spilling,
)
from spillcast.evidence.oracle.trace import Progress
from spillcast.evidence.oracle.trace_spool import spool_traces
from spillcast.evidence.oracle.trace_window import Window
from spillcast.evidence.oracle.work_areas import passes_by_line, read_work_areas
from spillcast.profile.result import ROW_SOURCE, Profile, bare_row
from spillcast.profile.traces import trace_warnings
from spillcast.units import format_bytes


def by_row_source(
    evidence: Evidence,
    by: Sequence[str],
    where: str | None,
    chosen: Chosen | None,
    window: Window,
    block_bytes: int | None,
    lenient: bool,
    on_progress: Progress | None,
) -> Profile:
    """A row for each line of each statement's plan, in the order of the plan.

    InputError for evidence without plan lines, and if other groupings are given too.
    """
    if list(by) != [ROW_SOURCE] or where is not None:
        raise OptionConflict(
            f"--by {ROW_SOURCE} stands alone",
            "for more, query the table row_sources with spillcast sql",
        )
    block = BlockSize(block_bytes, "--block") if block_bytes else None
    block = block or block_size(None, evidence.parameters, evidence.traces)
    kind = evidence.only_waits()
    if kind == "ash":
        result, sources = _of_ash(evidence, chosen or ALL, block, on_progress)
    elif kind == "traces":
        result, sources = _of_traces(evidence, window, block, lenient, on_progress)
    else:
        raise OptionConflict(f"--by {ROW_SOURCE} is for Oracle's traces and ASH exports")
    if evidence.work_areas:
        passes = passes_by_line(read_work_areas(evidence.work_areas))
        sources = [
            replace(source, passes=passes.get((source.sql_id, source.plan_line), source.passes))
            for source in sources
        ]
    notes = [*result.warnings, *_block_note(block, sources)]
    rows = _rows(sources, result.elapsed_s)
    return replace(result, rows=rows, warnings=notes, words=_sentences(sources))


def _of_ash(
    evidence: Evidence, chosen: Chosen, block: BlockSize, on_progress: Progress | None
) -> tuple[Profile, list[RowSource]]:
    ash = read_ash(evidence.ash, chosen, on_progress=on_progress)
    sources = row_sources_of_samples(ash.samples, block.bytes)
    if not sources:
        raise EvidenceUnsuited(
            "the samples contain no plan lines", "export SQL_PLAN_LINE_ID, as collect oracle does"
        )
    whole_s = sum(source.elapsed_us for source in sources) / 1e6
    damaged = [{"file": str(d.file), "line": d.line, "what": d.text} for d in ash.damaged]
    return Profile([ROW_SOURCE], whole_s, [], damaged, [*ash.notes, *hints(ash)]), sources


def _of_traces(
    evidence: Evidence,
    window: Window,
    block: BlockSize,
    lenient: bool,
    on_progress: Progress | None,
) -> tuple[Profile, list[RowSource]]:
    with tempfile.TemporaryDirectory(prefix="spillcast-") as folder:
        read = spool_traces(
            evidence.traces, Path(folder), lenient=lenient, on_progress=on_progress, window=window
        )
        sources = row_sources_of_trace(Path(folder), block.bytes)
    if not sources:
        raise EvidenceUnsuited(
            "the traces hold no STAT lines, which a cursor writes when it is closed",
            "trace until the query has ended, or give an ASH export with SQL_PLAN_LINE_ID",
        )
    elapsed_s = sum(session["elapsed_us"] for session in read.sessions()) / 1e6
    warnings = trace_warnings(read)
    return Profile([ROW_SOURCE], elapsed_s, [], read.damaged(), warnings), sources


def _rows(sources: Sequence[RowSource], elapsed_s: float) -> list[dict[str, Any]]:
    shares = {id(source): share for source, share in spilling(sources)}
    rows = []
    for row_source in sources:
        row = bare_row("", row_source.elapsed_us, elapsed_s * 1e6)
        del row["event"]
        row |= {
            ROW_SOURCE: row_source.plan_line,
            "operation": row_source.operation or None,
            "depth": row_source.depth,
            "sql": row_source.sql_id,
            "count": row_source.count,
            "rows": row_source.rows,
            "starts": row_source.starts,
            "temp_read_bytes": row_source.temp_bytes_read,
            "temp_written_bytes": row_source.temp_bytes_written,
            "temp_us": row_source.temp_us,
            "temp_share": shares.get(id(row_source), 0.0),
            "passes": row_source.passes,
        }
        rows.append(row)
    return rows


def _sentences(sources: Sequence[RowSource]) -> list[str]:
    """Sentences about the lines that spill most; none if nothing spills."""
    ranked = spilling(sources)
    if not ranked:
        return ["Nothing of it spills."]
    most, share = ranked[0]
    if most.plan_line is None:
        return []
    text = line_words(most.operation, most.plan_line)
    if most.temp_us is not None:
        return [f"{text} takes {share:.0%} of the time in temp I/O."]
    sizes = (format_bytes(size or 0) for size in (most.temp_bytes_written, most.temp_bytes_read))
    text += " spills {:.0%} of it: {} written, {} read.".format(share, *sizes)
    return [text]


def _block_note(block: BlockSize, sources: Sequence[RowSource]) -> list[str]:
    if block.known_from is not None or not any(source.spilled for source in sources):
        return []
    return [f"blocks are assumed to be {format_bytes(block.bytes)}: give --block"]

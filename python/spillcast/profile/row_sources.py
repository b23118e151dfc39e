"""Profiles by call of a trace and by line of a plan: rows other than waits."""

import tempfile
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import duckdb

from spillcast.errors import (
    EvidenceUnsuited,
    OptionConflict,
    QueryInvalid,
    SelectionEmpty,
    first_line,
)
from spillcast.evidence.open import Evidence
from spillcast.evidence.oracle.ash import ALL, Chosen, read_ash
from spillcast.evidence.oracle.ash_profile import hints
from spillcast.evidence.oracle.collected import (
    BlockSize,
    block_size,
    passes_by_line,
    read_work_areas,
)
from spillcast.evidence.oracle.row_sources import (
    RowSource,
    row_sources_of_samples,
    row_sources_of_trace,
    spilling,
)
from spillcast.evidence.oracle.trace import Progress, Window, spool_traces
from spillcast.profile.result import QUANTILES, ROW_SOURCE, Profile, bare_row
from spillcast.profile.trace_tables import (
    add_call_tree,
    check_keys,
    condition_of,
    confine,
    keys_of,
    named,
    order_of,
)
from spillcast.profile.traces import trace_warnings
from spillcast.text import plan_line_words, rows_of
from spillcast.units import format_bytes

_COLUMNS = {
    "call": "call",
    "sql": "sql_id",
    "session": "session",
    "depth": "dep",
    "caller": "caller",
    "statement": "statement",
}


def of_calls(
    paths: Sequence[Path],
    by: Sequence[str],
    where: str | None,
    lenient: bool,
    on_progress: Progress | None,
    window: Window,
) -> Profile:
    """A row for each kind of call and further key; nothing counts twice.

    InputError for a wrong expression or condition, and for one that no call meets.
    """
    with tempfile.TemporaryDirectory(prefix="spillcast-") as folder, duckdb.connect() as connection:
        read = spool_traces(
            paths, Path(folder), lenient=lenient, on_progress=on_progress, window=window
        )
        for name in ("calls", "statements"):
            table = rows_of(Path(folder) / f"{name}.parquet")
            connection.execute(f"create view {name} as from {table}")
        add_call_tree(connection)
        confine(connection, Path(folder))
        check_keys(connection, "call_tree", by, _COLUMNS)
        elapsed_us = sum(session["elapsed_us"] for session in read.sessions())
        records = _counted(connection, by, where)
    if where is not None and not records:
        raise SelectionEmpty(f"--where: no call meets '{where}'")
    rows = [_row(row, by, read.paths, elapsed_us) for row in records]
    return Profile(by, elapsed_us / 1e6, rows, read.damaged(), trace_warnings(read))


def _counted(
    connection: duckdb.DuckDBPyConnection, by: Sequence[str], where: str | None
) -> list[dict[str, Any]]:
    query = (
        f"select {', '.join(keys_of(by, _COLUMNS))}, count(*) as count, "
        "sum(self_e_us)::bigint as total_us, sum(self_c_us)::bigint as cpu_us, "
        "min(self_e_us) as min_us, avg(self_e_us) as mean_us, max(self_e_us) as max_us, "
        "max_by([source, line], (self_e_us, -source, -line)) as longest_at, "
        "sum(r)::bigint as rows, sum(self_p)::bigint as reads, "
        "sum(self_cr)::bigint as consistent_gets, "
        "sum(self_cu)::bigint as current_gets, sum(mis)::bigint as misses "
        f"from call_tree where {condition_of(where)} "
        f"group by all order by total_us desc, {order_of(by)}"
    )
    try:
        relation = connection.sql(query)
        names = relation.columns
        records = [dict(zip(names, row, strict=True)) for row in relation.fetchall()]
    except duckdb.Error as error:
        columns = ", ".join(connection.sql("from call_tree limit 0").columns)
        raise QueryInvalid(f"--where: {first_line(error)}", f"the columns are {columns}") from error
    return records


def _row(
    row: dict[str, Any], by: Sequence[str], paths: Sequence[Path], elapsed_us: int
) -> dict[str, Any]:
    source, line = row["longest_at"]
    row |= {
        "op": None,
        "idle": False,
        "share": row["total_us"] / elapsed_us if elapsed_us else None,
        **dict.fromkeys(QUANTILES),
        "longest_at": f"{paths[source]}:{line}",
    }
    return named(row, by)


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
            "for more, query the table row_sources with spillcast profile --sql",
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
    text = plan_line_words(most.operation, most.plan_line)
    if most.temp_us is not None:
        return [f"{text} takes {share:.0%} of the time in temp I/O."]
    sizes = (format_bytes(size or 0) for size in (most.temp_bytes_written, most.temp_bytes_read))
    text += " spills {:.0%} of it: {} written, {} read.".format(share, *sizes)
    return [text]


def _block_note(block: BlockSize, sources: Sequence[RowSource]) -> list[str]:
    if block.known_from is not None or not any(source.spilled for source in sources):
        return []
    return [f"blocks are assumed to be {format_bytes(block.bytes)}: give --block"]

"""Lines of a plan with their own work, from STAT lines of traces, ASH, or a printed plan."""

import re
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise, takewhile
from pathlib import Path
from typing import Any

from spillcast.errors import EvidenceDamaged
from spillcast.evidence.numbers import FigureCheck, check_all
from spillcast.evidence.oracle.ash_profile import WAITS
from spillcast.evidence.oracle.trace import TraceOptions, Traces, spool_traces
from spillcast.tables import Table
from spillcast.tabular import records
from spillcast.text import rows_of
from spillcast.workspace import workspace

#: Operations with a work area, whose excess goes to temp files, and temporary tables that a
#: statement creates for itself.
_SPILLS = re.compile(
    r"(HASH|SORT|WINDOW|BUFFER|BITMAP|CONNECT BY|SQL MODEL|SPREADSHEET|MATCH RECOGNIZE)\b"
    r"|.*(SYS_TEMP_|RECURSIVE WITH)"
)

#: Operations that always have child operations, and those that have a single one.
NO_LEAF = re.compile(r"(?:HASH|SORT|WINDOW|BUFFER)\b")
_ONE_CHILD = re.compile(r"(?:SORT|WINDOW|BUFFER|HASH (?:GROUP BY|UNIQUE))\b")
#: Operations that write tables and indexes, or for which release 11.1 counts reads as writes.
_OF_TABLES = re.compile(
    r"(?!SELECT ).* STATEMENT$|(?:LOAD|INSERT|UPDATE|DELETE|MERGE|DIRECT LOAD|MULTI-TABLE INSERT"
    r"|INTO|INDEX|TABLE ACCESS|MAT_VIEW)\b"
)

#: The operation of a parallel statement's own session.
_COORDINATOR = "PX COORDINATOR"

# The figures of a line include those of its children. A plan begins with line 1.
_OF_TRACE = """
with numbered as (
    select *, sum((id = 1)::int) over (partition by source, session, cursor order by line) as run
    from row_sources
),
below as (
    select source, session, cursor, run, parent as id, sum(elapsed_us) as elapsed_us,
        sum(blocks_read) as blocks_read, sum(blocks_written) as blocks_written
    from numbered group by all
)
select
    own.sql_id, own.id as plan_line, own.parent, own.operation,
    count(*) as executions,
    sum(own.rows)::bigint as rows,
    sum(own.starts)::bigint as starts,
    sum(own.elapsed_us - least(own.elapsed_us, coalesce(below.elapsed_us, 0)))::bigint
        as elapsed_us,
    sum(own.blocks_read - least(own.blocks_read, coalesce(below.blocks_read, 0)))::bigint
        as blocks_read,
    sum(own.blocks_written - least(own.blocks_written, coalesce(below.blocks_written, 0)))::bigint
        as blocks_written
from numbered own
left join below
    on own.source = below.source and own.session is not distinct from below.session
    and own.cursor = below.cursor and own.run = below.run and own.id = below.id
group by all
order by own.sql_id, own.id, own.operation
"""

# Rows represent waits as in a profile of ASH: a short wait is sampled once in (interval / length).
_OF_ASH = """
select
    sql_id, plan_line,
    {operation} as operation,
    count(*) as samples,
    sum(weight_us)::bigint as elapsed_us,
    coalesce(sum(weight_us) filter (event like '% temp'), 0)::bigint as temp_us,
    coalesce(sum({blocks} * waits) filter (event = 'direct path read temp'), 0)::bigint
        as blocks_read,
    coalesce(sum({blocks} * waits) filter (event = 'direct path write temp'), 0)::bigint
        as blocks_written
from (select *, {waits} as waits from samples)
group by all
order by sql_id, plan_line
"""


@dataclass(frozen=True, kw_only=True)
class RowSource:
    """One line of a statement's plan without its children, over all executions.

    ``temp_read_bytes`` and ``temp_written_bytes`` are 0 for operations that cannot spill, and None
    if unknown. ``passes`` is how often written data was read; None if nothing was written.
    """

    sql_id: str | None
    plan_line: int | None
    operation: str
    #: The number of its ancestors.
    depth: int = 0
    #: Executions, or samples of ASH.
    count: int
    rows: int | None = None
    starts: int | None = None
    elapsed_us: int
    #: Time in waits for temp files; None unless it comes from samples.
    temp_us: int | None = None
    temp_read_bytes: int | None = None
    temp_written_bytes: int | None = None
    passes: int | None = None

    @property
    def spilled(self) -> float:
        """The quantity that shares of the spill are computed from: time (us), or bytes."""
        if self.temp_us is not None:
            return float(self.temp_us)
        return float((self.temp_read_bytes or 0) + (self.temp_written_bytes or 0))


def row_sources_of_traces(
    paths: Sequence[Path], block_bytes: int, options: TraceOptions
) -> tuple[Traces, list[RowSource]]:
    """The traces, and the lines of plans from their STAT lines; empty if there are none."""
    import duckdb

    with workspace(private=True) as folder, duckdb.connect() as connection:
        read = spool_traces(paths, folder, options)
        rows = rows_of(folder / "row_sources.parquet")
        connection.execute(f"create view row_sources as from {rows}")
        lines = records(connection.sql(_OF_TRACE))
    depths: dict[tuple[str | None, int], int] = {(row["sql_id"], 0): -1 for row in lines}
    sources = []
    for row in lines:
        depth = depths.get((row["sql_id"], row["parent"]), -1) + 1
        depths[row["sql_id"], row["plan_line"]] = depth
        sources.append(_of_stat(row, depth, block_bytes))
    return read, sources


def _of_stat(row: dict[str, Any], depth: int, block_bytes: int) -> RowSource:
    read, written = row["blocks_read"], row["blocks_written"]
    if not may_spill(row["operation"]):
        read, written = (None if blocks is None else 0 for blocks in (read, written))
    return RowSource(
        sql_id=row["sql_id"],
        plan_line=row["plan_line"],
        operation=" ".join(row["operation"].split()),
        depth=depth,
        count=row["executions"],
        rows=row["rows"],
        starts=row["starts"],
        elapsed_us=row["elapsed_us"] or 0,
        temp_read_bytes=None if read is None else read * block_bytes,
        temp_written_bytes=None if written is None else written * block_bytes,
        passes=max(1, round(read / written)) if read and written else None,
    )


def row_sources_of_samples(samples: Table, block_bytes: int) -> list[RowSource]:
    """The lines of plans from ASH samples; empty if these have no plan lines."""
    if "plan_line" not in samples.column_names or samples["plan_line"].null_count == len(samples):
        return []
    columns = samples.column_names
    parts = [name for name in ("plan_operation", "plan_options") if name in columns]
    operation = f"any_value(concat_ws(' ', {', '.join(parts)}))" if parts else "''"
    blocks = "p3" if "p3" in columns else "null"
    import duckdb

    with duckdb.connect() as connection:
        connection.register("samples", samples)
        query = _OF_ASH.format(operation=operation, blocks=blocks, waits=WAITS)
        lines = records(connection.sql(query))
    return [
        RowSource(
            sql_id=row["sql_id"],
            plan_line=row["plan_line"],
            operation=row["operation"] or "",
            count=row["samples"],
            elapsed_us=row["elapsed_us"],
            temp_us=row["temp_us"],
            temp_read_bytes=row["blocks_read"] * block_bytes if blocks == "p3" else None,
            temp_written_bytes=row["blocks_written"] * block_bytes if blocks == "p3" else None,
        )
        for row in lines
    ]


def may_spill(operation: str) -> bool:
    """Whether an operation can spill to temp."""
    return _SPILLS.match(operation) is not None


def spilling(sources: Sequence[RowSource]) -> list[tuple[RowSource, float]]:
    """The lines that spill and their shares (0..1) of the spill, the largest first."""
    total = sum(source.spilled for source in sources)
    ranked = sorted(sources, key=lambda source: -source.spilled)
    return [(source, source.spilled / total) for source in ranked if source.spilled]


@dataclass(frozen=True)
class PlanLine:
    """A line with the blocks and the seconds of itself and its descendants."""

    depth: int
    operation: str
    reads: int
    writes: int
    elapsed_s: float | None = None


@dataclass(frozen=True)
class TempBlocks:
    """Sums over lines with work areas, without their children; ``elapsed_s`` is None if unknown."""

    read_blocks: int = 0
    written_blocks: int = 0
    elapsed_s: float | None = None


def is_flat(lines: Sequence[PlanLine]) -> bool:
    """Whether lines have lost their indentation: not all are below the line of the statement.

    tkprof has no line for the statement, and prints subqueries of the select list at the level of
    its first line; but a sort or a hash always has lines below it. If none has two children, those
    at the same level are a chain.
    """
    has_statement = bool(lines) and lines[0].operation.endswith(" STATEMENT")
    if has_statement and any(line.depth <= lines[0].depth for line in lines[1:]):
        return True
    is_chain = all(_ONE_CHILD.match(line.operation) for line in lines if may_spill(line.operation))
    return any(
        NO_LEAF.match(line.operation)
        and (below.depth < line.depth or (below.depth == line.depth and not is_chain))
        for line, below in pairwise(lines)
    )


def lacks_servers(lines: Sequence[PlanLine]) -> bool:
    """Whether the lines lack the work of the parallel servers of a coordinator that ran."""

    def is_alone(at: int) -> bool:
        below = takewhile(lambda line: line.depth > lines[at].depth, lines[at + 1 :])
        return lines[at].elapsed_s != 0 and not any(line.elapsed_s or line.reads for line in below)

    starts = (at for at, line in enumerate(lines) if line.operation.startswith(_COORDINATOR))
    return any(map(is_alone, starts))


def writer_elsewhere(lines: Sequence[PlanLine]) -> str | None:
    """The first operation that wrote blocks in a query, but neither temp blocks nor tables.

    For example, it calls functions that run statements. Rounded figures do not matter, because only
    lines whose children wrote nothing are examined.
    """
    for at, line in enumerate(lines):
        is_known = may_spill(line.operation) or _OF_TABLES.match(line.operation)
        if line.writes and not is_known and not any(c.writes for c in _children(lines, at)):
            return line.operation
    return None


def temp_blocks_of(lines: Sequence[PlanLine]) -> TempBlocks:
    """Temp blocks of all lines whose work area spilled.

    InputError if a line has less than its children, or if the indentation is lost.
    """
    if is_flat(lines):
        raise EvidenceDamaged("the lines of its plan have lost their indentation")
    reads = writes = 0
    elapsed_s: float | None = None
    for at, line in enumerate(lines):
        if not may_spill(line.operation):
            continue
        below = _children(lines, at)
        reads_below = sum(child.reads for child in below)
        words = f"{reads_below:,} blocks read below {line.operation}"
        whole = f"{line.reads:,} blocks read by it and those below"
        check = FigureCheck("children-of-parent", reads_below, words, line.reads, whole)
        check_all([check])
        own_writes = line.writes - sum(child.writes for child in below)
        # A temporary table is written by another line than those that read it.
        if own_writes <= 0 and "SYS_TEMP_" not in line.operation:
            continue
        writes += max(0, own_writes)
        reads += max(0, line.reads - reads_below)
        if line.elapsed_s is not None:
            self_s = line.elapsed_s - sum(child.elapsed_s or 0.0 for child in below)
            elapsed_s = (elapsed_s or 0.0) + max(self_s, 0.0)
    is_parallel = any(line.operation.startswith("PX ") for line in lines)
    if lines and lines[0].writes and lines[0].operation.endswith(" STATEMENT") and not is_parallel:
        words = f"{writes:,} blocks written by its lines"
        whole = f"{lines[0].writes:,} by {lines[0].operation}"
        check_all([FigureCheck("part-of-whole", writes, words, lines[0].writes, whole)])
    return TempBlocks(reads, writes, elapsed_s)


def _children(lines: Sequence[PlanLine], at: int) -> list[PlanLine]:
    """The children of a line: the least indented of the more indented lines that follow it."""
    inner: list[PlanLine] = []
    for line in lines[at + 1 :]:
        if line.depth <= lines[at].depth:
            break
        while inner and inner[-1].depth > line.depth:
            inner.pop()
        if not inner or inner[-1].depth == line.depth:
            inner.append(line)
    if _ONE_CHILD.match(lines[at].operation):
        return inner or list(lines[at + 1 : at + 2])
    return inner

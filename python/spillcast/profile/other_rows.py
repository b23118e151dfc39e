"""Profiles evidence whose rows are not waits: samples, statistics, calls, lines of a plan."""

from collections.abc import Sequence
from dataclasses import asdict, replace
from pathlib import Path
from typing import Any

from spillcast.errors import EvidenceUnsuited, OptionConflict
from spillcast.evidence.open import EvidenceFiles
from spillcast.evidence.oracle.ash import read_ash
from spillcast.evidence.oracle.ash_profile import ON_CPU, executions, hints, profile_ash
from spillcast.evidence.oracle.collected import (
    BlockSize,
    block_size,
    passes_by_line,
    read_statistics,
    read_work_areas,
)
from spillcast.evidence.oracle.row_sources import (
    RowSource,
    row_sources_of_samples,
    row_sources_of_traces,
    spilling,
)
from spillcast.evidence.oracle.trace import WHOLE, TraceOptions, spool_traces
from spillcast.profile.result import DIMENSIONS, QUANTILES, ROW_SOURCE, Profile, bare_row
from spillcast.profile.rows import Grouping
from spillcast.profile.sql import add_call_tree, confine, own_duckdb
from spillcast.profile.traces import trace_warnings
from spillcast.recording import Recording
from spillcast.tables import Table
from spillcast.text import plan_line_text, rows_of
from spillcast.units import format_bytes

_OF_SAMPLES = {
    "event": f"coalesce(event::varchar, '{ON_CPU}')",
    "sql": "sql_id::varchar",
    "session": "session",
    "second": "time_ns // 1000000000",
}


def of_samples(recording: Recording, by: Sequence[str], where: str | None) -> Profile:
    """The time of all samples, summed over sessions.

    InputError for columns that samples lack, such as sizes and files, and for a wrong condition.
    """
    rows = grouped(recording.samples, by, where)
    total_us = recording.samples["weight_us"].sum()
    reason = recording.meta.capture.absent_because
    return Profile(by, total_us / 1e6, rows, [], [f"samples of waits, no I/O: {reason}"])


def grouped(samples: Table, by: Sequence[str], where: str | None) -> list[dict[str, Any]]:
    """Rows by names or expressions, the largest first; shares are of all samples."""
    for name in by:
        if name in DIMENSIONS and name not in _OF_SAMPLES:
            raise EvidenceUnsuited(
                f"--by {name}: this evidence has only samples", f"give {', '.join(_OF_SAMPLES)}"
            )
    grouping = Grouping(by, where, _OF_SAMPLES)
    with own_duckdb() as (connection, folder):
        connection.register("samples", samples)
        confine(connection, folder)
        grouping.check(connection, "samples")
        sums = ["count(*) as count", "sum(weight_us)::bigint as total_us"]
        with grouping.failures():
            rows = grouping.answer(connection, grouping.query("samples", sums))
    grouping.check_some(rows, "sample")
    total_us = samples["weight_us"].sum()
    return [{**bare_row(row["total_us"], total_us), **row} for row in rows]


def of_statistics(paths: Sequence[Path], by: Sequence[str], where: str | None) -> Profile:
    """A row for each statistic. InputError for any key except the event, and for a condition."""
    if list(by) != ["event"] or where is not None:
        raise EvidenceUnsuited(
            "statistics are only shown one by one",
            'for more: spillcast profile FILE --sql "select ... from statistics"',
        )
    statistics = read_statistics(paths)
    rows: dict[str, dict[str, Any]] = {}
    for figures in statistics.rows.to_pylist():
        name = figures["name"]
        row = rows.setdefault(name, {"event": name, "value": 0, "per_second_max": 0})
        row["value"] += figures["value"] or 0
        row["per_second_max"] = max(row["per_second_max"], figures["per_second"] or 0)
        row["accumulated"] = figures["accumulated"]
    return Profile(
        ["event"], 0.0, list(rows.values()), [damage.row for damage in statistics.damaged]
    )


def of_ash(
    paths: Sequence[Path],
    by: Sequence[str],
    where: str | None,
    options: TraceOptions = WHOLE,
) -> Profile:
    """Samples of ASH by the keys of ``by``; by event alone, latencies without sampling bias.

    The profile lists the executions if there are several.
    """
    ash = read_ash(paths, options.chosen, on_progress=options.on_progress)
    if list(by) != ["event"] or where is not None:
        rows = grouped(ash.samples, by, where)
    else:
        more = {"op": None, "idle": False, **dict.fromkeys(QUANTILES)}
        rows = [row | more for row in profile_ash(ash).to_pylist()]
    sampled = executions(ash)
    return Profile(
        by,
        ash.samples["weight_us"].sum() / 1e6,
        rows,
        [damage.row for damage in ash.damaged],
        [*ash.notes, *hints(ash)],
        executions=[asdict(execution) for execution in sampled] if len(sampled) > 1 else [],
    )


_OF_CALLS = {
    "call": "call",
    "sql": "sql_id",
    "session": "session",
    "depth": "dep",
    "caller": "caller",
    "statement": "statement",
}
_SUMS_OF_CALLS = (
    "count(*) as count",
    "sum(self_e_us)::bigint as total_us",
    "sum(self_c_us)::bigint as cpu_us",
    "min(self_e_us) as min_us",
    "avg(self_e_us) as mean_us",
    "max(self_e_us) as max_us",
    "max_by([source, line], (self_e_us, -source, -line)) as longest_at",
    "sum(r)::bigint as rows",
    "sum(self_p)::bigint as reads",
    "sum(self_cr)::bigint as consistent_gets",
    "sum(self_cu)::bigint as current_gets",
    "sum(mis)::bigint as misses",
)


def of_calls(
    paths: Sequence[Path],
    by: Sequence[str],
    where: str | None,
    options: TraceOptions,
) -> Profile:
    """Calls by the keys of ``by``, with their own time and work, without those of their callees.

    InputError for a wrong expression or condition, and for a condition that no call meets.
    """
    grouping = Grouping(by, where, _OF_CALLS)
    grouping.check_unread("call_tree")
    with own_duckdb() as (connection, folder):
        read = spool_traces(paths, folder, options)
        for name in ("calls", "statements"):
            table = rows_of(folder / f"{name}.parquet")
            connection.execute(f"create view {name} as from {table}")
        add_call_tree(connection)
        confine(connection, folder)
        with grouping.failures():
            rows = grouping.answer(connection, grouping.query("call_tree", _SUMS_OF_CALLS))
    grouping.check_some(rows, "call")
    elapsed_us = read.elapsed_us()
    for row in rows:
        source, line = row["longest_at"]
        row["longest_at"] = f"{read.paths[source]}:{line}"
        share = row["total_us"] / elapsed_us if elapsed_us else None
        more = {"op": None, "idle": False, "share": share, **dict.fromkeys(QUANTILES)}
        row |= {name: value for name, value in more.items() if name not in by}
    return Profile(by, elapsed_us / 1e6, rows, read.damaged(), trace_warnings(read))


#: Fields of RowSource that are keys of a row.
_OF_ROW_SOURCE = (
    *("depth", "count", "rows", "starts"),
    *("temp_read_bytes", "temp_written_bytes", "temp_us", "passes"),
)


def by_row_source(
    evidence: EvidenceFiles,
    by: Sequence[str],
    where: str | None,
    block_bytes: int | None,
    options: TraceOptions,
) -> Profile:
    """A row for each line of each statement's plan, in the order of the plan.

    InputError for evidence without plan lines, for further keys and for a condition.
    """
    if list(by) != [ROW_SOURCE] or where is not None:
        raise OptionConflict(
            f"--by {ROW_SOURCE} goes with neither other names nor --where",
            "for more, query the table row_sources with spillcast profile --sql",
        )
    block = BlockSize(block_bytes, "--block") if block_bytes else None
    block = block or block_size(None, evidence.parameters, evidence.traces)
    kind = evidence.only_waits()
    if kind == "ash":
        ash = read_ash(evidence.ash, options.chosen, on_progress=options.on_progress)
        sources = row_sources_of_samples(ash.samples, block.bytes)
        elapsed_s = sum(source.elapsed_us for source in sources) / 1e6
        damaged, warnings = [damage.row for damage in ash.damaged], [*ash.notes, *hints(ash)]
        problem = "the samples contain no plan lines"
        remedy = "export SQL_PLAN_LINE_ID, as collect oracle does"
    elif kind == "traces":
        read, sources = row_sources_of_traces(evidence.traces, block.bytes, options)
        elapsed_s = read.elapsed_us() / 1e6
        damaged, warnings = read.damaged(), trace_warnings(read)
        problem = "the traces hold no STAT lines, which a cursor writes when it is closed"
        remedy = "trace until the query has ended, or give an ASH export with SQL_PLAN_LINE_ID"
    else:
        raise OptionConflict(f"--by {ROW_SOURCE} is for Oracle's traces and ASH exports")
    if not sources:
        raise EvidenceUnsuited(problem, remedy)
    if evidence.work_areas:
        passes = passes_by_line(read_work_areas(evidence.work_areas).to_pylist())
        sources = [
            replace(source, passes=passes.get((source.sql_id, source.plan_line), source.passes))
            for source in sources
        ]
    if block.known_from is None and any(source.spilled for source in sources):
        warnings.append(f"blocks are assumed to be {format_bytes(block.bytes)}: give --block")
    rows, words = _rows(sources, elapsed_s), _sentences(sources)
    return Profile([ROW_SOURCE], elapsed_s, rows, damaged, warnings, words=words)


def _rows(sources: Sequence[RowSource], elapsed_s: float) -> list[dict[str, Any]]:
    shares = {id(source): share for source, share in spilling(sources)}
    return [
        bare_row(source.elapsed_us, elapsed_s * 1e6)
        | {name: getattr(source, name) for name in _OF_ROW_SOURCE}
        | {
            ROW_SOURCE: source.plan_line,
            "operation": source.operation or None,
            "sql": source.sql_id,
            "temp_share": shares.get(id(source), 0.0),
        }
        for source in sources
    ]


def _sentences(sources: Sequence[RowSource]) -> list[str]:
    """A sentence about the line that spills most, or one that nothing spills."""
    ranked = spilling(sources)
    if not ranked:
        return ["Nothing of it spills."]
    most, share = ranked[0]
    if most.plan_line is None:
        return []
    text = plan_line_text(most.operation, most.plan_line)
    if most.temp_us is not None:
        return [f"{text} takes {share:.0%} of the time in temp I/O."]
    written = format_bytes(most.temp_written_bytes or 0)
    read = format_bytes(most.temp_read_bytes or 0)
    return [f"{text} spills {share:.0%} of it: {written} written, {read} read."]

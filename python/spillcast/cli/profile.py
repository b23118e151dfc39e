"""``spillcast profile``: where the time goes, or any SQL on the same rows."""

from typing import Annotated

import typer

from spillcast.cli.options import (
    Block,
    ExecId,
    Lenient,
    RecordedTemp,
    Since,
    SqlId,
    Until,
    Where,
    option,
)
from spillcast.cli.output import notify
from spillcast.cli.usage import Answer, refuse
from spillcast.errors import EvidenceUnsuited, OptionConflict


def profile(
    evidence: Annotated[
        list[str],
        typer.Argument(help="Traces (files, folders, patterns, -), ASH exports, or a recording."),
    ],
    by: Annotated[
        str | None,
        option(
            "--by COLUMNS",
            "event (default), op, size, file, object, sql, session, second, minute, or any SQL "
            "over the columns of a wait; of recordings also kind of temp file, function, thread; "
            "of traces row-source, call, statement, caller, depth. Several with a comma.",
        ),
    ] = None,
    event: Annotated[
        str | None, option("--event PATTERN", "Only events like this; * stands for any text.")
    ] = None,
    where: Where = None,
    top: Annotated[int | None, option("--top N", "Maximum number of rows.", min=1)] = None,
    histogram: Annotated[
        bool, option("--histogram", "Show the distribution of latencies.")
    ] = False,
    folded: Annotated[
        bool, option("--folded", "With --by function: folded stacks, for flamegraph.pl.")
    ] = False,
    sql: Annotated[
        str | None,
        option(
            "--sql QUERY",
            "Instead of a profile: the result of this query for DuckDB. Tables are waits, calls "
            "and statements of traces, samples of ASH exports, waits, seconds and samples of a "
            "recording. The query can neither open nor write files.",
        ),
    ] = None,
    sql_id: SqlId = None,
    exec_id: ExecId = None,
    since: Since = None,
    until: Until = None,
    block: Block = None,
    temp: RecordedTemp = None,
    lenient: Lenient = False,
) -> Answer:
    """Show where the time goes: by event, or by any other column.

    --sql answers any other question; docs/schema.md describes the columns of its tables.

    Example: spillcast profile traces/ --by event,size --event 'direct path*'

    Example: spillcast profile run.spill --by function --top 20

    Example: spillcast profile *.trc --sql "select event, count(*) from waits group by all"
    """
    from spillcast.cli.progress import reading_bar
    from spillcast.evidence.choice import Chosen
    from spillcast.profile import profile as make
    from spillcast.profile.result import FUNCTION, split_by
    from spillcast.report.profile import folded_page, functions_page, profile_page

    if sql is not None:
        others = {
            "--by": by, "--event": event, "--where": where, "--top": top,
            "--histogram": histogram, "--folded": folded, "--sql-id": sql_id,
            "--exec-id": exec_id, "--since": since, "--until": until, "--block": block,
            "--temp": temp,
        }  # fmt: skip
        refuse(others, "does not go with --sql", "write it as part of the query")
        return _query(sql, evidence, lenient=lenient)
    chosen = Chosen(sql_id=sql_id, exec_id=exec_id, since=since, until=until)
    # Modules that only some evidence needs take long to import.
    block_bytes = None
    if block is not None:
        from spillcast.evidence.oracle.collected import parse_block

        block_bytes = parse_block(block)
    with reading_bar(evidence) as read:
        result = make(
            *evidence,
            by=split_by("event" if by is None else by),
            event=event,
            where=where,
            temp_dirs=temp or (),
            lenient=lenient,
            chosen=chosen,
            block_bytes=block_bytes,
            on_progress=read,
        )
    if histogram and not result.histograms:
        raise EvidenceUnsuited(
            "--histogram: samples are no single waits", "give a trace, or a recording of I/O"
        )
    by_function = FUNCTION in result.by
    if folded and not by_function:
        raise OptionConflict("--folded goes with --by function")
    if folded:
        return Answer(result.to_json, lambda: folded_page(evidence[0], result))
    result = result.top(top)
    if by_function:
        return Answer(result.to_json, lambda: functions_page(result, top))
    return Answer(result.to_json, lambda: profile_page(result, histograms=histogram))


def _query(query: str, evidence: list[str], *, lenient: bool) -> Answer:
    """The result of an SQL query on the evidence."""
    from spillcast.cli.progress import reading_bar
    from spillcast.profile.sql import run_sql
    from spillcast.report.profile import sql_page

    with reading_bar(evidence) as read:
        columns, rows = run_sql(query, evidence, lenient=lenient, on_progress=read, say=notify)
    return Answer(
        lambda: {"schema": "spillcast.sql/1", "columns": columns, "rows": rows},
        lambda: sql_page(columns, rows),
    )

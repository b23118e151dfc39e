"""``spillcast profile``: where the time goes."""

from typing import Annotated, Any

import typer

from spillcast.cli.options import (
    Block,
    Csv,
    ExecId,
    Json,
    Lenient,
    Markdown,
    RecordedTemp,
    Since,
    SqlId,
    Until,
    Where,
)


def add_to(application: typer.Typer) -> None:
    """Register the verb."""
    application.command("profile")(profile)


def profile(
    evidence: Annotated[
        list[str],
        typer.Argument(help="Traces (files, folders, patterns, -), ASH exports, or a recording."),
    ],
    by: Annotated[
        str,
        typer.Option(
            help="event, op, size, file, object, sql, session, second, minute, or any SQL over "
            "the columns of a wait; row-source for the lines of a plan; call, with sql, statement, "
            "caller, depth. Several with a comma."
        ),
    ] = "event",
    event: Annotated[
        str | None, typer.Option(help="Only events like this; * stands for any text.")
    ] = None,
    where: Where = None,
    top: Annotated[int | None, typer.Option(min=1, help="Maximum number of rows.")] = None,
    histogram: Annotated[bool, typer.Option(help="Show the distribution of latencies.")] = False,
    sql_id: SqlId = None,
    exec_id: ExecId = None,
    since: Since = None,
    until: Until = None,
    block: Block = None,
    temp: RecordedTemp = None,
    lenient: Lenient = False,
    json: Json = False,
    csv: Csv = False,
    markdown: Markdown = False,
) -> None:
    """Show where the time goes: by event, or by any other column.

    Example: spillcast profile traces/ --by event,size --event 'direct path*'
    """
    from spillcast.cli.output import show
    from spillcast.cli.progress import reading_bar
    from spillcast.errors import EvidenceUnsuited
    from spillcast.profile import profile as make
    from spillcast.profile.result import split_by
    from spillcast.report.profile import profile_page

    options: dict[str, Any] = {}
    if any(given is not None for given in (sql_id, exec_id, since, until)):
        from spillcast.evidence.oracle.ash import Chosen

        options["chosen"] = Chosen(sql_id=sql_id, exec_id=exec_id, since=since, until=until)
    if block is not None:
        from spillcast.evidence.oracle.block_size import parse_block

        options["block_bytes"] = parse_block(block)
    with reading_bar(evidence) as read:
        result = make(
            *evidence,
            by=split_by(by),
            event=event,
            where=where,
            temp_dirs=temp or (),
            lenient=lenient,
            on_progress=read,
            **options,
        )
    if histogram and not result.histograms:
        raise EvidenceUnsuited(
            "--histogram: samples are no single waits", "give a trace, or a recording of I/O"
        )
    result = result.top(top)
    show(
        result.to_json,
        lambda: profile_page(result, histogram=histogram),
        json=json,
        csv=csv,
        markdown=markdown,
    )

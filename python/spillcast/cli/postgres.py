"""``spillcast postgres``: rank a server's statements that spill."""

from pathlib import Path
from typing import Annotated, Literal

import typer

from spillcast.cli.options import Confidence
from spillcast.cli.usage import Answer

#: What is asked about where nothing else is.
TEN_TIMES = "factor:10"


def postgres(
    server: Annotated[
        str,
        typer.Argument(
            metavar="DSN|LOGS", help="A server; or a log file or a folder of logs instead."
        ),
    ],
    to: Annotated[
        list[str] | None,
        typer.Option(
            "--to",
            metavar="STORAGE",
            help="Storage to forecast for: storage.json, catalogue:NAME, "
            "a recording, latency:150us, "
            "factor:60. Repeatable; by default ten times as fast.",
        ),
    ] = None,
    since: Annotated[
        str | None,
        typer.Option(
            metavar="TIME|FILE",
            help="Count only what happens from now on, for this long, such as 10m; or since a "
            "snapshot that --save kept.",
        ),
    ] = None,
    save: Annotated[
        Path | None,
        typer.Option(
            metavar="FILE", help="Save this snapshot of the counters, for a later --since."
        ),
    ] = None,
    log: Annotated[
        str | None,
        typer.Option(
            metavar="PATH", help="The server's log or a folder of logs; its plans show work_mem."
        ),
    ] = None,
    origin: Annotated[
        str | None,
        typer.Option(
            "--from",
            metavar="STORAGE",
            help="Storage that temp files are on now, if I/O was not timed.",
        ),
    ] = None,
    top: Annotated[int, typer.Option(min=1, help="Number of statements in the table.")] = 10,
    per: Annotated[
        Literal["day"] | None,
        typer.Option(help="Extrapolate what was counted to a day."),
    ] = None,
    confidence: Confidence = 0.9,
) -> Answer:
    """Rank the statements that spill on a PostgreSQL server.

    For each it shows what other storage and more work_mem would save.

    Numbers are what the server counted; --per day extrapolates them.
    Without pg_stat_statements it shows what each database has written, and how to enable it.

    Reads statistics only, in a few short queries of one read-only session; pg_monitor is enough.
    Exits with 3 if there is no forecast for any statement.

    Example: spillcast postgres dbname=dw --to catalogue:aws-gp3

    Example: spillcast postgres service=dw --since 10m --to nvme.json

    Example: spillcast postgres /var/log/postgresql --to latency:150us
    """
    from spillcast.engines.postgres.rank.command import rank_postgres
    from spillcast.report.postgres import ranking_page

    ranking = rank_postgres(
        server,
        to or [TEN_TIMES],
        log=log,
        since=since,
        save_as=save,
        origin=origin,
        confidence=confidence,
    )
    unknown = all(statement.no_spill is None for statement in ranking.statements)
    no_forecast = unknown and (ranking.statements or ranking.is_blind)
    return Answer(
        ranking.to_json,
        lambda: ranking_page(ranking, top, per_day=per == "day"),
        3 if no_forecast else 0,
    )

"""``spillcast clickhouse``: rank a server's statements that spill."""

from typing import Annotated

import typer

from spillcast.cli.options import Confidence
from spillcast.cli.ranking import TEN_TIMES, Targets, Top, ranking_answer
from spillcast.cli.usage import Answer


def clickhouse(
    server: Annotated[
        str,
        typer.Argument(
            metavar="DSN|EXPORT",
            help="A server, http://USER@HOST:8123; or a file of rows of system.query_log.",
        ),
    ],
    to: Targets = None,
    since: Annotated[
        str | None,
        typer.Option(
            metavar="TIME", help="Rank queries of this time up to now, such as 7d; by default 1d."
        ),
    ] = None,
    cluster: Annotated[
        str | None,
        typer.Option(metavar="NAME", help="Read the logs of all replicas of this cluster."),
    ] = None,
    origin: Annotated[
        str | None,
        typer.Option(
            "--from",
            metavar="STORAGE",
            help="Storage that temp files are on now, if the log has no times of their I/O.",
        ),
    ] = None,
    top: Top = 10,
    confidence: Confidence = 0.9,
) -> Answer:
    """Rank the statements that spill on a ClickHouse server.

    For each it shows what other storage would save, and the memory with which it does not spill.

    Reads system.query_log over HTTP, and changes nothing; SELECT on it is enough. Give the password
    in CLICKHOUSE_PASSWORD. Exits with 3 if there is no forecast for any statement.

    Example: spillcast clickhouse http://monitor@ch1:8123 --since 7d --to catalogue:aws-gp3

    Example: spillcast clickhouse log.jsonl --to latency:150us
    """
    from spillcast.engines.clickhouse.rank import rank_clickhouse
    from spillcast.units import parse_duration_s

    ranking = rank_clickhouse(
        server,
        to or [TEN_TIMES],
        since_s=None if since is None else parse_duration_s(since, "--since"),
        cluster=cluster,
        origin=origin,
        confidence=confidence,
    )
    return ranking_answer(ranking, top)

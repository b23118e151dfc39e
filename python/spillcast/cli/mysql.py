"""``spillcast mysql``: rank a server's statements that spill."""

from typing import Annotated

import typer

from spillcast.cli.options import Confidence
from spillcast.cli.usage import Answer

#: The target where none is given.
TEN_TIMES = "factor:10"


def mysql(
    server: Annotated[
        str,
        typer.Argument(
            metavar="DSN",
            help="A server: mysql://USER@HOST/DATABASE, or the path of a socket or of a defaults "
            "file.",
        ),
    ],
    to: Annotated[
        list[str] | None,
        typer.Option(
            "--to",
            metavar="STORAGE",
            help="Storage to forecast for: storage.json, catalogue:NAME, a recording, "
            "latency:150us, factor:60. Repeatable; by default ten times as fast.",
        ),
    ] = None,
    top: Annotated[int, typer.Option(min=1, help="Number of statements in the table.")] = 10,
    confidence: Confidence = 0.9,
) -> Answer:
    """Rank the statements that spill on a MySQL or MariaDB server.

    It shows temporary tables on disk, merge passes, and what other storage would save at most.

    Reads statistics only: it needs performance_schema and the right to read it. Give a password
    in MYSQL_PWD or ~/.my.cnf. Exits with 3 if there is no forecast for any statement.

    Example: spillcast mysql mysql://root@localhost --to catalogue:aws-gp3

    Example: spillcast mysql /run/mysqld/mysqld.sock --to latency:150us
    """
    from spillcast.engines.mysql.rank import rank_mysql
    from spillcast.report.postgres import ranking_page

    ranking = rank_mysql(server, to or [TEN_TIMES], confidence)
    unknown = all(statement.no_spill is None for statement in ranking.statements)
    return Answer(
        ranking.to_json,
        lambda: ranking_page(ranking, top),
        3 if unknown and ranking.statements else 0,
    )

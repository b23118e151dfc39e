"""``spillcast mysql``: rank a server's statements that spill."""

from typing import Annotated

import typer

from spillcast.cli.options import Confidence
from spillcast.cli.ranking import TEN_TIMES, Targets, Top, ranking_answer
from spillcast.cli.usage import Answer


def mysql(
    server: Annotated[
        str,
        typer.Argument(
            metavar="DSN",
            help="A server: mysql://USER@HOST/DATABASE, or the path of a socket or of a defaults "
            "file.",
        ),
    ],
    to: Targets = None,
    top: Top = 10,
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

    ranking = rank_mysql(server, to or [TEN_TIMES], confidence)
    return ranking_answer(ranking, top)

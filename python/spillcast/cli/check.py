"""``spillcast check``: whether a forecast was true, once temp files are there."""

import os
from pathlib import Path
from typing import Annotated

import typer

from spillcast.cli.options import Elapsed, Item, Queryid
from spillcast.cli.usage import Answer


def check(
    forecast: Annotated[
        Path, typer.Argument(help="A forecast's JSON document, from forecast --json.")
    ],
    after: Annotated[
        list[str],
        typer.Argument(
            metavar="AFTER",
            help="A recording, plan, trace or statement counts of the query after the move; or the "
            "DSN of the server that runs it.",
        ),
    ],
    target: Annotated[
        str | None,
        typer.Option(
            metavar="TARGET", help="Which of the forecast's targets temp files are on now."
        ),
    ] = None,
    elapsed: Elapsed = None,
    queryid: Queryid = None,
    item: Item = None,
    query: Annotated[
        str | None,
        typer.Option(
            metavar="PATTERN",
            help="With a DSN: the statement whose text matches this regular expression.",
        ),
    ] = None,
    since: Annotated[
        str | None,
        typer.Option(
            metavar="TIME|FILE",
            help="With a DSN: count only calls since a snapshot that spillcast postgres --save "
            "kept, or from now on for this long, such as 10m.",
        ),
    ] = None,
    backend: Annotated[
        int | None,
        typer.Option(
            metavar="PID",
            help="With a DSN: the query that this session runs, or runs next, once it has ended.",
        ),
    ] = None,
    log: Annotated[
        Path | None,
        typer.Option(
            metavar="FILE", help="Add it to this file of cases (.parquet), for verify --from."
        ),
    ] = None,
) -> Answer:
    """Compare a forecast with the query after the move.

    With --log checks are collected, and verify --from shows how accurate a site's forecasts are.
    Exits with 1 if the measured time is outside the interval, and with 3 if the run was not the
    same work or not on that storage.

    Example: spillcast check forecast.json after.spill --log checks.parquet

    Example: spillcast check forecast.json dbname=dw --target nvme.json --since before.json

    Example: spillcast check forecast.json dbname=dw --backend 4711
    """
    from spillcast.engines.engine import StatementSelector
    from spillcast.engines.postgres.rank.measured import took_on_postgres
    from spillcast.errors import OptionInvalid
    from spillcast.forecast.question import Question
    from spillcast.lab.check import (
        Check,
        actual_run,
        actual_run_of_evidence,
        kept_forecast,
        meant_of,
    )
    from spillcast.lab.check import log as keep
    from spillcast.report.verify import check_page
    from spillcast.units import format_count, parse_duration_s

    kept = kept_forecast(forecast, target)
    if len(after) == 1 and not os.path.exists(after[0]) and _is_dsn(after[0]):
        named = StatementSelector(backend=backend, queryid=queryid, query=query, since=since)
        if item is not None:
            raise OptionInvalid(f"--item is for a file: {after[0]} is a DSN")
        actual = actual_run(
            took_on_postgres(
                after[0], meant_of(kept, named), lambda text: typer.echo(text, err=True)
            )
        )
    else:
        of_server = {"--query": query, "--since": since, "--backend": backend}
        if given := next((name for name, value in of_server.items() if value is not None), None):
            raise OptionInvalid(f"{given} is for a server: {after[0]} is not a DSN")
        statement_id = None if kept.statement is None else kept.statement.queryid
        elapsed_s = None if elapsed is None else parse_duration_s(elapsed, "--elapsed")
        question = Question(elapsed_s=elapsed_s, queryid=queryid, item=item)
        actual = actual_run_of_evidence(after, question, statement_id)
    check_ = Check(kept, actual)
    answer = Answer(check_.to_json, lambda: check_page(check_))
    if check_.objection is not None:
        return answer.with_status(3)
    if log is not None:
        count = keep(check_, log, forecast.stem)
        typer.echo(f"{log}: {format_count(count, 'case')}; spillcast verify --from {log}", err=True)
    return answer if check_.inside else answer.with_status(1)


def _is_dsn(word: str) -> bool:
    return "=" in word or word.startswith(("postgres://", "postgresql://"))

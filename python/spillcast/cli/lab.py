"""Verbs that check forecasts and this machine: check, calibrate, demo, doctor, engines."""

import os
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Literal

import typer

from spillcast.cli.options import Elapsed, ItemOption, Queryid, WorkOption, option
from spillcast.cli.output import Answer, notify
from spillcast.cli.usage import refuse
from spillcast.engines.registry import engines as known_engines
from spillcast.errors import CalibrationMissing

#: Engines for experiments; the first is the default.
ENGINE_NAMES = [engine.name for engine in known_engines("lab")]
DEFAULT_ENGINE = ENGINE_NAMES[0]

if TYPE_CHECKING:
    _Name = str
else:
    # Computed from the registry, so type checkers do not see the values.
    _Name = Literal[tuple(ENGINE_NAMES)]
Engine = Annotated[_Name, option("--engine", "The engine, with data and processes of its own.")]


def check(
    forecast: Annotated[
        Path, typer.Argument(help="A forecast's JSON document, from forecast --json.")
    ],
    after: Annotated[
        list[str],
        typer.Argument(
            metavar="AFTER",
            help="Evidence of the query after the move, or the DSN of the server that runs it.",
        ),
    ],
    target: Annotated[
        str | None, option("--target TARGET", "The forecast's target on which temp files are now.")
    ] = None,
    elapsed_s: Elapsed = None,
    queryid: Queryid = None,
    item: ItemOption = None,
    query: Annotated[
        str | None, option("--query PATTERN", "With a DSN: the statement that matches this regex.")
    ] = None,
    since: Annotated[
        str | None,
        option(
            "--since TIME|FILE",
            "With a DSN: count only calls since a snapshot of postgres --save, or in the next 10m.",
        ),
    ] = None,
    backend: Annotated[
        int | None, option("--backend PID", "With a DSN: this session's running or next query.")
    ] = None,
    log: Annotated[
        Path | None, option("--log FILE", "Add the case to this .parquet file, for verify --from.")
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
    from spillcast.engines import StatementSelector
    from spillcast.engines.postgres.rank.snapshot import call_on_postgres
    from spillcast.forecast.question import Question
    from spillcast.lab.check import (
        ForecastCheck,
        actual_run,
        actual_run_of_evidence,
        kept_forecast,
        query_to_measure,
    )
    from spillcast.lab.check import log as keep
    from spillcast.report.checks import check_page
    from spillcast.units import format_count

    saved = kept_forecast(forecast, target)
    if len(after) == 1 and _is_dsn(after[0]):
        selector = StatementSelector(backend=backend, queryid=queryid, query=query, since=since)
        of_file = {"--elapsed": elapsed_s, "--item": item}
        refuse(of_file, f"is for a file: {after[0]} is a DSN")
        actual = actual_run(call_on_postgres(after[0], query_to_measure(saved, selector), notify))
    else:
        of_server = {"--query": query, "--since": since, "--backend": backend}
        refuse(of_server, f"is for a server: {after[0]} is not a DSN")
        statement_id = None if saved.statement is None else saved.statement.queryid
        question = Question(elapsed_s=elapsed_s, queryid=queryid, item=item)
        actual = actual_run_of_evidence(after, question, statement_id)
    result = ForecastCheck(saved, actual)
    status = 0 if result.inside else 1
    if result.objection is not None:
        status = 3
    elif log is not None:
        count = keep(result, log, forecast.stem)
        notify(f"{log}: {format_count(count, 'case')}; spillcast verify --from {log}")
    return Answer(result.to_json, lambda: check_page(result), status)


def _is_dsn(word: str) -> bool:
    from spillcast.evidence.selection import is_stated

    if os.path.exists(word) or is_stated(word):
        return False
    return "=" in word or word.startswith(("postgres://", "postgresql://"))


def calibrate(
    show: Annotated[bool, option("--show", "Print the existing calibration; run nothing.")] = False,
    queries: Annotated[
        int | None, option("--queries N", "Only the first N queries of each engine.", min=1)
    ] = None,
    repeat: Annotated[int, option("--repeat N", "Runs of each query on each storage.", min=1)] = 2,
    postgres: Annotated[
        str | None, option("--postgres DSN", "Measure the PostgreSQL of this local server.")
    ] = None,
    work: WorkOption = None,
) -> Answer:
    """Measure the CPU time that waits cost on this machine.

    Later recordings have narrower forecasts. It keeps two cores busy for three minutes: do not run
    it at peak time. With --postgres it uses a private server of the programs of that server.

    Example: spillcast calibrate

    Example: spillcast calibrate --postgres 'host=/run/postgresql dbname=dw'
    """
    from spillcast.cli.progress import TerminalStage
    from spillcast.document import written
    from spillcast.recording.calibration import (
        calibration_path,
        check_keepable,
        keep,
        kept_calibration,
    )
    from spillcast.report.checks import machine_page

    if show:
        of_runs = {"--postgres": postgres, "--queries": queries, "--work": work}
        refuse(of_runs, "does not go with --show, which runs nothing")
        if (kept := kept_calibration()) is None:
            message = f"{calibration_path()}: there is no calibration for this machine as it is now"
            raise CalibrationMissing(message, "run `spillcast calibrate`, three minutes")
        return Answer(lambda: written(kept), lambda: machine_page(kept))
    from spillcast.lab.machine import measure_machine

    check_keepable()
    with TerminalStage() as stage:
        calibration = measure_machine(stage, work, repeat, queries, postgres)
    keep(calibration)
    return Answer(lambda: written(calibration), lambda: machine_page(calibration))


def demo(engine: Engine = DEFAULT_ENGINE, work: WorkOption = None) -> Answer:
    """Record, forecast, run and compare a query on a private engine.

    A query spills to slow temp storage and is recorded; fast storage is probed; the forecast is
    made; then the query is run there. No files are left behind.
    """
    from spillcast.cli.progress import TerminalStage
    from spillcast.lab.case import document
    from spillcast.lab.check import STEPS, run_demo
    from spillcast.report.checks import demo_page

    with TerminalStage(STEPS) as stage:
        result = run_demo(stage, work, engine=engine)
    return Answer(lambda: document([result.case]), lambda: demo_page(result))


def doctor() -> Answer:
    """Check what works on this machine, and how to fix the rest.

    It checks capture sources, emulation of storage, control groups and installed packages.

    Example: spillcast doctor
    """
    from spillcast.document import written
    from spillcast.lab.doctor import diagnose
    from spillcast.report.checks import doctor_page

    diagnosis = diagnose()
    return Answer(lambda: written(diagnosis), lambda: doctor_page(diagnosis))


def engines() -> Answer:
    """List engines: how temp files are recognised, which evidence is read, and the accuracy.

    Other programs can be recorded, too: --temp gives the directory of their temp files.

    Example: spillcast engines
    """
    from spillcast.report.engines import engines_document, engines_page

    return Answer(engines_document, engines_page)

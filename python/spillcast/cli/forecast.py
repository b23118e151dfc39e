"""The verb ``forecast``, and the rehearsals that ``forecast`` and ``record`` run."""

import shlex
from collections.abc import Callable, Mapping, Sequence
from contextlib import ExitStack
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Literal

import typer

from spillcast.cli.options import ORACLE, RECORDING, REHEARSAL, TARGET, option, with_question
from spillcast.cli.output import Answer, notify
from spillcast.cli.usage import refuse
from spillcast.errors import (
    OptionConflict,
    OptionInvalid,
    OptionMissing,
    PathMissing,
    Refusal,
    RehearsalRefused,
)
from spillcast.units import parse_duration_s

if TYPE_CHECKING:
    from spillcast.forecast import Forecast
    from spillcast.forecast.question import Question
    from spillcast.recording import Recording


@with_question
def forecast(
    baseline: Annotated[
        list[str],
        typer.Argument(
            metavar="EVIDENCE",
            help="A recording, a plan, traces, ASH exports, reports, rows of pg_stat_statements, "
            "an event log of Spark, figures:elapsed=773s,...; - for a pipe or a paste.",
        ),
    ],
    to: Annotated[
        list[str] | None,
        option(
            "--to STORAGE",
            "Directory, tmpfs, storage.json, fio's JSON, catalogue:NAME, recording, trace, "
            "latency:150us, limits:iops=12k,latency=1ms, factor:60, cache:FLASH+DISK?size=2T. "
            "Repeatable; without it, only the limit of any storage.",
        ),
    ] = None,
    cost: Annotated[
        list[str] | None, option("--cost TARGET=PRICE", "Price of a target. Repeatable.")
    ] = None,
    within_s: Annotated[
        float | None,
        option("--within TIME", "Name the cheapest target within it.", parse=parse_duration_s),
    ] = None,
    details: Annotated[
        bool, option("--details", "Also show the terms of each forecast and what warnings mean.")
    ] = False,
    *,
    question: "Question",
    exact: Annotated[
        bool, option("--exact", "Use all waits of a large recording, not a sample.", RECORDING)
    ] = False,
    method: Annotated[
        Literal["counts", "seed"],
        option("--method", "counts: latency by I/O size; seed: one speed-up.", ORACLE),
    ] = "counts",
    cpus: Annotated[
        int | None,
        option("--cpus N", "CPUs of the target machine (default: as today).", TARGET, min=1),
    ] = None,
    cpu_quota: Annotated[
        float | None, option("--cpu-quota CPUS", "CPU quota of the target, such as 0.4.", TARGET)
    ] = None,
    rehearse_s: Annotated[
        float | None,
        option(
            "--rehearse TIME",
            "Run the query on each directory, and kill it after this time, such as 10s.",
            REHEARSAL,
            parse=parse_duration_s,
        ),
    ] = None,
    command: Annotated[
        str | None,
        option(
            "--command COMMAND",
            "Command to rehearse: needed unless it is duckdb or sqlite3 and only reads.",
            REHEARSAL,
        ),
    ] = None,
    server: Annotated[
        str | None, option("--postgres DSN", "PostgreSQL server to rehearse a query on.", REHEARSAL)
    ] = None,
) -> Answer:
    """Forecast a run with its temp files on other storage.

    Without --to, it prints the time that no storage can beat. A directory is probed now. Exits with
    3 if the evidence does not allow a forecast.

    Example: spillcast forecast run.spill --to /mnt/nvme --to latency:150us

    Example: spillcast forecast plan.json --to catalogue:aws-gp3

    Example: spillcast forecast - --to catalogue:aws-gp3

    Example: spillcast forecast ash.csv hdd.trc --to flash.trc --elapsed 773

    Example: spillcast forecast eventlog_v2_app/ --from catalogue:aws-gp3 --to tmpfs

    Example: spillcast forecast run.spill --to /mnt/nvme --rehearse 10s
    """
    from dataclasses import replace

    from spillcast.evidence.open import recordings_in
    from spillcast.forecast.ask import LIMIT, ask
    from spillcast.forecast.verdict import parse_costs, refusal_document
    from spillcast.workspace import workspace

    targets = list(dict.fromkeys(to or []))
    _check_rehearsal(rehearse_s, command, server, targets)
    costs = parse_costs(cost or (), targets)
    question = replace(question, method=method, exact=exact, cpus=cpus, cpu_quota=cpu_quota)
    with ExitStack() as stack:
        if rehearse_s is not None:
            rehearse = rehearsing(rehearse_s, command, server, stack.enter_context(workspace()))
            question = replace(question, rehearse=rehearse)
        if len(baseline) == 1 and (paths := recordings_in(Path(baseline[0]))):
            one_only = {"--within": within_s, "--details": details}
            refuse(one_only, "is for one recording", f"such as {paths[0]}")
            return _forecast_each(paths, targets, costs, question)
        try:
            answers = ask(baseline, targets or [LIMIT], question)
        except Refusal as refusal:
            refusal.document = refusal_document(refusal)
            raise
    forecasts = _with_costs([forecast for forecast, _ in answers], targets, costs)
    return _answer(forecasts, targets, costs, within_s, details=details)


def _check_rehearsal(
    rehearse_s: float | None, command: str | None, server: str | None, targets: Sequence[str]
) -> None:
    """InputError for options of a rehearsal without --rehearse, or without a directory."""
    from spillcast.storage.target import can_probe

    if rehearse_s is None:
        options = {"--command": command, "--postgres": server}
        refuse(options, "goes with --rehearse", "for example --rehearse 10s")
    elif not any(can_probe(Path(target)) for target in targets):
        raise OptionMissing("--rehearse needs a directory to rehearse on", "give one with --to DIR")


def _with_costs(
    forecasts: "Sequence[Forecast]", targets: Sequence[str], costs: Mapping[str, float]
) -> "list[Forecast]":
    """The forecasts for ``targets`` with their prices; without any, that for the limit."""
    from spillcast.forecast.ask import as_limit
    from spillcast.forecast.verdict import priced

    return priced(targets, forecasts, costs) if targets else list(map(as_limit, forecasts))


def _forecast_each(
    paths: Sequence[Path], targets: Sequence[str], costs: Mapping[str, float], question: "Question"
) -> Answer:
    """The forecasts of each recording of a folder."""
    from spillcast.forecast.ask import LIMIT, forecasts_of
    from spillcast.recording import Recording
    from spillcast.report.forecast import forecast_each_document, forecast_each_page

    by_recording = [
        (
            recording,
            _with_costs(forecasts_of(recording, targets or [LIMIT], question), targets, costs),
        )
        for recording in map(Recording.open, paths)
    ]
    refused = all(forecast.refused for _, row in by_recording for forecast in row)
    return Answer(
        lambda: forecast_each_document(by_recording),
        lambda: forecast_each_page(by_recording),
        3 if refused else 0,
    )


def _answer(
    forecasts: "Sequence[Forecast]",
    targets: Sequence[str],
    costs: Mapping[str, float],
    within_s: float | None,
    *,
    details: bool,
) -> Answer:
    """The forecasts of one run, with the effect of work memory and the cheapest target."""
    from spillcast.forecast.result import ZERO_LATENCY
    from spillcast.forecast.verdict import cheapest_real, forecasts_document
    from spillcast.forecast.work_memory import memory_document
    from spillcast.report.forecast import run_page
    from spillcast.report.work_memory import memory_cells

    cells, advice = memory_cells(targets or [ZERO_LATENCY], forecasts), None
    if within_s is not None and cells:
        advice = cheapest_real(cells, within_s, costs, forecasts[0].baseline_s)
    page = run_page(forecasts, cells, advice, in_full=details)
    return Answer(
        lambda: forecasts_document(forecasts) | {"memory": memory_document(cells, advice)},
        lambda: page,
        3 if all(forecast.refused for forecast in forecasts) else 0,
    )


def check_rehearse(
    directories: Sequence[Path] | None, pid: int | None, explain: str | None, server: str | None
) -> None:
    """InputError if ``record`` cannot run its target again, or for a missing directory."""
    if not directories:
        return
    if pid is not None or (server is not None and explain is None):
        hint = "for others: spillcast forecast --rehearse 10s --command '...'"
        raise OptionConflict("--rehearse repeats a command that record started", hint)
    for directory in directories:
        if not directory.is_dir():
            raise PathMissing(f"--rehearse {directory}: there is no such directory", "make it")


#: Duration of a rehearsal by ``record --rehearse``.
DURATION_S = 10.0


def rehearse_recorded(
    recording: "Recording", directories: Sequence[Path], server: str | None
) -> None:
    """Rehearse a new recording on each directory; keep the results with it, or print a reason."""
    from spillcast.storage.free_space import check_free_space
    from spillcast.storage.observed import keep_rehearsal
    from spillcast.workspace import workspace

    with workspace() as folder:
        # The user gave both the command and --rehearse, which is the confirmation.
        rehearse = rehearsing(DURATION_S, None, server, folder, confirmed=True)
        for directory in directories:
            try:
                check_free_space(recording, directory)
                kept = keep_rehearsal(recording, rehearse(recording, directory), directory)
            except Refusal as refusal:
                notify(f"rehearsal: none on {directory}: {refusal}")
            else:
                notify(f"rehearsal: on {directory}, kept in {kept}")


def rehearsing(
    duration_s: float,
    command: str | None,
    server: str | None,
    folder: Path,
    *,
    confirmed: bool = False,
) -> "Callable[[Recording, Path], Recording]":
    """The function that rehearses a recorded query on a directory, with files in ``folder``.

    A recorded command that may write runs again only if ``confirmed``.
    """
    from spillcast.storage.rehearse import rehearse_command

    def notify_rehearsal(text: str) -> None:
        notify(f"rehearsal: {text}")

    def rehearse(recording: "Recording", directory: Path) -> "Recording":
        place = recording, directory, duration_s, folder
        try:
            if server is not None:
                from spillcast.engines.postgres.live import rehearse_postgres

                return rehearse_postgres(server, *place, statement=command, notify=notify_rehearsal)
            if recording.meta.server is not None:
                problem = "its query ran in a server"
                raise RehearsalRefused(problem, "name the server with --postgres DSN")
            words = None if command is None else _split_command(command)
            return rehearse_command(
                *place, command=words, confirmed=confirmed, notify=notify_rehearsal
            )
        except Refusal as refusal:
            # A refused forecast shows the reason and the remedy in one line.
            reason = "; ".join(filter(None, (refusal.message, refusal.hint)))
            raise RehearsalRefused(reason) from None

    return rehearse


def _split_command(command: str) -> list[str]:
    """Split a command as a shell does. InputError for an unclosed quote."""
    try:
        return shlex.split(command)
    except ValueError as error:
        hint = "close its quotes, as in: --command 'duckdb dw.db -c \"select 1\"'"
        raise OptionInvalid(f"--command {command}: {str(error).lower()}", hint) from error

"""``spillcast record``: watch a command or a running process spill."""

import signal
from pathlib import Path
from typing import Annotated, Literal

import typer

from spillcast.cli.options import Json


def add_to(application: typer.Typer) -> None:
    """Register the verb."""
    application.command(
        "record",
        context_settings={"allow_interspersed_args": False, "ignore_unknown_options": False},
    )(record)


def record(
    command: Annotated[
        list[str] | None, typer.Argument(help="Command to run and record, after --.")
    ] = None,
    pid: Annotated[int | None, typer.Option(help="Running process to record.")] = None,
    output: Annotated[
        Path, typer.Option("--output", "-o", help="Folder to write; an old recording is replaced.")
    ] = Path("run.spill"),
    temp: Annotated[
        list[Path] | None, typer.Option(help="Only files under this directory are temp files.")
    ] = None,
    duration: Annotated[str | None, typer.Option(help="End after this time, such as 5m.")] = None,
    slices: Annotated[
        int | None,
        typer.Option(min=1, help="Keep single waits only in this many slices of the run."),
    ] = None,
    capture: Annotated[
        Literal["auto", "perf", "preload"],
        typer.Option(help="perf events, or a preload library where those are refused."),
    ] = "auto",
    json: Json = False,
) -> None:
    """Record the temp I/O of a command or a running process.

    Ctrl-C ends a recording and keeps it. What is observed is never changed or stopped.

    Example: spillcast record -o run.spill -- duckdb warehouse.db -c "select ..."
    """
    from spillcast.cli.output import emit, live_line
    from spillcast.errors import InputError, SpillcastError
    from spillcast.recording.recorder import Asked, record_command, record_pid
    from spillcast.recording.target import describe_exit
    from spillcast.report.recording import recording_text, status_line
    from spillcast.units import parse_duration_s

    if (command is None) == (pid is None):
        raise InputError(
            "record needs either --pid PID or -- COMMAND", "see: spillcast record --help"
        )
    duration_s = None if duration is None else parse_duration_s(duration)
    asked = Asked(tuple(temp or ()), capture, duration_s, slices)
    if command is not None:
        recorder, _ = record_command(command, output, asked)
    else:
        assert pid is not None
        recorder = record_pid(pid, output, asked)
    try:
        with live_line(show=not json) as show:
            while not recorder.poll():
                show(status_line(recorder.status()))
    except KeyboardInterrupt:
        # What was recorded is kept; a second Ctrl-C would lose it.
        signal.signal(signal.SIGINT, signal.SIG_IGN)
    except BaseException:
        recorder.abandon()
        raise
    result = recorder.finish()
    if json:
        emit({"path": str(result.path), **result.meta})
    else:
        print(recording_text(result))
    status = recorder.target.exit_status
    if status:
        raise SpillcastError(f"the command {describe_exit(status)}; its recording is kept")

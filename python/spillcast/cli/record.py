"""``spillcast record``: the temp I/O of a command, a running process or a server's query."""

import os
import sys
from collections.abc import Sequence
from contextlib import AbstractContextManager
from pathlib import Path
from stat import S_ISREG
from typing import TYPE_CHECKING, Annotated, Literal

import typer

from spillcast.cli.options import (
    CAPTURE,
    KEPT,
    LIVE,
    MYSQL,
    POSTGRES,
    HistoryOption,
    Json,
    Written,
    option,
)
from spillcast.cli.output import emit, notify
from spillcast.errors import OptionConflict
from spillcast.recording.capture import AUTO, SOURCES
from spillcast.units import parse_duration_s

if TYPE_CHECKING:
    CaptureName = str

    from spillcast import _core
    from spillcast.cli.progress import View
    from spillcast.cli.recording import CommandOutput, TargetOptions
    from spillcast.forecast.ask import RunningForecast
    from spillcast.interruptible import Forwarder
    from spillcast.recording import Recording
    from spillcast.recording.capture import RecordOptions
else:
    # Computed from SOURCES, so type checkers do not see the values.
    CaptureName = Literal[(AUTO, *SOURCES)]


def record(
    command: Annotated[
        list[str] | None, typer.Argument(help="Command to run and record, after --.")
    ] = None,
    pid: Annotated[int | None, option("--pid PID", "Running process to record.")] = None,
    server: Annotated[
        str | None, option("--postgres DSN", "PostgreSQL server whose query to record.", POSTGRES)
    ] = None,
    backend: Annotated[
        int | None, option("--backend PID", "Session to record: pid of pg_stat_activity.", POSTGRES)
    ] = None,
    query: Annotated[
        str | None, option("--query PATTERN", "Session whose query matches this regex.", POSTGRES)
    ] = None,
    wait_for_spill: Annotated[
        bool, option("--wait-for-spill", "Wait for the first session that spills.", POSTGRES)
    ] = False,
    all_: Annotated[
        bool, option("--all", "Record every query that spills, of all sessions.", POSTGRES)
    ] = False,
    explain: Annotated[
        str | None, option("--explain SQL", "Run this under EXPLAIN, then roll back.", POSTGRES)
    ] = None,
    set_: Annotated[
        list[str] | None, option("--set NAME=VALUE", "Setting for --explain. Repeatable.", POSTGRES)
    ] = None,
    mysql: Annotated[
        str | None,
        option(
            "--mysql DSN",
            "Server whose query to record: mysql://root@db01 or a socket's path; with --session "
            "or --query.",
            MYSQL,
        ),
    ] = None,
    session: Annotated[
        int | None, option("--session ID", "Session to record: Id of show processlist.", MYSQL)
    ] = None,
    output: Annotated[
        Path | None,
        option(
            "--output, -o DIR",
            "Folder to write (default: run.spill, or run-2.spill and so on; with --all "
            "server.spills, to which recordings are added).",
            KEPT,
        ),
    ] = None,
    force: Annotated[
        bool, option("--force", "Let --output replace an older recording.", KEPT)
    ] = False,
    temp: Annotated[
        list[Path] | None,
        option("--temp DIR", "Only files in this folder are temp files. Repeatable.", CAPTURE),
    ] = None,
    duration_s: Annotated[
        float | None,
        option(
            "--duration TIME", "Stop after this time, such as 5m.", CAPTURE, parse=parse_duration_s
        ),
    ] = None,
    slices: Annotated[
        int | None, option("--slices N", "Keep single waits only in N time slices.", KEPT, min=1)
    ] = None,
    minute: Annotated[
        bool, option("--minute", "Record 60 s in bursts within --duration (default: 15m).", CAPTURE)
    ] = False,
    capture: Annotated[
        CaptureName,
        option(
            "--capture",
            "Capture source; auto takes the best that works: eBPF, perf events, preload library.",
            CAPTURE,
        ),
    ] = "auto",
    rehearse: Annotated[
        list[Path] | None,
        option(
            "--rehearse DIR",
            "Afterwards run the first 10 s again with temp files in this directory, and keep the "
            "result. Only for commands that write no data. Repeatable.",
        ),
    ] = None,
    share: Annotated[
        bool, option("--share", "Let all users read the recording, not only you.", KEPT)
    ] = False,
    live: Annotated[
        bool, option("--live", "Show the profile each second; with --json as JSON lines.", LIVE)
    ] = False,
    to: Annotated[
        str | None, option("--to STORAGE", "Also forecast for this storage: latency:150us.", LIVE)
    ] = None,
    history: HistoryOption = None,
    written: Written = None,
    confidence: Annotated[
        float, option("--confidence NUMBER", "Level of the interval.", LIVE, min=0.5, max=0.999)
    ] = 0.9,
    discard: Annotated[
        bool, option("--discard", "Only show the live view: write no recording.", LIVE)
    ] = False,
    json: Json = False,
) -> None:
    """Record the temp I/O of a command, process or query.

    Ctrl-C ends a recording and keeps it. Nothing that is observed is changed or stopped. A command
    is recorded to its end: signals are passed on to it, and spillcast exits with its status.

    --live shows where the time goes and, with --to, the forecast. q or Ctrl-C ends it. Of a server
    it shows the session that spills first, unless one is named.

    Example: spillcast record -o run.spill -- duckdb warehouse.db -c "select ..."

    Example: spillcast record --postgres service=dwh --query 'from sales' -o run.spill

    Example: spillcast record --mysql mysql://root@localhost --query 'from sales' -o run.spill

    Example: spillcast record --minute --pid 4711 -o part.spill

    Example: spillcast record --postgres service=dwh --all --duration 10m

    Example: spillcast record --live --discard --pid 4711 --to catalogue:aws-gp3
    """
    from spillcast._core import unused_name
    from spillcast.cli.forecast import check_rehearse
    from spillcast.cli.progress import line_view
    from spillcast.cli.recording import (
        ENGINES,
        TargetOptions,
        check_live,
        check_minute,
        check_target,
        record_all,
        record_minute,
    )
    from spillcast.engines import SessionSelector
    from spillcast.interruptible import kept_status
    from spillcast.recording.capture import RecordOptions

    servers = {"--postgres": server, "--mysql": mysql}
    of_sessions = {
        "--backend": backend, "--session": session, "--query": query,
        "--wait-for-spill": wait_for_spill, "--all": all_, "--explain": explain, "--set": set_,
    }  # fmt: skip
    given_target = check_target({"--pid": pid, "--": command, **servers}, of_sessions, live=live)
    target = TargetOptions(
        command,
        pid,
        dsn=servers.get(given_target),
        engine=ENGINES.get(given_target, ""),
        session=SessionSelector(session if backend is None else backend, query, wait_for_spill),
        explain=explain,
        settings=set_ or [],
    )
    options = RecordOptions(tuple(temp or ()), capture, duration_s, slices, share, force)
    check_rehearse(rehearse, pid, explain, server or mysql)
    check_live(
        live=live,
        json=json,
        discard=discard,
        only_live={"--to": to, "--history": history, "--written": written, "--discard": discard},
        kept={
            "--output": output, "--force": force, "--slices": slices, "--share": share,
            "--rehearse": rehearse,
        },
    )  # fmt: skip
    if server is not None and all_ and not minute:
        record_all(server, output, options, json=json)
        raise typer.Exit(kept_status())
    output = None if discard else output or unused_name(Path("run.spill"))
    if minute:
        others = all_ or live or explain is not None or bool(rehearse) or mysql is not None
        check_minute(command, options, others=others)
        assert output is not None
        with line_view(show=not json) as view:
            recording = record_minute(target, output, options, view)
        _print_recording(recording, output, json=json)
    else:
        forecast = _running_forecast(to, history or (), written, confidence) if live else None
        _record_once(target, output, options, rehearse or (), forecast, json=json, live=live)
    raise typer.Exit(kept_status())


def _record_once(
    target: "TargetOptions",
    output: Path | None,
    options: "RecordOptions",
    rehearse: Sequence[Path],
    forecast: "RunningForecast | None",
    *,
    json: bool,
    live: bool,
) -> None:
    """Record a target, rehearse it on the directories ``rehearse``, and print what was recorded."""
    from spillcast.cli.forecast import rehearse_recorded
    from spillcast.cli.progress import line_view, live_view
    from spillcast.cli.recording import CommandOutput, until_command_ends

    is_command = target.command is not None
    view_context: AbstractContextManager[View] = line_view(show=not json)
    if live:
        target = target.shown_live()
        view_context = live_view(
            target.title if output is None else f"recording {target.title}",
            forecast=forecast,
            json_lines=json,
            keep=output is None or forecast is not None,
            keyboard=not is_command,
        )
    command_output = CommandOutput(live=live and is_command, json=json)
    with until_command_ends(target.command) as signals:
        try:
            recording = _record(
                target, output, options, view_context, command_output, signals, live=live
            )
        finally:
            command_output.print_kept()
        if recording is not None and output is not None:
            exit_status = recording.meta.engine.settings.get("exit_status")
            if rehearse and recording.meta.spilled and not exit_status:
                rehearse_recorded(recording, rehearse, target.dsn)
            _print_recording(recording, output, json=json, live=live, beside_output=is_command)


def _record(
    target: "TargetOptions",
    output: Path | None,
    options: "RecordOptions",
    view_context: "AbstractContextManager[View]",
    command_output: "CommandOutput",
    signals: "Forwarder[_core.Target] | None",
    *,
    live: bool,
) -> "Recording | None":
    """Record a target to its end, or to Ctrl-C; None if nothing is written."""
    from spillcast.cli.recording import begin, follow, record_server

    running = None
    if live:
        # It imports Arrow, which triples the memory of a recorder.
        from spillcast.recording.live import Running

        running = Running()
    if target.dsn is not None:
        with view_context as view:
            recording = record_server(target, output, options, view, running)
            view.end()
        return recording
    recorder = begin(target, output, options, running, command_output, signals)
    with view_context as view:
        follow(recorder, view)
        recorder.stop()
        view.end()
    if output is None:
        recorder.abandon()
        return None
    recording = recorder.finish()
    from spillcast.recording.record import left_running

    if (left := left_running(recorder)) is not None:
        notify(left)
    return recording


def _print_recording(
    recording: "Recording",
    output: Path,
    *,
    json: bool,
    live: bool = False,
    beside_output: bool = False,
) -> None:
    """Print what was recorded, and notices on stderr."""
    from spillcast.recording.completeness import unrecognised
    from spillcast.report.recording import calibration_wanted, recording_text

    texts: list[str | None] = []
    if recording.path != output:
        texts.append(
            f"{output}: another recording was written there meanwhile; kept as {recording.path}"
        )
    if (because := recording.meta.raw.because) is not None:
        texts.append(f"{recording.path}: not all single waits could be kept: {because}")
    # Our summary must not go into a file with a command's output or among lines of JSON.
    is_taken = (json and live) or (beside_output and S_ISREG(os.fstat(1).st_mode))
    as_document, status = json and not live, 0
    texts.append(unrecognised(recording) if as_document else calibration_wanted(recording.meta))
    try:
        if as_document:
            emit({"path": str(recording.path), **recording.meta.to_json()})
        else:
            print(recording_text(recording), file=sys.stderr if is_taken else sys.stdout)
        sys.stdout.flush()
    except OSError as error:
        # The reader of the command's output has ended, as head does; the recording is complete.
        os.dup2(os.open(os.devnull, os.O_WRONLY), 1)
        print(recording_text(recording), file=sys.stderr)
        if not isinstance(error, BrokenPipeError):
            texts.append(f"stdout: {error.strerror}; {recording.path} is kept")
            status = 1
    for text in texts:
        if text is not None:
            notify(text)
    if status:
        raise typer.Exit(status)


def _running_forecast(
    to: str | None, history: Sequence[Path], written: str | None, confidence: float
) -> "RunningForecast | None":
    """The forecast that --to adds to a live view. InputError for a target that needs a probe."""
    from spillcast.forecast.ask import RunningForecast
    from spillcast.forecast.remaining import hints_of

    known = hints_of(history, written=written)
    if to is not None:
        return RunningForecast(to, confidence, known)
    if known.options:
        raise OptionConflict(f"{known.options} without --to", "say what storage to forecast for")
    return None

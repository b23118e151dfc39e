"""``spillcast record``: watch a command, a running process or a server's query spill."""

import os
import shlex
import sys
from contextlib import AbstractContextManager, nullcontext
from pathlib import Path
from stat import S_ISREG
from typing import TYPE_CHECKING, Annotated

import typer

from spillcast.cli.capture_option import Capture
from spillcast.cli.options import CAPTURE, KEPT, POSTGRES, Duration, Json, Query, Temp
from spillcast.cli.usage import Grouped

if TYPE_CHECKING:
    from spillcast.cli.live import OthersOutput, View
    from spillcast.cli.observed_command import PassedOn
    from spillcast.recording import Recording
    from spillcast.recording.options import RecordOptions
    from spillcast.recording.recorder import Recorder
    from spillcast.recording.running import Running


def add_to(application: typer.Typer) -> None:
    """Register the verb."""
    application.command(
        "record",
        cls=Grouped,
        context_settings={"allow_interspersed_args": False, "ignore_unknown_options": False},
    )(record)


def record(
    command: Annotated[
        list[str] | None, typer.Argument(help="Command to run and record, after --.")
    ] = None,
    pid: Annotated[int | None, typer.Option(help="Running process to record.")] = None,
    server: Annotated[
        str | None,
        typer.Option(
            "--postgres",
            metavar="DSN",
            help="PostgreSQL server whose query to record.",
            rich_help_panel=POSTGRES,
        ),
    ] = None,
    backend: Annotated[
        int | None,
        typer.Option(
            metavar="PID",
            help="The server's session, as in pg_stat_activity.",
            rich_help_panel=POSTGRES,
        ),
    ] = None,
    query: Query = None,
    wait_for_spill: Annotated[
        bool,
        typer.Option(
            "--wait-for-spill",
            help="Wait for the first session that spills.",
            rich_help_panel=POSTGRES,
        ),
    ] = False,
    all_: Annotated[
        bool,
        typer.Option(
            "--all",
            help="Record every query that spills, of all sessions.",
            rich_help_panel=POSTGRES,
        ),
    ] = False,
    explain: Annotated[
        str | None,
        typer.Option(
            metavar="SQL",
            help="Run this statement under EXPLAIN (ANALYZE, BUFFERS), then roll back.",
            rich_help_panel=POSTGRES,
        ),
    ] = None,
    set_: Annotated[
        list[str] | None,
        typer.Option(
            "--set",
            metavar="NAME=VALUE",
            help="Setting for --explain. Repeatable.",
            rich_help_panel=POSTGRES,
        ),
    ] = None,
    output: Annotated[
        Path | None,
        typer.Option(
            "--output",
            "-o",
            help="Folder to write: by default run.spill, or run-2.spill and so on if that exists; "
            "for --all server.spills, to which recordings are added.",
            rich_help_panel=KEPT,
        ),
    ] = None,
    force: Annotated[
        bool,
        typer.Option(
            "--force", help="Let --output replace an older recording.", rich_help_panel=KEPT
        ),
    ] = False,
    temp: Temp = None,
    duration: Duration = None,
    slices: Annotated[
        int | None,
        typer.Option(
            min=1,
            help="Keep single waits only in this many slices of the run.",
            rich_help_panel=KEPT,
        ),
    ] = None,
    minute: Annotated[
        bool,
        typer.Option(
            "--minute",
            help="Attach for 60 s in all: bursts at growing distances, over --duration or a "
            "quarter of an hour, detached in between.",
            rich_help_panel=CAPTURE,
        ),
    ] = False,
    capture: Capture = "auto",
    rehearse: Annotated[
        list[Path] | None,
        typer.Option(
            metavar="DIR",
            help="Afterwards run its first 10 s again with temp files in this directory, and keep "
            "the result. Only for commands that write no data. Repeatable.",
        ),
    ] = None,
    share: Annotated[
        bool,
        typer.Option(
            "--share",
            help="Let all users read the recording, not only you.",
            rich_help_panel=KEPT,
        ),
    ] = False,
    live: Annotated[
        bool, typer.Option("--live", help="Show the profile while recording, updated every second.")
    ] = False,
    json: Json = False,
) -> None:
    """Record the temp I/O of a command, process or query.

    Ctrl-C ends a recording and keeps it. Nothing that is observed is changed or stopped. A command
    is recorded to its end: signals are passed on to it, and spillcast exits with its status.

    Example: spillcast record -o run.spill -- duckdb warehouse.db -c "select ..."

    Example: spillcast record --postgres service=dwh --query 'from sales' -o run.spill

    Example: spillcast record --minute --pid 4711 -o part.spill

    Example: spillcast record --postgres service=dwh --all --duration 10m
    """
    from spillcast.cli.live import OthersOutput, line_view, live_view
    from spillcast.cli.observed_command import as_it_ends
    from spillcast.cli.record_minute import check_minute, record_minute
    from spillcast.cli.record_server import check_options, record_all, record_server
    from spillcast.cli.rehearse import check_rehearse, rehearse_recorded
    from spillcast.engines.engine import Wanted
    from spillcast.interruptible import kept_status
    from spillcast.recording.folder import unused_name
    from spillcast.recording.options import RecordOptions
    from spillcast.units import parse_duration_s

    wanted = Wanted(backend, query, wait_for_spill)
    check_options(server, wanted, explain, set_ or [], every=all_, live=live)
    require_target("record", command, pid, server)
    duration_s = None if duration is None else parse_duration_s(duration, "--duration")
    options = RecordOptions(tuple(temp or ()), capture, duration_s, slices, share, force)
    check_rehearse(rehearse, pid, explain, server)
    if server is not None and all_ and not minute:
        record_all(server, output, options, json=json)
        raise typer.Exit(kept_status())
    output = output or unused_name(Path("run.spill"))
    if minute:
        check_minute(command, options, others=all_ or live or explain is not None or bool(rehearse))
        with line_view(show=not json) as view:
            result = record_minute(pid, server, output, options, wanted, view)
        _tell(result, output, json=json)
        raise typer.Exit(kept_status())
    running = _running(live)
    others = OthersOutput(json=False) if live and command is not None else None
    title = f"recording {described(command, pid, server)}"
    shows: AbstractContextManager[View]
    shows = live_view(title, keyboard=command is None) if live else line_view(show=not json)
    with as_it_ends(command) as passed_on:
        try:
            if server is not None:
                with shows as shown:
                    result = record_server(
                        server,
                        output,
                        options,
                        wanted,
                        shown,
                        running,
                        explain=explain,
                        settings=set_ or [],
                    )
            else:
                recorder = begin(command, pid, output, options, running, others, passed_on)
                with shows as shown:
                    follow(recorder, shown)
                result = recorder.finish()
                _tell_of_the_rest(recorder)
        finally:
            if others is not None:
                others.give_out()
        if rehearse and result.meta.spilled and not result.meta.engine.settings.get("exit_status"):
            rehearse_recorded(result, rehearse, server)
        _tell(result, output, json=json, beside_output=command is not None)
    raise typer.Exit(kept_status())


def _tell(recording: "Recording", output: Path, *, json: bool, beside_output: bool = False) -> None:
    """What was recorded, and what whoever asked for it should know of that."""
    from spillcast.cli.output import emit
    from spillcast.recording.unrecognised import unrecognised
    from spillcast.report.recording import calibration_wanted, recording_text

    texts: list[str | None] = []
    if recording.path != output:
        texts.append(
            f"{output}: another recording was written there meanwhile; kept as {recording.path}"
        )
    if (because := recording.meta.raw.because) is not None:
        texts.append(f"{recording.path}: not all single waits could be kept: {because}")
    if json:
        emit({"path": str(recording.path), **recording.meta.to_json()})
        texts.append(unrecognised(recording))
    else:
        # What a command writes into a file stays its output alone.
        in_file = beside_output and S_ISREG(os.fstat(1).st_mode)
        print(recording_text(recording), file=sys.stderr if in_file else sys.stdout)
        texts.append(calibration_wanted(recording.meta))
    for words in texts:
        if words is not None:
            print(f"spillcast: {words}", file=sys.stderr)


def _tell_of_the_rest(recorder: "Recorder") -> None:
    """Report that a command left processes behind, whose I/O is no longer recorded."""
    from spillcast.recording.captured import going_on
    from spillcast.recording.target import Command

    target = recorder.target
    left = going_on(recorder.status(), target if isinstance(target, Command) else None)
    if left is not None:
        print(f"spillcast: {left}", file=sys.stderr)


def _running(live: bool) -> "Running | None":
    """What a live view is made of. InputError where there is no terminal for one."""
    from spillcast.errors import TerminalMissing

    if not live:
        return None
    if not sys.stderr.isatty():
        raise TerminalMissing(
            "--live draws on stderr, which is not a terminal here", "leave it out"
        )
    from spillcast.recording.running import Running

    return Running()


def follow(recorder: "Recorder", view: "View") -> None:
    """Show a recording to its end, or to Ctrl-C."""
    from spillcast.interruptible import interrupted_once

    try:
        while not recorder.poll():
            view.look(recorder, recorder.status())
    except KeyboardInterrupt:
        interrupted_once()
    except BaseException:
        recorder.abandon()
        raise


def begin(
    command: list[str] | None,
    pid: int | None,
    output: Path | None,
    options: "RecordOptions",
    running: "Running | None",
    others: "OthersOutput | None",
    passed_on: "PassedOn | None",
) -> "Recorder":
    """Start a command under observation, which gets our signals, or attach to a process."""
    from spillcast.cli.progress import progress_bar
    from spillcast.recording.begin import record_command, record_pid

    if command is not None:
        with others.starting() if others is not None else nullcontext():
            recorder, started = record_command(command, output, options, running)
        if passed_on is not None:
            passed_on.to(started)
    else:
        assert pid is not None
        with progress_bar(f"attaching to process {pid}"):
            recorder = record_pid(pid, output, options, running)
    for notice in recorder.new_notices():
        print(f"spillcast: {notice}", file=sys.stderr)
    return recorder


def described(command: list[str] | None, pid: int | None, server: str | None) -> str:
    """What is observed, for a title."""
    if server is not None:
        return server
    return shlex.join(command) if command else f"process {pid}"


def require_target(verb: str, *ways: object) -> None:
    """InputError unless just one way to find what is observed is given."""
    from spillcast.errors import OptionMissing

    given = len(ways) - ways.count(None)
    if given != 1:
        takes = "needs" if given == 0 else "takes only"
        raise OptionMissing(
            f"{verb} {takes} one of --pid PID or -- COMMAND or --postgres DSN",
            f"see: spillcast {verb} --help",
        )

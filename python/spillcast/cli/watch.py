"""``spillcast watch``: a run under way, live, with the forecast for other storage."""

import sys
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from spillcast.cli.capture_option import Capture
from spillcast.cli.options import (
    Confidence,
    Duration,
    History,
    Query,
    Temp,
    Written,
)
from spillcast.cli.usage import Grouped

if TYPE_CHECKING:
    from spillcast.cli.live import View
    from spillcast.recording import Recording
    from spillcast.recording.recorder import Recorder


def add_to(application: typer.Typer) -> None:
    """Register the verb."""
    application.command(
        "watch",
        cls=Grouped,
        context_settings={"allow_interspersed_args": False, "ignore_unknown_options": False},
    )(watch)


def watch(
    command: Annotated[
        list[str] | None, typer.Argument(help="Command to run and watch, after --.")
    ] = None,
    pid: Annotated[int | None, typer.Option(help="Running process to watch.")] = None,
    server: Annotated[
        str | None,
        typer.Option("--postgres", metavar="DSN", help="PostgreSQL server whose query to watch."),
    ] = None,
    backend: Annotated[
        int | None,
        typer.Option(
            metavar="PID", help="The server's session (default: the one that spills first)."
        ),
    ] = None,
    query: Query = None,
    to: Annotated[
        str | None,
        typer.Option(
            "--to",
            help="Forecast for this: storage.json, catalogue:NAME, a recording, latency:150us, "
            "factor:60.",
        ),
    ] = None,
    history: History = None,
    written: Written = None,
    output: Annotated[
        Path | None, typer.Option("--output", "-o", help="Also write a recording.")
    ] = None,
    temp: Temp = None,
    duration: Duration = None,
    capture: Capture = "auto",
    confidence: Confidence = 0.9,
    json: Annotated[
        bool, typer.Option("--json", help="Print a line of JSON every second.")
    ] = False,
) -> None:
    """Watch a run spill, with a live forecast for other storage.

    It shows where the time goes, temp latency, and the forecast.

    q or Ctrl-C ends it. Nothing that is watched is changed or stopped: signals are passed on to a
    command, and it is watched to its end. Nothing is written without -o. The forecast is for the
    whole run if it is known what remains, otherwise for the part so far.

    Example: spillcast watch --pid 4711 --to catalogue:aws-gp3

    Example: spillcast watch --postgres service=dwh --to nvme.json

    Example: spillcast watch --to latency:150us -- duckdb warehouse.db -f query.sql
    """
    from spillcast.cli.live import OthersOutput, live_view
    from spillcast.cli.observed_command import as_it_ends
    from spillcast.cli.record import begin, described, require_target
    from spillcast.cli.record_server import record_server
    from spillcast.engines.engine import Wanted
    from spillcast.errors import OptionConflict, TerminalMissing
    from spillcast.forecast.remaining import hints_of
    from spillcast.forecast.running import RunningForecast
    from spillcast.recording.options import RecordOptions
    from spillcast.recording.running import Running
    from spillcast.units import parse_duration_s

    if server is None and (backend, query) != (None, None):
        raise OptionConflict("--backend and --query need --postgres")
    require_target("watch", command, pid, server)
    if not json and not sys.stderr.isatty():
        raise TerminalMissing(
            "watch draws on stderr, which is not a terminal here", "--json prints lines"
        )
    duration_s = None if duration is None else parse_duration_s(duration, "--duration")
    options = RecordOptions(tuple(temp or ()), capture, duration_s)
    known = hints_of(history or (), written=written)
    if to is None and known.options:
        raise OptionConflict(f"{known.options} without --to", "say what storage to forecast for")
    forecast = None if to is None else RunningForecast(to, confidence, known)
    running = Running()
    others = OthersOutput(json=json) if command else None
    view = live_view(
        described(command, pid, server),
        forecast=forecast,
        json_lines=json,
        keep=True,
        keyboard=command is None,
    )
    recorder, recording = None, None
    with as_it_ends(command) as passed_on:
        try:
            if server is None:
                recorder = begin(command, pid, output, options, running, others, passed_on)
            with view as shown:
                if server is not None:
                    wanted = Wanted(backend, query, spilling=backend is None and query is None)
                    server_recording = record_server(
                        server, output, options, wanted, shown, running
                    )
                    recording = server_recording if output is not None else None
                    shown.end()
                else:
                    assert recorder is not None
                    recording = _follow(recorder, shown)
        finally:
            if others is not None:
                others.give_out()
        if recording is not None:
            from spillcast.report.recording import recording_text

            print(recording_text(recording), file=sys.stderr)


def _follow(recorder: "Recorder", view: "View") -> "Recording | None":
    """Show it to its end, or until it is ended; the recording where one was asked for."""
    from spillcast.cli.record import follow

    follow(recorder, view)
    recorder.stop()
    view.end()
    if recorder.output is not None:
        return recorder.finish()
    recorder.abandon()
    return None

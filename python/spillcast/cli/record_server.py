"""Queries of a server that runs already: what the options of record and watch ask for."""

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from spillcast.engines.engine import Wanted
from spillcast.errors import OptionConflict, OptionInvalid, OptionMissing

if TYPE_CHECKING:
    from spillcast.cli.live import View
    from spillcast.recording import Recording
    from spillcast.recording.options import RecordOptions
    from spillcast.recording.running import Running


#: Where the recordings of all sessions go if nobody says.
ALL_OUTPUT = Path("server.spills")
#: What finds one query.
_REMEDY = "leave it out: every query that spills gets a recording of its own"


def check_options(
    server: str | None,
    wanted: Wanted,
    explain: str | None,
    settings: Sequence[str],
    *,
    every: bool,
    live: bool,
) -> None:
    """InputError for options that go with no server, or not with ``--all``."""
    asks = explain is not None or bool(settings) or wanted != Wanted()
    if server is None:
        if asks or every:
            given = "--backend, --query, --wait-for-spill, --all, --explain and --set"
            raise OptionConflict(f"{given} need --postgres")
        return
    if not every:
        return
    refused = {
        "--backend": (wanted.backend is not None, _REMEDY),
        "--query": (wanted.query is not None, _REMEDY),
        "--wait-for-spill": (wanted.spilling, _REMEDY),
        "--explain": (explain is not None, "record it by itself, without --all"),
        "--set": (bool(settings), "settings are for a statement that --explain runs"),
        "--live": (live, "a line shows how many sessions spill; --live shows one session"),
    }
    for option, (is_given, instead) in refused.items():
        if is_given:
            raise OptionConflict(f"{option} does not go with --all", instead)


def record_all(server: str, output: Path | None, options: "RecordOptions", *, json: bool) -> None:
    """Record every query of a server that spills, and print what was recorded."""
    from spillcast.cli.live import line_view
    from spillcast.cli.output import emit, print_coloured, terminal_columns
    from spillcast.engines.postgres.live.record_all import record_all_of_postgres
    from spillcast.report.recording import server_recording_text

    with line_view(show=not json) as view:
        recording = record_all_of_postgres(
            server, output or ALL_OUTPUT, options=options, say=view.say, on_status=view.look
        )
    if json:
        emit(recording.to_json())
    else:
        print_coloured(server_recording_text(recording, terminal_columns()))


def record_server(
    server: str,
    output: Path | None,
    options: "RecordOptions",
    wanted: Wanted,
    view: "View",
    running: "Running | None",
    *,
    explain: str | None = None,
    settings: Sequence[str] = (),
) -> "Recording":
    """Record what the options ask for. InputError where they do not go together."""
    from spillcast.engines.postgres.live.record import record_postgres

    finds = wanted != Wanted()
    if finds == (explain is not None):
        raise OptionMissing(
            "--postgres needs --backend PID, --query PATTERN, --wait-for-spill or --explain SQL",
            "see: spillcast record --help",
        )
    if settings and explain is None:
        raise OptionConflict(
            "--set is for the session of --explain; other sessions cannot be changed"
        )
    return record_postgres(
        server,
        output,
        wanted if finds else None,
        explain=explain,
        settings=dict(_pair(text) for text in settings),
        options=options,
        say=view.say,
        on_status=view.look,
        running=running,
    )


def _pair(text: str) -> tuple[str, str]:
    name, equals, value = text.partition("=")
    if not equals or not name:
        raise OptionInvalid(f"--set '{text}' is not NAME=VALUE", "for example --set work_mem=4MB")
    return name.strip(), value.strip()

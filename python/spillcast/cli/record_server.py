"""A query of a server that runs already: what the options of record and watch ask for."""

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from spillcast.engines.engine import Wanted
from spillcast.engines.registry import engine_of
from spillcast.errors import InputError

if TYPE_CHECKING:
    from spillcast.cli.engines import Server
    from spillcast.cli.live import View
    from spillcast.recording import Recording
    from spillcast.recording.options import RecordOptions
    from spillcast.recording.running import Running


def record_server(
    server: "Server",
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
    name, dsn = server
    finds = wanted != Wanted()
    if finds == (explain is not None):
        raise InputError(
            f"--{name} needs --backend PID, --query PATTERN, --wait-for-spill or --explain SQL",
            "see: spillcast record --help",
        )
    if settings and explain is None:
        raise InputError("--set is for the session of --explain; another's cannot be changed")
    live = engine_of(name).live
    assert live is not None
    return live()(
        dsn,
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
        raise InputError(f"--set '{text}' is not NAME=VALUE", "for example --set work_mem=4MB")
    return name.strip(), value.strip()

"""``spillcast record --postgres``: what its options ask for, and words while it runs."""

import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from spillcast.errors import InputError

if TYPE_CHECKING:
    from spillcast.recording import Recording
    from spillcast.recording.recorder import Asked


def record_postgres(
    dsn: str,
    output: Path,
    asked: "Asked",
    *,
    backend: int | None,
    query: str | None,
    wait_for_spill: bool,
    explain: str | None,
    settings: Sequence[str],
    show_status: bool,
) -> "Recording":
    """Record what the options ask for. InputError where they do not go together."""
    from spillcast.cli.progress import live_line
    from spillcast.engines.postgres import record_postgres as record
    from spillcast.engines.postgres_backend import Wanted
    from spillcast.report.recording import status_line

    finds = backend is not None or query is not None or wait_for_spill
    if finds == (explain is not None):
        raise InputError(
            "--postgres needs --backend PID, --query PATTERN, --wait-for-spill or --explain SQL",
            "see: spillcast record --help",
        )
    if settings and explain is None:
        raise InputError("--set is for the session of --explain; another's cannot be changed")
    with live_line(show=show_status) as show:

        def say(text: str) -> None:
            show("")
            print(f"spillcast: {text}" if text[0] != " " else text, file=sys.stderr)

        def on_status(status: Mapping[str, Any]) -> None:
            show(status_line(status))

        return record(
            dsn,
            output,
            Wanted(backend, query, wait_for_spill) if finds else None,
            explain=explain,
            settings=dict(_pair(text) for text in settings),
            asked=asked,
            say=say,
            on_status=on_status,
        )


def _pair(text: str) -> tuple[str, str]:
    name, equals, value = text.partition("=")
    if not equals or not name:
        raise InputError(f"--set '{text}' is not NAME=VALUE", "for example --set work_mem=4MB")
    return name.strip(), value.strip()

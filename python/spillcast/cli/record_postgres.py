"""``spillcast record --postgres``: what its options ask for, and words while it runs."""

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from spillcast.errors import InputError

if TYPE_CHECKING:
    from spillcast.cli.live import View
    from spillcast.recording import Recording
    from spillcast.recording.options import RecordOptions
    from spillcast.recording.running import Running


def record_postgres(
    dsn: str,
    output: Path | None,
    options: "RecordOptions",
    *,
    backend: int | None,
    query: str | None,
    wait_for_spill: bool,
    explain: str | None = None,
    settings: Sequence[str] = (),
    view: "View",
    running: "Running | None" = None,
) -> "Recording":
    """Record what the options ask for. InputError where they do not go together."""
    from spillcast.engines.postgres import record_postgres as record
    from spillcast.engines.postgres_backend import Wanted

    finds = backend is not None or query is not None or wait_for_spill
    if finds == (explain is not None):
        raise InputError(
            "--postgres needs --backend PID, --query PATTERN, --wait-for-spill or --explain SQL",
            "see: spillcast record --help",
        )
    if settings and explain is None:
        raise InputError("--set is for the session of --explain; another's cannot be changed")
    return record(
        dsn,
        output,
        Wanted(backend, query, wait_for_spill) if finds else None,
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

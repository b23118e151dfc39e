"""The rehearsal that an option asks for: of a command, or in a session of a server."""

import shlex
import sys
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from spillcast.cli.engines import DSN_OPTIONS, Server

if TYPE_CHECKING:
    from spillcast.recording import Recording
    from spillcast.storage.rehearsal import Rehearsal


def check_options(
    rehearse: str | None, command: str | None, server: Server | None, to: Sequence[str]
) -> None:
    """InputError for options of a rehearsal without one, and for one of nothing."""
    from spillcast.errors import InputError
    from spillcast.storage.target import is_place

    if rehearse is None:
        for given, option in ((command, "--command"), (server, DSN_OPTIONS)):
            if given is not None:
                raise InputError(f"{option} goes with --rehearse", "for example --rehearse 10s")
    elif not any(is_place(Path(word)) for word in to):
        raise InputError("--rehearse wants a directory to rehearse on", "give one with --to DIR")


def rehearsing(
    duration_s: float, command: str | None, server: Server | None, folder: Path
) -> "Callable[[Recording, Path], Rehearsal]":
    """What rehearses the query of a recording on a directory; it keeps its files in ``folder``."""
    from spillcast.engines.registry import engine_of
    from spillcast.errors import Refusal
    from spillcast.storage.rehearse.command import rehearse_command

    def say(text: str) -> None:
        print(f"spillcast: rehearsal: {text}", file=sys.stderr)

    def rehearse(recording: "Recording", directory: Path) -> "Rehearsal":
        if server is not None:
            name, dsn = server
            offered = engine_of(name).rehearse
            if offered is None:
                raise Refusal(f"queries of {engine_of(name).label} are not rehearsed")
            return offered()(
                dsn, recording, directory, duration_s, folder, statement=command, say=say
            )
        if recording.meta.server_query is not None:
            raise Refusal("its query ran in a server", f"name the server with {DSN_OPTIONS} DSN")
        words = None if command is None else shlex.split(command)
        return rehearse_command(recording, directory, duration_s, folder, command=words, say=say)

    return rehearse

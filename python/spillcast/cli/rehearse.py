"""The rehearsal that an option asks for: of a command, or in a session of a server."""

import shlex
import sys
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from spillcast.recording import Recording
    from spillcast.storage.rehearse import Rehearsal


def check_options(
    rehearse: str | None, command: str | None, server: str | None, to: Sequence[str]
) -> None:
    """InputError for options of a rehearsal without one, and for one of nothing."""
    from spillcast.errors import OptionConflict, OptionMissing
    from spillcast.storage.target import is_place

    if rehearse is None:
        for given, option in ((command, "--command"), (server, "--postgres")):
            if given is not None:
                raise OptionConflict(f"{option} goes with --rehearse", "for example --rehearse 10s")
    elif not any(is_place(Path(word)) for word in to):
        raise OptionMissing("--rehearse needs a directory to rehearse on", "give one with --to DIR")


def check_rehearse(
    directories: Sequence[Path] | None, pid: int | None, explain: str | None, server: str | None
) -> None:
    """InputError for targets that `record` cannot run again, and for a missing directory."""
    from spillcast.errors import OptionConflict, PathMissing

    if not directories:
        return
    if pid is not None or (server is not None and explain is None):
        hint = "for others: spillcast forecast --rehearse 10s --command '...'"
        raise OptionConflict("--rehearse repeats a command that record started", hint)
    for directory in directories:
        if not directory.is_dir():
            raise PathMissing(f"--rehearse {directory}: there is no such directory")


#: How long `record --rehearse` rehearses.
DURATION_S = 10.0


def rehearse_recorded(
    recording: "Recording", directories: Sequence[Path], server: str | None
) -> None:
    """Rehearse a new recording on each directory, and keep the results with it.

    What cannot be rehearsed is said on stderr; the recording stays as it is.
    """
    from spillcast.errors import Refusal
    from spillcast.storage.rehearse import check_room, keep_rehearsal
    from spillcast.workspace import workspace

    with workspace() as folder:
        # Who asks for it names the command in the same line.
        rehearse = rehearsing(DURATION_S, None, server, folder, confirmed=True)
        for directory in directories:
            try:
                check_room(recording, directory)
                kept = keep_rehearsal(recording, rehearse(recording, directory), directory)
            except Refusal as refusal:
                place = f"none on {directory}: {refusal}"
            else:
                place = f"on {directory}, kept in {kept}"
            print(f"spillcast: rehearsal: {place}", file=sys.stderr)


def rehearsing(
    duration_s: float,
    command: str | None,
    server: str | None,
    folder: Path,
    *,
    confirmed: bool = False,
) -> "Callable[[Recording, Path], Rehearsal]":
    """The function that rehearses a recorded query on a directory, with files in ``folder``.

    A recorded command that may write runs again only if ``confirmed``.
    """
    from spillcast.errors import Refusal, RehearsalRefused
    from spillcast.storage.rehearse.command import rehearse_command

    def say(text: str) -> None:
        print(f"spillcast: rehearsal: {text}", file=sys.stderr)

    def rehearse(recording: "Recording", directory: Path) -> "Rehearsal":
        try:
            return attempt(recording, directory)
        except Refusal as refusal:
            # A refused forecast has one line for the reason and what mends it.
            raise RehearsalRefused(
                "; ".join(filter(None, (refusal.message, refusal.hint)))
            ) from None

    def attempt(recording: "Recording", directory: Path) -> "Rehearsal":
        if server is not None:
            from spillcast.engines.postgres.live.rehearse import rehearse_postgres

            return rehearse_postgres(
                server, recording, directory, duration_s, folder, statement=command, say=say
            )
        if recording.meta.server is not None:
            raise RehearsalRefused(
                "its query ran in a server", "name the server with --postgres DSN"
            )
        words = None if command is None else _words(command)
        return rehearse_command(
            recording, directory, duration_s, folder, command=words, confirmed=confirmed, say=say
        )

    return rehearse


def _words(command: str) -> list[str]:
    """The words of a command, as a shell has them. InputError where a quote is left open."""
    from spillcast.errors import OptionInvalid

    try:
        return shlex.split(command)
    except ValueError as error:
        hint = "close its quotes, as in: --command 'duckdb dw.db -c \"select 1\"'"
        raise OptionInvalid(f"--command {command}: {str(error).lower()}", hint) from error

"""``spillcast emulate``: a directory that behaves like a storage you do not own."""

import sys
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from spillcast.cli.usage import Answer

if TYPE_CHECKING:
    from spillcast.storage.emulation import Mount


def emulate(
    mountpoint: Annotated[Path, typer.Argument(metavar="MOUNT", help="An empty directory.")],
    command: Annotated[
        list[str] | None, typer.Argument(help="Command to run while it is mounted, after --.")
    ] = None,
    storage: Annotated[
        str | None,
        typer.Option(
            metavar="STORAGE",
            help="Storage to imitate: a storage.json, a recording, catalogue:NAME.",
        ),
    ] = None,
    read: Annotated[
        str | None, typer.Option(metavar="TIME", help="Latency of every read, such as 9ms.")
    ] = None,
    write: Annotated[
        str | None, typer.Option(metavar="TIME", help="Latency of every write, such as 4ms.")
    ] = None,
    bandwidth: Annotated[
        str | None, typer.Option(metavar="RATE", help="Total bandwidth, such as 200MB/s.")
    ] = None,
    servers: Annotated[
        int | None, typer.Option(min=1, help="Operations served at once; the others queue.")
    ] = None,
    page_cache: Annotated[
        bool, typer.Option("--page-cache", help="Use the page cache, as a disk does.")
    ] = False,
    backing: Annotated[
        Path | None,
        typer.Option(
            metavar="DIR", help="Directory that stores the files; they remain after the unmount."
        ),
    ] = None,
) -> Answer:
    """Mount a directory that is as slow as storage you do not own.

    Reads and writes take as long as on that storage and bypass the page cache; opening, naming and
    removing files takes no extra time. Without --backing the files are deleted at the end. It ends
    with the command, whose exit status it returns, or with Ctrl-C.

    Example: spillcast emulate /mnt/slow --read 9ms --write 4ms --servers 1

    Example: spillcast emulate /mnt/slow --storage nvme.json -- duckdb warehouse.db -f query.sql
    """
    from contextlib import ExitStack

    from spillcast.cli.progress import progress_bar
    from spillcast.errors import PathMissing
    from spillcast.interruptible import interrupted_once
    from spillcast.report.emulation import emulation_page, mounted_text
    from spillcast.storage.emulation import check_program, model_of_options
    from spillcast.storage.emulation import emulate as emulated
    from spillcast.workspace import workspace

    if backing is not None and not backing.is_dir():
        raise PathMissing(f"--backing {backing}: there is no such directory", "make it")
    if command:
        check_program(command)
    model = model_of_options(storage, read, write, bandwidth, servers)
    with ExitStack() as stack:
        held = backing or stack.enter_context(workspace())
        with progress_bar(f"mounting {mountpoint}"):
            mount = stack.enter_context(emulated(model, mountpoint, held, page_cache=page_cache))
        end = f"{command[0]} ends it" if command else "Ctrl-C ends it"
        words = mounted_text(mount, temporary=backing is None, end=end)
        print(words, file=sys.stderr, flush=True)
        status = _serve(mount, command)
        # From here on it ends by itself; another Ctrl-C would only leave the rest of it out.
        interrupted_once()
        result = mount.result()
    return Answer(
        lambda: result.to_json() | {"command": command or None, "exit_status": status},
        lambda: emulation_page(result),
        status or 0,
    )


def _serve(mount: "Mount", command: list[str] | None) -> int | None:
    """Serve until the end; the exit status of the command, if there is one."""
    from spillcast.cli.progress import live_line
    from spillcast.report.emulation import status_line
    from spillcast.storage.emulation import run_command, stay

    # A command has the terminal to itself.
    with live_line(show=not command) as write:
        before = mount.result()

        def tick() -> None:
            nonlocal before
            now = mount.result()
            write(status_line(now, before))
            before = now

        if command:
            return run_command(command, tick)
        stay(mount, tick)
        return None

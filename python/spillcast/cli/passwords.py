"""A password on the command line: hidden from lists of processes, and kept out of core dumps."""

import os
import sys
from collections.abc import Sequence
from pathlib import Path

_PROCESS = Path("/proc/self")
#: Of the fields of /proc/self/stat after the program's name, where the arguments begin in memory.
_ARG_START = 45


def hide_passwords(arguments: Sequence[str]) -> None:
    """Overwrite passwords of addresses and connection strings in this process's arguments.

    Other users read those with ps. Of arguments before ``--`` a line on stderr says so.
    """
    end = list(arguments).index("--") if "--" in arguments else len(arguments)
    at = [place for place, argument in enumerate(arguments) if _may_hold_password(argument)]
    if at:
        from spillcast.redaction import struck_arguments

        shown = [*arguments]
        for place in at:
            (shown[place],) = struck_arguments([arguments[place]])
        _overwrite(arguments, shown)
        if shown[:end] != list(arguments[:end]):
            print(
                "spillcast: other users can read a password on a command line: "
                "use PGPASSFILE (~/.pgpass) or a service (PGSERVICE)",
                file=sys.stderr,
            )
    # A command that is started keeps its limit.
    if end == len(arguments) and (at or "PGPASSWORD" in os.environ):
        _dump_no_core()


def _may_hold_password(argument: str) -> bool:
    """Without a regular expression: this is asked at each start."""
    return ("://" in argument and "@" in argument) or "password" in argument.lower()


def _overwrite(arguments: Sequence[str], shown: Sequence[str]) -> None:
    """Put ``shown`` where the kernel reads the arguments; each keeps its place and its length."""
    try:
        memory = (_PROCESS / "cmdline").read_bytes()
        theirs = b"".join(os.fsencode(argument) + b"\0" for argument in arguments)
        if not memory.endswith(theirs):
            return
        text = b"".join(
            os.fsencode(new)[: len(old)].ljust(len(old)) + b"\0"
            for new, old in zip(shown, map(os.fsencode, arguments), strict=True)
        )
        fields = (_PROCESS / "stat").read_text(errors="replace").rpartition(")")[2].split()
        with (_PROCESS / "mem").open("r+b", buffering=0) as file:
            file.seek(int(fields[_ARG_START]) + len(memory) - len(theirs))
            file.write(text)
    except (OSError, ValueError, IndexError):
        # Where the kernel refuses it, the line on stderr is all there is.
        return


def _dump_no_core() -> None:
    import resource

    resource.setrlimit(resource.RLIMIT_CORE, (0, resource.getrlimit(resource.RLIMIT_CORE)[1]))

"""The command line: runs a verb, turns errors into messages and an exit status."""

import gc
import os
import signal
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from spillcast.errors import SpillcastError

_PROCESS = Path("/proc/self")
#: Of the fields of /proc/self/stat after the program's name, where the arguments begin in memory.
_ARG_START = 45


def main() -> None:
    """Run the command line and exit with its status."""
    _open_streams()
    arguments = sys.argv[1:]
    hide_passwords(arguments)
    try:
        _handle_signals()
        status = run(arguments)
    except KeyboardInterrupt:
        status = _interrupted()
    sys.exit(status)


def run(arguments: list[str]) -> int:
    """Run a verb; its exit status."""
    if arguments == ["--version"]:
        from spillcast.cli.verbs import print_version

        print_version()
        return 0
    # Starting makes many objects and no garbage, and so do answers of many rows.
    gc.set_threshold(20_000)
    from spillcast.cli.output import visible_streams

    if arguments[:1] == ["help"]:
        arguments = [*arguments[1:], "--help"]
    with visible_streams():
        return _status(arguments)


def _status(arguments: list[str]) -> int:
    from spillcast.cli.verbs import application, with_present_names
    from spillcast.errors import SpillcastError, SystemFailed, is_interruption

    try:
        arguments = with_present_names(arguments)
        return int(application(arguments)(args=arguments, prog_name="spillcast") or 0)
    except SpillcastError as error:
        return _failed(error, arguments)
    except ModuleNotFoundError as error:
        from spillcast.installation import wanted

        if (missing := wanted(error)) is None:
            raise
        return _failed(missing, arguments)
    except SystemExit as exited:
        # typer makes an exit of Ctrl-C and says nothing.
        if isinstance(getattr(exited.__context__, "__cause__", None), KeyboardInterrupt):
            return _interrupted()
        raise
    except RuntimeError as error:
        if is_interruption(error):
            return _interrupted()
        raise
    except BrokenPipeError:
        # The reader of stdout has gone; nothing more can be said to it.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return 1
    except OSError as error:
        where = f"{error.filename}: " if error.filename else ""
        return _failed(SystemFailed(f"{where}{error.strerror or error}"), arguments)


def _failed(error: "SpillcastError", arguments: list[str]) -> int:
    """Print an error, with ``--json`` also its document on stdout; the exit status."""
    _strike_passwords(error, arguments)
    print(f"spillcast: {error.message}", file=sys.stderr)
    if error.hint:
        print(f"  {error.hint}", file=sys.stderr)
    options = arguments[: arguments.index("--")] if "--" in arguments else arguments
    if "--json" in options:
        from spillcast.cli.output import emit

        emit(error.to_json())
    return error.exit_status


def _strike_passwords(error: "SpillcastError", arguments: list[str]) -> None:
    """Replace arguments with a password, which an error may quote, by what may be shown of them."""
    for argument in filter(_may_hold_password, arguments):
        from spillcast.redaction import struck_arguments

        (shown,) = struck_arguments([argument])
        error.message = error.message.replace(argument, shown)
        if error.hint:
            error.hint = error.hint.replace(argument, shown)


def _interrupted() -> int:
    from spillcast.interruptible import interrupted_status

    for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
        signal.signal(number, signal.SIG_IGN)
    print("spillcast: interrupted", file=sys.stderr)
    return interrupted_status()


def _open_streams() -> None:
    """Let standard streams that are closed lead nowhere: files of ours would get their numbers."""
    for number in range(3):
        try:
            os.fstat(number)
        except OSError:
            # The lowest number that is free, and closed again for what we start.
            os.open(os.devnull, os.O_RDWR)
    if sys.stdout is None or sys.stderr is None:
        nowhere = os.fdopen(os.open(os.devnull, os.O_WRONLY), "w")
        sys.stdout, sys.stderr = sys.stdout or nowhere, sys.stderr or nowhere


def _handle_signals() -> None:
    """SIGTERM ends a run as Ctrl-C does: recordings are kept, mounts and files are undone.

    So does the end of the terminal, but under nohup. A shell that starts a command in the
    background has it ignore SIGINT, which must not hold here.
    """
    from spillcast.interruptible import interrupt

    sys.unraisablehook = _unraisable
    hangup = () if signal.getsignal(signal.SIGHUP) == signal.SIG_IGN else (signal.SIGHUP,)
    for number in (signal.SIGINT, signal.SIGTERM, *hangup):
        signal.signal(number, interrupt)


def _unraisable(lost: "sys.UnraisableHookArgs") -> None:
    """Interrupt again where Python lost it, in a callback of an import that cannot fail."""
    if not isinstance(lost.exc_value, KeyboardInterrupt):
        sys.__unraisablehook__(lost)
        return
    import threading

    main_thread = threading.main_thread().ident
    if main_thread is not None:
        threading.Timer(0.01, signal.pthread_kill, (main_thread, signal.SIGINT)).start()


#: Variables that hold the password of a server.
_PASSWORDS = {"CLICKHOUSE_PASSWORD", "MYSQL_PWD", "PGPASSWORD"}


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
                "use ~/.pgpass (PGPASSFILE) or a service (PGSERVICE) of PostgreSQL, ~/.my.cnf, or "
                "CLICKHOUSE_PASSWORD",
                file=sys.stderr,
            )
    # A command that is started keeps its limit.
    if end == len(arguments) and (at or not _PASSWORDS.isdisjoint(os.environ)):
        _dump_no_core()


def _may_hold_password(argument: str) -> bool:
    """Without a regular expression, as it runs at each start."""
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

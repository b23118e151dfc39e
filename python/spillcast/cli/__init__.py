"""The command line: finds the verb, runs it, turns errors into words and an exit status."""

import os
import signal
import sys
from importlib import import_module
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from typer import Typer

    from spillcast.errors import SpillcastError

VERBS = (
    "demo",
    "profile",
    "forecast",
    "report",
    "record",
    "calibrate",
    "watch",
    "probe",
    "storage",
    "emulate",
    "verify",
    "cache",
    "sql",
    "collect",
    "move",
    "export",
    "completion",
    "sweep",
    "ingest",
    "fleet",
)


def main() -> None:
    """Run the command line and exit with its status."""
    arguments = sys.argv[1:]
    if arguments == ["--version"]:
        from spillcast._core import __version__

        print(f"spillcast {__version__}")
        sys.exit(0)
    if not {"fleet", "ingest"} & {*arguments[:1]}:
        # Spark wants it.
        from spillcast.without_pandas import start_without_pandas

        start_without_pandas()
    # Ending by SIGTERM is ending by Ctrl-C: recordings are kept, mounts and files are undone. A
    # shell that starts a command in the background has it ignore SIGINT, which must not hold here.
    for number in (signal.SIGINT, signal.SIGTERM):
        signal.signal(number, signal.default_int_handler)
    sys.exit(_run(arguments))


def _run(arguments: list[str]) -> int:
    from spillcast.errors import SpillcastError

    try:
        status = application(arguments)(args=arguments, prog_name="spillcast")
        return int(status or 0)
    except SpillcastError as error:
        _complain(error)
        return error.exit_status
    except SystemExit as exited:
        # typer makes an exit of Ctrl-C and says nothing.
        if isinstance(getattr(exited.__context__, "__cause__", None), KeyboardInterrupt):
            return _interrupted()
        raise
    except KeyboardInterrupt:
        return _interrupted()
    except BrokenPipeError:
        # The reader of stdout has gone; nothing more can be said to it.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return 1
    except OSError as error:
        where = f"{error.filename}: " if error.filename else ""
        print(f"spillcast: {where}{error.strerror or error}", file=sys.stderr)
        return 1


def _interrupted() -> int:
    print("spillcast: interrupted", file=sys.stderr)
    return 130


def _complain(error: "SpillcastError") -> None:
    print(f"spillcast: {error.message}", file=sys.stderr)
    if error.hint:
        print(f"  {error.hint}", file=sys.stderr)


def application(arguments: list[str]) -> "Typer":
    """The typer application with the verb that is asked for, or with all of them for help."""
    import typer

    found = typer.Typer(
        name="spillcast",
        help=__import__("spillcast").__doc__,
        no_args_is_help=True,
        add_completion=False,
        pretty_exceptions_enable=False,
        rich_markup_mode=None,
    )
    found.callback()(lambda: None)
    asked = arguments[0] if arguments else ""
    for verb in (asked,) if asked in VERBS else VERBS:
        import_module(f"spillcast.cli.{verb}").add_to(found)
    return found

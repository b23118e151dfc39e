"""The command line: finds the verb, runs it, turns errors into words and an exit status."""

import gc
import os
import signal
import sys
from collections.abc import Sequence
from importlib import import_module
from importlib.util import find_spec
from typing import TYPE_CHECKING, Any

from spillcast.cli.passwords import hide_passwords

if TYPE_CHECKING:
    from typer import Typer

    from spillcast.errors import SpillcastError

#: In the order of the work: what spills, a recording, a storage, a forecast, a move; then the rest.
VERBS = (
    "postgres",
    "record",
    "watch",
    "profile",
    "probe",
    "storage",
    "forecast",
    "report",
    "sweep",
    "move",
    "check",
    "calibrate",
    "emulate",
    "cache",
    "collect",
    "sql",
    "export",
    "ingest",
    "fleet",
    "verify",
    "demo",
    "doctor",
)
#: Verbs of other packages, which come with an extra.
MODULES = {"verify": "spillcast_lab.cli"}
#: Verbs of the previous version, each with what replaces it.
FORMER_VERBS = {"completion": "spillcast --install-completion, or --show-completion to print it"}

#: Options of former names, which work for one more version.
_RENAMED_OPTIONS = {"--boost": "--temp-events"}


def main() -> None:
    """Run the command line and exit with its status."""
    _open_streams()
    arguments = sys.argv[1:]
    hide_passwords(arguments)
    if arguments == ["--version"]:
        _tell_version()
    if arguments[:1] == ["help"]:
        arguments = [*arguments[1:], "--help"]
    # Ending by SIGTERM is ending by Ctrl-C: recordings are kept, mounts and files are undone; so is
    # the end of the terminal, but under nohup. A shell that starts a command in the background has
    # it ignore SIGINT, which must not hold here.
    hangup = () if signal.getsignal(signal.SIGHUP) == signal.SIG_IGN else (signal.SIGHUP,)
    from spillcast.interruptible import interrupt

    sys.unraisablehook = _unraisable
    # Starting makes many objects and no garbage, and so do answers of many rows.
    gc.set_threshold(20_000)
    try:
        for number in (signal.SIGINT, signal.SIGTERM, *hangup):
            signal.signal(number, interrupt)
        status = _run(arguments)
    except KeyboardInterrupt:
        status = _interrupted()
    sys.exit(status)


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


def _tell_version() -> None:
    from spillcast._core import __version__
    from spillcast.built import commit

    of = commit()
    print(f"spillcast {__version__}{f' ({of})' if of else ''}")
    sys.exit(0)


def _unraisable(lost: "sys.UnraisableHookArgs") -> None:
    """Interrupt again where Python lost it, in a callback of an import that cannot fail."""
    if not isinstance(lost.exc_value, KeyboardInterrupt):
        sys.__unraisablehook__(lost)
        return
    import threading

    main = threading.main_thread().ident
    if main is not None:
        threading.Timer(0.01, signal.pthread_kill, (main, signal.SIGINT)).start()


def _run(arguments: list[str]) -> int:
    from spillcast.cli.terminal import visible_streams

    with visible_streams():
        return _status(arguments)


def _status(arguments: list[str]) -> int:
    from spillcast.errors import SpillcastError, SystemFailed, is_interruption

    try:
        present = _with_present_names(arguments)
        status = application(present)(args=present, prog_name="spillcast")
        return int(status or 0)
    except SpillcastError as error:
        return _failed(error, arguments)
    except ModuleNotFoundError as error:
        from spillcast.extras import wanted

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


def _with_present_names(arguments: list[str]) -> list[str]:
    """The arguments with options by their present names, but those of a command after ``--``."""
    end = arguments.index("--") if "--" in arguments else len(arguments)
    lines = []
    for argument in arguments[:end]:
        name, equals, value = argument.partition("=")
        present = _RENAMED_OPTIONS.get(name)
        if present is not None:
            print(f"spillcast: {name} is deprecated: use {present}", file=sys.stderr)
            argument = f"{present}{equals}{value}"
        lines.append(argument)
    return lines + arguments[end:]


def _interrupted() -> int:
    from spillcast.interruptible import interrupted_status

    for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
        signal.signal(number, signal.SIG_IGN)
    print("spillcast: interrupted", file=sys.stderr)
    return interrupted_status()


def _failed(error: "SpillcastError", arguments: Sequence[str]) -> int:
    """Print an error, with ``--json`` also its document on stdout; the exit status."""
    print(f"spillcast: {error.message}", file=sys.stderr)
    if error.hint:
        print(f"  {error.hint}", file=sys.stderr)
    options = arguments[: arguments.index("--")] if "--" in arguments else arguments
    if "--json" in options:
        from spillcast.cli.output import emit

        emit(error.to_json())
    return error.exit_status


def application(arguments: list[str]) -> "Typer":
    """The typer application with the verb that is asked for, or with all of them for help."""
    import typer

    from spillcast.cli.usage import Verbs, usage_errors_explained

    class InOrder(Verbs):
        """Lists verbs in the order of the work, also those that are groups."""

        def make_context(self, *words: Any, **options: Any) -> Any:
            return usage_errors_explained(super().make_context, *words, **options)

        def invoke(self, *words: Any, **options: Any) -> Any:
            return usage_errors_explained(super().invoke, *words, **options)

        def list_commands(self, _context: Any) -> list[str]:
            return [verb for verb in VERBS if verb in self.commands]

    application_ = typer.Typer(
        name="spillcast",
        cls=InOrder,
        context_settings={"help_option_names": ["-h", "--help"]},
        help=__import__("spillcast").__doc__,
        no_args_is_help=True,
        pretty_exceptions_enable=False,
        rich_markup_mode=None,
    )

    # ``spillcast --version`` alone is answered before typer is imported.
    def any_verb(
        version: bool = typer.Option(False, "--version", help="Show the version and exit."),
    ) -> None:
        if version:
            _tell_version()

    application_.callback()(any_verb)
    word = arguments[0] if arguments else ""
    if word in FORMER_VERBS:
        from spillcast.errors import UsageInvalid

        raise UsageInvalid(f"the verb {word} is gone", f"use {FORMER_VERBS[word]}")
    for verb in (word,) if word in VERBS else VERBS:
        module = MODULES.get(verb, f"spillcast.cli.{verb}")
        if word == verb or find_spec(module.split(".")[0]):
            import_module(module).add_to(application_)
    return application_

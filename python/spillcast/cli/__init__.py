"""The command line: runs a verb and turns errors into messages and an exit status."""

import gc
import os
import signal
import sys
from collections.abc import Sequence
from importlib import import_module
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from typer import Typer

    from spillcast.errors import SpillcastError

#: The module of each verb, in the order of a user's work: spills, a recording, a storage, a
#: forecast, a move; then the rest. Modules of other packages are installed by an extra.
VERBS = {
    "postgres": "spillcast.cli.ranking",
    "mysql": "spillcast.cli.ranking",
    "clickhouse": "spillcast.cli.ranking",
    "record": "spillcast.cli.record",
    "profile": "spillcast.cli.report",
    "probe": "spillcast.cli.storage",
    "storage": "spillcast.cli.storage",
    "forecast": "spillcast.cli.forecast",
    "size": "spillcast.cli.sizing",
    "report": "spillcast.cli.report",
    "sweep": "spillcast.cli.sizing",
    "move": "spillcast.cli.engine_commands",
    "check": "spillcast.cli.lab",
    "calibrate": "spillcast.cli.lab",
    "emulate": "spillcast.cli.storage",
    "cache": "spillcast.cli.storage",
    "collect": "spillcast.cli.engine_commands",
    "export": "spillcast.cli.report",
    "ingest": "spillcast.cli.ranking",
    "fleet": "spillcast.cli.ranking",
    "verify": "spillcast_lab.cli",
    "demo": "spillcast.cli.lab",
    "doctor": "spillcast.cli.lab",
    "engines": "spillcast.cli.lab",
}
_FIRST_STEPS = """

Paste a plan, trace or report, and end it with Ctrl-D: spillcast forecast - --to catalogue:aws-gp3

Rank what spills on a server: spillcast postgres dbname=dw --to catalogue:aws-gp3

Record a query: spillcast record -o run.spill -- duckdb warehouse.db -c "select ..."
"""
#: Settings of verbs for click. Options after the command of ``record`` are the command's.
_SETTINGS = {"record": {"allow_interspersed_args": False}}
#: Options of the last version, and their current names.
_RENAMED_OPTIONS = {"--boost": "--temp-events"}
#: The exit status if the reader of stdout ends first: as of git and cat, which SIGPIPE kills. 1 is
#: an answer of check, and 0, as in ripgrep, would report a truncated answer as complete.
_SIGPIPE_STATUS = 128 + signal.SIGPIPE


def main() -> None:
    """Run the command line and exit with its status."""
    _open_streams()
    if not os.access(".", os.X_OK):
        # In the home of root after sudo -u, where even "-" and catalogue:NAME cannot be looked up.
        print(f"spillcast: this user may not enter {os.getcwd()}: changed to /", file=sys.stderr)
        os.chdir("/")
    arguments = sys.argv[1:]
    hide_passwords(arguments)
    try:
        _handle_signals()
        try:
            status = run(arguments)
        finally:
            # Python's own flush at exit would fail with a traceback.
            sys.stdout.flush()
    except KeyboardInterrupt:
        status = _interrupted()
    except OSError as error:
        status = _write_error_status(error)
    sys.exit(status)


def run(arguments: list[str]) -> int:
    """Run a verb; return its exit status."""
    if arguments == ["--version"]:
        print_version()
        return 0
    # Imports and long answers allocate many objects but little garbage.
    gc.set_threshold(20_000)
    from spillcast.cli.output import visible_streams

    if arguments[:1] == ["help"]:
        arguments = [*arguments[1:], "--help"]
    with visible_streams():
        return _status(arguments)


def _status(arguments: list[str]) -> int:
    """Run a verb; turn errors into messages and an exit status."""
    from spillcast.errors import SpillcastError, SystemFailed, is_interruption
    from spillcast.interruptible import until_answered

    try:
        arguments = with_present_names(arguments)
        options = arguments[: arguments.index("--")] if "--" in arguments else arguments
        until_answered([word.partition("=")[2] if word[:1] == "-" else word for word in options])
        return int(application(arguments)(args=arguments, prog_name="spillcast") or 0)
    except SpillcastError as error:
        return _failed(error, arguments)
    except ModuleNotFoundError as error:
        from spillcast.installation import wanted

        if (missing := wanted(error)) is None:
            raise
        return _failed(missing, arguments)
    except SystemExit as exited:
        # typer turns Ctrl-C and a closed pipe into exits without a message.
        if isinstance(getattr(exited.__context__, "__cause__", None), KeyboardInterrupt):
            return _interrupted()
        if isinstance(exited.__context__, BrokenPipeError):
            return _write_error_status(exited.__context__)
        raise
    except RuntimeError as error:
        if is_interruption(error):
            return _interrupted()
        raise
    except BrokenPipeError as error:
        return _write_error_status(error)
    except MemoryError:
        lack = SystemFailed("there is too little memory", "free some, or raise ulimit -v")
        return _failed(lack, arguments)
    except OSError as error:
        if error.filename == sys.stdout.name:
            return _write_error_status(error)
        hint = "run it as a user who may" if isinstance(error, PermissionError) else None
        return _failed(SystemFailed(error.strerror or str(error), hint, error.filename), arguments)


def _failed(error: "SpillcastError", arguments: list[str]) -> int:
    """Print an error, with ``--json`` also its document on stdout; return the exit status."""
    _mask_passwords(error, arguments)
    print(f"spillcast: {error.message}", file=sys.stderr)
    if error.hint:
        print(f"  {error.hint}", file=sys.stderr)
    options = arguments[: arguments.index("--")] if "--" in arguments else arguments
    if "--json" in options:
        from spillcast.cli.output import emit

        emit(error.to_json())
    return error.exit_status


def _mask_passwords(error: "SpillcastError", arguments: list[str]) -> None:
    """Hide passwords in arguments that the error quotes."""
    for argument in filter(_may_hold_password, arguments):
        from spillcast.redaction import masked_arguments

        (shown,) = masked_arguments([argument])
        for name in ("message", "where", "hint"):
            if text := getattr(error, name):
                setattr(error, name, text.replace(argument, shown))


def _write_error_status(error: OSError) -> int:
    """Redirect a stdout that fails to /dev/null; return the exit status."""
    with open(os.devnull, "wb") as null:
        os.dup2(null.fileno(), sys.stdout.fileno())
    if isinstance(error, BrokenPipeError):
        return _SIGPIPE_STATUS
    print(f"spillcast: stdout: {error.strerror}", file=sys.stderr)
    return 1


def _interrupted() -> int:
    from spillcast.interruptible import interrupted_once, interrupted_status

    interrupted_once()
    print("spillcast: interrupted", file=sys.stderr)
    return interrupted_status()


def _open_streams() -> None:
    """Open closed standard streams on /dev/null, so that no other file gets their descriptors."""
    for descriptor in range(3):
        try:
            os.fstat(descriptor)
        except OSError:
            # It gets the lowest free descriptor, the closed one; child processes do not inherit it.
            os.open(os.devnull, os.O_RDWR)
    if sys.stdout is None or sys.stderr is None:
        null = os.fdopen(os.open(os.devnull, os.O_WRONLY), "w")
        sys.stdout, sys.stderr = sys.stdout or null, sys.stderr or null


def _handle_signals() -> None:
    """Let SIGTERM and SIGHUP end a run as Ctrl-C does: recordings are kept, mounts are removed.

    SIGHUP stays ignored under nohup, but not SIGINT, which shells ignore in background commands.
    """
    from spillcast.interruptible import interrupt

    sys.unraisablehook = _unraisable
    hangup = () if signal.getsignal(signal.SIGHUP) == signal.SIG_IGN else (signal.SIGHUP,)
    for number in (signal.SIGINT, signal.SIGTERM, *hangup):
        signal.signal(number, interrupt)


def _unraisable(unraisable: "sys.UnraisableHookArgs") -> None:
    """Interrupt again if Python dropped a KeyboardInterrupt, as in callbacks of imports."""
    if not isinstance(unraisable.exc_value, KeyboardInterrupt):
        sys.__unraisablehook__(unraisable)
        return
    import threading

    main_thread = threading.main_thread().ident
    if main_thread is not None:
        threading.Timer(0.01, signal.pthread_kill, (main_thread, signal.SIGINT)).start()


def application(arguments: list[str]) -> "Typer":
    """The typer application with the verb at the start of ``arguments``, or with all verbs."""
    import typer

    from spillcast.cli.usage import VerbList, usage_errors_explained

    class OrderedVerbs(VerbList):
        """Lists verbs and groups of commands in the order of ``VERBS``."""

        def make_context(self, *values: Any, **options: Any) -> Any:
            return usage_errors_explained(super().make_context, *values, **options)

        def invoke(self, *values: Any, **options: Any) -> Any:
            return usage_errors_explained(super().invoke, *values, **options)

        def list_commands(self, _context: Any) -> list[str]:
            return [verb for verb in VERBS if verb in self.commands]

    spillcast = typer.Typer(
        name="spillcast",
        cls=OrderedVerbs,
        context_settings={"help_option_names": ["-h", "--help"]},
        help=f"{import_module('spillcast').__doc__}{_FIRST_STEPS}",
        no_args_is_help=True,
        pretty_exceptions_enable=False,
        rich_markup_mode=None,
    )

    # ``run`` answers a plain ``spillcast --version`` faster, without typer.
    def any_verb(
        version: bool = typer.Option(False, "--version", help="Show the version and exit."),
    ) -> None:
        if version:
            print_version()
            raise typer.Exit

    spillcast.callback()(any_verb)
    first = arguments[0] if arguments else ""
    for verb in (first,) if first in VERBS else VERBS:
        if verb == first or find_spec(VERBS[verb].split(".")[0]):
            _register(spillcast, verb, getattr(import_module(VERBS[verb]), verb))
    return spillcast


def _register(application: "Typer", verb: str, commands: Any) -> None:
    """Add a verb: a function, or a group of commands."""
    from typer import Typer

    from spillcast.cli.output import Answer
    from spillcast.cli.usage import AnswerCommand, Grouped

    if isinstance(commands, Typer):
        application.add_typer(commands, name=verb)
        return
    answers = commands.__annotations__["return"] is Answer
    application.command(
        verb, cls=AnswerCommand if answers else Grouped, context_settings=_SETTINGS.get(verb)
    )(commands)


def print_version() -> None:
    """Print the version, and the commit of a wheel."""
    from spillcast._core import __version__
    from spillcast.installation import commit

    built_from = commit()
    print(f"spillcast {__version__}{f' ({built_from})' if built_from else ''}")


def with_present_names(arguments: list[str]) -> list[str]:
    """Replace verbs and options of the last version by current ones, with notices on stderr.

    A command after ``--`` stays as it is. InputError for a verb without a replacement.
    """
    end = arguments.index("--") if "--" in arguments else len(arguments)
    words, command = arguments[:end], arguments[end:]
    if words[:1] == ["completion"]:
        from spillcast.errors import UsageInvalid

        raise UsageInvalid(
            "there is no verb completion any more",
            "use spillcast --install-completion, or --show-completion to print it",
        )
    if words[:1] == ["sql"]:
        _deprecated("sql", "profile --sql")
        words = _sql_as_profile(words[1:])
    elif words[:1] == ["watch"]:
        writes = any(word.startswith(("-o", "--output")) for word in words)
        live = ["record", "--live"] if writes else ["record", "--live", "--discard"]
        _deprecated("watch", " ".join(live))
        words = [*live, *words[1:]]
    for index, word in enumerate(words):
        option, equals, value = word.partition("=")
        if (present := _RENAMED_OPTIONS.get(option)) is not None:
            _deprecated(option, present)
            words[index] = f"{present}{equals}{value}"
    return words + command


def _sql_as_profile(words: list[str]) -> list[str]:
    """The arguments of ``profile --sql`` for those of ``sql QUERY EVIDENCE...``."""
    for index, word in enumerate(words):
        if not word.startswith("-"):
            return ["profile", *words[:index], "--sql", *words[index:]]
    return ["profile", *words]


def _deprecated(former: str, present: str) -> None:
    from spillcast.cli.output import notify

    notify(f"{former} is deprecated: use {present}")


_PROCESS = Path("/proc/self")
#: Index of arg_start among the fields of /proc/self/stat after the program's name; proc(5).
_ARG_START = 45
#: Environment variables with the password of a server.
_PASSWORDS = {"CLICKHOUSE_PASSWORD", "MYSQL_PWD", "PGPASSWORD"}


def hide_passwords(arguments: Sequence[str]) -> None:
    """Overwrite passwords of addresses and connection strings in this process's arguments.

    Other users can read them with ps. A notice warns of that, unless the password is in the command
    after ``--``.
    """
    end = list(arguments).index("--") if "--" in arguments else len(arguments)
    suspects = [index for index, word in enumerate(arguments) if _may_hold_password(word)]
    if suspects:
        from spillcast.redaction import masked_arguments

        shown = [*arguments]
        for index in suspects:
            (shown[index],) = masked_arguments([arguments[index]])
        _overwrite(arguments, shown)
        if shown[:end] != list(arguments[:end]):
            print(
                "spillcast: other users can read a password on a command line: "
                "use ~/.pgpass (PGPASSFILE) or a service (PGSERVICE) of PostgreSQL, ~/.my.cnf, or "
                "CLICKHOUSE_PASSWORD",
                file=sys.stderr,
            )
    # No core file holds a password. A command that spillcast starts would inherit the limit.
    if end == len(arguments) and (suspects or not _PASSWORDS.isdisjoint(os.environ)):
        import resource

        _, hard_limit = resource.getrlimit(resource.RLIMIT_CORE)
        resource.setrlimit(resource.RLIMIT_CORE, (0, hard_limit))


def _may_hold_password(argument: str) -> bool:
    # This runs at every start, and regular expressions would have to be compiled.
    return ("://" in argument and "@" in argument) or "password" in argument.lower()


def _overwrite(arguments: Sequence[str], shown: Sequence[str]) -> None:
    """Overwrite the memory from which the kernel reads the arguments; each keeps its length."""
    try:
        command_line = (_PROCESS / "cmdline").read_bytes()
        before = b"".join(os.fsencode(argument) + b"\0" for argument in arguments)
        if not command_line.endswith(before):
            return
        after = b"".join(
            os.fsencode(new)[: len(old)].ljust(len(old)) + b"\0"
            for new, old in zip(shown, map(os.fsencode, arguments), strict=True)
        )
        fields = (_PROCESS / "stat").read_text(errors="replace").rpartition(")")[2].split()
        with (_PROCESS / "mem").open("r+b", buffering=0) as file:
            file.seek(int(fields[_ARG_START]) + len(command_line) - len(before))
            file.write(after)
    except (OSError, ValueError, IndexError):
        # If the kernel does not permit it, the notice on stderr still warns the user.
        return

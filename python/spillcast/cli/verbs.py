"""The verbs of the command line, and the names that verbs and options had in the last version."""

import sys
from importlib import import_module
from importlib.util import find_spec
from types import ModuleType
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from typer import Typer

#: In the order of the work: what spills, a recording, a storage, a forecast, a move; then the rest.
VERBS = (
    "postgres",
    "mysql",
    "clickhouse",
    "record",
    "profile",
    "probe",
    "storage",
    "forecast",
    "size",
    "report",
    "sweep",
    "move",
    "check",
    "calibrate",
    "emulate",
    "cache",
    "collect",
    "export",
    "ingest",
    "fleet",
    "verify",
    "demo",
    "doctor",
    "engines",
)
#: Verbs of other packages, which come with an extra.
MODULES = {"verify": "spillcast_lab.cli"}
#: Options of the last version, each with its present name.
_FORMER_OPTIONS = {"--boost": "--temp-events"}


def application(arguments: list[str]) -> "Typer":
    """The typer application with the verb that ``arguments`` begin with, or with all verbs."""
    import typer

    from spillcast.cli.usage import VerbList, usage_errors_explained

    class InOrder(VerbList):
        """Lists verbs in the order of the work, also those that are groups."""

        def make_context(self, *words: Any, **options: Any) -> Any:
            return usage_errors_explained(super().make_context, *words, **options)

        def invoke(self, *words: Any, **options: Any) -> Any:
            return usage_errors_explained(super().invoke, *words, **options)

        def list_commands(self, _context: Any) -> list[str]:
            return [verb for verb in VERBS if verb in self.commands]

    spillcast = typer.Typer(
        name="spillcast",
        cls=InOrder,
        context_settings={"help_option_names": ["-h", "--help"]},
        help=import_module("spillcast").__doc__,
        no_args_is_help=True,
        pretty_exceptions_enable=False,
        rich_markup_mode=None,
    )

    # ``spillcast --version`` alone is answered before typer is imported.
    def any_verb(
        version: bool = typer.Option(False, "--version", help="Show the version and exit."),
    ) -> None:
        if version:
            print_version()
            raise typer.Exit

    spillcast.callback()(any_verb)
    word = arguments[0] if arguments else ""
    for verb in (word,) if word in VERBS else VERBS:
        module = MODULES.get(verb, f"spillcast.cli.{verb}")
        if word == verb or find_spec(module.split(".")[0]):
            _register(spillcast, verb, import_module(module))
    return spillcast


def _register(application: "Typer", verb: str, module: ModuleType) -> None:
    """Add a verb: the function of its name, unless its file registers commands itself."""
    from spillcast.cli.usage import Answer, AnswerCommand, Grouped

    if hasattr(module, "add_to"):
        module.add_to(application)
        return
    function = getattr(module, verb)
    answers = function.__annotations__["return"] is Answer
    application.command(verb, cls=AnswerCommand if answers else Grouped)(function)


def print_version() -> None:
    """Print the version, with the commit of a wheel."""
    from spillcast._core import __version__
    from spillcast.installation import commit

    built_from = commit()
    print(f"spillcast {__version__}{f' ({built_from})' if built_from else ''}")


def with_present_names(arguments: list[str]) -> list[str]:
    """The arguments with present names for those of the last version; stderr says each.

    A command after ``--`` stays as it is. InputError for a verb that nothing replaces.
    """
    end = arguments.index("--") if "--" in arguments else len(arguments)
    words, command = arguments[:end], arguments[end:]
    if words[:1] == ["completion"]:
        from spillcast.errors import UsageInvalid

        raise UsageInvalid(
            "the verb completion is gone",
            "use spillcast --install-completion, or --show-completion to print it",
        )
    if words[:1] == ["sql"]:
        _deprecated("sql", "profile --sql")
        words = _sql_as_profile(words[1:])
    elif words[:1] == ["watch"]:
        writes = any(word.startswith(("-o", "--output")) for word in words)
        _deprecated("watch", "record --live" if writes else "record --live --discard")
        words = ["record", "--live", *([] if writes else ["--discard"]), *words[1:]]
    for at, word in enumerate(words):
        option, equals, value = word.partition("=")
        if (present := _FORMER_OPTIONS.get(option)) is not None:
            _deprecated(option, present)
            words[at] = f"{present}{equals}{value}"
    return words + command


def _sql_as_profile(words: list[str]) -> list[str]:
    """``QUERY EVIDENCE...`` with flags anywhere: the query becomes the value of --sql."""
    at = next((at for at, word in enumerate(words) if not word.startswith("-")), None)
    return ["profile", *words] if at is None else ["profile", *words[:at], "--sql", *words[at:]]


def _deprecated(former: str, present: str) -> None:
    print(f"spillcast: {former} is deprecated: use {present}", file=sys.stderr)

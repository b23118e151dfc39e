"""The verbs of the command line, and the names that verbs and options had in the last version."""

import re
from importlib import import_module
from importlib.util import find_spec
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from typer import Typer

#: Each verb and its module, in the order of the work: what spills, a recording, a storage, a
#: forecast, a move; then the rest. Modules of other packages come with an extra.
VERBS = {
    "postgres": "spillcast.cli.ranking",
    "mysql": "spillcast.cli.ranking",
    "clickhouse": "spillcast.cli.ranking",
    "record": "spillcast.cli.record",
    "profile": "spillcast.cli.profile",
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
#: A verb whose options stand before the command that it runs.
_SETTINGS = {"record": {"allow_interspersed_args": False}}
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
        if word == verb or find_spec(VERBS[verb].split(".")[0]):
            _register(spillcast, verb, getattr(import_module(VERBS[verb]), verb))
    return spillcast


def _register(application: "Typer", verb: str, commands: Any) -> None:
    """Add a verb: a function, or a group of commands."""
    from typer import Typer

    from spillcast.cli.usage import Answer, AnswerCommand, Grouped

    if isinstance(commands, Typer):
        application.add_typer(commands, name=verb)
        return
    answers = commands.__annotations__["return"] is Answer
    application.command(
        verb, cls=AnswerCommand if answers else Grouped, context_settings=_SETTINGS.get(verb)
    )(commands)


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
    elif words[:1] == ["verify"]:
        words = _with_page(words)
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


def _with_page(words: list[str]) -> list[str]:
    """``--markdown FILE`` as --page; ``--markdown -`` as --markdown, which has no value now."""
    words = [part for word in words for part in re.split("(?<=^--markdown)=", word)]
    at = words.index("--markdown") + 1 if "--markdown" in words else len(words)
    value = "".join(words[at : at + 1])
    if value == "-":
        _deprecated("--markdown -", "--markdown")
        del words[at]
    elif value and not value.startswith("-"):
        _deprecated("--markdown FILE", "--page FILE")
        words[at - 1] = "--page"
    return words


def _deprecated(former: str, present: str) -> None:
    from spillcast.cli.output import notify

    notify(f"{former} is deprecated: use {present}")

"""Help and errors of usage, and all verbs with their options as data."""

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from inspect import cleandoc
from pathlib import Path
from typing import TYPE_CHECKING, Any

from typer import Exit, Typer
from typer._click.exceptions import (
    BadParameter,
    MissingParameter,
    NoArgsIsHelpError,
    NoSuchOption,
    UsageError,
)
from typer.core import TyperCommand, TyperGroup, TyperOption

from spillcast.errors import OptionConflict, UsageInvalid
from spillcast.text import near_names

if TYPE_CHECKING:
    from spillcast.report.page import Page

#: Numbers by their names in click's errors.
_NUMBERS = {"float": "not a number", "int": "not an integer"}
#: Letters of a first sentence, at the most.
_SENTENCE = 300


class VerbList(TyperGroup):
    """Lists each verb with the first sentence of its help."""

    def format_commands(self, context: Any, formatter: Any) -> None:
        """The list, each sentence broken into lines."""
        verbs = [(verb, self.commands[verb]) for verb in self.list_commands(context)]
        rows = [(verb, command.get_short_help_str(limit=_SENTENCE)) for verb, command in verbs]
        with formatter.section("Commands"):
            formatter.write_dl(rows)


@dataclass(frozen=True)
class Answer:
    """The output of a verb, a JSON document or a page, and its exit status."""

    document: Callable[[], Mapping[str, Any]]
    page: "Callable[[], Page]"
    status: int = 0

    def with_status(self, status: int) -> "Answer":
        """The same with another exit status."""
        return replace(self, status=status)


class Grouped(TyperCommand):
    """Lists options under the heading of their panel, those without one first."""

    def parse_args(self, context: Any, arguments: list[str]) -> list[str]:
        """What remains of the arguments. BadParameter for an empty path, not the current folder."""
        raw, _, _ = self.make_parser(context).parse_args(args=list(arguments))
        for parameter in self.get_params(context):
            value = raw.get(parameter.name or "")
            if parameter.type.name == "path" and value in ("", [""], ("",)):
                text = "it is empty: is a shell variable unset?"
                raise BadParameter(text, ctx=context, param=parameter)
        return super().parse_args(context, arguments)

    def format_usage(self, context: Any, formatter: Any) -> None:
        """The arguments and the options that are required."""
        parameters = tuple(map(_parameter, self.get_params(context)))
        usage = Command(tuple(context.command_path.split()), "", parameters).usage
        formatter.write_usage(context.command_path, usage.removeprefix(context.command_path)[1:])

    def format_options(self, context: Any, formatter: Any) -> None:
        """Arguments, options, and a section for each panel."""
        sections: dict[str, list[Any]] = {"Arguments": [], "Options": []}
        for parameter in self.get_params(context):
            known = _parameter(parameter)
            panel = getattr(parameter, "rich_help_panel", None)
            heading = panel or ("Options" if known.is_option else "Arguments")
            sections.setdefault(heading, []).append((known.term, known.about))
        for heading, records in sections.items():
            if records:
                with formatter.section(heading):
                    formatter.write_dl(records)


#: The options of ``AnswerCommand``, each with its help.
FORMATS = {
    "json": "Print one JSON document.",
    "csv": "Print raw numbers under one header.",
    "markdown": "Print it as Markdown.",
}


class AnswerCommand(Grouped):
    """A command that returns an ``Answer``, printed as text or as --json, --csv or --markdown."""

    def __init__(self, *arguments: Any, params: Any, **attributes: Any) -> None:
        formats = [
            TyperOption(param_decls=[f"--{name}"], is_flag=True, help=text, callback=single_format)
            for name, text in FORMATS.items()
        ]
        super().__init__(*arguments, params=[*params, *formats], **attributes)

    def invoke(self, context: Any) -> None:
        """Run the verb, print its answer and exit with its status."""
        from spillcast.cli.output import show

        formats = {name: context.params.pop(name) for name in FORMATS}
        answer: Answer = super().invoke(context)
        show(answer.document, answer.page, **formats)
        if answer.status:
            raise Exit(answer.status)


def single_format(context: Any, parameter: Any, given: bool) -> bool:
    """Refuse a second format before any work is done."""
    before = next((name for name in FORMATS if context.params.get(name)), None)
    if given and before is not None:
        raise OptionConflict(f"--{before} and --{parameter.name}: stdout has one format, give one")
    return given


def given_of(options: Mapping[str, object]) -> list[str]:
    """The names of the options that have a value; 0 is one."""
    return [
        name
        for name, value in options.items()
        if value not in (None, [], ()) and value is not False
    ]


def refuse(options: Mapping[str, object], why: str, hint: str | None = None) -> None:
    """OptionConflict if one of the options has a value: its name and ``why``."""
    for option in given_of(options):
        raise OptionConflict(f"{option} {why}", hint)


def command_group(help_: str) -> Typer:
    """A verb that has commands."""
    group = Typer(cls=VerbList, help=help_, no_args_is_help=True, rich_markup_mode=None)
    group.callback()(lambda: None)
    return group


def usage_errors_explained(call: Callable[..., Any], *words: Any, **options: Any) -> Any:
    """The result of ``call``; InputError in place of an error of usage."""
    try:
        return call(*words, **options)
    except NoArgsIsHelpError:
        raise
    except UsageError as error:
        raise UsageInvalid(_named(error), _mended(error)) from error


def _named(error: UsageError) -> str:
    """The verb, and the error."""
    text = error.message if isinstance(error, NoSuchOption) else error.format_message()
    text = " ".join(text.split()).rstrip(".")
    text = re.sub(r" Did you mean .*", "", text).rstrip(".")
    text = re.sub(r"not a valid (float|int)(?: range)?$", lambda m: _NUMBERS[m[1]], text)
    _, _, verb = _path(error).partition(" ")
    text = text[:1].lower() + text[1:]
    return f"{verb}: {text}" if verb else text


def _mended(error: UsageError) -> str:
    """A suggestion or the missing parameter, and where to find all of them."""
    see = f"see: {_path(error)} -h"
    if isinstance(error, NoSuchOption):
        near = near_names(error.option_name, error.possibilities or ())
        return f"do you mean {near[0]}? Otherwise {see}" if near else see
    if meant := re.search(r"Did you mean (?:one of: )?'([\w-]+)'", error.format_message()):
        return f"do you mean {meant[1]}? Otherwise {see}"
    word = re.search(r"command '(.+?)'", error.format_message())
    if word is not None and Path(word[1]).exists():
        return f"a verb comes before the file, as in: spillcast forecast {word[1]} --to TARGET"
    param: Any = getattr(error, "param", None)
    help_text = getattr(param, "help", None) or ""
    sentence = re.split(r"(?<=\.) |\. ", help_text)[0]
    # Three dots say that more may follow.
    sentence = sentence if sentence.endswith("...") else sentence.rstrip(".")
    # An acronym keeps its capital letter.
    begin = sentence[:1] if sentence[1:2].isupper() else sentence[:1].lower()
    parts = [f"{param.opts[-1]}: {begin}{sentence[1:]}"] if sentence else []
    command_help = "" if error.ctx is None else error.ctx.command.help or ""
    example = re.search(r"Example: (.+?)(?:\n\n|$)", command_help, re.DOTALL)
    if isinstance(error, MissingParameter) and example is not None:
        parts.append(f"as in: {' '.join(example[1].split())}")
    return "; ".join([*parts, see])


def _path(error: UsageError) -> str:
    return "spillcast" if error.ctx is None else error.ctx.command_path.strip()


@dataclass(frozen=True)
class Parameter:
    """An argument, or an option with all its names."""

    names: tuple[str, ...]
    #: What stands for its value; None for a flag.
    metavar: str | None
    help: str
    #: The values it may have; none where it may have any.
    choices: tuple[str, ...] = ()
    repeatable: bool = False
    required: bool = False
    default: str | None = None

    @property
    def term(self) -> str:
        """Its names, and the placeholder of its value."""
        value = f" {self.metavar}" if self.is_option and self.metavar else ""
        return ", ".join(sorted(self.names, key=len)) + value

    @property
    def about(self) -> str:
        """Its help with its default."""
        return self.help + (f" [default: {self.default}]" if self.default else "")

    @property
    def is_option(self) -> bool:
        """Whether it is named on the command line."""
        return self.names[0].startswith("-")


@dataclass(frozen=True)
class Command:
    """A verb, or a command of one; a group has commands and no parameters of its own."""

    path: tuple[str, ...]
    help: str
    parameters: tuple[Parameter, ...] = ()
    commands: "tuple[Command, ...]" = ()

    @property
    def name(self) -> str:
        """Its last word."""
        return self.path[-1]

    @property
    def usage(self) -> str:
        """How it is called."""
        words = [*self.path, *("COMMAND" for _ in self.commands[:1])]
        for parameter in self.arguments:
            word = parameter.names[0] + "..." * parameter.repeatable
            words.append(word if parameter.required else f"[{word}]")
        words += [f"{o.names[0]} {o.metavar}" for o in self.options if o.required]
        return " ".join([*words, "[OPTIONS]"])

    @property
    def summary(self) -> str:
        """Its help in one line."""
        return self.help.split("\n\n")[0].replace("\n", " ").rstrip(".:")

    @property
    def options(self) -> list[Parameter]:
        """Its options."""
        return [parameter for parameter in self.parameters if parameter.is_option]

    @property
    def arguments(self) -> list[Parameter]:
        """Its arguments, in order."""
        return [parameter for parameter in self.parameters if not parameter.is_option]

    def leaves(self) -> "list[Command]":
        """The commands that can be run: itself, or all in it."""
        inner = [leaf for command in self.commands for leaf in command.leaves()]
        return inner or [self]


def tree() -> Command:
    """All of ``spillcast``. Imports every verb's file."""
    from typer.main import get_command

    from spillcast.cli.verbs import application

    return _command(get_command(application([])), ("spillcast",), None)


def _command(command: Any, path: tuple[str, ...], parent: Any) -> Command:
    context = command.make_context(
        path[-1], [], parent=parent, resilient_parsing=True, ignore_unknown_options=True
    )
    inner = getattr(command, "commands", {})
    return Command(
        path,
        cleandoc(command.help or ""),
        tuple(_parameter(parameter) for parameter in command.get_params(context)),
        tuple(_command(child, (*path, name), context) for name, child in inner.items()),
    )


def _parameter(parameter: Any) -> Parameter:
    choices = tuple(getattr(parameter.type, "choices", ()))
    # Click keeps the names of --help in a set, whose order differs from run to run.
    flags = sorted(parameter.opts) if "--help" in parameter.opts else parameter.opts
    names = (*flags, *parameter.secondary_opts)
    flag = getattr(parameter, "is_flag", False)
    if parameter.param_type_name == "argument":
        names, several = (parameter.metavar or parameter.name.upper(),), parameter.nargs == -1
    else:
        several = parameter.multiple
    default = None if flag or several or callable(parameter.default) else parameter.default
    return Parameter(
        names,
        None if flag else parameter.metavar or "|".join(choices) or _kind(parameter.type.name),
        parameter.help or "",
        choices,
        several,
        parameter.required,
        None if default in (None, "") else str(default),
    )


def _kind(name: str) -> str:
    """The placeholder of a value of a type of click."""
    return {"str": "TEXT", "path": "PATH", "int": "N", "int range": "N"}.get(name, "NUMBER")

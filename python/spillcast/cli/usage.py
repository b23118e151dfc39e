"""Classes of commands for typer: their help, the formats of their answers, and usage errors."""

import os
import re
from collections.abc import Callable, Mapping
from typing import Any

from typer import Exit, Typer
from typer._click.exceptions import (
    BadParameter,
    MissingParameter,
    NoArgsIsHelpError,
    NoSuchOption,
    UsageError,
)
from typer.core import TyperCommand, TyperGroup, TyperOption

from spillcast.cli.output import Answer, show
from spillcast.errors import OptionConflict, UsageInvalid
from spillcast.text import near_names

#: Replacements for "not a valid TYPE" in click's errors.
_NUMBERS = {"float": "not a number", "int": "not an integer"}
#: Maximum length of a verb's first sentence, in characters.
_SENTENCE_MAX = 300
#: Placeholders of values by the name of click's type; other types are numbers.
_PLACEHOLDERS = {"str": "TEXT", "path": "PATH", "int": "N", "int range": "N"}


class VerbList(TyperGroup):
    """Lists each verb with the first sentence of its help."""

    def format_commands(self, context: Any, formatter: Any) -> None:
        """Write the list of verbs."""
        verbs = [(verb, self.commands[verb]) for verb in self.list_commands(context)]
        rows = [(verb, command.get_short_help_str(limit=_SENTENCE_MAX)) for verb, command in verbs]
        with formatter.section("Commands"):
            formatter.write_dl(rows)


class Grouped(TyperCommand):
    """A command whose help lists options by panel; those without a panel come first."""

    def parse_args(self, context: Any, arguments: list[str]) -> list[str]:
        """Parse as typer does. BadParameter for an empty argument or path (the current folder).

        Also for a repeated option, of which typer would silently use the last value.
        """
        try:
            raw, _, order = self.make_parser(context).parse_args(args=list(arguments))
        except UsageError as error:
            error.ctx = context
            raise
        parameter: Any
        for parameter in self.get_params(context):
            valued = is_option(parameter) and not parameter.is_flag and not parameter.multiple
            if valued and order.count(parameter) > 1:
                raise BadParameter("it takes one value", ctx=context, param=parameter)
            value = raw.get(parameter.name or "")
            # An empty DSN means the DSN of the environment.
            names_file = not is_option(parameter) and "DSN" not in term_of(parameter)
            if (names_file or parameter.type.name == "path") and value in ("", [""], ("",)):
                text = "it is empty: is a shell variable unset?"
                raise BadParameter(text, ctx=context, param=parameter)
        return super().parse_args(context, arguments)

    def format_usage(self, context: Any, formatter: Any) -> None:
        """Write the arguments and the required options."""
        formatter.write_usage(context.command_path, usage_of(context))

    def format_options(self, context: Any, formatter: Any) -> None:
        """Write arguments, options, and a section for each panel."""
        sections: dict[str, list[Any]] = {"Arguments": [], "Options": []}
        for parameter in self.get_params(context):
            heading = getattr(parameter, "rich_help_panel", None)
            heading = heading or ("Options" if is_option(parameter) else "Arguments")
            row = term_of(parameter), about_of(parameter)
            sections.setdefault(heading, []).append(row)
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
        formats = {name: context.params.pop(name) for name in FORMATS}
        answer: Answer = super().invoke(context)
        show(answer, **formats)
        if answer.status:
            raise Exit(answer.status)


def single_format(context: Any, parameter: Any, given: bool) -> bool:
    """Refuse a second format before any work is done."""
    other = next((name for name in FORMATS if context.params.get(name)), None)
    if given and other is not None:
        raise OptionConflict(f"--{other} and --{parameter.name}: stdout has one format, give one")
    return given


def given_of(options: Mapping[str, object]) -> list[str]:
    """The names of the options that have a value; 0 is a value, False is not."""
    return [name for name, v in options.items() if v not in (None, [], ()) and v is not False]


def refuse(options: Mapping[str, object], why: str, hint: str | None = None) -> None:
    """OptionConflict if one of the options has a value; the message is the name and ``why``."""
    for option in given_of(options):
        raise OptionConflict(f"{option} {why}", hint)


def command_group(help_: str) -> Typer:
    """A verb with subcommands."""
    group = Typer(cls=VerbList, help=help_, no_args_is_help=True, rich_markup_mode=None)
    group.callback()(lambda: None)
    return group


def usage_errors_explained(call: Callable[..., Any], *arguments: Any, **options: Any) -> Any:
    """The result of ``call``. Raises UsageInvalid in place of click's usage errors."""
    try:
        return call(*arguments, **options)
    except NoArgsIsHelpError:
        raise
    except UsageError as error:
        raise UsageInvalid(_message(error), _remedy(error)) from error


def _message(error: UsageError) -> str:
    """The verb and click's message, in the style of our own messages."""
    text = error.message if isinstance(error, NoSuchOption) else error.format_message()
    text = " ".join(text.split()).rstrip(".")
    text = re.sub(r" Did you mean .*", "", text).rstrip(".")
    text = re.sub(r"not a valid (float|int)(?: range)?$", lambda m: _NUMBERS[m[1]], text)
    _, _, verb = _path(error).partition(" ")
    text = text[:1].lower() + text[1:]
    return f"{verb}: {text}" if verb else text


def _remedy(error: UsageError) -> str:
    """A suggestion or the missing parameter, and the command that lists all parameters."""
    see = f"see: {_path(error)} -h"
    if isinstance(error, NoSuchOption):
        near = near_names(error.option_name, error.possibilities or ())
        return f"do you mean {near[0]}? Otherwise {see}" if near else see
    if meant := re.search(r"Did you mean (?:one of: )?'([\w-]+)'", error.format_message()):
        return f"do you mean {meant[1]}? Otherwise {see}"
    word = re.search(r"command '(.+?)'", error.format_message())
    if word is not None and os.path.exists(word[1]) and _path(error) == "spillcast":
        return f"a verb comes before the file, as in: spillcast forecast {word[1]} --to TARGET"
    param: Any = getattr(error, "param", None)
    help_text = getattr(param, "help", None) or ""
    sentence = re.split(r"(?<=\.) |\. ", help_text)[0]
    # An ellipsis is not a full stop.
    sentence = sentence if sentence.endswith("...") else sentence.rstrip(".")
    # An acronym keeps its capital letter.
    initial = sentence[:1] if sentence[1:2].isupper() else sentence[:1].lower()
    parts = [f"{re.split('[, ]', term_of(param))[0]}: {initial}{sentence[1:]}"] if sentence else []
    command_help = "" if error.ctx is None else error.ctx.command.help or ""
    example = re.search(r"Example: (.+?)(?:\n\n|$)", command_help, re.DOTALL)
    if isinstance(error, MissingParameter) and example is not None:
        parts.append(f"as in: {' '.join(example[1].split())}")
    return "; ".join([*parts, see])


def _path(error: UsageError) -> str:
    return "spillcast" if error.ctx is None else error.ctx.command_path.strip()


def is_option(parameter: Any) -> bool:
    """Whether a parameter is an option, given by its name."""
    return bool(parameter.param_type_name == "option")


def term_of(parameter: Any) -> str:
    """The names of a parameter, the shortest first, and the placeholder of its value."""
    if not is_option(parameter):
        return str(parameter.metavar or parameter.name.upper())
    # Click keeps the names of --help in a set, whose order varies from run to run.
    names = ", ".join(sorted((*parameter.opts, *parameter.secondary_opts), key=len))
    if parameter.is_flag:
        return names
    choices = "|".join(getattr(parameter.type, "choices", ()))
    placeholder = _PLACEHOLDERS.get(parameter.type.name, "NUMBER")
    return f"{names} {parameter.metavar or choices or placeholder}"


def about_of(parameter: Any) -> str:
    """The help of a parameter with its default."""
    several = parameter.nargs == -1 or getattr(parameter, "multiple", False)
    is_plain = not several and not getattr(parameter, "is_flag", False)
    default = parameter.default if is_plain and not callable(parameter.default) else None
    return (parameter.help or "") + ("" if default in (None, "") else f" [default: {default}]")


def usage_of(context: Any) -> str:
    """The usage of a command: its arguments and required options."""
    words = []
    for parameter in context.command.get_params(context):
        if not is_option(parameter):
            word = term_of(parameter) + "..." * (parameter.nargs == -1)
            words.append(word if parameter.required else f"[{word}]")
    for parameter in context.command.get_params(context):
        if is_option(parameter) and parameter.required:
            words.append(f"{parameter.opts[0]} {term_of(parameter).rpartition(' ')[2]}")
    return " ".join([*words, "[OPTIONS]"])

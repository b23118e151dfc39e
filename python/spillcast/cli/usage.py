"""Bad usage that typer reports: one line that names it, and one with its remedy."""

import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

from typer._click.exceptions import NoArgsIsHelpError, NoSuchOption, UsageError
from typer.core import TyperCommand, TyperGroup

from spillcast.errors import UsageInvalid
from spillcast.recording.near import near_names

#: Letters of a first sentence, at the most.
_SENTENCE = 300


class Verbs(TyperGroup):
    """Lists each verb with the whole first sentence of its help."""

    def format_commands(self, context: Any, formatter: Any) -> None:
        """The list, each sentence broken into lines."""
        verbs = [(verb, self.commands[verb]) for verb in self.list_commands(context)]
        rows = [(verb, command.get_short_help_str(limit=_SENTENCE)) for verb, command in verbs]
        with formatter.section("Commands"):
            formatter.write_dl(rows)


class Grouped(TyperCommand):
    """Lists options under the heading of their panel, those without one first."""

    def format_options(self, context: Any, formatter: Any) -> None:
        """Arguments, options, and a section for each panel."""
        sections: dict[str, list[Any]] = {"Arguments": [], "Options": []}
        for parameter in self.get_params(context):
            if (record := parameter.get_help_record(context)) is not None:
                is_argument = parameter.param_type_name == "argument"
                panel = getattr(parameter, "rich_help_panel", None)
                heading = panel or ("Arguments" if is_argument else "Options")
                sections.setdefault(heading, []).append(record)
        for heading, records in sections.items():
            if records:
                with formatter.section(heading):
                    formatter.write_dl(records)


def usage_errors_explained(call: Callable[..., Any], *words: Any, **options: Any) -> Any:
    """What ``call`` gives; InputError in place of an error of usage."""
    try:
        return call(*words, **options)
    except NoArgsIsHelpError:
        raise
    except UsageError as error:
        raise UsageInvalid(_named(error), _mended(error)) from error


def _named(error: UsageError) -> str:
    """Which verb it is about, and what is wrong."""
    text = error.message if isinstance(error, NoSuchOption) else error.format_message()
    text = " ".join(text.split()).rstrip(".")
    text = re.sub(r" Did you mean .*", "", text).rstrip(".")
    _, _, verb = _path(error).partition(" ")
    text = text[:1].lower() + text[1:]
    return f"{verb}: {text}" if verb else text


def _mended(error: UsageError) -> str:
    """What was likely meant, or what is missing; and where all is listed."""
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
    if not sentence:
        return see
    return f"{param.opts[-1]}: {sentence[0].lower()}{sentence[1:]}; {see}"


def _path(error: UsageError) -> str:
    return "spillcast" if error.ctx is None else error.ctx.command_path.strip()

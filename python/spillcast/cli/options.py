"""Options that verbs share, and their commands for typer: help, formats, usage errors."""

import inspect
import os
import re
from collections.abc import Callable, Mapping, Sequence
from functools import wraps
from math import isfinite
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, NamedTuple

import typer
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
from spillcast.units import parse_bytes, parse_duration_s

if TYPE_CHECKING:
    from spillcast.forecast.question import Question

#: What stands for "not a valid TYPE" of click's errors.
_NUMBERS = {"float": "not a number", "int": "not an integer"}
#: Placeholders of values by the names of click's types; of others, a number.
_PLACEHOLDERS = {"str": "TEXT", "path": "PATH", "int": "N", "int range": "N"}
#: Maximum length of a verb's first sentence, in characters.
_SENTENCE_MAX = 300


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
        """Parse as typer does. BadParameter for an empty path: it would be the current folder."""
        raw, _, _ = self.make_parser(context).parse_args(args=list(arguments))
        for parameter in self.get_params(context):
            value = raw.get(parameter.name or "")
            if parameter.type.name == "path" and value in ("", [""], ("",)):
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
    """OptionConflict if one of the options has a value; the message is its name and ``why``."""
    for option in given_of(options):
        raise OptionConflict(f"{option} {why}", hint)


def command_group(help_: str) -> Typer:
    """A verb with commands of its own."""
    group = Typer(cls=VerbList, help=help_, no_args_is_help=True, rich_markup_mode=None)
    group.callback()(lambda: None)
    return group


def usage_errors_explained(call: Callable[..., Any], *arguments: Any, **options: Any) -> Any:
    """The result of ``call``. UsageInvalid in place of a usage error of click."""
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
    """A suggestion or the missing parameter, and where to find all of them."""
    see = f"see: {_path(error)} -h"
    if isinstance(error, NoSuchOption):
        near = near_names(error.option_name, error.possibilities or ())
        return f"do you mean {near[0]}? Otherwise {see}" if near else see
    if meant := re.search(r"Did you mean (?:one of: )?'([\w-]+)'", error.format_message()):
        return f"do you mean {meant[1]}? Otherwise {see}"
    word = re.search(r"command '(.+?)'", error.format_message())
    if word is not None and os.path.exists(word[1]):
        return f"a verb comes before the file, as in: spillcast forecast {word[1]} --to TARGET"
    param: Any = getattr(error, "param", None)
    help_text = getattr(param, "help", None) or ""
    sentence = re.split(r"(?<=\.) |\. ", help_text)[0]
    # Three dots are no full stop.
    sentence = sentence if sentence.endswith("...") else sentence.rstrip(".")
    # An acronym keeps its capital letter.
    initial = sentence[:1] if sentence[1:2].isupper() else sentence[:1].lower()
    parts = [f"{param.opts[-1]}: {initial}{sentence[1:]}"] if sentence else []
    command_help = "" if error.ctx is None else error.ctx.command.help or ""
    example = re.search(r"Example: (.+?)(?:\n\n|$)", command_help, re.DOTALL)
    if isinstance(error, MissingParameter) and example is not None:
        parts.append(f"as in: {' '.join(example[1].split())}")
    return "; ".join([*parts, see])


def _path(error: UsageError) -> str:
    return "spillcast" if error.ctx is None else error.ctx.command_path.strip()


def is_option(parameter: Any) -> bool:
    """Whether a parameter is named on the command line."""
    return bool(parameter.param_type_name == "option")


def term_of(parameter: Any) -> str:
    """The names of a parameter, the shortest first, and the placeholder of its value."""
    if not is_option(parameter):
        return str(parameter.metavar or parameter.name.upper())
    # Click keeps the names of --help in a set, whose order differs from run to run.
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
    """How a command is called: its arguments and the options that are required."""
    words = []
    for parameter in context.command.get_params(context):
        if not is_option(parameter):
            word = term_of(parameter) + "..." * (parameter.nargs == -1)
            words.append(word if parameter.required else f"[{word}]")
    for parameter in context.command.get_params(context):
        if is_option(parameter) and parameter.required:
            words.append(f"{parameter.opts[0]} {term_of(parameter).rpartition(' ')[2]}")
    return " ".join([*words, "[OPTIONS]"])


#: Headings of the help of verbs that take many kinds of evidence.
RECORDING, IN_PART = "Recordings", "Queries recorded in part"
SPARK = "Spark event logs"
MYSQL = "MySQL and MariaDB sessions"
POSTGRES, ORACLE = "PostgreSQL statements and sessions", "Oracle traces, ASH exports and reports"
TARGET, REHEARSAL = "The target machine", "A rehearsal on the target"
KEPT, CAPTURE, LIVE = "Output", "Capture", "Live view"


def option(
    term: str,
    help_: str,
    panel: str | None = None,
    *,
    parse: Callable[[str, str], Any] | None = None,
    **more: Any,
) -> Any:
    """An option for typer. ``term`` has its names and a placeholder: ``--output, -o DIR``.

    A flag has no placeholder. ``parse(text, name)`` converts the value; errors have the name.
    """
    words = term.replace(",", "").split()
    names = [word for word in words if word.startswith("-")]
    value = None if names == words else words[-1]
    if parse is not None:
        more["parser"] = lambda text: parse(text, names[0])
    if "min" in more:
        more["callback"] = _finite
    return typer.Option(*names, metavar=value, help=help_, rich_help_panel=panel, **more)


def _finite(value: float | None) -> float | None:
    """The value of an option with a range, which nan and inf may pass. BadParameter for these."""
    if value is not None and not isfinite(value):
        raise typer.BadParameter(f"{value} is not a number")
    return value


Json = Annotated[bool, option("--json", "Print one JSON document.", callback=single_format)]
Confidence = Annotated[
    float, option("--confidence NUMBER", "Level of the interval, 0.5 to 0.999.", min=0.5, max=0.999)
]
Budget = Annotated[
    str,
    option(
        "--budget LIMIT",
        "Limit of a probe: 60s, 4G or 60s,4G. Without bytes, 10 % of the free space.",
    ),
]
Work = Annotated[
    Path | None, option("--work DIR", "Directory for data and slow storage (default: TMPDIR).")
]
Top = Annotated[int, option("--top N", "Number of statements in the table.", min=1)]
RecordedTemp = Annotated[
    list[Path] | None,
    option("--temp DIR", "Only files in this folder are temp files. Repeatable.", RECORDING),
]
Elapsed = Annotated[
    float | None,
    option(
        "--elapsed TIME",
        "Elapsed time of the entire query, such as 12m53s, if the evidence covers only part of it.",
        IN_PART,
        parse=parse_duration_s,
    ),
]
History = Annotated[
    list[Path] | None,
    option(
        "--history FILE",
        "An earlier run of the query: a recording, a plan, a row of pg_stat_statements; or "
        "its plan by EXPLAIN without ANALYZE. For an entire recording, other recordings measure "
        "how far the spill differs and what waits cost. Repeatable.",
        IN_PART,
    ),
]
Written = Annotated[
    str | None, option("--written SIZE", "What the entire query spills, such as 40G.", IN_PART)
]
TempEvents = Annotated[
    str | None,
    option(
        "--temp-events PATTERN",
        "Wait events that take less time on the target, such as 'direct path * temp'.",
        ORACLE,
    ),
]
SqlId = Annotated[
    str | None, option("--sql-id SQL_ID", "Only this statement of ASH or of traces.", ORACLE)
]
Queryid = Annotated[
    str | None, option("--queryid QUERYID", "Only this statement of pg_stat_statements.", POSTGRES)
]
Origin = Annotated[
    str | None, option("--from STORAGE", "Present storage, if the evidence has no I/O times.")
]
PageCache = Annotated[
    int | None,
    option("--page-cache SIZE", "Memory of a node to cache temp files.", SPARK, parse=parse_bytes),
]
ExecId = Annotated[
    int | None, option("--exec-id N", "Only this execution of ASH or of a report.", ORACLE)
]
Item = Annotated[
    int | None, option("--item N", "Number of a run in a file with several, as listed.", min=1)
]
Since = Annotated[
    str | None, option("--since TIME", "Only samples of ASH from this time on: 20:30.", ORACLE)
]
Until = Annotated[
    str | None, option("--until TIME", "Only samples of ASH up to this time.", ORACLE)
]
Block = Annotated[
    str | None, option("--block SIZE", "Block size of the database, such as 16K.", ORACLE)
]
Lenient = Annotated[
    bool, option("--lenient", "Also read WAIT lines in the middle of other text.", ORACLE)
]
Where = Annotated[
    str | None, option("--where CONDITION", "Only waits that meet this SQL condition.")
]


class QuestionOptions(NamedTuple):
    """The options of a forecast, which most verbs share; named like the fields of ``Question``."""

    item: Item = None
    confidence: Confidence = 0.9
    budget: Budget = "60s"
    temp_dirs: RecordedTemp = None
    elapsed_s: Elapsed = None
    history: History = None
    progress: Annotated[
        str | None,
        option("--progress SHARE", "Share done when the recording ended: 20%.", IN_PART),
    ] = None
    written: Written = None
    queryid: Queryid = None
    origin: Origin = None
    temp_events: TempEvents = None
    sql_id: SqlId = None
    exec_id: ExecId = None
    since: Since = None
    until: Until = None
    block: Block = None
    lenient: Lenient = False
    execution: Annotated[
        int | None, option("--sql ID", "Only the SQL execution with this id.", SPARK, min=0)
    ] = None
    job: Annotated[int | None, option("--job ID", "Only this job.", SPARK, min=0)] = None
    page_cache_bytes: PageCache = None
    executors: Annotated[
        int | None, option("--executors N", "Forecast for N executors.", SPARK, min=1)
    ] = None
    cores: Annotated[
        int | None, option("--cores N", "Forecast for N cores per executor.", SPARK, min=1)
    ] = None
    memory_bytes: Annotated[
        int | None,
        option("--memory SIZE", "Forecast for this heap of an executor.", SPARK, parse=parse_bytes),
    ] = None

    def question(self) -> "Question":
        """The question with these options."""
        from spillcast.cli.progress import progress_bar, reading_bar
        from spillcast.forecast.question import Question
        from spillcast.forecast.remaining import hints_of

        options = self._asdict() | {"temp_dirs": self.temp_dirs or ()}
        for name in ("history", "progress", "written"):
            del options[name]
        return Question(
            **options,
            known=hints_of(self.history or (), self.progress, self.written),
            watch=lambda name: progress_bar(f"probing {name}"),
            reading=reading_bar,
        )


def with_parameters(
    run: Callable[..., Any], verb: Callable[..., Any], parameters: Sequence[inspect.Parameter]
) -> Callable[..., Any]:
    """``run`` with the name and the help of ``verb``, and ``parameters`` for typer to read."""
    signature = inspect.signature(verb).replace(parameters=parameters)
    run = wraps(verb)(run)
    run.__dict__["__signature__"] = signature
    annotations = {parameter.name: parameter.annotation for parameter in parameters}
    run.__annotations__ = annotations | {"return": signature.return_annotation}
    return run


def with_question(verb: Callable[..., Any]) -> Callable[..., Any]:
    """Give a verb the options of a forecast in place of its keyword ``question``."""
    options = inspect.signature(QuestionOptions).parameters
    parameters: list[inspect.Parameter] = []
    for name, parameter in inspect.signature(verb).parameters.items():
        if name == "question":
            parameters += [option.replace(kind=parameter.kind) for option in options.values()]
        else:
            parameters.append(parameter)

    def run(**values: Any) -> Any:
        chosen = QuestionOptions(**{name: values.pop(name) for name in options})
        return verb(question=chosen.question(), **values)

    return with_parameters(run, verb, parameters)

"""Options that several verbs share; those of a forecast form a ``Question``."""

import inspect
from collections.abc import Callable, Sequence
from functools import wraps
from math import isfinite
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, NamedTuple

import typer

from spillcast.cli.usage import single_format
from spillcast.units import parse_bytes, parse_duration_s

if TYPE_CHECKING:
    from spillcast.forecast.question import Question


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

    A flag has no placeholder. ``parse(text, name)`` converts the value; errors contain the name.
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
    """The value of an option with a range. BadParameter for nan and inf, which ranges admit."""
    if value is not None and not isfinite(value):
        raise typer.BadParameter(f"{value} is not a number")
    return value


Json = Annotated[bool, option("--json", "Print one JSON document.", callback=single_format)]
Confidence = Annotated[
    float, option("--confidence NUMBER", "Level of the interval, 0.5 to 0.999.", min=0.5, max=0.999)
]
BudgetOption = Annotated[
    str,
    option(
        "--budget LIMIT",
        "Limit of a probe: 60s, 4G or 60s,4G. Without bytes, 10 % of the free space.",
    ),
]
WorkOption = Annotated[
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
HistoryOption = Annotated[
    list[Path] | None,
    option(
        "--history FILE",
        "An earlier run of the query: a recording, a plan (also without ANALYZE), or a row of "
        "pg_stat_statements. Repeatable.",
        IN_PART,
    ),
]
Written = Annotated[
    str | None, option("--written SIZE", "Bytes the entire query spills, such as 40G.", IN_PART)
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
    str | None,
    option(
        "--queryid QUERYID",
        "Only this statement of pg_stat_statements or of a query log.",
        POSTGRES,
    ),
]
OriginOption = Annotated[
    str | None, option("--from STORAGE", "Today's storage, if the evidence has no I/O times.")
]
PageCacheOption = Annotated[
    int | None,
    option("--page-cache SIZE", "Memory of a node to cache temp files.", SPARK, parse=parse_bytes),
]
ExecId = Annotated[
    int | None, option("--exec-id N", "Only this execution of ASH or of a report.", ORACLE)
]
ItemOption = Annotated[
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

    item: ItemOption = None
    confidence: Confidence = 0.9
    budget: BudgetOption = "60s"
    temp_dirs: RecordedTemp = None
    elapsed_s: Elapsed = None
    history: HistoryOption = None
    progress: Annotated[
        str | None,
        option("--progress SHARE", "Share done when the recording ended: 20%.", IN_PART),
    ] = None
    written: Written = None
    queryid: Queryid = None
    origin: OriginOption = None
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
    page_cache_bytes: PageCacheOption = None
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

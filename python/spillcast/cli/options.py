"""Options that verbs share, each defined once, and the options of a forecast as one question."""

import inspect
from collections.abc import Callable
from functools import wraps
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from spillcast.cli.usage import single_format

if TYPE_CHECKING:
    from spillcast.forecast.question import Question


#: Headings of the help of verbs that take many kinds of evidence.
RECORDING, IN_PART = "Recordings", "Queries recorded in part"
SPARK = "Spark event logs"
MYSQL = "MySQL and MariaDB sessions"
POSTGRES, ORACLE = "PostgreSQL statements and sessions", "Oracle traces, ASH exports and reports"
TARGET, REHEARSAL = "The target machine", "A rehearsal on the target"
KEPT, CAPTURE, LIVE = "Output", "Capture", "Live view"


Json = Annotated[
    bool, typer.Option("--json", help="Print one JSON document.", callback=single_format)
]
Confidence = Annotated[
    float, typer.Option(min=0.5, max=0.999, help="Level of the interval, 0.5 to 0.999.")
]
Budget = Annotated[
    str,
    typer.Option(
        metavar="LIMIT",
        help="Limit of a probe in time and bytes: 60s, 4G or 60s,4G. It writes at most 10 % of the "
        "free space unless bytes are given.",
    ),
]
Work = Annotated[
    Path | None,
    typer.Option(metavar="DIR", help="Directory for data and slow storage (default: TMPDIR)."),
]
Temp = Annotated[
    list[Path] | None,
    typer.Option(
        metavar="DIR",
        help="Only files under this directory are temp files. Repeatable.",
        rich_help_panel=CAPTURE,
    ),
]
RecordedTemp = Annotated[
    list[Path] | None,
    typer.Option(
        "--temp",
        metavar="DIR",
        help="Only files under this directory are temp files. Repeatable.",
        rich_help_panel=RECORDING,
    ),
]
Duration = Annotated[
    str | None,
    typer.Option(
        metavar="TIME",
        help="Stop after this time, such as 5m; a query that it waits for must begin within it.",
        rich_help_panel=CAPTURE,
    ),
]
Query = Annotated[
    str | None,
    typer.Option(
        metavar="PATTERN",
        help="The session whose query matches this regular expression.",
        rich_help_panel=POSTGRES,
    ),
]
Elapsed = Annotated[
    str | None,
    typer.Option(
        metavar="TIME",
        help="Elapsed time of the entire query, such as 12m53s, if the evidence covers only part "
        "of it.",
        rich_help_panel=IN_PART,
    ),
]
History = Annotated[
    list[Path] | None,
    typer.Option(
        metavar="FILE",
        help="An earlier run of the query: a recording, a plan, a row of pg_stat_statements; or "
        "its plan by EXPLAIN without ANALYZE. For an entire recording, other recordings measure "
        "how far the spill differs and what waits cost. Repeatable.",
        rich_help_panel=IN_PART,
    ),
]
Progress = Annotated[
    str | None,
    typer.Option(
        metavar="SHARE",
        help="Share of the query that was done when the recording ended, such as 20%.",
        rich_help_panel=IN_PART,
    ),
]
Written = Annotated[
    str | None,
    typer.Option(
        metavar="SIZE",
        help="Bytes that the entire query writes to temp files, such as 40G.",
        rich_help_panel=IN_PART,
    ),
]
TempEvents = Annotated[
    str | None,
    typer.Option(
        metavar="PATTERN",
        help="Wait events that take less time on the target, such as 'direct path * temp'.",
        rich_help_panel=ORACLE,
    ),
]
SqlId = Annotated[
    str | None,
    typer.Option(
        metavar="SQL_ID",
        help="Only this statement of an ASH export, or of traces.",
        rich_help_panel=ORACLE,
    ),
]
Queryid = Annotated[
    str | None,
    typer.Option(
        metavar="QUERYID",
        help="Only this statement of pg_stat_statements.",
        rich_help_panel=POSTGRES,
    ),
]
Origin = Annotated[
    str | None,
    typer.Option(
        "--from",
        metavar="STORAGE",
        help="Storage that temp files are on now, if the evidence has no I/O times.",
    ),
]
PageCache = Annotated[
    str | None,
    typer.Option(
        metavar="SIZE",
        help="Memory of each node that temp files may occupy, such as 16G.",
        rich_help_panel=SPARK,
    ),
]
ExecId = Annotated[
    int | None,
    typer.Option(
        help="Only this execution (SQL_EXEC_ID) of an ASH export or a report.",
        rich_help_panel=ORACLE,
    ),
]
Item = Annotated[
    int | None, typer.Option(help="Number of the run in a file of several, as listed.", min=1)
]
Since = Annotated[
    str | None,
    typer.Option(
        metavar="TIME",
        help="Only samples of an ASH export from this time on, such as 20:30.",
        rich_help_panel=ORACLE,
    ),
]
Until = Annotated[
    str | None,
    typer.Option(
        metavar="TIME",
        help="Only samples of an ASH export up to this time.",
        rich_help_panel=ORACLE,
    ),
]
Block = Annotated[
    str | None,
    typer.Option(
        metavar="SIZE", help="Block size of the database, such as 16K.", rich_help_panel=ORACLE
    ),
]
Lenient = Annotated[
    bool,
    typer.Option(
        "--lenient",
        help="Also read WAIT lines in the middle of other text.",
        rich_help_panel=ORACLE,
    ),
]
Where = Annotated[
    str | None, typer.Option(metavar="CONDITION", help="Only waits that meet this SQL condition.")
]


_EXECUTION = "Only the SQL execution with this id, as in Spark's history server."
_EXECUTORS = "Forecast for this number of executors, on nodes like today's."
_MEMORY = "Forecast for this heap of each executor, such as 16g, taken from the page cache."


def _of_spark(kind: Any, help_: str, *names: str, metavar: str = "N", **more: Any) -> Any:
    """The type of an option for event logs of Spark."""
    panel = SPARK
    option = typer.Option(*names, metavar=metavar, help=help_, rich_help_panel=panel, **more)
    return Annotated[kind | None, option]


#: Name, type and default of each option.
_OPTIONS: tuple[tuple[str, Any, Any], ...] = (
    ("item", Item, None),
    ("confidence", Confidence, 0.9),
    ("budget", Budget, "60s"),
    ("temp", RecordedTemp, None),
    ("elapsed", Elapsed, None),
    ("history", History, None),
    ("progress", Progress, None),
    ("written", Written, None),
    ("queryid", Queryid, None),
    ("origin", Origin, None),
    ("temp_events", TempEvents, None),
    ("sql_id", SqlId, None),
    ("exec_id", ExecId, None),
    ("since", Since, None),
    ("until", Until, None),
    ("block", Block, None),
    ("lenient", Lenient, False),
    ("execution", _of_spark(int, _EXECUTION, "--sql", metavar="ID", min=0), None),
    ("job", _of_spark(int, "Only the job with this id.", "--job", metavar="ID", min=0), None),
    ("page_cache", PageCache, None),
    ("executors", _of_spark(int, _EXECUTORS, min=1), None),
    ("cores", _of_spark(int, "Forecast for this number of cores per executor.", min=1), None),
    ("memory", _of_spark(str, _MEMORY, "--memory", metavar="SIZE"), None),
)
_NAMES = {name for name, _, _ in _OPTIONS}


def with_question(verb: Callable[..., Any]) -> Callable[..., Any]:
    """Give a verb the options of a forecast in place of its keyword ``question``."""
    signature = inspect.signature(verb)
    parameters = []
    for parameter in signature.parameters.values():
        if parameter.name == "question":
            parameters += [
                parameter.replace(name=name, default=default, annotation=kind)
                for name, kind, default in _OPTIONS
            ]
        else:
            parameters.append(parameter)

    @wraps(verb)
    def run(**values: Any) -> Any:
        options = {name: values.pop(name) for name in _NAMES}
        return verb(question=_question(**options), **values)

    run.__dict__["__signature__"] = signature.replace(parameters=parameters)
    run.__annotations__ = {p.name: p.annotation for p in parameters}
    run.__annotations__["return"] = signature.return_annotation
    return run


def _question(
    *,
    elapsed: str | None,
    temp: Any,
    history: Any,
    progress: str | None,
    written: str | None,
    page_cache: str | None,
    memory: str | None,
    **options: Any,
) -> "Question":
    """The question, with the units of options parsed."""
    from spillcast.cli.progress import progress_bar, reading_bar
    from spillcast.forecast.question import Question
    from spillcast.forecast.remaining import hints_of
    from spillcast.units import parse_bytes, parse_duration_s

    return Question(
        elapsed_s=None if elapsed is None else parse_duration_s(elapsed, "--elapsed"),
        temp_dirs=temp or (),
        known=hints_of(history or (), progress, written),
        page_cache_bytes=None if page_cache is None else parse_bytes(page_cache, "--page-cache"),
        memory_bytes=None if memory is None else parse_bytes(memory, "--memory"),
        watch=lambda name: progress_bar(f"probing {name}"),
        reading=reading_bar,
        **options,
    )

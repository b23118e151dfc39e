"""The options of a forecast, shared by verbs: the run in the evidence, and what is known of it."""

import inspect
from collections.abc import Callable
from functools import wraps
from typing import TYPE_CHECKING, Annotated, Any

import typer

from spillcast.cli import options as shared

if TYPE_CHECKING:
    from spillcast.forecast.question import Question

_EXECUTION = "Only the SQL execution with this id, as in Spark's history server."
_EXECUTORS = "Forecast for this number of executors, on nodes like today's."
_MEMORY = "Forecast for this heap of each executor, such as 16g, taken from the page cache."


def _of_spark(kind: Any, help_: str, *names: str, metavar: str = "N", **more: Any) -> Any:
    """The type of an option for event logs of Spark."""
    panel = shared.SPARK
    option = typer.Option(*names, metavar=metavar, help=help_, rich_help_panel=panel, **more)
    return Annotated[kind | None, option]


#: Name, type and default of each option.
_OPTIONS: tuple[tuple[str, Any, Any], ...] = (
    ("item", shared.Item, None),
    ("confidence", shared.Confidence, 0.9),
    ("budget", shared.Budget, "60s"),
    ("temp", shared.RecordedTemp, None),
    ("elapsed", shared.Elapsed, None),
    ("history", shared.History, None),
    ("progress", shared.Progress, None),
    ("written", shared.Written, None),
    ("queryid", shared.Queryid, None),
    ("origin", shared.Origin, None),
    ("temp_events", shared.TempEvents, None),
    ("sql_id", shared.SqlId, None),
    ("exec_id", shared.ExecId, None),
    ("since", shared.Since, None),
    ("until", shared.Until, None),
    ("block", shared.Block, None),
    ("lenient", shared.Lenient, False),
    ("execution", _of_spark(int, _EXECUTION, "--sql", metavar="ID", min=0), None),
    ("job", _of_spark(int, "Only the job with this id.", "--job", metavar="ID", min=0), None),
    ("page_cache", shared.PageCache, None),
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

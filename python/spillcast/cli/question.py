"""The options of a forecast, shared by verbs: the run in the evidence, and what is known of it."""

import inspect
from collections.abc import Callable
from functools import wraps
from typing import TYPE_CHECKING, Any

from spillcast.cli.options import (
    Block,
    Budget,
    Confidence,
    Cores,
    Elapsed,
    ExecId,
    Execution,
    ExecutorMemory,
    Executors,
    History,
    Item,
    Job,
    Lenient,
    Origin,
    PageCache,
    Progress,
    Queryid,
    RecordedTemp,
    Since,
    SqlId,
    TempEvents,
    Until,
    Written,
)

if TYPE_CHECKING:
    from spillcast.forecast.question import Question

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
    ("execution", Execution, None),
    ("job", Job, None),
    ("page_cache", PageCache, None),
    ("executors", Executors, None),
    ("cores", Cores, None),
    ("memory", ExecutorMemory, None),
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

"""What engines give to the command line: the choices of ``--engine``, and commands."""

from collections.abc import Callable
from functools import partial, wraps
from inspect import Parameter, Signature, signature
from typing import TYPE_CHECKING, Annotated, Any, Literal

import typer

from spillcast.engines.registry import engines

#: Those on which experiments are made; the first is the usual one.
NAMES = [engine.name for engine in engines("lab")]
DEFAULT, ALL = NAMES[0], "all"

if TYPE_CHECKING:
    _Name = str
    _NameOrAll = str
else:
    # Of the registry, which no type checker reads.
    _Name, _NameOrAll = Literal[tuple(NAMES)], Literal[(*NAMES, ALL)]
Engine = Annotated[_Name, typer.Option(help="The engine, with data and processes of its own.")]
EngineOrAll = Annotated[_NameOrAll, typer.Option(help="Which engine's queries.")]


def result_shown(
    function: Callable[..., Any], show: Callable[..., None], **options: tuple[Any, Any]
) -> Callable[..., None]:
    """A command with the parameters of ``function`` and ``options``: annotation and default.

    ``show`` gets what calls the function, and the options.
    """

    @wraps(function)
    def run(**given: Any) -> None:
        shown = {name: given.pop(name) for name in options}
        show(partial(function, **given), **shown)

    more = [
        Parameter(name, Parameter.KEYWORD_ONLY, default=default, annotation=annotation)
        for name, (annotation, default) in options.items()
    ]
    given = [
        parameter.replace(kind=Parameter.KEYWORD_ONLY)
        for parameter in signature(function).parameters.values()
    ]
    vars(run)["__signature__"] = Signature([*given, *more])
    run.__annotations__ = {parameter.name: parameter.annotation for parameter in [*given, *more]}
    return run

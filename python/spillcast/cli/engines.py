"""What engines give to the command line: the choices of ``--engine``, options and commands."""

from collections.abc import Callable, Mapping
from inspect import Parameter, Signature, signature
from typing import TYPE_CHECKING, Annotated, Any, Literal

import typer

from spillcast.engines.registry import engines

#: Those on which experiments are made; the first is the usual one.
NAMES = [engine.name for engine in engines("lab")]
DEFAULT, ALL = NAMES[0], "all"
_SERVERS = [engine.name for engine in engines("live")]
DSN_OPTIONS = " or ".join(f"--{name}" for name in _SERVERS)

if TYPE_CHECKING:
    _Name = str
    _NameOrAll = str
else:
    # Of the registry, which no type checker reads.
    _Name, _NameOrAll = Literal[tuple(NAMES)], Literal[(*NAMES, ALL)]
Engine = Annotated[_Name, typer.Option(help="The engine, with data and processes of its own.")]
EngineOrAll = Annotated[_NameOrAll, typer.Option(help="Which engine's queries.")]
#: A server whose query is observed: its engine's name and its DSN.
Server = tuple[str, str]


def with_servers(verb: Callable[..., None], action: str) -> Callable[..., None]:
    """A verb whose ``server`` is an option ``--NAME DSN`` for each engine that can be watched.

    ``what`` is what the verb does to a query.
    """

    def called(given: dict[str, Any]) -> None:
        from spillcast.errors import InputError

        servers = [(name, dsn) for name in _SERVERS if (dsn := given.pop(name)) is not None]
        if len(servers) > 1:
            raise InputError(f"give one of {DSN_OPTIONS}")
        verb(**given, server=servers[0] if servers else None)

    options = {}
    for engine in engines("live"):
        about = typer.Option(metavar="DSN", help=f"{engine.label} server whose query to {action}.")
        options[engine.name] = Annotated[str | None, about], None
    return command(verb, called, options, instead_of="server")


def command(
    like: Callable[..., Any],
    called: Callable[[dict[str, Any]], None],
    options: Mapping[str, tuple[Any, Any]],
    *,
    instead_of: str | None = None,
) -> Callable[..., None]:
    """A command that is called and helped as ``like``, with more options: annotation and default.

    They come at the end, or in place of one of its own.
    """
    more = [_parameter(name, *option) for name, option in options.items()]
    parameters: list[Parameter] = []
    for parameter in signature(like).parameters.values():
        parameters_of_verb = [_parameter(parameter.name, parameter.annotation, parameter.default)]
        parameters += more if parameter.name == instead_of else parameters_of_verb
    parameters += more if instead_of is None else []

    def run(**given: Any) -> None:
        called(given)

    run.__name__, run.__doc__ = like.__name__, like.__doc__
    run.__annotations__ = {parameter.name: parameter.annotation for parameter in parameters}
    vars(run)["__signature__"] = Signature(parameters)
    return run


def _parameter(name: str, annotation: Any, default: Any) -> Parameter:
    return Parameter(name, Parameter.KEYWORD_ONLY, default=default, annotation=annotation)

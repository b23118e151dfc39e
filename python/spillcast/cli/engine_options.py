"""Engines on the command line: the choices of ``--engine``, and commands."""

from collections.abc import Mapping
from typing import TYPE_CHECKING, Annotated, Any, Literal

import typer
from typer.core import TyperOption

from spillcast.cli.usage import Grouped
from spillcast.engines.registry import engines

#: Those on which experiments are made; the first is the usual one.
NAMES = [engine.name for engine in engines("lab")]
DEFAULT, ALL = NAMES[0], "all"

if TYPE_CHECKING:
    _Name = str
else:
    # Of the registry, which no type checker reads.
    _Name = Literal[tuple(NAMES)]
Engine = Annotated[_Name, typer.Option(help="The engine, with data and processes of its own.")]


class EngineCommand(Grouped):
    """A command whose function an engine offers; ``print_result`` prints its result.

    The function's parameters are options of the engine, ``shared`` those of all engines.
    """

    shared: tuple[TyperOption, ...] = ()

    def __init__(self, *arguments: Any, params: Any, **attributes: Any) -> None:
        json = TyperOption(param_decls=["--json"], is_flag=True, help="Print one JSON document.")
        self._shared = (*self.shared, json)
        super().__init__(*arguments, params=[*params, *self._shared], **attributes)

    def invoke(self, context: Any) -> None:
        """Run the function and print its result."""
        options = dict(context.params)
        self.check(options)
        for option in self._shared:
            del context.params[option.name]
        self.print_result(super().invoke(context), options)

    def check(self, options: Mapping[str, Any]) -> None:
        """InputError for options with which the function should not run."""

    def print_result(self, result: Any, options: Mapping[str, Any]) -> None:
        """Print the result of the function."""
        raise NotImplementedError

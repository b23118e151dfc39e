"""The option ``--engine`` and its choices: engines on which experiments are made."""

from typing import TYPE_CHECKING, Annotated, Literal

from spillcast.cli.options import option
from spillcast.engines.registry import engines

#: Those on which experiments are made; the first is the usual one.
NAMES = [engine.name for engine in engines("lab")]
DEFAULT, ALL = NAMES[0], "all"

if TYPE_CHECKING:
    _Name = str
else:
    # Of the registry, which no type checker reads.
    _Name = Literal[tuple(NAMES)]
Engine = Annotated[_Name, option("--engine", "The engine, with data and processes of its own.")]

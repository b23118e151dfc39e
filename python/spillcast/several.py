"""Arguments of the Python API that are one or several: a text alone is one, and not its letters."""

from collections.abc import Sequence
from pathlib import Path
from typing import TypeVar

Item = TypeVar("Item", bound=str | Path)


def several(given: Item | Sequence[Item]) -> Sequence[Item]:
    """Those that are given, in a sequence."""
    if isinstance(given, str | Path):
        return [given]
    return given

"""The shape of a plan in JSON: readers below take it for granted."""

from collections.abc import Mapping
from typing import Any

#: Keys of a node whose values are texts; lists of nodes and of processes; others that are read.
TEXTS = frozenset(
    ("CTE Name", "Node Type", "Parent Relationship", "Sort Method", "Sort Space Type", "Strategy",
     "Subplan Name")
)  # fmt: skip
NODES = ("Plans", "Workers")
#: Ends of the names of figures.
FIGURES = (
    " Batches", " Blocks", " Filter", " Launched", " Loops", " Planned", " Rows", " Time", " Usage",
    " Used", " Width",
)  # fmt: skip


def check_shape(document: Mapping[str, Any]) -> None:
    """ValueError for a key of a plan that holds something else than PostgreSQL writes there."""
    if not all(isinstance(value, str) for value in _object(document, "Settings").values()):
        raise ValueError("Settings holds more than texts")
    if not isinstance(document.get("Execution Time", 0), int | float):
        raise ValueError("Execution Time is not a number")
    waiting = [document["Plan"]]
    while waiting:
        node = waiting.pop()
        if not isinstance(node, dict):
            raise ValueError("a node of the plan is not an object")
        for name, value in node.items():
            _check(name, value)
        for name in NODES:
            waiting += node.get(name, ())


def _object(document: Mapping[str, Any], name: str) -> Mapping[str, Any]:
    value = document.get(name, {})
    if not isinstance(value, dict):
        raise ValueError(f"{name} is not an object")
    return value


def _check(name: str, value: Any) -> None:
    if name in NODES and not isinstance(value, list):
        raise ValueError(f"{name} is not a list")
    if name in TEXTS and not isinstance(value, str):
        raise ValueError(f"{name} is not a text")
    if name.endswith(FIGURES) and not isinstance(value, int | float):
        raise ValueError(f"{name} is not a number")

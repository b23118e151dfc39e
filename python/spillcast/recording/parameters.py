"""Parameters of an Oracle database as ``spillcast collect oracle`` spools them."""

from pathlib import Path

from spillcast.recording.ash.values import parse_integer
from spillcast.recording.spooled import read_spooled


def read_parameters(path: Path) -> dict[str, str]:
    """Values as text by name; empty where the file has no such columns."""
    columns = read_spooled(path, {"name": "name", "value": "value"}).columns
    names, values = columns.get("name", []), columns.get("value", [])
    pairs = zip(names, values, strict=False)
    return {name: value for name, value in pairs if name is not None and value is not None}


def bytes_of(parameters: dict[str, str], name: str) -> int | None:
    """A size among them; None where there is none."""
    return parse_integer(parameters.get(name, ""))

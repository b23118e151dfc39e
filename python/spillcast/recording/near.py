"""Suggestions for a misspelt name or path."""

from collections.abc import Iterable
from difflib import get_close_matches
from pathlib import Path

#: From here on a name is like another: 1 is the same, 0 has nothing of it.
ALIKE = 0.75


def near_names(name: str, known: Iterable[str]) -> list[str]:
    """At most three of the ``known`` names, the most similar first, in any case."""
    by_lower: dict[str, str] = {}
    for candidate in known:
        by_lower.setdefault(candidate.lower(), candidate)
    return [by_lower[low] for low in get_close_matches(name.lower(), by_lower, 3, ALIKE)]


def near_path(path: Path) -> Path | None:
    """A file or folder beside ``path``, which is not there, whose name is like its name."""
    try:
        names = sorted(entry.name for entry in path.parent.iterdir())
    except OSError:
        return None
    # A recording is often named without its suffix.
    likely = [name for name in names if Path(name).stem == path.name]
    names_near = likely or near_names(path.name, names)
    return path.with_name(names_near[0]) if names_near and path.name else None


def mended(path: Path, hint: str | None = None) -> str | None:
    """The hint for a missing path: a similar path, or else the given hint."""
    near = near_path(path)
    return hint if near is None else f"do you mean {near}?"

"""Names that are like one that is not there: what was likely meant."""

from collections.abc import Iterable
from difflib import get_close_matches
from pathlib import Path

#: From here on a name is like another: 1 is the same, 0 has nothing of it.
ALIKE = 0.75


def near_names(name: str, known: Iterable[str]) -> list[str]:
    """At most three of the names that are ``known``, the likest first, whatever their case."""
    by_lower: dict[str, str] = {}
    for one in known:
        by_lower.setdefault(one.lower(), one)
    return [by_lower[low] for low in get_close_matches(name.lower(), by_lower, 3, ALIKE)]


def near_path(path: Path) -> Path | None:
    """A file or folder beside ``path``, which is not there, whose name is like its name."""
    try:
        names = sorted(one.name for one in path.parent.iterdir())
    except OSError:
        return None
    # A recording is often named without its suffix.
    likely = [name for name in names if Path(name).stem == path.name]
    found = likely or near_names(path.name, names)
    return path.with_name(found[0]) if found and path.name else None


def mended(path: Path, hint: str | None = None) -> str | None:
    """The hint for a path that is not there: the near one, or else what is given."""
    near = near_path(path)
    return hint if near is None else f"do you mean {near}?"

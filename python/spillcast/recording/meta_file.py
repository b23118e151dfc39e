"""How a recording is known among files: by the document that it has, under a name that is text."""

from pathlib import Path

from spillcast.errors import PathUnusable
from spillcast.text import is_utf8

META_FILE = "meta.json"


def is_recording(path: Path) -> bool:
    """Whether a path holds a recording."""
    return (path / META_FILE).is_file()


def check_name(path: Path) -> None:
    """InputError for a path that readers of its tables cannot open."""
    if not is_utf8(str(path)):
        hint = "rename the folder, or go into it and name what is below"
        raise PathUnusable(f"{path}: the path of a recording must be UTF-8", hint)

"""How a recording is known among files: by the document that it has."""

from pathlib import Path

META_FILE = "meta.json"


def is_recording(path: Path) -> bool:
    """Whether a path holds a recording."""
    return (path / META_FILE).is_file()

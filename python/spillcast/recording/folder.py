"""Where a recording goes: a folder beside its name, which takes the name when it is whole.

What is not a recording is never replaced or removed, and no symbolic link is followed.
"""

import json
import os
import shutil
from collections.abc import Iterator
from itertools import count
from pathlib import Path

from spillcast import _core
from spillcast.errors import (
    InputError,
    OutputExists,
    OutputUnwritable,
    PathMissing,
    PathUnusable,
    SpaceInsufficient,
)
from spillcast.recording.meta import RECORDING_SCHEMA
from spillcast.recording.meta_file import META_FILE, check_name, is_recording
from spillcast.recording.partial import (
    FINISHED,
    OTHER,
    PartialFolder,
    allow,
    check_free,
    names_of,
    partial_folders,
)
from spillcast.units import format_bytes
from spillcast.workspace import refuse_planted_link

#: Room without which a recording is not begun.
ROOM_BYTES = 16 << 20


class RecordingFolder:
    """The folder of one recording while it is written; ``share`` lets everybody read it then.

    With ``force`` it replaces an older recording of that name.
    """

    def __init__(self, path: Path, *, share: bool = False, force: bool = False) -> None:
        check_output(path, force=force)
        self._path, self._share = path, share
        self._replaced = _identity(path)
        self._partial = PartialFolder(path)
        self.folder = self._partial.path

    def publish(self) -> Path:
        """Give it its name, or a free one like it where somebody took that meanwhile."""
        allow(self.folder, share=self._share)
        path = self._path if self._take_name() else self._take_free_name()
        self._partial.close()
        return path

    def discard(self) -> None:
        """Remove everything that was written."""
        self._partial.close()

    def _take_name(self) -> bool:
        """In place of the recording that was there; False where that is another by now."""
        try:
            check_replaceable(self._path)
            if self._replaced is None:
                _core.rename(self.folder, self._path)
                return True
            if _identity(self._path) != self._replaced:
                return False
            # What was there has the partial name then, and goes with it.
            _core.rename(self.folder, self._path, exchange=True)
        except (InputError, OSError):
            return False
        return True

    def _take_free_name(self) -> Path:
        for path in numbered(self._path):
            try:
                _core.rename(self.folder, path)
                return path
            except FileExistsError:
                continue
        raise AssertionError("there is no end of numbers")


def numbered(path: Path) -> Iterator[Path]:
    """The path, then the same with 2, 3 and so on after its stem."""
    yield path
    for number in count(2):
        yield path.with_name(f"{path.stem}-{number}{path.suffix}")


def unused_name(path: Path) -> Path:
    """The first of the numbered names that nothing has, and that no recorder is writing to."""
    free = (
        name for name in numbered(path) if not os.path.lexists(name) and not partial_folders(name)
    )
    return next(free)


def check_output(path: Path, *, force: bool = False) -> None:
    """InputError unless a recording can be written at ``path``.

    An older recording there is replaced only with ``force``, anything else never.
    """
    check_name(path)
    check_replaceable(path)
    refuse_planted_link(path)
    if path.exists() and not force:
        raise OutputExists(f"{path}: exists", f"replace it with --force, or {OTHER}")
    parent = path.absolute().parent
    if not parent.is_dir():
        raise PathMissing(f"{path}: there is no directory {parent}")
    if not os.access(parent, os.W_OK):
        raise OutputUnwritable(f"{path}: its directory is not writable", OTHER)
    free = shutil.disk_usage(parent).free
    if free < ROOM_BYTES:
        room = f"no space for a recording: {format_bytes(free)} are free"
        raise SpaceInsufficient(f"{path}: {room}", OTHER)
    check_free(path)


def check_replaceable(path: Path) -> None:
    """InputError where something lies at ``path`` that is not a recording, or more than one."""
    if path.is_symlink():
        raise PathUnusable(f"{path} is a symbolic link", "name the folder it leads to with -o")
    if path.exists() and not _is_ours(path):
        raise OutputExists(f"{path}: exists and is not a recording", OTHER)
    if path.exists() and (foreign := sorted(names_of(path) - FINISHED)):
        raise OutputExists(f"{path}: holds {foreign[0]}, which is not part of a recording", OTHER)


def _is_ours(path: Path) -> bool:
    """Whether the meta.json in a folder is that of a recording."""
    if not path.is_dir() or not is_recording(path):
        return False
    try:
        document = json.loads((path / META_FILE).read_bytes())
    except (OSError, ValueError, RecursionError):
        return False
    schema = str(document.get("schema")) if isinstance(document, dict) else ""
    # Of whatever version.
    return schema.partition("/")[0] == RECORDING_SCHEMA.partition("/")[0]


def _identity(path: Path) -> tuple[int, int] | None:
    """The identity of the folder at a path; None if there is none."""
    try:
        stat = path.lstat()
    except FileNotFoundError:
        return None
    return stat.st_dev, stat.st_ino

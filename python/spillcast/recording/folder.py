"""Where a recording goes: a folder beside its name, which takes the name when it is whole.

What is no recording is never replaced or removed, and no symbolic link is followed.
"""

import fcntl
import json
import os
import re
import secrets
import shutil
import time
from contextlib import suppress
from itertools import count
from pathlib import Path

from spillcast.errors import InputError
from spillcast.recording.meta import META_FILE
from spillcast.recording.recording import is_recording

#: How the name of a folder ends in which a recording is being written, or was.
PARTIAL = re.compile(r"\.[0-9a-f]{8}\.partial$")
#: All that a recording may hold in the end, and what is there besides while it is written.
FINISHED = frozenset(
    (META_FILE, "waits.parquet", "seconds.parquet", "samples.parquet", "plan.json", "rehearsals")
)
UNFINISHED = frozenset(("parts", "seconds.packed", "samples"))
#: A folder that is as new may be about to be locked by who made it.
NEW_S = 60.0
_OTHER = "name another with -o"


class RecordingFolder:
    """The folder of one recording while it is written, locked for others."""

    def __init__(self, path: Path) -> None:
        check_output(path)
        _remove_left(path)
        self._path = path
        self._there = _identity(path)
        self.folder = path.with_name(f"{path.name}.{secrets.token_hex(4)}.partial")
        self.folder.mkdir()
        self._lock = os.open(self.folder, os.O_RDONLY | os.O_DIRECTORY)
        # Some network file systems have no locks: what is left there stays.
        with suppress(OSError):
            fcntl.flock(self._lock, fcntl.LOCK_EX)

    def publish(self) -> Path:
        """Give it its name, or a free one like it where somebody took that meanwhile."""
        os.close(self._lock)
        if _identity(self._path) == self._there:
            with suppress(OSError):
                self._take_name()
                return self._path
        path = _free_name(self._path)
        os.rename(self.folder, path)
        return path

    def discard(self) -> None:
        """Leave nothing behind."""
        with suppress(OSError):
            os.close(self._lock)
        shutil.rmtree(self.folder, ignore_errors=True)

    def _take_name(self) -> None:
        """In place of the recording that was there. OSError where another came in between."""
        if self._there is None:
            os.rename(self.folder, self._path)
            return
        aside = self.folder.with_name(f"{self.folder.name}.old")
        os.rename(self._path, aside)
        os.rename(self.folder, self._path)
        shutil.rmtree(aside, ignore_errors=True)


def check_output(path: Path) -> None:
    """InputError unless a recording can be written at ``path``: an old one may be replaced."""
    if path.is_symlink():
        raise InputError(f"{path}: is a symbolic link", "name the folder it leads to with -o")
    if path.exists() and not _is_ours(path):
        raise InputError(f"{path}: exists and is not a recording", _OTHER)
    if path.exists() and (foreign := sorted(_names(path) - FINISHED)):
        raise InputError(f"{path}: holds {foreign[0]}, which is no part of a recording", _OTHER)
    if not path.absolute().parent.is_dir():
        raise InputError(f"{path}: there is no directory {path.absolute().parent}")
    if not os.access(path.absolute().parent, os.W_OK):
        raise InputError(f"{path}: its directory is not writable", _OTHER)


def partial_folders(path: Path) -> list[Path]:
    """The folders in which a recording called ``path`` is being written, or was."""
    siblings = path.absolute().parent.glob("*.partial")
    found = (one for one in siblings if PARTIAL.sub("", one.name) == path.name)
    return [one for one in found if one.is_dir() and not one.is_symlink()]


def _is_ours(path: Path) -> bool:
    """Whether the meta.json in a folder is that of a recording."""
    if not path.is_dir() or not is_recording(path):
        return False
    try:
        meta = json.loads((path / META_FILE).read_bytes())
    except (OSError, ValueError, RecursionError):
        return False
    return isinstance(meta, dict) and "spillcast" in meta


def _remove_left(path: Path) -> None:
    """Remove what recorders of the same name left that were killed."""
    for left in partial_folders(path):
        with suppress(OSError):
            names, lock = _names(left), os.open(left, os.O_RDONLY | os.O_DIRECTORY)
            try:
                fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
                old = time.time() - os.fstat(lock).st_mtime > NEW_S
                if old and names & UNFINISHED and names <= FINISHED | UNFINISHED:
                    shutil.rmtree(left)
            finally:
                os.close(lock)


def _names(folder: Path) -> set[str]:
    return set(os.listdir(folder))


def _identity(path: Path) -> tuple[int, int] | None:
    """Which folder has a name; None where none does."""
    try:
        stat = path.lstat()
    except FileNotFoundError:
        return None
    return stat.st_dev, stat.st_ino


def _free_name(path: Path) -> Path:
    numbered = (path.with_name(f"{path.stem}-{number}{path.suffix}") for number in count(2))
    return next(one for one in numbered if not os.path.lexists(one))

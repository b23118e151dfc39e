"""A folder that is being written: beside its name, private, locked, gone if its writer is killed.

No symbolic link is followed, and nothing is removed that a recorder has not made.
"""

import errno
import fcntl
import os
import re
import secrets
import shutil
import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager, suppress
from pathlib import Path

from spillcast.errors import InUse
from spillcast.recording.meta import ESTIMATE_FILE, FORMER_FILE
from spillcast.recording.meta_file import META_FILE
from spillcast.workspace import gone_when_killed

#: How the name of a folder ends in which something is being written, or was.
PARTIAL = re.compile(r"\.[0-9a-f]{8}\.partial$")
#: All that a recording may hold in the end, and what there is besides while it is written.
FINISHED = frozenset(
    (
        *(META_FILE, "waits.parquet", "seconds.parquet", "samples.parquet"),
        *("plan.json", ESTIMATE_FILE, FORMER_FILE, "rehearsals"),
    )
)
UNFINISHED = frozenset(("parts", "seconds.packed", "samples", "reserve", "waits"))
OTHER = "name another with -o"
_DIRECTORY = os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC
#: Looking and making takes a moment; who holds a directory longer has another reason.
_PATIENCE_S = 2.0


class PartialFolder:
    """A new folder for what will be called ``path``, until it is closed.

    InputError where another recorder writes something of that name now.
    """

    def __init__(self, path: Path) -> None:
        self._closing = ExitStack()
        self.path = path.with_name(f"{path.name}.{secrets.token_hex(4)}.partial")
        with _creation_lock(path.absolute().parent):
            _remove_left(path)
            self.path.mkdir(mode=0o700)
            self._lock = os.open(self.path, _DIRECTORY)
            self._closing.callback(os.close, self._lock)
            # Some network file systems have no locks: what is left there stays.
            with suppress(OSError):
                fcntl.flock(self._lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        self._closing.enter_context(gone_when_killed(self.path))

    def close(self) -> None:
        """Let go of it; if it has no other name by now, it is removed."""
        self._closing.close()
        shutil.rmtree(self.path, ignore_errors=True)


def check_free(path: Path) -> None:
    """InputError where another recorder writes what is to be called ``path``."""
    for folder in partial_folders(path):
        with suppress(FileNotFoundError), _locked(folder):
            pass


def partial_folders(path: Path) -> list[Path]:
    """The folders in which something called ``path`` is being written, or was."""
    siblings = path.absolute().parent.glob("*.partial")
    paths = (sibling for sibling in siblings if PARTIAL.sub("", sibling.name) == path.name)
    return [sibling for sibling in paths if sibling.is_dir() and not sibling.is_symlink()]


def _remove_left(path: Path) -> None:
    """Remove what recorders of the same name left. InputError where one of them still runs."""
    for left in partial_folders(path):
        with suppress(FileNotFoundError, PermissionError), _locked(left):
            if names_of(left) <= FINISHED | UNFINISHED:
                shutil.rmtree(left, ignore_errors=True)


@contextmanager
def _locked(folder: Path) -> Iterator[None]:
    """Lock a folder. InputError if another process has locked it."""
    lock = os.open(folder, _DIRECTORY)
    try:
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError as error:
            if error.errno == errno.EWOULDBLOCK:
                name = folder.with_name(PARTIAL.sub("", folder.name))
                raise InUse(f"{name} is being recorded by another spillcast", OTHER) from None
        yield
    finally:
        os.close(lock)


@contextmanager
def _creation_lock(directory: Path) -> Iterator[None]:
    """InputError for the second of two recorders that begin at once: it sees the first's folder."""
    try:
        lock = os.open(directory, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    except OSError:
        # A directory that may be written and not read.
        yield
        return
    try:
        until_s = time.monotonic() + _PATIENCE_S
        while time.monotonic() < until_s:
            try:
                fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
                break
            except BlockingIOError:
                time.sleep(0.01)
            except OSError:
                break
        yield
    finally:
        os.close(lock)


def names_of(folder: Path) -> set[str]:
    """What lies in a folder."""
    return set(os.listdir(folder))


def allow(folder: Path, *, share: bool) -> None:
    """Let its user alone read a folder and all in it, or everybody where it is shared."""
    for parent, _, files in os.walk(folder):
        os.chmod(parent, 0o755 if share else 0o700)
        for name in files:
            path = os.path.join(parent, name)
            if not os.path.islink(path):
                os.chmod(path, 0o644 if share else 0o600)

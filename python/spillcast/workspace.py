"""Directories and memory cgroups that are always removed, complete files, folders of the user."""

import os
import secrets
import shlex
import stat
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

from spillcast import _core
from spillcast.errors import OutputUnwritable, PathMissing, PathUnusable, WriteFailed
from spillcast.text import shell_word

#: Waits for a line, or until the other end of the pipe closes, as after an error or a kill.
_AFTER = """
PATH=/usr/bin:/bin:$PATH ended=
trap "" INT TERM HUP QUIT; read -r line && ended=1
"""
#: After an error or a kill, servers, which work in the directory, end first: without their files
#: they could not release shared memory. Then retries, as mounts may take time to end.
_JANITOR = """
n=0; while [ -z "$ended" ] && [ $n -lt 100 ] &&
    ls -ln /proc/[0-9]*/cwd 2>/dev/null | grep -qF -e "/${1##*/}"; do
    n=$((n+1)); sleep 0.1
done
n=0; until rm -rf --one-file-system -- "$1" 2>/dev/null || [ $n -ge 100 ]; do
    n=$((n+1)); sleep 0.1
done
"""


@contextmanager
def workspace(parent: Path | None = None, *, private: bool = False) -> Iterator[Path]:
    """A new empty directory below ``parent`` (default: the system's temp directory).

    Unless it is ``private``, other users may enter but not list it, because an engine may run as
    another user.
    """
    path = Path(parent or tempfile.gettempdir()).absolute() / f"spillcast-{secrets.token_hex(6)}"
    # The janitor starts before the directory exists, so a kill never leaves it behind.
    with undone_by(_JANITOR, "janitor", path):
        path.mkdir(0o700)
        path.chmod(0o700 if private else 0o711)
        yield path


@contextmanager
def undone_by(script: str, name: str, *words: str | Path) -> Iterator[None]:
    """A shell that runs ``script`` after the block, also if this process is killed.

    Its arguments are ``words``, and lists of processes show it as ``name``. The block waits for its
    end. Its commands are in the environment, not in its command line, so that ``pkill -f`` of a
    path or of spillcast leaves it.
    """
    commands = f"set -- {shlex.join(map(str, words))}\n{_AFTER}{script}"
    shell = ["/bin/sh", "-c", 'eval "$UNDO"', name]
    environment = {**os.environ, "UNDO": commands}
    process = subprocess.Popen(
        shell, stdin=subprocess.PIPE, env=environment, start_new_session=True
    )
    assert process.stdin is not None
    pipe = process.stdin.fileno()
    _not_for_forks.add(pipe)
    try:
        yield
        # The block was not interrupted.
        process.stdin.write(b"\n")
    finally:
        _not_for_forks.discard(pipe)
        with suppress(BrokenPipeError):
            process.stdin.close()
        if process.wait() < 0:
            # It was killed before it ran the script.
            subprocess.run(shell, stdin=subprocess.DEVNULL, env=environment)


#: Descriptors whose last copy must close with this process.
_not_for_forks = set[int]()


def _let_go() -> None:
    """Let a fork hold none of them, so that it does not hide the end of this process."""
    if not _not_for_forks:
        return
    null = os.open(os.devnull, os.O_RDWR)
    for descriptor in _not_for_forks:
        os.dup2(null, descriptor, inheritable=False)
    os.close(null)


os.register_at_fork(after_in_child=_let_go)


@contextmanager
def kept_from_forks(path: str) -> Iterator[None]:
    """Keep the descriptors of a device that this process has open from forks, in the block."""
    folder = Path("/proc/self/fd")
    held = {int(name) for name in os.listdir(folder) if _leads_to(folder / name) == path}
    held -= _not_for_forks
    _not_for_forks.update(held)
    try:
        yield
    finally:
        _not_for_forks.difference_update(held)


def _leads_to(link: Path) -> str:
    with suppress(OSError):
        return os.readlink(link)
    return ""


def refuse_foreign_link(path: Path) -> None:
    """InputError if a link on the way to an output belongs to another user.

    Its owner controls where it leads; links of root (/dev/stdout) and our own are followed.
    """
    for place in (path, *path.absolute().parents):
        if place.is_symlink() and (place.lstat().st_uid not in (0, os.geteuid())):
            raise PathUnusable(f"{place} is a symbolic link of another user", "name another place")


def check_output_file(path: Path | None, option: str = "-o") -> None:
    """InputError if the file of an option cannot be written: before the work, not after it."""
    if path is None:
        return
    refuse_foreign_link(path)
    if path.is_dir():
        raise PathUnusable(f"{option} {path} is a directory", "name a file in it")
    parent = path.absolute().parent
    if not parent.is_dir():
        hint = f"make it: mkdir -p {shell_word(parent)}"
        raise PathMissing(f"{option} {path}: there is no directory {parent}", hint)
    is_file = path.is_file() or not path.exists()
    if not os.access(parent if is_file else path, os.W_OK):
        raise OutputUnwritable(f"{option} {path}: cannot be written to", "name another file")


@contextmanager
def whole_file(path: Path) -> Iterator[Path]:
    """A temporary path to write to, which becomes ``path`` after the block, or is removed.

    Anything but a regular file, such as /dev/stdout or a link, is written to directly. WriteFailed
    for a folder and a full disk, InputError for a link of another user.
    """
    # A name has at most 255 bytes.
    begin = os.fsdecode(os.fsencode(path.name)[:200])
    partial = path.parent / f"{begin}.{secrets.token_hex(4)}.partial"
    try:
        refuse_foreign_link(path)
        in_place = os.path.lexists(path) and not stat.S_ISREG(path.lstat().st_mode)
        yield path if in_place else partial
        if not in_place:
            partial.replace(path)
    except BrokenPipeError:
        raise
    except OSError as error:
        raise WriteFailed(error.strerror or str(error), "name another file", path) from error
    finally:
        with suppress(OSError):
            partial.unlink()


def free_bytes(place: Path | int) -> int:
    """Free space for an unprivileged user at a path or descriptor; ``sys.maxsize`` if unlimited."""
    stats = os.statvfs(place)
    # A file system without a size limit reports 0 blocks.
    return stats.f_bavail * stats.f_frsize if stats.f_blocks else sys.maxsize


def user_folder(variable: str, usual: str) -> Path:
    """spillcast's folder below that of an environment variable, else below ``usual`` in the home.

    InputError for a user without a home.
    """
    folder = os.environ.get(variable, "")
    if os.path.isabs(folder):
        return Path(folder) / "spillcast"
    try:
        return Path.home() / usual / "spillcast"
    except RuntimeError as error:
        raise PathMissing(f"no home directory: {error}", f"set {variable}") from error


def is_new(notice: str) -> bool:
    """Whether this user has not seen the notice yet; it counts as seen from now on.

    If that cannot be stored, the notice is new each time.
    """
    try:
        path = user_folder("XDG_STATE_HOME", ".local/state") / "notices"
        path.parent.mkdir(parents=True, exist_ok=True)
        with path.open("a+", encoding="utf-8") as file:
            file.seek(0)
            if notice in file.read().splitlines():
                return False
            file.write(notice + "\n")
    except (OSError, PathMissing, UnicodeDecodeError):
        pass
    return True


#: Waits for the group to empty.
_GROUP_JANITOR = (
    'n=0; until rmdir "$1" 2>/dev/null || [ $n -ge 300 ]; do n=$((n+1)); sleep 0.1; done'
)


class NoMemoryGroup(Exception):
    """Raised if no memory cgroup can be created or joined; the message says why."""


@contextmanager
def memory_group(limit_bytes: int) -> Iterator[Path]:
    """A new, empty memory cgroup with a limit. NoMemoryGroup if it cannot be created."""
    try:
        folder = _core.make_memory_group(limit_bytes)
    except ValueError as error:
        raise NoMemoryGroup(str(error)) from error
    with undone_by(_GROUP_JANITOR, "janitor", folder):
        yield folder


def join_memory_group(folder: Path) -> None:
    """Move this process into a cgroup, which accounts for its memory from now on."""
    try:
        (folder / "cgroup.procs").write_text(str(os.getpid()))
    except OSError as error:
        raise NoMemoryGroup(f"{folder} cannot be joined: {error.strerror}") from error

"""Replaces pipes of the shell, and texts that the core cannot unpack, by unnamed files."""

import atexit
import os
import re
import resource
import shutil
import stat
import tempfile
from contextlib import ExitStack
from pathlib import Path
from threading import Thread
from typing import IO

from spillcast.errors import EvidenceMissing, FileTooLarge
from spillcast.evidence.text import blocks_of, is_plain
from spillcast.gate import TEXT_BYTES_MAX

STDIN = Path("/dev/stdin")
_DESCRIPTOR = re.compile(r"/dev/stdin|/(?:dev|proc/self)/fd/(\d+)")
_BUFFER_BYTES = 1 << 20
#: Inodes of the pipes that ``_refill_pipe`` made.
_REFILLED = set[int]()
#: Copies of files as plain text, by path, size and time of the last change.
_COPIES = dict[tuple[Path, int, int], IO[bytes]]()


def rereadable(argument: str, *, bytes_max: int = TEXT_BYTES_MAX) -> Path:
    """The path of an argument; ``-`` is standard input.

    An unnamed temporary file with the content of a pipe takes over its descriptor. If the content
    exceeds ``bytes_max``, a trace stays a pipe, because it is read once; other kinds raise
    FileTooLarge.
    """
    path = STDIN if argument == "-" else Path(argument)
    if (match := _DESCRIPTOR.fullmatch(str(path))) is None:
        return path
    descriptor = int(match[1] or 0)
    try:
        status = os.fstat(descriptor)
    except OSError as error:
        raise EvidenceMissing(str(error.strerror), "give a file", path) from error
    if not stat.S_ISREG(status.st_mode) and status.st_ino not in _REFILLED:
        _pipe_to_file(path, descriptor, bytes_max)
    return path


def _pipe_to_file(path: Path, descriptor: int, bytes_max: int) -> None:
    """Make the descriptor of a pipe a file with its content."""
    with ExitStack() as stack:
        pipe = stack.enter_context(os.fdopen(os.dup(descriptor), "rb", buffering=0))
        kept = stack.enter_context(tempfile.TemporaryFile(prefix="spillcast-"))
        while (block := pipe.read(_BUFFER_BYTES)) and kept.tell() + len(block) <= bytes_max:
            kept.write(block)
        kept.write(block)
        kept.flush()
        kept.seek(0)
        os.dup2(kept.fileno(), descriptor)
        if not block:
            return
        from spillcast.evidence.recognise import recognise

        kind = recognise(path)
        if kind is not None and kind.name != "traces":
            raise FileTooLarge(f"more than {bytes_max >> 20} MiB", "give a file", path)
        stack.pop_all()
        _refill_pipe(kept, pipe, descriptor)


def _refill_pipe(kept: IO[bytes], rest: IO[bytes], descriptor: int) -> None:
    """Make the descriptor a pipe of ``kept`` and ``rest``, which a thread writes to it."""
    end, begin = os.pipe()
    _REFILLED.add(os.fstat(end).st_ino)
    os.dup2(end, descriptor)
    os.close(end)

    def copy() -> None:
        with kept, rest, os.fdopen(begin, "wb", buffering=0) as out:
            for source in (kept, rest):
                shutil.copyfileobj(source, out, _BUFFER_BYTES)

    # If the reader stops early, the thread waits for ever, which must not keep the process alive.
    Thread(target=copy, name="spillcast-pipe", daemon=True).start()


def plain_copy(path: Path) -> Path:
    """A path from which the core reads a file: its own, or that of an unnamed copy in plain UTF-8.

    InputError for an archive of several files, and for one that is damaged.
    """
    if not path.is_file() or not os.access(path, os.R_OK) or is_plain(path):
        return path
    status = path.stat()
    key = path, status.st_size, status.st_mtime_ns
    if key not in _COPIES:
        # Each copy takes a descriptor.
        hard = resource.getrlimit(resource.RLIMIT_NOFILE)[1]
        resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))
        with ExitStack() as stack:
            copy = stack.enter_context(tempfile.TemporaryFile(prefix="spillcast-"))
            for block in blocks_of(path):
                copy.write(block)
                free = os.fstatvfs(copy.fileno())
                if copy.tell() > free.f_bavail * free.f_frsize:
                    text = f"unpacked, it takes more than half of what {tempfile.gettempdir()} has"
                    raise FileTooLarge(f"{text} left", "set TMPDIR to a larger directory", path)
            copy.flush()
            stack.pop_all()
        _COPIES[key] = copy
    return Path(f"/proc/self/fd/{_COPIES[key].fileno()}")


def with_original_names(text: str) -> str:
    """A message of the core with the names of the files in place of their copies."""
    names = {str(copy.fileno()): str(path) for (path, *_), copy in list(_COPIES.items())}
    return re.sub(r"/proc/self/fd/(\d+)", lambda match: names.get(match[1], match[0]), text)


@atexit.register
def remove_copies(path: Path | None = None) -> None:
    """Remove the copies of a file, or of all."""
    # Other threads add copies meanwhile.
    for key in list(_COPIES):
        if path in (None, key[0]):
            _COPIES.pop(key).close()

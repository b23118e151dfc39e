"""Directories that are gone after some work, also when it is killed; files that are there whole."""

import os
import subprocess
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

#: Reads until the other end of the pipe closes, which it does however the work ends. A mount in
#: there and a server that writes there are about to go then, and may take a moment.
_JANITOR = """
trap "" INT TERM HUP
cat >/dev/null
for attempt in $(seq 100); do
    rm -rf --one-file-system -- "$1" 2>/dev/null && break
    sleep 0.1
done
"""


@contextmanager
def workspace(parent: Path | None = None) -> Iterator[Path]:
    """A new empty directory below ``parent`` (default: the system's temp directory).

    Others may pass through it, for an engine may run as another user; they cannot list it.
    """
    path = Path(tempfile.mkdtemp(prefix="spillcast-", dir=parent))
    path.chmod(0o711)
    janitor = subprocess.Popen(
        ["sh", "-c", _JANITOR, "spillcast-janitor", str(path)],
        stdin=subprocess.PIPE,
        start_new_session=True,
    )
    try:
        yield path
    finally:
        assert janitor.stdin is not None
        janitor.stdin.close()
        janitor.wait()


@contextmanager
def whole_file(path: Path) -> Iterator[Path]:
    """A name to write a file under, which gets its own once all is written and is gone if not."""
    partial = path.with_name(path.name + ".partial")
    try:
        yield partial
        partial.replace(path)
    finally:
        partial.unlink(missing_ok=True)


def free_bytes(directory: Path) -> int:
    """Space an ordinary user may still fill."""
    stats = os.statvfs(directory)
    return stats.f_bavail * stats.f_frsize

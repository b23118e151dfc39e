"""The directories that a rehearsed command gets, and the end of all that it starts."""

import os
import signal
import time
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path

from spillcast.workspace import undone_by, workspace

#: A command that is asked to end may take so long before it is killed.
GRACE_S = 2.0
#: Waits until the other end of its input closes, however that happens; kills all who have a
#: directory of the first name mounted, and removes the empty directories that are named after it.
_GUARD = """
trap "" INT TERM HUP
cat >/dev/null
name="$1"; shift
for attempt in $(seq 50); do
    # Its status is that of a failure where any process of the machine ends meanwhile.
    found=$(grep -l -s -F -e "$name" /proc/[0-9]*/mountinfo)
    [ -n "$found" ] || break
    for one in $found; do
        pid="${one#/proc/}"; kill -KILL "${pid%/mountinfo}" 2>/dev/null
    done
    sleep 0.05
done
for one in "$@"; do rmdir -- "$one" 2>/dev/null; done
"""


@dataclass(frozen=True)
class Replaced:
    """Directories of our own, each with the directory in whose place a command sees it."""

    name: str
    pairs: Sequence[tuple[Path, Path]]

    def processes(self) -> list[int]:
        """The processes that see them: the command and all its descendants."""
        processes = []
        for entry in os.scandir("/proc"):
            if entry.name.isdigit():
                try:
                    mounted = self.name in Path(entry.path, "mountinfo").read_text()
                except OSError:
                    continue
                processes += [int(entry.name)] if mounted else []
        return processes

    def end(self) -> None:
        """Terminate all of them and wait a moment; the guard kills the rest."""
        deadline = time.monotonic() + GRACE_S
        signalled: set[int] = set()
        while (running := [pid for pid in self.processes() if not _ended(pid)]) and (
            time.monotonic() < deadline
        ):
            for pid in set(running) - signalled:
                try:
                    os.kill(pid, signal.SIGTERM)
                except ProcessLookupError:
                    continue
            signalled |= set(running)
            time.sleep(0.02)


@contextmanager
def replaced(directories: Sequence[Path], target: Path) -> Iterator[Replaced]:
    """Empty directories in ``target`` for those of a command, which are made where they lack.

    With the block, and also where this process is killed, all who see them end and they are gone.
    """
    missing = [path for path in directories if not path.exists()]
    with ExitStack() as stack:
        room = stack.enter_context(workspace(target))
        stack.enter_context(undone_by(_GUARD, "spillcast-guard", room.name, *missing))
        pairs = []
        for number, path in enumerate(directories):
            path.mkdir(exist_ok=True)
            replacement = room / str(number)
            replacement.mkdir()
            about = path.stat()
            if os.geteuid() == 0:
                os.chown(replacement, about.st_uid, about.st_gid)
            replacement.chmod(about.st_mode & 0o7777)
            pairs.append((replacement.resolve(), path))
        made = Replaced(room.name, pairs)
        try:
            yield made
        finally:
            made.end()


def _ended(pid: int) -> bool:
    """Whether it has ended; it may be a zombie."""
    try:
        return ") Z" in Path(f"/proc/{pid}/stat").read_text()
    except OSError:
        return True

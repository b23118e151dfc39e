"""The target of a recording: a command held until the capture is ready, or a running process."""

import errno
import os
import select
import shutil
import signal
import weakref
from collections.abc import Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Protocol

from spillcast import _core
from spillcast.errors import InputError, ProcessMissing, ProgramMissing

_GONE = "it may have ended; ps -e lists those that run"
PRELOAD_LIBRARY = Path(__file__).parents[1] / "_preload.so"


class Target(Protocol):
    """A target, and a way to wait for its end."""

    pid: int
    exit_status: int | None

    def wait(self, timeout_s: float) -> bool:
        """Sleep until it has ended or the time is over; True when it has ended."""


class Command:
    """Holds a command that does nothing until it is released."""

    def __init__(self, arguments: Sequence[str], environment: Mapping[str, str]) -> None:
        program = shutil.which(arguments[0])
        if program is None:
            raise _no_program(arguments[0])
        pairs = [f"{name}={value}" for name, value in environment.items()]
        self._held = _core.HeldCommand([program, *arguments[1:]], pairs)
        self.pid = self._held.pid
        self._pidfd = os.pidfd_open(self.pid)
        self._close = weakref.finalize(self, os.close, self._pidfd)
        self.exit_status: int | None = None

    def release(self) -> None:
        """Let it run. InputError says why it could not be started."""
        try:
            self._held.release()
        except OSError as error:
            raise ProgramMissing(f"cannot run the command: {error.strerror}") from error

    def send_signal(self, number: int) -> None:
        """Send a signal; do nothing if it has ended."""
        with suppress(ProcessLookupError):
            signal.pidfd_send_signal(self._pidfd, number)

    def abandon(self) -> None:
        """End it before it has done anything."""
        del self._held
        self._close()
        os.waitpid(self.pid, 0)

    def wait(self, timeout_s: float) -> bool:
        """Sleep until it has ended or the time is over; True when it has ended."""
        if self.exit_status is None and readable(self._pidfd, timeout_s):
            _, status = os.waitpid(self.pid, 0)
            self.exit_status = os.waitstatus_to_exitcode(status)
        return self.exit_status is not None


def _no_program(word: str) -> InputError:
    """The fault of the first word of a command that is not a program."""
    first, *others = word.split()[:2] or [word]
    if others and shutil.which(first) is not None:
        hint = f"it is one word: leave out the quotes, as in -- {first} {others[0]}"
        return ProgramMissing(f"'{word}': no such command", hint)
    if os.path.isfile(word):
        return ProgramMissing(f"{word} is not a program", "give the program that runs it before it")
    return ProgramMissing(f"{word}: no such command", "give its path, or fix PATH")


class Process:
    """Watches a running process."""

    def __init__(self, pid: int) -> None:
        self.pid = pid
        self.exit_status: int | None = None
        try:
            self._pidfd = os.pidfd_open(pid)
        except (ProcessLookupError, OverflowError) as error:
            raise ProcessMissing(f"--pid {pid}: there is no such process", _GONE) from error
        except OSError as error:
            # A number that is a thread of some process, and not the process itself.
            if error.errno in (errno.EINVAL, errno.ENOENT):
                raise ProcessMissing(f"--pid {pid}: there is no such process", _GONE) from error
            raise
        weakref.finalize(self, os.close, self._pidfd)

    def wait(self, timeout_s: float) -> bool:
        """Sleep until it has ended or the time is over; True when it has ended."""
        return readable(self._pidfd, timeout_s)


def preload_variable() -> tuple[str, str]:
    """The variable that loads the library, beside what the user loads: name, value."""
    if not PRELOAD_LIBRARY.exists():
        raise ProgramMissing(
            f"{PRELOAD_LIBRARY}: the preload library is missing", "run: make build"
        )
    preload = [str(PRELOAD_LIBRARY), os.environ.get("LD_PRELOAD", "")]
    return "LD_PRELOAD", ":".join(path for path in preload if path)


def describe_exit(status: int) -> str:
    """Describe an exit status."""
    if status < 0:
        return f"ended by {signal.Signals(-status).name}"
    return f"exited with status {status}"


def readable(descriptor: int, timeout_s: float) -> bool:
    """Sleep until a descriptor has something to read or the time is over."""
    poll = select.poll()
    poll.register(descriptor, select.POLLIN)
    return bool(poll.poll(max(0, round(timeout_s * 1000))))

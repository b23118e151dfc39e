"""The target of a recording: a command held until the capture is ready, or a running process."""

import os
import select
import signal
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Protocol

from spillcast import _core

PRELOAD_LIBRARY = Path(__file__).parents[1] / "_preload.so"


class Target(Protocol):
    """A target, and a way to wait for its end."""

    @property
    def pid(self) -> int:
        """Its process id."""

    @property
    def exit_status(self) -> int | None:
        """Of a command that has ended its status, negative for a signal."""

    def wait(self, timeout_s: float) -> bool:
        """Sleep until it has ended or the time is over; True when it has ended."""


def held_command(arguments: Sequence[str], environment: Mapping[str, str]) -> _core.Target:
    """Start a command that does nothing until it is released."""
    pairs = [f"{name}={value}" for name, value in environment.items()]
    return _core.Target.command(arguments, pairs)


def is_running_process(target: Target) -> bool:
    """Whether a target is a process that was running before it was observed."""
    return isinstance(target, _core.Target) and not target.is_command


def preload_value() -> str | None:
    """The value of LD_PRELOAD, beside what the user loads; None if the library is missing."""
    if not PRELOAD_LIBRARY.exists():
        return None
    preload = [str(PRELOAD_LIBRARY), os.environ.get("LD_PRELOAD", "")]
    return ":".join(path for path in preload if path)


def command_of(pid: int) -> list[str] | None:
    """The arguments of a process, secrets struck out; None where it has ended."""
    # Its many patterns take 9 ms to compile.
    from spillcast.redaction import struck_arguments

    try:
        raw = Path(f"/proc/{pid}/cmdline").read_bytes()
    except OSError:
        return None
    return struck_arguments([os.fsdecode(part) for part in raw.split(b"\0") if part])


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

"""A command under observation: signals go to it, and spillcast stays until it ends, as it ends."""

import os
import signal
import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from typing import TYPE_CHECKING, Protocol

import typer

from spillcast.errors import SpillcastError
from spillcast.interruptible import ENDING

if TYPE_CHECKING:
    from types import FrameType

TICK_S = 1.0


class Started(Protocol):
    """A command that was started."""

    exit_status: int | None

    def send_signal(self, number: int) -> None:
        """As of a shell's kill; nothing where it has ended."""

    def wait(self, timeout_s: float) -> bool:
        """Sleep until it has ended or the time is over; True when it has ended."""


class PassedOn:
    """Signals for spillcast on their way to the command that it observes."""

    def __init__(self) -> None:
        self.command: Started | None = None
        self._early: list[int] = []

    def to(self, command: Started) -> None:
        """Pass them on from now on, with those that came while it was started."""
        self.command = command
        for number in self._early:
            command.send_signal(number)

    def take(self, number: int, _frame: "FrameType | None") -> None:
        """A signal has come."""
        if self.command is None:
            self._early.append(number)
        # Ctrl-C in a terminal has reached it already; a second one may mean more to it.
        elif number != signal.SIGINT or not _in_foreground():
            self.command.send_signal(number)


@contextmanager
def as_it_ends(words: Sequence[str] | None) -> Iterator[PassedOn | None]:
    """What is done about a command, until it has ended, whatever fails here before.

    SIGTERM, SIGINT and SIGHUP end the command, and only thereby its recording. A command that
    fails has its status passed on, as a shell tells it. Nothing of this where there is no command.
    """
    if words is None:
        yield None
        return
    passed_on = PassedOn()
    # What is ignored, as SIGHUP under nohup, the command ignores as well.
    taken = [number_ for number_ in ENDING if signal.getsignal(number_) != signal.SIG_IGN]
    before = {number: signal.signal(number, passed_on.take) for number in taken}
    try:
        try:
            yield passed_on
        except (SpillcastError, OSError) as error:
            if passed_on.command is None:
                raise
            status = _stay(passed_on.command)
            if status:
                print(f"spillcast: {error}", file=sys.stderr)
                _leave_as(status, "there is no recording of it")
            raise
        if passed_on.command is not None:
            status = _stay(passed_on.command)
            if status:
                _leave_as(status, "what was recorded is kept")
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)


def _stay(command: Started) -> int | None:
    while not command.wait(TICK_S):
        pass
    return command.exit_status


def _leave_as(status: int, then: str) -> None:
    from spillcast.recording.target import describe_exit

    print(f"spillcast: the command {describe_exit(status)}; {then}", file=sys.stderr)
    raise typer.Exit(status if status > 0 else 128 - status)


def _in_foreground() -> bool:
    """Whether keys of our terminal send signals to us, and to the command with us."""
    with suppress(OSError):
        terminal = os.open("/dev/tty", os.O_RDONLY | os.O_NOCTTY | os.O_CLOEXEC)
        try:
            return os.tcgetpgrp(terminal) == os.getpgrp()
        finally:
            os.close(terminal)
    return False

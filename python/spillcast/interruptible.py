"""Handles Ctrl-C, SIGTERM and SIGHUP: at once during work in Rust, deferred while results are kept,
and passed on to a command that spillcast runs.
"""

import os
import signal
import threading
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from types import FrameType
from typing import Any, Generic, Protocol, TypeVar


class _Command(Protocol):
    def send_signal(self, sig: int, /) -> None: ...


T = TypeVar("T")
C = TypeVar("C", bound=_Command)
#: The signals that end spillcast as Ctrl-C does.
ENDING = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)
TICK_S = 0.1
Handler = Callable[[int, FrameType | None], Any]
#: Holds the last signal.
_received = list[int]()


def interrupt(number: int, _frame: FrameType | None) -> None:
    """Treat a signal like Ctrl-C, and remember which it was."""
    _received[:] = [number]
    raise KeyboardInterrupt


def interrupted_status() -> int:
    """The exit status after an interruption, as in a shell: 130 after Ctrl-C."""
    return 128 + (_received[-1] if _received else signal.SIGINT)


def kept_status() -> int:
    """The exit status of an interrupted run whose results are kept: 0 after Ctrl-C."""
    return 0 if _received in ([], [signal.SIGINT]) else interrupted_status()


def run_interruptibly(
    work: Callable[[], T], cancel: Callable[[], None], watch: Callable[[], None] | None = None
) -> T:
    """Run ``work`` in a thread; call ``watch`` meanwhile, and ``cancel`` when interrupted."""
    results: list[T] = []
    failures: list[BaseException] = []
    # Python 3.11 regards a thread as ended after an interrupted join.
    ended = threading.Event()

    def run() -> None:
        try:
            results.append(work())
        except BaseException as error:
            failures.append(error)
        finally:
            ended.set()

    # An exception during a wait would leave the lock of the event held, and block the thread.
    with interrupts_reported(interrupt, signal.default_int_handler) as interrupted:
        threading.Thread(target=run, name="spillcast-work").start()
        try:
            over = False
            while not (over or interrupted):
                over = ended.wait(TICK_S)
                if watch is not None:
                    watch()
        finally:
            cancel()
            ended.wait()
    if interrupted:
        signal.raise_signal(interrupted[0])
    if failures:
        raise failures[0]
    return results[0]


def until_answered(words: Sequence[str]) -> None:
    """Wait until the file systems of path arguments answer; Ctrl-C ends it if a server hangs."""
    answered = threading.Event()

    def ask() -> None:
        for word in words:
            with suppress(OSError, ValueError):
                os.stat(word)
        answered.set()

    # If no thread can start, such as at a process limit, the verb itself waits.
    with suppress(RuntimeError):
        threading.Thread(target=ask, name="spillcast-stat", daemon=True).start()
        while not answered.wait(TICK_S):
            pass


def interrupted_once() -> None:
    """Ignore further signals until the process ends, because they would lose the results."""
    for number in ENDING:
        signal.signal(number, signal.SIG_IGN)


@contextmanager
def interrupts_reported(*replaced: Handler) -> Iterator[list[int]]:
    """Let Ctrl-C only add its signal to the list; the main thread receives signals.

    If ``replaced`` is given, only for signals with one of these handlers.
    """
    interrupted = list[int]()

    # A list, not an Event: a second signal would wait for the lock that the first one holds.
    def report(number: int, _frame: FrameType | None) -> None:
        _received[:] = [number]
        interrupted.append(number)

    with _handled_by(report, *replaced):
        yield interrupted


class Forwarder(Generic[C]):
    """Passes the signals of spillcast on to a command that it runs."""

    def __init__(self) -> None:
        self.command: C | None = None
        self._early: list[int] = []

    def to(self, command: C) -> None:
        """Pass on signals from now on, and those received while ``command`` was started."""
        self.command = command
        for number in self._early:
            command.send_signal(number)

    @contextmanager
    def taken(self) -> Iterator[None]:
        """Handle signals in the block: they end the command, and the block ends with it."""
        with _handled_by(self._take):
            yield

    def _take(self, number: int, _frame: FrameType | None) -> None:
        if self.command is None:
            self._early.append(number)
        # The terminal sends Ctrl-C to the command too; a second one may have another meaning.
        elif number != signal.SIGINT or not _in_foreground():
            self.command.send_signal(number)


def _in_foreground() -> bool:
    """Whether the terminal sends keyboard signals to this process group."""
    with suppress(OSError):
        terminal = os.open("/dev/tty", os.O_RDONLY | os.O_NOCTTY | os.O_CLOEXEC)
        try:
            return os.tcgetpgrp(terminal) == os.getpgrp()
        finally:
            os.close(terminal)
    return False


@contextmanager
def _handled_by(handler: Handler, *replaced: Handler) -> Iterator[None]:
    """Install ``handler`` for ``ENDING``, or for those of them with a handler in ``replaced``.

    Has no effect outside the main thread, which receives all signals.
    """
    taken = list[int]()
    if threading.current_thread() is threading.main_thread():
        handlers = {number: signal.getsignal(number) for number in ENDING}
        # Ignored signals, such as SIGHUP under nohup, stay ignored, also for a command.
        taken = [
            number
            for number, before in handlers.items()
            if (before in replaced if replaced else before != signal.SIG_IGN)
        ]
    before = {number: signal.signal(number, handler) for number in taken}
    try:
        yield
    finally:
        for number, old in before.items():
            signal.signal(number, old)

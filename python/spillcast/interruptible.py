"""Ctrl-C and what ends a process as it does: at once in long work in Rust, which Python watches;
later while something is kept.
"""

import signal
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from types import FrameType
from typing import TypeVar

T = TypeVar("T")
#: The signals that end spillcast as Ctrl-C does.
ENDING = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)
TICK_S = 0.1
#: The last signal.
_received = list[int]()


def interrupt(number: int, _frame: FrameType | None) -> None:
    """Take a signal as Ctrl-C, and keep which it was."""
    _received[:] = [number]
    raise KeyboardInterrupt


def interrupted_status() -> int:
    """The exit status after an interruption, as a shell has it: 130 after Ctrl-C."""
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
    # Python 3.11 takes a thread for ended whose join was interrupted.
    ended = threading.Event()

    def run() -> None:
        try:
            results.append(work())
        except BaseException as error:
            failures.append(error)
        finally:
            ended.set()

    threading.Thread(target=run, name="spillcast-work").start()
    try:
        over = False
        while not over:
            over = ended.wait(TICK_S)
            if watch is not None:
                watch()
    finally:
        cancel()
        ended.wait()
    if failures:
        raise failures[0]
    return results[0]


def interrupted_once() -> None:
    """Ignore another Ctrl-C from here to the end: it would lose what is being kept."""
    for number in ENDING:
        signal.signal(number, signal.SIG_IGN)


@contextmanager
def interrupts_reported() -> Iterator[threading.Event]:
    """Let Ctrl-C set the event and interrupt nothing; only the main thread gets signals."""
    interrupted = threading.Event()

    def report(number: int, _frame: FrameType | None) -> None:
        _received[:] = [number]
        interrupted.set()

    before = {}
    if threading.current_thread() is threading.main_thread():
        taken = [number for number in ENDING if signal.getsignal(number) != signal.SIG_IGN]
        before = {number: signal.signal(number, report) for number in taken}
    try:
        yield interrupted
    finally:
        for number, old in before.items():
            signal.signal(number, old)

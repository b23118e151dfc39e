"""Ctrl-C: at once in long work in Rust, which Python watches; later while something is kept."""

import signal
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import TypeVar

T = TypeVar("T")
TICK_S = 0.1


def run_interruptibly(
    work: Callable[[], T], cancel: Callable[[], None], watch: Callable[[], None] | None = None
) -> T:
    """Run ``work`` in a thread; call ``watch`` meanwhile, and ``cancel`` when interrupted."""
    results: list[T] = []
    failures: list[BaseException] = []

    def run() -> None:
        try:
            results.append(work())
        except BaseException as error:
            failures.append(error)

    thread = threading.Thread(target=run, name="spillcast-work")
    thread.start()
    try:
        while thread.is_alive():
            thread.join(TICK_S)
            if watch is not None:
                watch()
    finally:
        cancel()
        thread.join()
    if failures:
        raise failures[0]
    return results[0]


@contextmanager
def no_interrupts() -> Iterator[None]:
    """A second Ctrl-C would lose what is being kept; only the main thread is told of any."""
    if threading.current_thread() is not threading.main_thread():
        yield
        return
    before = signal.signal(signal.SIGINT, signal.SIG_IGN)
    try:
        yield
    finally:
        signal.signal(signal.SIGINT, before)


@contextmanager
def interrupts_told() -> Iterator[threading.Event]:
    """Ctrl-C sets the event and interrupts nothing; only the main thread is told of any."""
    told = threading.Event()
    if threading.current_thread() is not threading.main_thread():
        yield told
        return
    before = signal.signal(signal.SIGINT, lambda _number, _frame: told.set())
    try:
        yield told
    finally:
        signal.signal(signal.SIGINT, before)

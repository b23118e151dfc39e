"""Long work in Rust, watched and ended from Python: progress now and then, Ctrl-C at once."""

import threading
from collections.abc import Callable
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

"""The other side of a held query: settings as the argument, a line in to start, JSON lines out."""

import ctypes
import json
import signal
import sys
import time
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path
from typing import Any, NamedTuple, Protocol

from spillcast.errors import first_line

PR_SET_PDEATHSIG = 1
#: Rows of the result that are kept to compare results.
ROWS_KEPT = 100


class Scheduled(NamedTuple):
    """Holds scheduler times of threads: on a CPU, and runnable without one."""

    cpu_s: float
    run_queue_delay_s: float


class Session(Protocol):
    """A query made ready in an engine."""

    #: The process that does its work.
    pid: int

    def run(self) -> Sequence[Any]:
        """Run it to its end; its rows."""

    def scheduled(self) -> Scheduled:
        """What the scheduler gave to all its processes and threads so far, and kept from them."""

    def peak_buffer_bytes(self) -> int | None:
        """The most that its buffers took; None where that is not known."""
        return None


def serve(open_session: Callable[[Any], Session], failure: type[Exception]) -> None:
    """Make the query ready, say so, wait for the word, run, answer; ends with its parent.

    An exception of type ``failure`` is answered in the engine's own words.
    """
    ctypes.CDLL(None).prctl(PR_SET_PDEATHSIG, signal.SIGKILL)
    try:
        session = open_session(json.loads(sys.argv[1]))
        _say({"pid": session.pid})
        if not sys.stdin.readline():
            return
        start, before = time.monotonic(), session.scheduled()
        rows = session.run()
        elapsed_s, after = time.monotonic() - start, session.scheduled()
        _say(
            {
                "elapsed_s": elapsed_s,
                "rows": json.dumps(rows[:ROWS_KEPT], default=str),
                "run_queue_delay_s": after.run_queue_delay_s - before.run_queue_delay_s,
                "cpu_s": after.cpu_s - before.cpu_s,
                "peak_buffer_bytes": session.peak_buffer_bytes(),
            }
        )
    except failure as error:
        _say({"error": first_line(error)})


def scheduled(tasks: Iterable[Path]) -> Scheduled:
    """Sum up the threads of these folders in /proc; ended threads are skipped."""
    cpu_ns = delay_ns = 0
    for task in tasks:
        try:
            ran, stood, _ = (task / "schedstat").read_text().split()
        except OSError:
            continue
        cpu_ns += int(ran)
        delay_ns += int(stood)
    return Scheduled(cpu_ns / 1e9, delay_ns / 1e9)


def _say(answer: dict[str, Any]) -> None:
    print(json.dumps(answer), flush=True)

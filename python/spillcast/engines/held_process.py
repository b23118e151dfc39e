"""The other side of a held query: settings as the argument, a line in to start, JSON lines out."""

import ctypes
import json
import signal
import sys
import time
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path
from typing import Any, Protocol

from spillcast.errors import first_line

PR_SET_PDEATHSIG = 1
#: Rows of the result that are kept to compare results.
ROWS_KEPT = 100


class Session(Protocol):
    """A query made ready in an engine."""

    #: The process that does its work.
    pid: int

    def run(self) -> Sequence[Any]:
        """Run it to its end; its rows."""

    def run_queue_delay_s(self) -> float:
        """Time that all its processes and threads stood ready without a CPU, so far."""

    def peak_buffer_bytes(self) -> int | None:
        """The most that its buffers took; None where that is not known."""


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
        start, delay_s = time.monotonic(), session.run_queue_delay_s()
        rows = session.run()
        _say(
            {
                "elapsed_s": time.monotonic() - start,
                "rows": json.dumps(rows[:ROWS_KEPT], default=str),
                "run_queue_delay_s": session.run_queue_delay_s() - delay_s,
                "peak_buffer_bytes": session.peak_buffer_bytes(),
            }
        )
    except failure as error:
        _say({"error": first_line(error)})


def delay_of_tasks_s(tasks: Iterable[Path]) -> float:
    """Run-queue delay of the threads whose folders in /proc are given; those gone are left out."""
    total_ns = 0
    for task in tasks:
        try:
            total_ns += int((task / "schedstat").read_text().split()[1])
        except OSError:
            continue
    return total_ns / 1e9


def _say(answer: dict[str, Any]) -> None:
    print(json.dumps(answer), flush=True)

"""Queries in separate processes that wait for a signal to start; and private servers."""

import ctypes
import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass
from functools import partial
from importlib import import_module
from math import inf
from pathlib import Path
from typing import Any, NamedTuple, Protocol

from spillcast.errors import ExperimentFailed, first_line

#: The timeout of a query: engines that lack memory may wait for it for ever.
TIMEOUT_S = 300.0
#: The timeout of a server's start.
START_S = 60.0


@dataclass(frozen=True)
class RunResult:
    """The times of a run, and its rows as JSON text; empty if they were not kept."""

    elapsed_s: float
    rows: str
    #: Time in which it was runnable but not scheduled, because the machine was busy.
    run_queue_delay_s: float
    #: CPU time of all its threads and processes.
    cpu_s: float
    #: Peak size of its buffers, if the engine reports it.
    peak_buffer_bytes: int | None = None


class QueryProcess(AbstractContextManager["QueryProcess"]):
    """A query that waits until ``start`` is called; its process ends with its context.

    The process calls ``session`` with the keyword arguments ``query``, which become JSON.
    """

    def __init__(
        self,
        engine: str,
        session: "type[QuerySession]",
        query: Mapping[str, object],
        environment: Mapping[str, str] | None = None,
        timeout_s: float = TIMEOUT_S,
    ) -> None:
        self._engine, self._timeout_s = engine, timeout_s
        name = f"{session.__module__}:{session.__name__}"
        self._process = subprocess.Popen(
            [sys.executable, "-P", "-m", __name__, name, json.dumps(query, default=str)],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            env=dict(os.environ) | dict(environment or {}),
            text=True,
        )
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        self._input, self._output = self._process.stdin, self._process.stdout
        self.exit_status: int | None = None
        #: The process that does the query's work, which may be a server's.
        self.pid: int = self._answer()["pid"]
        #: The process that starts the query's workers, and the workers' title; None for threads.
        self.helpers: tuple[int, str] | None = None
        self._started_s = inf

    def __exit__(self, *_error: object) -> None:
        self.close()

    def start(self) -> None:
        """Starts the query."""
        self._input.write("run\n")
        self._input.flush()
        self._started_s = time.monotonic()

    def wait(self, timeout_s: float) -> bool:
        """Waits until the query ends or the timeout expires; True if the query has ended.

        ExperimentFailed if the query takes longer than the constructor's ``timeout_s`` in total.
        """
        from spillcast.recording.observed import readable

        if readable(self._output.fileno(), timeout_s):
            return True
        if time.monotonic() - self._started_s > self._timeout_s:
            raise ExperimentFailed(
                f"{self._engine}: the query took more than {self._timeout_s:.0f} s",
                "run it on an idle machine, or choose a shorter query or faster storage",
            )
        return False

    def result(self) -> RunResult:
        """Waits for the end of the query. SpillcastError has the engine's message if it failed."""
        answer = self._answer()
        self.close()
        return RunResult(**answer)

    def close(self) -> None:
        """Ends the process."""
        self._process.kill()
        self._input.close()
        self._output.close()
        self._process.wait()

    def _answer(self) -> dict[str, Any]:
        line = self._output.readline()
        answer: dict[str, Any] = json.loads(line) if line else {}
        if not answer:
            from spillcast.recording.observed import describe_exit

            answer["error"] = f"the process {describe_exit(self._process.wait())}"
        if "error" in answer:
            self.close()
            raise ExperimentFailed(f"{self._engine}: {answer['error']}")
        return answer


PR_SET_PDEATHSIG = 1
#: The number of result rows that are kept to compare results.
ROWS_KEPT = 100


class Scheduled(NamedTuple):
    """Scheduler times of threads: running, and runnable but not scheduled."""

    cpu_s: float
    run_queue_delay_s: float

    @classmethod
    def total(cls, times: "Iterable[Scheduled]") -> "Scheduled":
        """The sum of the times of several threads or processes."""
        tasks = list(times)
        return cls(sum(t.cpu_s for t in tasks), sum(t.run_queue_delay_s for t in tasks))


class QuerySession(Protocol):
    """A query that an engine is ready to run."""

    #: The process that does its work.
    pid: int

    def run(self) -> Sequence[Any]:
        """Runs it to its end and returns its rows."""

    def scheduled(self) -> Scheduled:
        """Scheduler times so far of the query's processes and threads; by default of ``pid``."""
        tasks = map(task_times, Path(f"/proc/{self.pid}/task").iterdir())
        return Scheduled.total(filter(None, tasks))

    def peak_buffer_bytes(self) -> int | None:
        """Peak size of its buffers; None if unknown."""
        return None


def serve(name: str, query: str) -> None:
    """Prepares a query, prints its process ID, runs it after a line of input, prints the result.

    ``name`` is that of a session's class, ``module:name``, and ``query`` its arguments as JSON. The
    process ends with its parent.
    """
    end_with_parent()
    module, _, kind = name.partition(":")
    try:
        session: QuerySession = getattr(import_module(module), kind)(**json.loads(query))
        _print_answer({"pid": session.pid})
        if not sys.stdin.readline():
            return
        start, before = time.monotonic(), session.scheduled()
        rows = session.run()
        elapsed_s, after = time.monotonic() - start, session.scheduled()
        result = RunResult(
            elapsed_s,
            json.dumps(rows[:ROWS_KEPT], default=str),
            after.run_queue_delay_s - before.run_queue_delay_s,
            after.cpu_s - before.cpu_s,
            session.peak_buffer_bytes(),
        )
        _print_answer(vars(result))
    except Exception as error:
        # Engines have no common class of errors; those of DataFusion are plain exceptions.
        _print_answer({"error": first_line(error)})


@contextmanager
def running_server(
    command: Sequence[str],
    is_ready: Callable[[], bool],
    log: Path,
    *,
    mark: str,
    ended_by: int = signal.SIGTERM,
    **process: Any,
) -> Iterator["subprocess.Popen[bytes]"]:
    """Runs a server that writes to ``log``; the signal ``ended_by`` ends it with the context.

    ``process`` are options of Popen. ExperimentFailed if the server does not start; its reason is
    the first line of ``log`` that contains ``mark``.
    """
    process |= ending_with_us(ended_by)
    with log.open("w") as output:
        server = subprocess.Popen(command, stdout=output, stderr=output, **process)
    try:
        deadline_s = time.monotonic() + START_S
        while not is_ready():
            if server.poll() is not None or time.monotonic() > deadline_s:
                errors = [line for line in log.read_text().splitlines() if mark in line]
                reason = (errors or ["it took too long"])[0]
                raise ExperimentFailed(f"the server did not start: {reason}")
            time.sleep(0.02)
        yield server
    finally:
        server.send_signal(ended_by)
        server.wait()


def end_with_parent(number: int = signal.SIGKILL, parent: int | None = None) -> None:
    """Makes this process end with its parent, by a signal; at once if ``parent`` has ended."""
    ctypes.CDLL(None).prctl(PR_SET_PDEATHSIG, number)
    if parent is not None and os.getppid() != parent:
        os.kill(os.getpid(), number)


def ending_with_us(number: int) -> dict[str, Any]:
    """Options of Popen: the signal ends the process with this one, and only with this one.

    A signal to our process group, such as Ctrl-C or ``kill -9``, does not reach it: a server that
    is killed keeps its shared memory.
    """
    end = partial(end_with_parent, number, os.getpid())
    return {"start_new_session": True, "preexec_fn": end}


def task_times(task: Path) -> Scheduled | None:
    """The times so far of a process or thread, by its folder in /proc; None if it has ended."""
    try:
        cpu_ns, delay_ns, _ = (task / "schedstat").read_text().split()
    except (OSError, ValueError):
        return None
    return Scheduled(int(cpu_ns) / 1e9, int(delay_ns) / 1e9)


def _print_answer(answer: dict[str, Any]) -> None:
    print(json.dumps(answer), flush=True)


if __name__ == "__main__":
    serve(*sys.argv[1:])

"""A query in a process of its own: prepared, held at a gate, run, measured."""

import json
import os
import subprocess
import sys
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from spillcast.errors import ExperimentFailed
from spillcast.recording.target import readable


@dataclass(frozen=True)
class Ran:
    """What a query took and what it gave, as JSON text that is empty where it was not kept."""

    elapsed_s: float
    rows: str
    #: Time it was runnable but not scheduled: the machine was busy with something else.
    run_queue_delay_s: float
    #: CPU time of all its threads and processes.
    cpu_s: float
    #: The most that its buffers took, where the engine was asked to tell.
    peak_buffer_bytes: int | None = None


class HeldQuery:
    """A query that waits at a gate until ``start`` is called; its process ends with this one.

    ``module`` is run as the process and answers by ``spillcast.engines.held_process``.
    """

    def __init__(
        self,
        engine: str,
        module: str,
        settings: Mapping[str, object],
        environment: Mapping[str, str] | None = None,
    ) -> None:
        self._engine = engine
        self._process = subprocess.Popen(
            [sys.executable, "-m", module, json.dumps(settings, default=str)],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            env=dict(os.environ) | dict(environment or {}),
            text=True,
        )
        self.exit_status: int | None = None
        #: The process that does the query's work, this one or a server's.
        self.pid: int = self._answer()["pid"]
        #: The process that starts helpers for it, and what these call themselves; None for threads.
        self.helpers: tuple[int, str] | None = None

    def start(self) -> None:
        """Open the gate: the query runs from now on."""
        assert self._process.stdin is not None
        self._process.stdin.write("run\n")
        self._process.stdin.flush()

    def wait(self, timeout_s: float) -> bool:
        """Sleep until the query has ended or the time is over; True when it has ended."""
        assert self._process.stdout is not None
        return readable(self._process.stdout.fileno(), timeout_s)

    def result(self) -> Ran:
        """Wait for the end of the query. SpillcastError holds the engine's words if it failed."""
        answer = self._answer()
        self.close()
        return Ran(**answer)

    def close(self) -> None:
        """End the process."""
        self._process.kill()
        for pipe in (self._process.stdin, self._process.stdout):
            if pipe is not None:
                pipe.close()
        self._process.wait()

    def _answer(self) -> dict[str, Any]:
        assert self._process.stdout is not None
        line = self._process.stdout.readline()
        answer: dict[str, Any] = json.loads(line) if line else {"error": "the process ended"}
        if "error" in answer:
            self.close()
            raise ExperimentFailed(f"{self._engine}: {answer['error']}")
        return answer

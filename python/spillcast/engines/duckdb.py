"""DuckDB in a process of its own: prepared, held at a gate, run, measured."""

import json
import os
import subprocess
import sys
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from spillcast.errors import SpillcastError
from spillcast.recording.target import readable


@dataclass(frozen=True)
class Query:
    """A query and the settings under which it spills."""

    sql: str
    database: Path
    temp_directory: Path
    memory_limit: str
    threads: int = 1


@dataclass(frozen=True)
class Ran:
    """What a query took and what it gave, as text."""

    elapsed_s: float
    rows: str
    #: Time its threads stood ready without a CPU: the machine was busy with something else.
    run_queue_delay_s: float


class DuckDb:
    """A DuckDB process that waits before its query until ``run`` is called.

    The process ends with this one, however that ends.
    """

    def __init__(self, query: Query, environment: Mapping[str, str] | None = None) -> None:
        settings = json.dumps({name: str(value) for name, value in asdict(query).items()})
        self._process = subprocess.Popen(
            [sys.executable, "-m", "spillcast.engines.duckdb_process", settings],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            env=dict(os.environ) | dict(environment or {}),
            text=True,
        )
        self.pid = self._process.pid
        self.exit_status: int | None = None
        self._answer()

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
        """Wait for the end of the query."""
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
            raise SpillcastError(f"DuckDB: {answer['error']}")
        return answer


def version() -> str:
    """DuckDB's version."""
    import duckdb

    return duckdb.__version__

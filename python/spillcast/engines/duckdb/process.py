"""The DuckDB process of a held query."""

import json
import os
import subprocess
from typing import Any

import duckdb

from spillcast.engines.held import Session, end_with_parent, serve

#: What the command line prints after the rows of a statement.
ANSWERED = "spillcast: answered"


class DuckDbSession(Session):
    """The query in a connection of this process."""

    def __init__(self, settings: dict[str, Any]) -> None:
        self.pid = os.getpid()
        self._sql = settings["sql"]
        self._connection = duckdb.connect(settings["database"], read_only=True)
        for name, value in settings["settings"].items():
            self._connection.execute(f"set {name} = '{value}'")
        self._connection.execute("set preserve_insertion_order = false")
        self._profiled = "enable_profiling" in settings["settings"]

    def run(self) -> list[tuple[Any, ...]]:
        """Run the query; its rows."""
        return self._connection.execute(self._sql).fetchall()

    def peak_buffer_bytes(self) -> int | None:
        """The peak buffer memory of the query; None if it was not profiled."""
        if not self._profiled:
            return None
        profile = self._connection.get_profiling_information()
        document: dict[str, Any] = json.loads(profile) if isinstance(profile, str) else profile
        return int(document["system"]["peak_buffer_memory"])


class CommandLineSession(Session):
    """The query in DuckDB's command line, a process that reads statements from a pipe."""

    def __init__(self, settings: dict[str, Any]) -> None:
        self._sql = settings["sql"]
        command = [settings["program"], "-init", "/dev/null", "-bail", "-readonly", "-csv",
                   "-noheader", settings["database"]]  # fmt: skip
        self._process = subprocess.Popen(
            command,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            preexec_fn=end_with_parent,
        )
        self.pid = self._process.pid
        values = settings["settings"] | {"preserve_insertion_order": "false"}
        self._answer("".join(f"set {name} = '{value}';\n" for name, value in values.items()))

    def run(self) -> list[tuple[Any, ...]]:
        """Run the query; its rows."""
        return [tuple(line.split(",")) for line in self._answer(f"{self._sql};\n")]

    def _answer(self, statements: str) -> list[str]:
        """The lines that statements print. duckdb.Error where they fail, for the process ends."""
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        self._process.stdin.write(f"{statements}select '{ANSWERED}';\n")
        self._process.stdin.flush()
        lines = list[str]()
        for line in map(str.rstrip, self._process.stdout):
            if line == ANSWERED:
                return lines
            lines.append(line)
        raise duckdb.Error("\n".join(lines) or "the command line ended")


def open_session(settings: dict[str, Any]) -> Session:
    """In the command line where a program is named, else in this process."""
    return CommandLineSession(settings) if settings.get("program") else DuckDbSession(settings)


if __name__ == "__main__":
    serve(open_session, duckdb.Error)

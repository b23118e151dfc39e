"""The DuckDB process of a held query."""

import json
import os
from pathlib import Path
from typing import Any

import duckdb

from spillcast.engines.held import Scheduled, Session, scheduled, serve


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

    def scheduled(self) -> Scheduled:
        """All threads of this process."""
        return scheduled(Path("/proc/self/task").iterdir())

    def peak_buffer_bytes(self) -> int | None:
        """The peak buffer memory of the query; None if it was not profiled."""
        if not self._profiled:
            return None
        profile = self._connection.get_profiling_information()
        document: dict[str, Any] = json.loads(profile) if isinstance(profile, str) else profile
        return int(document["system"]["peak_buffer_memory"])


if __name__ == "__main__":
    serve(DuckDbSession, duckdb.Error)

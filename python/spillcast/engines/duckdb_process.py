"""The DuckDB process of a held query."""

import os
from pathlib import Path
from typing import Any

import duckdb

from spillcast.engines.held_process import delay_of_tasks_s, serve


class DuckDbSession:
    """The query in a connection of this process."""

    def __init__(self, settings: dict[str, Any]) -> None:
        self.pid = os.getpid()
        self._sql = settings["sql"]
        self._connection = duckdb.connect(settings["database"], read_only=True)
        for name in ("temp_directory", "memory_limit", "threads"):
            self._connection.execute(f"set {name} = '{settings[name]}'")
        self._connection.execute("set preserve_insertion_order = false")

    def run(self) -> list[tuple[Any, ...]]:
        """Run the query; its rows."""
        return self._connection.execute(self._sql).fetchall()

    def run_queue_delay_s(self) -> float:
        """Of all threads of this process."""
        return delay_of_tasks_s(Path("/proc/self/task").iterdir())


if __name__ == "__main__":
    serve(DuckDbSession, duckdb.Error)

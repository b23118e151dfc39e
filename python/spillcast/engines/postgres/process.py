"""The client process of a query that is held in a PostgreSQL server."""

import threading
from pathlib import Path
from typing import Any

import psycopg
from psycopg.sql import SQL

from spillcast.engines.held import Scheduled, Session, scheduled, serve

LOOK_S = 0.02


class PostgresSession(Session):
    """The query in a backend of its own; ``pid`` is the backend's."""

    def __init__(self, settings: dict[str, Any]) -> None:
        self._sql = SQL(settings["sql"])
        self._postmaster = int(settings["postmaster"])
        self._connection = psycopg.connect(settings["dsn"], autocommit=True)
        self.pid = self._connection.info.backend_pid
        for name, value in settings["settings"].items():
            self._connection.execute("select set_config(%s, %s, false)", (name, value))
        for statement in settings["before"]:
            self._connection.execute(SQL(statement))
        self._earlier = {pid for pid in self._children() if pid != self.pid}
        self._scheduled: dict[int, Scheduled] = {}

    def run(self) -> list[tuple[Any, ...]]:
        """Run the query; its rows."""
        ended = threading.Event()
        watch = threading.Thread(target=self._watch, args=[ended])
        watch.start()
        try:
            return self._connection.execute(self._sql).fetchall()
        finally:
            ended.set()
            watch.join()

    def scheduled(self) -> Scheduled:
        """The backend, and parallel workers as they were when last seen."""
        self._look()
        seen = self._scheduled.values()
        return Scheduled(
            sum(times.cpu_s for times in seen), sum(times.run_queue_delay_s for times in seen)
        )

    def _watch(self, ended: threading.Event) -> None:
        """Workers are gone when the query ends, so they are looked at all the time."""
        while not ended.wait(LOOK_S):
            self._look()

    def _look(self) -> None:
        for pid in self._children() - self._earlier:
            # An ended thread has no entry; both times only ever grow.
            self._scheduled[pid] = max(
                scheduled([Path(f"/proc/{pid}")]), self._scheduled.get(pid, Scheduled(0.0, 0.0))
            )

    def _children(self) -> set[int]:
        """Processes of the server: the postmaster starts all of them."""
        threads = Path(f"/proc/{self._postmaster}/task").glob("*/children")
        return {int(pid) for thread in threads for pid in thread.read_text().split()}


if __name__ == "__main__":
    serve(PostgresSession, psycopg.Error)

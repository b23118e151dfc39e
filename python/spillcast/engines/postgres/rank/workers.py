"""Parallel workers of the statements that run, by repeated looks at the sessions.

Before PostgreSQL 18 no count tells how many processes a statement had; sessions show them while
they run.
"""

import time
from collections.abc import Mapping, Sequence
from typing import Any

from spillcast.engines.postgres.connection import Connection

#: As many looks as a short time has, and the least and the most time between two of them: a look
#: takes the server a millisecond.
LOOKS, PACE_S = 600, (0.05, 0.2)
#: The first versions that tell a worker's leader and the statement that a session runs.
LEADER_SINCE = 140_000
_SESSIONS = (
    "select query_id::text, pid, leader_pid from pg_stat_activity "
    "where state = 'active' and query_id is not null and pid <> pg_backend_pid()"
)


class WorkersSeen:
    """Of each statement, how often it was seen at work and with how many workers at most."""

    def __init__(self, connection: Connection) -> None:
        self.connection = connection
        self.looks: dict[str, int] = {}
        self.most: dict[str, int] = {}
        self.asked_s = 0.0

    def during(self, seconds: float) -> None:
        """Look again and again for so long."""
        end_s = time.monotonic() + seconds
        pace_s = min(max(seconds / LOOKS, PACE_S[0]), PACE_S[1])
        knows_leader = self.connection.info.server_version >= LEADER_SINCE
        while (left_s := end_s - time.monotonic()) > 0:
            if knows_leader:
                self._look()
            time.sleep(min(pace_s, left_s) if knows_leader else left_s)

    def with_rows(self, rows: Sequence[Mapping[str, Any]]) -> list[Mapping[str, Any]]:
        """The rows of pg_stat_statements with what was seen of each."""
        return [{**row, **self._seen(str(row.get("queryid")))} for row in rows]

    def _seen(self, queryid: str) -> Mapping[str, int]:
        return {"looks": self.looks.get(queryid, 0), "workers_seen": self.most.get(queryid, 0)}

    def _look(self) -> None:
        began = time.monotonic()
        records = self.connection.execute(_SESSIONS.encode()).fetchall()
        self.asked_s += time.monotonic() - began
        workers: dict[int, int] = {}
        for _, pid, leader in records:
            # Before version 16 a leader is told as its own.
            if leader is not None and leader != pid:
                workers[leader] = workers.get(leader, 0) + 1
        for queryid, pid, leader in records:
            if leader is None or leader == pid:
                self.looks[queryid] = self.looks.get(queryid, 0) + 1
                self.most[queryid] = max(self.most.get(queryid, 0), workers.get(pid, 0))

"""A query in a backend of a PostgreSQL server of our own, held at a gate."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from spillcast.engines.held import HeldQuery
from spillcast.engines.postgres_processes import WORKER_TITLE
from spillcast.engines.postgres_server import PrivateServer


@dataclass(frozen=True)
class PostgresQuery:
    """A query, the settings of its session, and statements that come before it."""

    sql: str
    settings: Mapping[str, str] = field(default_factory=dict)
    before: Sequence[str] = ()


class PostgresRun(HeldQuery):
    """A query in a backend of ``server``; parallel workers are started by the postmaster."""

    def __init__(self, server: PrivateServer, query: PostgresQuery) -> None:
        settings = {
            "dsn": server.dsn,
            "postmaster": server.pid,
            "sql": query.sql,
            "settings": dict(query.settings),
            "before": list(query.before),
        }
        super().__init__("PostgreSQL", "spillcast.engines.postgres_process", settings)
        self.helpers = (server.pid, WORKER_TITLE.format(pid=self.pid))

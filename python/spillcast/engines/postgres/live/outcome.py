"""Whether a statement that has ended ran to its end: by what the server counted meanwhile."""

from collections.abc import Mapping, Sequence
from typing import Any

from spillcast.engines.postgres.connection import Connection

UNKNOWN = (
    "the query may have been cancelled: a transaction of its database was rolled back meanwhile, "
    "and pg_stat_statements has no earlier call of it to compare with"
)


def rollbacks(connection: Connection, database: str) -> int | None:
    """Transactions of a database that were rolled back so far; None where that is not counted."""
    query = "select xact_rollback from pg_stat_database where datname = %s"
    counted = connection.execute(query, [database]).fetchone()
    return None if counted is None else counted[0]


def completed(
    calls_before: Sequence[Mapping[str, Any]], calls_after: Sequence[Mapping[str, Any]]
) -> bool | None:
    """Whether a statement was counted as a call, which one that fails is not; None: not known.

    A call of another session that ended meanwhile counts as well.
    """
    if not (calls_before and calls_after):
        return None
    before, after = (sum(row["calls"] for row in rows) for rows in (calls_before, calls_after))
    return bool(after != before)

"""The facts of a running statement: its plan, its earlier calls, whether it completed."""

import re
import time
from collections.abc import Mapping, Sequence
from contextlib import closing
from typing import Any

from spillcast.engines.engine import Say
from spillcast.engines.postgres.connection import (
    EXPLAINER,
    STATEMENTS_SCHEMA,
    Connection,
    open_session,
)
from spillcast.engines.postgres.live.sampler import SessionQuery
from spillcast.errors import InputError
from spillcast.evidence.postgres.statement_rows import MAINTENANCE, PER_GATHER
from spillcast.recording.meta import ESTIMATE_FILE, FORMER_FILE

#: Longer than any plan takes, or a look at what was counted.
TIMEOUT_MS = 5000
#: What may be explained: one statement that only reads.
_READS = re.compile(r"\s*(?:--[^\n]*\n\s*)*(?:select|with|values|table)\b", re.IGNORECASE)
_PARAMETER = re.compile(r"\$\d")
_GENERIC_SINCE = 160000
#: Of a node, what tells its temp bytes; the rest may hold literals of the statement.
_KEPT = ("Node Type", "Strategy", "Plan Rows", "Plan Width", "Workers Planned")
#: Of calls from within functions the session shows the outer statement.
_COUNTED = (
    "select to_jsonb(s) - 'query' || (select jsonb_object_agg(name, setting) from pg_settings "
    "where name = any(%s)) "
    "from {}.pg_stat_statements s "
    "join pg_database d on d.oid = s.dbid and d.datname = %s "
    "where s.queryid = %s and s.toplevel and s.calls > 0"
)
#: The first version in which a session shows its statement's identifier.
_SHOWN_SINCE = 140000
UNKNOWN = (
    "the query may have been cancelled: a transaction of its database was rolled back meanwhile, "
    "and pg_stat_statements has no earlier call of it to compare with"
)


def estimate(
    dsn: str, database: str | None, statement: str, settings: Mapping[str, str]
) -> dict[str, Any] | str:
    """The plan without its conditions, or why there is none.

    In a transaction of a session of ours that only reads, with the ``settings`` that the other
    session began with; what that has set itself does not show.
    """
    import psycopg
    from psycopg.conninfo import make_conninfo

    text = statement.strip().rstrip(";")
    if not _READS.match(text) or ";" in text:
        return "it is not a single statement that only reads"
    if "\ufffd" in text:
        return "its text is of another encoding than that of the database it was read in"
    into = dsn if database is None else make_conninfo(dsn, dbname=database)
    try:
        session = open_session(into, EXPLAINER)
    except InputError as error:
        return error.message
    with closing(session) as connection:
        generic = _PARAMETER.search(text) is not None
        if generic and connection.info.server_version < _GENERIC_SINCE:
            return "it has parameters, which PostgreSQL explains from version 16 on"
        options = "settings, format json" + (", generic_plan" if generic else "")
        try:
            with connection.transaction(force_rollback=True):
                connection.execute("set transaction read only")
                connection.execute(f"set local statement_timeout = {TIMEOUT_MS}")
                for name in ("work_mem", "hash_mem_multiplier"):
                    if name in settings:
                        connection.execute(
                            "select set_config(%s, %s, true)", (name, settings[name])
                        )
                # A statement of somebody's, explained as it stands.
                record = connection.execute(f"explain ({options}) {text}".encode()).fetchone()
        except psycopg.Error as error:
            return " ".join(str(error).split())[:200]
    assert record is not None
    [document] = record[0]
    return {"Plan": _kept(document["Plan"]), "Settings": document.get("Settings", {})}


def _kept(node: Mapping[str, Any]) -> dict[str, Any]:
    kept = {name: node[name] for name in _KEPT if name in node}
    if below := node.get("Plans"):
        kept["Plans"] = [_kept(child) for child in below]
    return kept


def former_calls(dsn: str, database: str, queryid: str) -> list[dict[str, Any]]:
    """A row for each user who called it, with the settings that bound its processes.

    None where the server counts none, or may not tell.
    Asked in a session of ours, in the DSN's database and then in the statement's, ``database``:
    the extension counts all of them, and is in any one.
    """
    from psycopg.conninfo import make_conninfo

    for into in (dsn, make_conninfo(dsn, dbname=database)):
        records = _records(into, database, queryid)
        if records is not None:
            return records
    return []


def _records(dsn: str, database: str, queryid: str) -> list[dict[str, Any]] | None:
    """None where this database has no such extension, or it cannot be asked."""
    import psycopg
    from psycopg.sql import SQL, Identifier

    try:
        session = open_session(dsn, EXPLAINER)
    except InputError:
        return None
    with closing(session) as connection:
        if connection.info.server_version < _SHOWN_SINCE:
            return []
        try:
            connection.execute(f"set statement_timeout = {TIMEOUT_MS}")
            schema = connection.execute(STATEMENTS_SCHEMA).fetchone()
            if schema is None:
                return None
            query = SQL(_COUNTED).format(Identifier(schema[0]))
            values = [[PER_GATHER, MAINTENANCE], database, int(queryid)]
            return [document for (document,) in connection.execute(query, values)]
        except psycopg.Error:
            return None


class WatchedStatement:
    """Collects facts of a session's running statement, each with one request."""

    def __init__(self, dsn: str, database: str, connection: Connection) -> None:
        self._dsn, self._database, self._connection = dsn, database, connection
        self._rolled_back = self._rollbacks()
        self._plan: dict[str, Any] | str | None = None
        self._calls: list[dict[str, Any]] | None = None
        #: When its earlier calls had been counted (CLOCK_MONOTONIC).
        self._counted_ns: int | None = None

    def documents(self, query: SessionQuery, settings: Mapping[str, str]) -> dict[str, object]:
        """What may tell what is to come of it, by file."""
        documents = {ESTIMATE_FILE: self._estimate(query, settings), FORMER_FILE: self.calls(query)}
        return {name: document for name, document in documents.items() if document}

    def calls(self, query: SessionQuery) -> list[dict[str, Any]]:
        """Rows of its earlier calls; none where none were counted.

        A call that is cancelled is not counted, so these have to be asked for before it ends.
        """
        if query.queryid is None:
            return []
        if self._calls is None:
            database = self._database or self._connection.info.dbname
            self._calls = former_calls(self._dsn, database, query.queryid)
            self._counted_ns = time.monotonic_ns()
        return self._calls

    def completed(self, query: SessionQuery, say: Say) -> bool:
        """Whether the ended query ran to its end, as far as the server shows."""
        done = query.life.completed
        if done is None and query.queryid is not None and self._counted_ns is not None:
            ended_ns = (query.started_ns or 0) + round((query.life.elapsed_s or 0.0) * 1e9)
            if self._counted_ns < ended_ns:
                database = self._database or self._connection.info.dbname
                after = former_calls(self._dsn, database, query.queryid)
                done = _counted_meanwhile(self._calls or [], after)
        if done is None and self._rollbacks() != self._rolled_back:
            say(UNKNOWN)
        return done is not False

    def _estimate(self, query: SessionQuery, settings: Mapping[str, str]) -> dict[str, Any] | None:
        if self._plan is None and query.text:
            self._plan = estimate(self._dsn, self._database or None, query.text, settings)
        return self._plan if isinstance(self._plan, dict) else None

    def _rollbacks(self) -> int | None:
        """Transactions of its database that were rolled back so far; None: that is not counted."""
        text = "select xact_rollback from pg_stat_database where datname = %s"
        counted = self._connection.execute(text, [self._database]).fetchone()
        return None if counted is None else counted[0]


def _counted_meanwhile(
    calls_before: Sequence[Mapping[str, Any]], calls_after: Sequence[Mapping[str, Any]]
) -> bool | None:
    """Whether a statement was counted as a call, which one that fails is not; None: not known.

    A call of another session that ended meanwhile counts as well.
    """
    if not (calls_before and calls_after):
        return None
    before, after = (sum(row["calls"] for row in rows) for rows in (calls_before, calls_after))
    return bool(after != before)

"""What pg_stat_statements has counted of earlier calls of a session's statement: numbers alone."""

from contextlib import closing
from typing import Any

from spillcast.engines.postgres.connection import EXPLAINER, STATEMENTS_SCHEMA, open_session
from spillcast.errors import InputError
from spillcast.evidence.postgres.statement_rows import MAINTENANCE, PER_GATHER

TIMEOUT_MS = 5000
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

"""The plan of a session's statement by the server's estimates alone: it is never run."""

import re
from collections.abc import Mapping
from contextlib import closing
from typing import Any

from spillcast.engines.postgres.connection import EXPLAINER, open_session
from spillcast.errors import InputError

#: Longer than any plan takes.
TIMEOUT_MS = 5000
#: What may be explained: one statement that only reads.
_READS = re.compile(r"\s*(?:--[^\n]*\n\s*)*(?:select|with|values|table)\b", re.IGNORECASE)
_PARAMETER = re.compile(r"\$\d")
_GENERIC_SINCE = 160000
#: Of a node, what tells its temp bytes; the rest may hold literals of the statement.
_KEPT = ("Node Type", "Strategy", "Plan Rows", "Plan Width", "Workers Planned")


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

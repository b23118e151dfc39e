"""Gets the plan and the earlier calls of a running query; summarises a plan."""

import re
from collections.abc import Mapping
from contextlib import closing, suppress
from typing import Any

from spillcast.engines.postgres import EXPLAINER, STATEMENTS_SCHEMA, may_be_cut, open_session
from spillcast.errors import InputError
from spillcast.evidence.postgres.nodes import nodes_of
from spillcast.evidence.postgres.statements import MAINTENANCE, PER_GATHER
from spillcast.recording.meta import PLAN_FILE


def plan_summary(plan: list[dict[str, Any]]) -> dict[str, Any]:
    """The summary of a plan for meta.json: times, temp blocks (8 KiB), nodes that spill.

    Times of temp I/O are sums over all processes; None if the server did not time them.
    """
    document, root = plan[0], plan[0]["Plan"]
    nodes = list(nodes_of(root).walk())
    return {
        "file": PLAN_FILE,
        "planning_s": _seconds(document.get("Planning Time")),
        "execution_s": _seconds(document.get("Execution Time")),
        "temp_read_blocks": root.get("Temp Read Blocks"),
        "temp_written_blocks": root.get("Temp Written Blocks"),
        "temp_read_s": _seconds(root.get("Temp I/O Read Time")),
        "temp_write_s": _seconds(root.get("Temp I/O Write Time")),
        "workers_planned": sum(node.values.get("Workers Planned", 0) for node in nodes),
        "workers_launched": sum(node.values.get("Workers Launched", 0) for node in nodes),
        "spills": [
            {
                "node": node.kind,
                "temp_read_blocks": node.temp.read,
                "temp_written_blocks": node.temp.written,
                **{name: node.values[key] for key, name in _DETAILS.items() if key in node.values},
            }
            for node in nodes
            if node.temp.blocks
        ],
    }


_DETAILS = {
    "Hash Batches": "batches",
    "Original Hash Batches": "batches_planned",
    "Peak Memory Usage": "memory_kib",
    "Sort Method": "sort_method",
    "Sort Space Used": "sort_space_kib",
    "HashAgg Batches": "batches",
    "Disk Usage": "disk_kib",
}


def _seconds(milliseconds: float | None) -> float | None:
    return None if milliseconds is None else milliseconds / 1e3


#: The timeout of each query for a plan or for counts.
TIMEOUT_MS = 5000
#: The start of a statement that only reads; other statements are not explained.
_READS = re.compile(r"\s*(?:--[^\n]*\n\s*)*(?:select|with|values|table)\b", re.IGNORECASE)
_PARAMETER = re.compile(r"\$\d")
_GENERIC_SINCE = 160000
#: Keys of a node that determine its temp bytes; others may contain literals of the statement.
_SIZE_KEYS = ("Node Type", "Strategy", "Plan Rows", "Plan Width", "Workers Planned")
#: Only top-level calls: for a call in a function, a session shows the outer statement.
_CALLS_BY_USER = (
    "select to_jsonb(s) - 'query' || (select jsonb_object_agg(name, setting) from pg_settings "
    "where name = any(%s)) "
    "from {}.pg_stat_statements s "
    "join pg_database d on d.oid = s.dbid and d.datname = %s "
    "where s.queryid = %s and s.toplevel and s.calls > 0"
)
#: The first version that shows the identifier of a session's statement.
_QUERYID_SINCE = 140000
MAYBE_CANCELLED = (
    "the query may have been cancelled: a transaction of its database was rolled back meanwhile, "
    "and pg_stat_statements has no earlier call of it to compare with"
)


def estimate(
    dsn: str, database: str | None, statement: str, settings: Mapping[str, str]
) -> dict[str, Any]:
    """Plans a running ``statement`` again: the plan without conditions, empty if there is none.

    A new session plans it in a read-only transaction, with the ``settings`` with which the other
    session started. Settings that the other session has changed since are not visible.
    """
    import psycopg
    from psycopg.conninfo import make_conninfo

    text = statement.strip().rstrip(";")
    # U+FFFD replaces bytes of a database in another encoding.
    if not _READS.match(text) or ";" in text or "\ufffd" in text:
        return {}
    if database is not None:
        dsn = make_conninfo(dsn, dbname=database)
    with suppress(InputError, psycopg.Error), closing(open_session(dsn, EXPLAINER)) as session:
        generic = _PARAMETER.search(text) is not None
        if may_be_cut(session, statement) or (
            generic and session.info.server_version < _GENERIC_SINCE
        ):
            return {}
        options = "settings, format json" + (", generic_plan" if generic else "")
        with session.transaction(force_rollback=True):
            session.execute("set transaction read only")
            session.execute(f"set local statement_timeout = {TIMEOUT_MS}")
            for name in {"work_mem", "hash_mem_multiplier"} & settings.keys():
                session.execute("select set_config(%s, %s, true)", (name, settings[name]))
            record = session.execute(f"explain ({options}) {text}".encode()).fetchone()
        assert record is not None
        [document] = record[0]
        return {"Plan": _sizes_of(document["Plan"]), "Settings": document.get("Settings", {})}
    return {}


def _sizes_of(node: Mapping[str, Any]) -> dict[str, Any]:
    """A node and its descendants, each reduced to ``_SIZE_KEYS``."""
    sizes = {name: node[name] for name in _SIZE_KEYS if name in node}
    if children := node.get("Plans"):
        sizes["Plans"] = [_sizes_of(child) for child in children]
    return sizes


def previous_calls(dsn: str, database: str, queryid: str) -> list[dict[str, Any]]:
    """A row of pg_stat_statements for each user, with the settings that limit parallel workers.

    pg_stat_statements counts the statements of all databases, but may be installed in only one:
    the DSN's database is queried first, then ``database``, that of the statement. Empty if the
    server counts nothing or the role may not see it.
    """
    import psycopg
    from psycopg.conninfo import make_conninfo
    from psycopg.sql import SQL, Identifier

    for address in (dsn, make_conninfo(dsn, dbname=database)):
        with (
            suppress(InputError, psycopg.Error),
            closing(open_session(address, EXPLAINER)) as session,
        ):
            if session.info.server_version < _QUERYID_SINCE:
                return []
            session.execute(f"set statement_timeout = {TIMEOUT_MS}")
            if (schema := session.execute(STATEMENTS_SCHEMA).fetchone()) is not None:
                query = SQL(_CALLS_BY_USER).format(Identifier(schema[0]))
                values = [[PER_GATHER, MAINTENANCE], database, int(queryid)]
                return [document for (document,) in session.execute(query, values)]
    return []

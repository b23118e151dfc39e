"""Runs a statement under EXPLAIN; gets the plan and the earlier calls of a running query."""

import re
import threading
import time
from collections.abc import Callable, Mapping
from contextlib import closing, suppress
from typing import Any

from spillcast.engines.postgres import (
    EXPLAINER,
    STATEMENTS_SCHEMA,
    Connection,
    check_text,
    may_be_cut,
    open_session,
    refused,
    server_message,
    shown_name,
)
from spillcast.errors import InputError, SpillcastError, StatementFailed, StatementRejected
from spillcast.evidence.postgres.nodes import nodes_of
from spillcast.evidence.postgres.statements import MAINTENANCE, PER_GATHER
from spillcast.recording.meta import PLAN_FILE
from spillcast.redaction import masked_document

CANCEL_S = 10.0
_EXPLAIN = "explain (analyze, buffers, timing {timing}, format json) "


class Explained:
    """A statement that ``start`` runs under EXPLAIN in a new session, and rolls back."""

    def __init__(
        self,
        dsn: str,
        statement: str,
        settings: Mapping[str, str],
        notify: Callable[[str], None],
        *,
        timed: bool = True,
    ) -> None:
        check_text("--explain", statement)
        for name, value in settings.items():
            check_text("--set", f"{name}={value}")
        self.statement = statement
        self._explain = _EXPLAIN.format(timing="on" if timed else "off")
        self.plan: Any = None
        #: Wall time of the statement by the local clock; None until it has ended.
        self.elapsed_s: float | None = None
        #: When it started (CLOCK_MONOTONIC); None before.
        self.started_ns: int | None = None
        self.connection: Connection = open_session(dsn, EXPLAINER)
        self.pid = self.connection.info.backend_pid
        self._failure: SpillcastError | None = None
        #: Whether ``close`` cancelled it, not a timeout or another session.
        self._cancelled = False
        self._thread = threading.Thread(target=self._run, name="spillcast-explain", daemon=True)
        try:
            _prepare(self.connection, settings, notify)
        except BaseException:
            self.connection.close()
            raise

    def start(self) -> None:
        """Starts the statement."""
        self._thread.start()

    def wait(self, timeout_s: float) -> bool:
        """Waits until it ends or the timeout expires; True if it has ended."""
        self._thread.join(timeout_s)
        return not self._thread.is_alive()

    def finish(self) -> None:
        """Cancels the statement if it still runs. Raises the server's error."""
        self.close()
        if self._failure is not None:
            raise self._failure

    def close(self) -> None:
        """Ends the statement and the session."""
        import psycopg

        if self._thread.is_alive():
            self._cancelled = True
            with suppress(psycopg.Error):
                self.connection.cancel_safe(timeout=CANCEL_S)
            self._thread.join()
        self.connection.close()

    def _run(self) -> None:
        import psycopg

        self.started_ns = time.monotonic_ns()
        try:
            # Rolls back the statement's changes; a binary result prevents a second statement.
            with self.connection.transaction(force_rollback=True):
                text = (self._explain + self.statement).encode()
                cursor = self.connection.execute(text, binary=True)
                self.plan = masked_document(cursor.fetchall()[0][0])
        except psycopg.errors.QueryCanceled as error:
            if not self._cancelled:
                hint = "against a timeout: --set statement_timeout=0"
                self._failure = StatementFailed(f"--explain: {server_message(error)}", hint)
        except psycopg.OperationalError as error:
            self._failure = StatementFailed(f"--explain: {server_message(error)}")
        except psycopg.Error as error:
            self._failure = StatementRejected(f"--explain: {server_message(error)}")
        finally:
            self.elapsed_s = (time.monotonic_ns() - self.started_ns) / 1e9


def _prepare(
    connection: Connection, settings: Mapping[str, str], notify: Callable[[str], None]
) -> None:
    """Changes the session's settings. InputError names a setting that the server refuses."""
    import psycopg

    for name, value in settings.items():
        with refused(StatementRejected, f"--set {name}={value}"):
            connection.execute("select set_config(%s, %s, false)", [name, value])
    if connection.info.server_version >= 140_000:
        # With this, the server ends the statement if spillcast is killed.
        connection.execute("set client_connection_check_interval = '1s'")
    try:
        connection.execute("set track_io_timing = on")
    except psycopg.Error as error:
        notify(f"the plan may have no I/O times: {server_message(error)}")
        if connection.info.server_version >= 150_000:
            user = shown_name(connection.info.user)
            notify(f"  as a superuser: grant set on parameter track_io_timing to {user}")


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

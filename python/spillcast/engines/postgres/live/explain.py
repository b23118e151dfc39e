"""EXPLAIN (ANALYZE, BUFFERS) in a session of ours: run while it is recorded, its plan kept."""

import contextlib
import threading
import time
from collections.abc import Callable, Iterator, Mapping
from typing import Any

from spillcast.engines.postgres.connection import (
    EXPLAINER,
    Connection,
    check_text,
    open_session,
    server_message,
)
from spillcast.errors import SpillcastError, StatementFailed, StatementRejected
from spillcast.redaction import struck_document

#: The file of the plan in a recording's folder.
PLAN_FILE = "plan.json"
CANCEL_S = 10.0
_EXPLAIN = "explain (analyze, buffers, timing {timing}, format json) "


class Explained:
    """A statement that runs under EXPLAIN once ``start`` is called, and is undone afterwards."""

    def __init__(
        self,
        dsn: str,
        statement: str,
        settings: Mapping[str, str],
        say: Callable[[str], None],
        *,
        timed: bool = True,
    ) -> None:
        check_text("--explain", statement)
        for name, value in settings.items():
            check_text("--set", f"{name}={value}")
        self.statement = statement
        self._explain = _EXPLAIN.format(timing="on" if timed else "off")
        self.plan: Any = None
        #: Wall time of the statement by our clock; None until it has ended well.
        self.elapsed_s: float | None = None
        #: When it began (CLOCK_MONOTONIC); None until it has.
        self.started_ns: int | None = None
        self.connection: Connection = open_session(dsn, EXPLAINER)
        self.pid = self.connection.info.backend_pid
        self._failure: SpillcastError | None = None
        #: Whether it was cancelled by us, not by a timeout or by somebody else.
        self._cancelled = False
        self._thread = threading.Thread(target=self._run, name="spillcast-explain", daemon=True)
        try:
            _prepare(self.connection, settings, say)
        except BaseException:
            self.connection.close()
            raise

    def start(self) -> None:
        """Let the statement run."""
        self._thread.start()

    def wait(self, timeout_s: float) -> bool:
        """Sleep until it has ended or the time is over; True when it has ended."""
        self._thread.join(timeout_s)
        return not self._thread.is_alive()

    def finish(self) -> None:
        """Cancel the statement if it still runs. Raises the server's error."""
        self.close()
        if self._failure is not None:
            raise self._failure

    def close(self) -> None:
        """End statement and session."""
        import psycopg

        if self._thread.is_alive():
            self._cancelled = True
            with contextlib.suppress(psycopg.Error):
                self.connection.cancel_safe(timeout=CANCEL_S)
            self._thread.join()
        self.connection.close()

    def _run(self) -> None:
        import psycopg

        self.started_ns = time.monotonic_ns()
        try:
            # Whatever the statement changes is taken back; binary forbids a second statement.
            with self.connection.transaction(force_rollback=True):
                text = (self._explain + self.statement).encode()
                cursor = self.connection.execute(text, binary=True)
                self.plan = struck_document(cursor.fetchall()[0][0])
            self.elapsed_s = (time.monotonic_ns() - self.started_ns) / 1e9
        except psycopg.errors.QueryCanceled as error:
            if not self._cancelled:
                hint = "against a timeout: --set statement_timeout=0"
                self._failure = StatementFailed(f"--explain: {server_message(error)}", hint)
        except psycopg.OperationalError as error:
            self._failure = StatementFailed(f"--explain: {server_message(error)}")
        except psycopg.Error as error:
            self._failure = StatementRejected(f"--explain: {server_message(error)}")


def _prepare(
    connection: Connection, settings: Mapping[str, str], say: Callable[[str], None]
) -> None:
    """The session's settings. InputError names the one that the server refuses."""
    import psycopg

    for name, value in settings.items():
        try:
            connection.execute("select set_config(%s, %s, false)", [name, value])
        except psycopg.Error as error:
            raise StatementRejected(f"--set {name}={value}: {server_message(error)}") from None
    if connection.info.server_version >= 140_000:
        # If spillcast is killed, the server notices and ends the statement.
        connection.execute("set client_connection_check_interval = '1s'")
    try:
        connection.execute("set track_io_timing = on")
    except psycopg.Error as error:
        say(f"the plan may have no I/O times: {server_message(error)}")


def plan_summary(plan: list[dict[str, Any]]) -> dict[str, Any]:
    """The account of a plan for meta.json: times, temp blocks (8 KiB), nodes that spill.

    ``temp_read_s`` and ``temp_write_s`` are summed over all processes, null where the server did
    not time them.
    """
    whole, root = plan[0], plan[0]["Plan"]
    nodes = list(_nodes(root))
    blocks = [_blocks_without_children(node) for node in nodes]
    return {
        "file": PLAN_FILE,
        "planning_s": _seconds(whole.get("Planning Time")),
        "execution_s": _seconds(whole.get("Execution Time")),
        "temp_read_blocks": root.get("Temp Read Blocks"),
        "temp_written_blocks": root.get("Temp Written Blocks"),
        "temp_read_s": _seconds(root.get("Temp I/O Read Time")),
        "temp_write_s": _seconds(root.get("Temp I/O Write Time")),
        "workers_planned": sum(node.get("Workers Planned", 0) for node in nodes),
        "workers_launched": sum(node.get("Workers Launched", 0) for node in nodes),
        "spills": [
            {
                "node": node["Node Type"],
                "temp_read_blocks": read,
                "temp_written_blocks": written,
                **{name: node[key] for key, name in _DETAILS.items() if key in node},
            }
            for node, (read, written) in zip(nodes, blocks, strict=True)
            if read or written
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


def _nodes(node: dict[str, Any]) -> Iterator[dict[str, Any]]:
    yield node
    for child in node.get("Plans", ()):
        yield from _nodes(child)


def _blocks_without_children(node: dict[str, Any]) -> list[int]:
    """Blocks read and written by the node alone, for the plan shows them with those below."""
    return [
        int(node.get(key, 0) - sum(child.get(key, 0) for child in node.get("Plans", ())))
        for key in ("Temp Read Blocks", "Temp Written Blocks")
    ]


def _seconds(milliseconds: float | None) -> float | None:
    return None if milliseconds is None else milliseconds / 1e3

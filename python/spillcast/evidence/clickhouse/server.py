"""The query log of a ClickHouse server, read over HTTP with SELECT alone."""

import json
import os
import re
from dataclasses import dataclass
from http.client import HTTPException
from pathlib import Path
from typing import Any
from urllib.error import HTTPError
from urllib.parse import quote, unquote, urlencode, urlsplit
from urllib.request import ProxyHandler, Request, build_opener

from spillcast.errors import InputError, OptionInvalid, ServerUnreachable, ServerUnsuited
from spillcast.evidence.clickhouse import SPILL_EVENTS, SPILLS, LoggedQuery, logged_query
from spillcast.redaction import struck_text

PASSWORD_VARIABLE = "CLICKHOUSE_PASSWORD"
_DSN = "give http://USER@HOST:8123, with the password in CLICKHOUSE_PASSWORD"
_PORTS = {"http": 8123, "https": 8443}
_TIMEOUT_S = 30
#: Queries that are read, the latest first.
QUERIES_MAX = 50_000
_COLUMNS = (
    *("type", "query_id", "query", "normalized_query_hash", "query_duration_ms", "memory_usage"),
    *("query_start_time", "Settings", "thread_ids", "peak_threads_usage", "hostname"),
    *("is_initial_query", "clickhouse_version"),
)
#: By the code of an exception: what is wrong, and what lets it work.
_CODES = {
    "46": ("its version has no clusterAllReplicas", "rank each server by itself"),
    "60": ("it has no system.query_log", "enable query_log in the server's configuration and set "
           "log_queries = 1"),
    "497": ("the role may not read system.query_log", "GRANT SELECT ON system.query_log TO the "
            "role, and SELECT ON system.columns"),
    "516": ("it refuses the user or the password", f"set {PASSWORD_VARIABLE}"),
    "192": ("it does not know the user", _DSN),
    "193": ("it refuses the password", f"set {PASSWORD_VARIABLE}"),
    "170": ("it does not know the cluster", "SELECT cluster FROM system.clusters lists them"),
}  # fmt: skip


@dataclass(frozen=True)
class LoggedWindow:
    """Queries that spilled in a time, and what all queries of that time took."""

    source: str
    spilling: list[LoggedQuery]
    statements: int
    elapsed_s: float
    window_s: float


class Server:
    """A server by its DSN; the password is neither shown nor stored."""

    def __init__(self, dsn: str) -> None:
        parts = urlsplit(dsn)
        try:
            port = parts.port
        except ValueError:
            raise OptionInvalid(f"{struck_text(dsn)}: the port is no number", _DSN) from None
        if parts.scheme not in _PORTS or not parts.hostname:
            raise OptionInvalid(f"{struck_text(dsn)} is not the address of a server", _DSN)
        host = f"[{parts.hostname}]" if ":" in parts.hostname else parts.hostname
        self._url = f"{parts.scheme}://{host}:{port or _PORTS[parts.scheme]}/"
        user = unquote(parts.username or "default")
        password = unquote(parts.password or "") or os.environ.get(PASSWORD_VARIABLE, "")
        self._headers = {"X-ClickHouse-User": user, "X-ClickHouse-Key": password}
        self.shown = f"{parts.scheme}://{quote(user)}@{self._url.partition('//')[2]}"
        # A proxy would see the password.
        self._opener = build_opener(ProxyHandler({}))

    def rows(self, sql: str) -> list[dict[str, Any]]:
        """The rows of a query, by GET, with which a server allows no change. InputError."""
        query = urlencode({"query": f"{sql} FORMAT JSONEachRow", "max_execution_time": _TIMEOUT_S})
        request = Request(f"{self._url}?{query}", headers=self._headers)
        try:
            with self._opener.open(request, timeout=_TIMEOUT_S) as answer:
                return [json.loads(line) for line in answer]
        except HTTPError as error:
            raise self._refused(error.read().decode(errors="replace")) from None
        except (OSError, HTTPException, ValueError) as error:
            reason = getattr(error, "reason", None) or error
            raise ServerUnreachable(f"{self.shown}: {reason}", _DSN) from None

    def _refused(self, text: str) -> InputError:
        code = re.search(r"Code: (\d+)", text)
        problem, hint = _CODES.get(code[1] if code else "", (struck_text(text.strip()[:200]), None))
        return ServerUnsuited(f"{self.shown}: {problem}", hint)


def logged_window(dsn: str, window_s: float, cluster: str | None) -> LoggedWindow:
    """What the log of a server, or of all replicas of a cluster, has of the time up to now."""
    server = Server(dsn)
    columns = {
        row["name"]
        for row in server.rows(
            "SELECT name FROM system.columns WHERE database = 'system' AND table = 'query_log'"
        )
    }
    if not columns:
        raise server._refused("Code: 60")
    log = "system.query_log"
    if cluster is not None:
        name = cluster.replace("\\", "\\\\").replace("'", "\\'")
        log = f"clusterAllReplicas('{name}', system.query_log)"
    where = (
        f"FROM {log} WHERE toString(type) IN ('QueryFinish', '2') AND event_date >= "
        f"toDate(now() - {window_s:.0f}) AND event_time >= now() - {window_s:.0f}"
    )
    form = "ProfileEvents['{}']"
    if "ProfileEvents" not in columns:
        form = "ProfileEvents.Values[indexOf(ProfileEvents.Names, '{}')]"
    events = ", ".join(f"{form.format(name)} AS {name}" for name in SPILL_EVENTS)
    spills = " + ".join(form.format(f"External{kind}WritePart") for kind in SPILLS)
    known = ", ".join(name for name in _COLUMNS if name in columns)
    rows = server.rows(
        f"SELECT {known}, {events} {where} AND {spills} > 0 "
        f"ORDER BY event_time DESC LIMIT {QUERIES_MAX}"
    )
    key = "normalized_query_hash" if "normalized_query_hash" in columns else "query"
    [sums] = server.rows(
        f"SELECT uniq({key}) AS statements, sum(query_duration_ms) / 1000 AS elapsed_s {where}"
    )
    place = Path("system.query_log")
    return LoggedWindow(
        server.shown,
        [logged_query(row, item, place) for item, row in enumerate(rows, 1)],
        int(sums["statements"]),
        float(sums["elapsed_s"]),
        window_s,
    )

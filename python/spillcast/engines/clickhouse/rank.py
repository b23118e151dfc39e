"""Ranks the statements that spill, from the query log of a ClickHouse server or an export of it."""

import json
import os
import re
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from http.client import HTTPException
from pathlib import Path
from statistics import fmean
from typing import Any
from urllib.error import HTTPError
from urllib.parse import quote, unquote, urlencode, urlsplit
from urllib.request import HTTPRedirectHandler, ProxyHandler, Request, build_opener

from spillcast.engines.ranking import (
    FORECAST_MAX,
    Ranked,
    RankRequest,
    ServerRanking,
    temp_bounds_s,
    with_gains,
)
from spillcast.errors import (
    InputError,
    OptionConflict,
    OptionInvalid,
    PathMissing,
    Refusal,
    ServerUnreachable,
    ServerUnsuited,
)
from spillcast.evidence.clickhouse import (
    HINT,
    SPILL_EVENTS,
    SPILLS,
    LoggedQuery,
    counts_of_query,
    logged_query,
    no_spill_bytes,
    read_rows,
    settings_that_spill,
    spilled_bytes,
)
from spillcast.evidence.recognise import refuse_other_kinds
from spillcast.evidence.selection import Selection
from spillcast.fleet.snapshots import Unseen
from spillcast.forecast.workload.counted import with_origin
from spillcast.gate import reading
from spillcast.redaction import masked_text
from spillcast.units import DAY_S

RECORD = "spillcast record --pid $(pidof -s clickhouse-server) -o run.spill"
_CONSTANT = re.compile(r"'(?>[^'\\]|\\.|'')*+'?|\b\d+(?:\.\d+)?\b", re.DOTALL)
_PASSWORD = "CLICKHOUSE_PASSWORD"
_DSN = "give http://USER@HOST:8123, with the password in CLICKHOUSE_PASSWORD"
_PORTS = {"http": 8123, "https": 8443}
_TIMEOUT_S = 30
#: The maximum number of queries that are read, latest first.
_QUERIES_MAX = 50_000
_COLUMNS = (
    *("type", "query_id", "query", "normalized_query_hash", "query_duration_ms", "memory_usage"),
    *("query_start_time", "Settings", "thread_ids", "peak_threads_usage", "hostname"),
    *("is_initial_query", "clickhouse_version"),
)
#: The cause and the remedy by code of an exception.
_CODES = {
    "46": ("its version has no clusterAllReplicas", "rank each server by itself"),
    "60": ("it has no system.query_log", "enable query_log in the server's configuration and set "
           "log_queries = 1"),
    "497": ("the role may not read system.query_log", "GRANT SELECT ON system.query_log TO the "
            "role, and SELECT ON system.columns"),
    "516": ("it refuses the user or the password", f"set {_PASSWORD}"),
    "192": ("it does not know the user", _DSN),
    "193": ("it refuses the password", f"set {_PASSWORD}"),
    "170": ("it does not know the cluster", "SELECT cluster FROM system.clusters lists them"),
}  # fmt: skip


@dataclass(frozen=True)
class _LoggedWindow:
    """The queries that spilled in a window, and the time of all queries in it."""

    source: str
    spilling: list[LoggedQuery]
    statements: int
    elapsed_s: float
    window_s: float


def rank_clickhouse(
    source: str, request: RankRequest, *, since_s: float | None = None, cluster: str | None = None
) -> ServerRanking:
    """Ranks the statements that spill on a server, or in a file of rows of system.query_log."""
    if "://" in source:
        log = _logged_window(source, since_s or DAY_S, cluster)
    elif (since_s, cluster) != (None, None):
        raise OptionConflict("--since and --cluster need a server, not an export of its log")
    else:
        log = _exported(Path(source))
    by_statement: dict[str, list[LoggedQuery]] = {}
    for query in log.spilling:
        by_statement.setdefault(_statement(query), []).append(query)
    all_calls = sorted(by_statement.values(), key=lambda calls: -sum(map(spilled_bytes, calls)))
    ranked = [
        (_ranked(calls, request, is_forecast=at < FORECAST_MAX), settings_that_spill(calls[0]))
        for at, calls in enumerate(all_calls)
    ]
    ranked.sort(key=lambda pair: pair[0].weight, reverse=True)
    return ServerRanking(
        source=log.source,
        window_s=log.window_s or None,
        statements=[statement for statement, _ in ranked],
        targets=request.targets,
        confidence=request.confidence,
        statements_seen=log.statements,
        elapsed_s=log.elapsed_s,
        memory=" and ".join(ranked[0][1]) if ranked else "memory",
        unseen=_unseen(log),
        record=RECORD if ranked else None,
    )


class _NoRedirects(HTTPRedirectHandler):
    """Follows no redirect: urllib would send the headers with the password to another host."""

    def redirect_request(self, *_: Any) -> None:
        """Leaves the redirect as an error."""


class _Client:
    """Queries the server of a DSN; the password is neither shown nor stored."""

    def __init__(self, dsn: str) -> None:
        try:
            parts = urlsplit(dsn)
            port = parts.port
        except ValueError:
            raise OptionInvalid(f"{masked_text(dsn)}: the host or port is invalid", _DSN) from None
        if parts.scheme not in _PORTS or not parts.hostname:
            raise OptionInvalid(f"{masked_text(dsn)} is not the address of a server", _DSN)
        host = f"[{parts.hostname}]" if ":" in parts.hostname else parts.hostname
        self._url = f"{parts.scheme}://{host}:{port or _PORTS[parts.scheme]}/"
        user = unquote(parts.username or "default")
        password = unquote(parts.password or "") or os.environ.get(_PASSWORD, "")
        self._headers = {"X-ClickHouse-User": user, "X-ClickHouse-Key": password}
        self.shown = f"{parts.scheme}://{quote(user)}@{self._url.partition('//')[2]}"
        # A proxy would see the password.
        self._opener = build_opener(ProxyHandler({}), _NoRedirects)

    def rows(self, sql: str) -> list[dict[str, Any]]:
        """The rows of a query, sent by GET, so that the server allows no change. InputError."""
        query = urlencode({"query": f"{sql} FORMAT JSONEachRow", "max_execution_time": _TIMEOUT_S})
        request = Request(f"{self._url}?{query}", headers=self._headers)
        try:
            with self._opener.open(request, timeout=_TIMEOUT_S) as answer:
                # Texts of queries may be in any encoding.
                lines = [line.decode(errors="replace") for line in answer]
        except HTTPError as error:
            if other := error.headers["Location"]:
                text = f"it redirects to {masked_text(other.partition('?')[0])}"
                raise ServerUnsuited(
                    text, "give the address of the server itself", self.shown
                ) from None
            raise self.error(error.read().decode(errors="replace")) from None
        except (OSError, HTTPException, ValueError) as error:
            reason = getattr(error, "reason", None) or error
            raise ServerUnreachable(str(reason), _DSN, self.shown) from None
        rows = list[dict[str, Any]]()
        for at, line in enumerate(lines):
            with suppress(ValueError):
                rows.append(json.loads(line))
            # If a query fails after its first rows, the error follows them, as text or as a row.
            if len(rows) == at or "exception" in rows[at]:
                raise self.error("".join(lines[at:]))
        return rows

    def error(self, text: str) -> InputError:
        """The error for a message of the server, with a remedy if its code is known."""
        code = re.search(r"Code: (\d+)", text)
        text = text[code.start() if code else 0 :].strip()
        problem, hint = _CODES.get(code[1] if code else "", (masked_text(text[:200]), None))
        return ServerUnsuited(f"{self.shown}: {problem}", hint)


def _logged_window(dsn: str, window_s: float, cluster: str | None) -> _LoggedWindow:
    """The queries of the last ``window_s`` on a server, or on all replicas of a cluster."""
    server = _Client(dsn)
    columns = {
        row["name"]
        for row in server.rows(
            "SELECT name FROM system.columns WHERE database = 'system' AND table = 'query_log'"
        )
    }
    if not columns:
        raise server.error("Code: 60")
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
    present = ", ".join(name for name in _COLUMNS if name in columns)
    rows = server.rows(
        f"SELECT {present}, {events} {where} AND {spills} > 0 "
        f"ORDER BY event_time DESC LIMIT {_QUERIES_MAX}"
    )
    key = "normalized_query_hash" if "normalized_query_hash" in columns else "query"
    [sums] = server.rows(
        f"SELECT uniq({key}) AS statements, sum(query_duration_ms) / 1000 AS elapsed_s {where}"
    )
    with reading("system.query_log"):
        queries = [logged_query(row, item) for item, row in enumerate(rows, 1)]
    return _LoggedWindow(
        server.shown, queries, int(sums["statements"]), float(sums["elapsed_s"]), window_s
    )


def _exported(path: Path) -> _LoggedWindow:
    if path.is_dir() or not path.exists():
        hint = f"{_DSN}, or a file of rows of system.query_log"
        raise PathMissing("is neither a server nor a file", hint, str(path))
    with reading(path, HINT):
        refuse_other_kinds(path, "export of system.query_log", "clickhouse.read")
        queries = read_rows(path)
    starts = [query.started_s for query in queries if query.started_s is not None]
    ends = [query.started_s + query.elapsed_s for query in queries if query.started_s is not None]
    return _LoggedWindow(
        masked_text(str(path)),
        [query for query in queries if spilled_bytes(query)],
        len(set(map(_statement, queries))),
        sum(query.elapsed_s for query in queries),
        max(ends) - min(starts) if starts else 0.0,
    )


def _statement(query: LoggedQuery) -> str:
    """A key that is equal for queries that differ only in constants."""
    # Versions before 20.7 log no hash.
    return query.normalized_hash or _CONSTANT.sub("?", query.query or "")


def _ranked(calls: Sequence[LoggedQuery], request: RankRequest, *, is_forecast: bool) -> Ranked:
    """A statement in the ranking; its forecast is that of the mean call."""
    number = len(calls)
    needed = [bounds for call in calls if (bounds := no_spill_bytes(call)) is not None]
    ranked = Ranked(
        queryid=calls[0].normalized_hash,
        query=calls[0].query,
        calls=number,
        elapsed_s=sum(call.elapsed_s for call in calls),
        temp_bytes=sum(map(spilled_bytes, calls)),
        memory_between=(max(low for low, _ in needed), max(high for _, high in needed))
        if needed
        else None,
    )
    if not is_forecast:
        text = f"only the {FORECAST_MAX} with the most temp bytes are forecast"
        return replace(ranked, refused=text)
    names = {name for call in calls for name in call.events}
    mean = replace(
        max(calls, key=lambda call: call.elapsed_s),
        elapsed_s=fmean(call.elapsed_s for call in calls),
        events={name: round(fmean(call.event(name) for call in calls)) for name in names},
    )
    try:
        selection = Selection(timed=request.origin is None)
        counts = with_origin(counts_of_query(mean, selection), request)
        ends = counts.at_bounds() or [counts]
        temp_s = temp_bounds_s(ends, number)
        ranked = replace(ranked, temp_bytes=number * counts.bytes, temp_s=temp_s)
        return with_gains(ranked, ends, number, request)
    except (InputError, Refusal) as error:
        return replace(ranked, refused=error.message)


def _unseen(log: _LoggedWindow) -> list[Unseen]:
    notes = []
    if parts := [query for query in log.spilling if not query.is_initial]:
        distributed = (
            f"{len(parts):,} queries are parts of distributed ones: they run at the same time, so "
            "their savings do not add up"
        )
        notes.append(Unseen("distributed", distributed))
    if len(log.spilling) == _QUERIES_MAX:
        latest = f"earlier queries: the latest {_QUERIES_MAX:,} are read; shorten --since"
        notes.append(Unseen("earlier", latest))
    return notes

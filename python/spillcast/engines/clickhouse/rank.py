"""Ranks the statements that spill, by the query log of a server or by an export of it."""

import re
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from statistics import fmean

from spillcast.engines.ranking import (
    FORECAST_MAX,
    Ranked,
    RankRequest,
    ServerRanking,
    request_of,
    timed_counts,
    with_gains,
)
from spillcast.errors import InputError, OptionConflict, Refusal
from spillcast.evidence.choice import Selection
from spillcast.evidence.clickhouse import (
    LoggedQuery,
    counts_of_query,
    no_spill_bytes,
    read_rows,
    settings_that_spill,
    spilled_bytes,
)
from spillcast.evidence.clickhouse.server import QUERIES_MAX, LoggedWindow, logged_window
from spillcast.redaction import struck_text

RECORD = "spillcast record --pid $(pidof -s clickhouse-server) -o run.spill"
_PLACE = Path("system.query_log")
_CONSTANT = re.compile(r"'(?:[^'\\]|\\.|'')*'|\b\d+(?:\.\d+)?\b")


def rank_clickhouse(
    source: str,
    targets: Sequence[str],
    *,
    since_s: float | None = None,
    cluster: str | None = None,
    origin: str | None = None,
    confidence: float = 0.9,
) -> ServerRanking:
    """Rank what spills on a server, by DSN, or in a file of rows of system.query_log."""
    request = request_of(targets, origin, confidence)
    if "://" in source:
        log = logged_window(source, since_s or 86_400.0, cluster)
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
        targets=targets,
        confidence=confidence,
        statements_seen=log.statements,
        elapsed_s=log.elapsed_s,
        memory=" and ".join(ranked[0][1]) if ranked else "memory",
        unseen=_unseen(log),
        record=RECORD if ranked else None,
    )


def _exported(path: Path) -> LoggedWindow:
    queries = read_rows(path)
    starts = [query.started_s for query in queries if query.started_s is not None]
    ends = [query.started_s + query.elapsed_s for query in queries if query.started_s is not None]
    return LoggedWindow(
        struck_text(str(path)),
        [query for query in queries if spilled_bytes(query)],
        len(set(map(_statement, queries))),
        sum(query.elapsed_s for query in queries),
        max(ends) - min(starts) if starts else 0.0,
    )


def _statement(query: LoggedQuery) -> str:
    """What queries that differ in constants have in common; versions before 20.7 log no hash."""
    return query.normalized_hash or _CONSTANT.sub("?", query.query or "")


def _ranked(calls: Sequence[LoggedQuery], request: RankRequest, *, is_forecast: bool) -> Ranked:
    """A statement by the mean of its calls."""
    number = len(calls)
    needed = [bounds for call in calls if (bounds := no_spill_bytes(call)) is not None]
    ranked = Ranked(
        queryid=calls[0].normalized_hash,
        query=calls[0].query,
        calls=number,
        elapsed_s=sum(call.elapsed_s for call in calls),
        temp_bytes=sum(map(spilled_bytes, calls)),
        memory_between=max(needed, default=None),
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
        counts = timed_counts(counts_of_query(_PLACE, mean, selection), request)
        ends = counts.at_bounds() or [counts]
        shares_s = [number * end.total_s / end.processes for end in ends]
        ranked = replace(
            ranked,
            temp_bytes=number * counts.bytes,
            temp_s=(min(shares_s), max(shares_s)),
        )
        return with_gains(ranked, ends, number, request)
    except (InputError, Refusal) as error:
        return replace(ranked, refused=error.message.removeprefix(f"{_PLACE}: "))


def _unseen(log: LoggedWindow) -> list[str]:
    lines = []
    if parts := [query for query in log.spilling if not query.is_initial]:
        lines.append(
            f"{len(parts):,} queries are parts of distributed ones: they run at the same time, so "
            "their savings do not add up"
        )
    if len(log.spilling) == QUERIES_MAX:
        lines.append(f"earlier queries: the latest {QUERIES_MAX:,} are read; shorten --since")
    return lines

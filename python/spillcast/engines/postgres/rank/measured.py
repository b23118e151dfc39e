"""Measures how long a query of a server took, by pg_stat_statements or by its session."""

import re
import time
from contextlib import closing
from pathlib import Path

from spillcast.engines.activity import QueryLife, ServerClock
from spillcast.engines.engine import Say, SessionSelector, StatementSelector
from spillcast.engines.postgres.connection import (
    SAMPLER,
    Connection,
    check_text,
    may_be_cut,
    open_session,
    refused,
    row,
    shown_dsn,
)
from spillcast.engines.postgres.live.activity import LOOK_S, SESSION, ActivityQueries, find_session
from spillcast.engines.postgres.rank.snapshot import snapshot_since, take_snapshot
from spillcast.errors import OptionInvalid, SelectionEmpty, SessionEnded
from spillcast.evidence.postgres import CONSTANT
from spillcast.evidence.postgres.plan import Executed
from spillcast.evidence.postgres.statements import HOW, Row, ambiguous_rows, executed_row, merged
from spillcast.fleet.snapshots import Snapshot, between
from spillcast.gate import reading

#: The last word or constant of a text, which may be incomplete if the text is cut.
_LAST_WORD = re.compile(r"(?:'.*|(?<!\w)\w+)$", re.DOTALL)


def took_on_postgres(
    dsn: str, selector: StatementSelector, say: Say = lambda _text: None
) -> Executed:
    """The mean of the calls that the server counted, or a session's query when it has ended.

    InputError if the server does not answer, if it has counted no such statement or several, and
    if the session does not exist or is hidden from our role.
    """
    place = Path(shown_dsn(dsn))
    with closing(open_session(dsn, SAMPLER)) as connection:
        if selector.backend is not None:
            return _of_session(connection, selector.backend, place, say)
        return executed_row(_counted(connection, selector, place), place)


def pattern_of(query: str, *, cut: bool = False) -> str:
    """A pattern of the text of ``query`` in pg_stat_statements, for any constants.

    If ``query`` is ``cut``, the pattern is that of its beginning, up to the last whole word.
    """
    parts = CONSTANT.split(query.strip().rstrip("; \n"))
    if cut:
        parts[-1] = _LAST_WORD.sub("", parts[-1])
    words = (r"\s+".join(map(re.escape, re.split(r"\s+", part))) for part in parts)
    return rf"^\s*{'.+'.join(words)}" + ("" if cut else r"\s*;?\s*$")


def _counted(connection: Connection, selector: StatementSelector, place: Path) -> Row:
    """The row of the selected statement. InputError if none matches, or several."""
    pattern, queryid = selector.query, selector.queryid
    if pattern is not None:
        check_text("--query", pattern)
        hint = "it is a regular expression of PostgreSQL"
        with refused(OptionInvalid, f"--query '{pattern}'", hint):
            row(connection, "select '' ~* %s", pattern)
    elif selector.text is not None:
        pattern = pattern_of(selector.text, cut=may_be_cut(connection, selector.text))
    snapshot = take_snapshot(connection, queryid, pattern)
    if queryid is not None and pattern is not None and not _rows(snapshot, place):
        # The identifier may be of another server, or of another version.
        queryid = None
        snapshot = take_snapshot(connection, None, pattern)
    if selector.since is not None:
        snapshot = snapshot_since(
            selector.since, snapshot, lambda: take_snapshot(connection, queryid, pattern)
        )
    rows = _rows(snapshot, place)
    like = selector.queryid or f"like '{selector.query or selector.text}'"
    if not rows:
        hints = [reason for reason in snapshot.unseen if reason.startswith("statements")]
        hint = (hints or ["let it run there first; pg_monitor sees the statements of others"])[0]
        raise SelectionEmpty(f"{place}: has counted no statement {like}", hint)
    if len(rows) > 1:
        raise ambiguous_rows(place, rows, f"{len(rows):,} statements are {like}:")
    return rows[0]


def _of_session(connection: Connection, pid: int, place: Path, say: Say) -> Executed:
    """The session's query when it has ended: its times, and the temp I/O counted for this call."""
    find_session(connection, SessionSelector(backend=pid), say)
    say(f"waiting for the query of session {pid} to end; Ctrl-C ends it")
    queries = ActivityQueries(connection, SESSION, pid)
    clock = ServerClock()
    life = QueryLife(clock)
    before: Snapshot | None = None
    queryid: str | None = None
    while True:
        mine = next((session for session in clock.look(queries) if session.pid == pid), None)
        if life.see(mine) == "ended":
            break
        # The server shows a query's identifier a moment after the query.
        if mine is not None and life.phase == "running" and queryid is None:
            queryid = mine.query_id
            before = None if queryid is None else take_snapshot(connection, queryid)
        time.sleep(LOOK_S)
    if not life.elapsed_s:
        raise SessionEnded(f"session {pid} ended before a query of it was seen")
    rows = []
    if before is not None:
        rows = _rows(between(before, take_snapshot(connection, queryid)), place)
    if len(rows) == 1 and rows[0].calls == 1:
        return executed_row(rows[0], place, life.elapsed_s)
    say("pg_stat_statements has not counted this call alone: its temp I/O is not known")
    return Executed(life.elapsed_s, None)


def _rows(snapshot: Snapshot, place: Path) -> list[Row]:
    with reading(place, HOW):
        rows = merged(Row.of(row) for row in snapshot.rows if row.get("asked"))
    return sorted((row for row in rows if row.calls), key=lambda row: -row.elapsed_s)

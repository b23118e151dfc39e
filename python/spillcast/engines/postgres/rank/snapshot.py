"""Takes snapshots of a server's counts, for any version and role, and measures a query by them."""

import json
import os
import re
import time
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from contextlib import closing
from dataclasses import asdict, replace
from pathlib import Path
from socket import gethostname
from typing import Any

from spillcast.document import read
from spillcast.engines import Notify, SessionSelector, StatementSelector
from spillcast.engines.activity import QueryLife, ServerClock
from spillcast.engines.postgres import (
    SAMPLER,
    STATEMENTS_SCHEMA,
    VERSION_MIN,
    Connection,
    check_text,
    identifier,
    literal,
    may_be_cut,
    open_session,
    refused,
    row,
    server_message,
    shown_dsn,
    text_of_server,
)
from spillcast.engines.postgres.live.activity import (
    LOOK_S,
    SESSION,
    TEMP_FILES,
    ActivityQueries,
    find_session,
)
from spillcast.errors import (
    EvidenceDamaged,
    OptionInvalid,
    SelectionEmpty,
    ServerUnsuited,
    SessionEnded,
)
from spillcast.evidence.postgres import CONSTANT, MARK
from spillcast.evidence.postgres.columns import renamed
from spillcast.evidence.postgres.logs import Logs, logs_of
from spillcast.evidence.postgres.plan import Executed
from spillcast.evidence.postgres.statements import HINT as HINT_COUNTS
from spillcast.evidence.postgres.statements import (
    LOOKS_MIN,
    MAINTENANCE,
    PER_GATHER,
    StatementRow,
    ambiguous_rows,
    executed_row,
    merged,
)
from spillcast.evidence.text import text_of
from spillcast.fleet.snapshots import (
    NESTED,
    SNAPSHOT_SCHEMA,
    DatabaseSpill,
    LiveSession,
    Snapshot,
    Unseen,
    between,
)
from spillcast.gate import json_of, reading
from spillcast.recording.observed import proc_text
from spillcast.redaction import masked_text
from spillcast.units import parse_duration_s
from spillcast.workspace import whole_file

HINT = "make one with: spillcast postgres DSN --save snapshot.json"
_PROCESSES = (
    "processes of each statement, so intervals are wide: PostgreSQL 18 counts them, and "
    "--since 10m while they run or plans of auto_explain in --log show them"
)
#: A snapshot must not burden the server, and times must have one format in all snapshots.
_SESSION_SETTINGS = (
    "set statement_timeout = '10s'",
    "set default_transaction_read_only = on",
    "set timezone = 'UTC'",
)
_SETTINGS = (
    *(PER_GATHER, MAINTENANCE, "work_mem", "hash_mem_multiplier", "track_io_timing"),
    *("log_temp_files", "temp_tablespaces", "shared_preload_libraries"),
)
_NOT_OURS = f"position('{MARK}' in coalesce(s.query, '')) = 0"
_SPILLING = (
    "select row_to_json(s), asked from {schema}.pg_stat_statements s, "
    "coalesce(s.queryid::text = %s, s.query ~* %s, false) asked "
    f"where (s.temp_blks_read + s.temp_blks_written > 0 or asked) and {_NOT_OURS}"
)
_ALL = (
    f"select count(*), sum({{time}}) / 1e3 from {{schema}}.pg_stat_statements s where {_NOT_OURS}"
)
#: The column's name since version 13, or before; the old name remains until an extension update.
_TIME = (
    "select attname from pg_attribute where attrelid = {counts}::regclass "
    "and attname in ('total_exec_time', 'total_time')"
)
_RESET = (
    "select extract(epoch from stats_reset)::float8, dealloc from {schema}.pg_stat_statements_info"
)
_STARTED = (
    "select extract(epoch from pg_postmaster_start_time())::float8, "
    "host(inet_server_addr()), current_setting('port'), current_setting('server_version')"
)
#: If only a crash has reset the counts, they are as old as those of the whole server.
_DATABASES = (
    "select datname, temp_files, temp_bytes, extract(epoch from coalesce(d.stats_reset, "
    "(select least(b.stats_reset, a.stats_reset) from pg_stat_bgwriter b, pg_stat_archiver a)"
    "))::float8, {active} from pg_stat_database d "
    "where temp_bytes > 0 and datname is not null order by temp_bytes desc"
)
#: pg_stat_io does not count temp files: this is the time of data files.
_DATA = "select sum(read_time) / 1e3 from pg_stat_io where object = 'relation'"
_LIVE = (
    "select pid, query, extract(epoch from clock_timestamp() - query_start)::float8, wait_event, "
    "{workers} from pg_stat_activity a where state = 'active' and pid <> pg_backend_pid() "
    "and backend_type = 'client backend'"
)
#: Temp files belong to the process that created them.
_WORKERS = "array(select w.pid from pg_stat_activity w where w.leader_pid = a.pid)"
#: Identifies the data directory and its copies; some roles may not read it.
_SERVER = "select system_identifier::text from pg_control_system()"


def take_snapshot(
    connection: Connection, queryid: str | None = None, pattern: str | None = None
) -> Snapshot:
    """Takes a snapshot of all visible counts; ``unseen`` names hidden ones with their remedy.

    Its rows are the statements that spill and, marked as ``asked``, the statement ``queryid`` and
    those whose text matches ``pattern``.
    """
    began = time.monotonic()
    for statement in _SESSION_SETTINGS:
        connection.execute(statement.encode())
    queries = _Queries(connection)
    settings = dict(
        queries.all("select name, setting from pg_settings where name = any (%s)", list(_SETTINGS))
    )
    limits = {name: settings[name] for name in (PER_GATHER, MAINTENANCE) if name in settings}
    rows, seen, elapsed_s, schema = _statements(queries, settings, queryid, pattern)
    version = connection.info.server_version
    reset_s = evictions = None
    if schema is not None and version >= 140_000:
        [(reset_s, evictions)] = queries.all(_RESET.format(schema=schema)) or [(None, None)]
    active = "active_time / 1e3" if version >= 140_000 else "null::float8"
    [(server,)] = _Queries(connection).all(_SERVER) or [(None,)]
    [(started_s, address, port, release)] = queries.all(_STARTED) or [(None, None, "", "")]
    host = connection.info.host
    snapshot = Snapshot(
        taken_s=queries.number("select extract(epoch from clock_timestamp())::float8") or 0.0,
        # Unknown without a reset, because a restart keeps the counts.
        since_s=reset_s,
        rows=[{**row, **limits} for row in rows],
        statements_seen=seen,
        elapsed_s=elapsed_s,
        databases=[
            DatabaseSpill(*record) for record in queries.all(_DATABASES.format(active=active))
        ],
        data_read_s=queries.number(_DATA) if version >= 160_000 else None,
        settings=settings,
        live=_live(queries),
        unseen=[*queries.unseen, *_not_shown(connection, settings, rows)],
        server=server,
        name=f"{gethostname() if host.startswith('/') else host}:{port}",
        address=address,
        version=release.split(" ")[0],
        started_s=started_s,
        reset_s=reset_s,
        evictions=evictions,
        boot_id=proc_text("sys/kernel/random/boot_id").strip() or None,
        # Not affected by changes of the clock.
        boot_s=time.clock_gettime(time.CLOCK_BOOTTIME),
    )
    return replace(snapshot, asked_s=time.monotonic() - began)


class _Queries:
    """Queries on a server; each query that the server refuses adds a note to ``unseen``."""

    def __init__(self, connection: Connection) -> None:
        self.connection = connection
        self.unseen: list[Unseen] = []

    def all(self, query: str, *values: object) -> list[tuple[Any, ...]]:
        import psycopg

        try:
            return self.connection.execute(query.encode(), values or None).fetchall()
        except psycopg.Error as error:
            self.unseen.append(Unseen("refused", server_message(error)))
            return []

    def number(self, query: str) -> float | None:
        records = self.all(query)
        return None if not records or records[0][0] is None else float(records[0][0])


def _statements(
    queries: _Queries, settings: Mapping[str, str], queryid: str | None, pattern: str | None
) -> tuple[list[dict[str, Any]], int | None, float | None, str | None]:
    """Rows that spill; number and time (s) of all statements; the schema of pg_stat_statements."""
    schemas = queries.all(STATEMENTS_SCHEMA)
    if not schemas:
        preloaded = "pg_stat_statements" in settings.get("shared_preload_libraries", "")
        hint = "create extension pg_stat_statements"
        if not preloaded:
            hint = f"add it to shared_preload_libraries, restart, then {hint}"
        uncounted = f"statements: this database has no pg_stat_statements; {hint}"
        queries.unseen.append(Unseen("statements", uncounted))
        return [], None, None, None
    schema = identifier(schemas[0][0])
    records = queries.all(_SPILLING.format(schema=schema), queryid, pattern)
    rows = [renamed({**row, "asked": True} if is_asked else row) for row, is_asked in records]
    counts = literal(f"{schema}.pg_stat_statements")
    [(time,)] = queries.all(_TIME.format(counts=counts)) or [("null",)]
    [(seen, elapsed_s)] = queries.all(_ALL.format(schema=schema, time=time)) or [(None, None)]
    return rows, seen, elapsed_s, schema


def _live(queries: _Queries) -> list[LiveSession]:
    """The sessions that spill now, as far as our role may see them, the largest first."""
    sizes = Counter[int]()
    for pid, _, _, size in queries.all(TEMP_FILES):
        sizes[pid] += size
    knows_leader = queries.connection.info.server_version >= VERSION_MIN * 10_000
    live = _LIVE.format(workers=_WORKERS if knows_leader else "array[]::int[]")
    sessions = [
        LiveSession(pid, masked_text(query), float(seconds or 0.0), size, wait)
        for pid, query, seconds, wait, workers in queries.all(live)
        if query is not None
        and (
            (size := sum(sizes[process] for process in {pid, *workers}))
            or str(wait or "").lower().startswith("buffile")
        )
    ]
    return sorted(sessions, key=lambda session: -session.temp_bytes)


def _not_shown(
    connection: Connection, settings: Mapping[str, str], rows: Sequence[Mapping[str, Any]]
) -> list[Unseen]:
    """The figures that a setting, the version or a missing privilege hides, with the remedy."""
    hidden = {}
    version = connection.info.server_version
    if version < 150_000:
        hidden["times-old"] = (
            "times of temp I/O: PostgreSQL 15 or newer has them; --from names the storage"
        )
    elif settings.get("track_io_timing") == "off":
        hidden["times-off"] = (
            "times of temp I/O: set track_io_timing = on, then pg_stat_statements_reset(); or name "
            "the storage with --from"
        )
    if version < 180_000 and settings.get(PER_GATHER) != "0" and rows:
        hidden["processes"] = _PROCESSES
    if any(record.get("toplevel") is False for record in rows):
        hidden[NESTED.code] = NESTED.message
    (sees_all,) = row(connection, "select pg_has_role(current_user, 'pg_monitor', 'member')")
    if not sees_all or any(record.get("queryid") is None for record in rows):
        hidden["rights"] = "statements and sessions of others: grant pg_monitor to this role"
    return [Unseen(code, text) for code, text in hidden.items()]


def document_of(snapshot: Snapshot) -> dict[str, Any]:
    """The document of a snapshot, without secrets in texts."""
    rows = [{**row, "query": masked_text(str(row.get("query") or ""))} for row in snapshot.rows]
    return {"schema": SNAPSHOT_SCHEMA, **asdict(snapshot), "rows": rows}


def save(snapshot: Snapshot, path: Path) -> None:
    """Saves a snapshot in a file, for ``--since``."""
    with whole_file(path) as partial:
        partial.write_text(json.dumps(document_of(snapshot), default=str) + "\n")


def snapshot_since(
    since: str,
    snapshot: Snapshot,
    again: Callable[[], Snapshot],
    wait: Callable[[float], None] = time.sleep,
) -> Snapshot:
    """The counts since the snapshot in the file ``since``, or during a ``wait`` of that time."""
    if os.path.isfile(since):
        with reading(since, HINT):
            document = json_of(text_of(Path(since)))
            if not isinstance(document, dict) or document.get("schema") != SNAPSHOT_SCHEMA:
                raise EvidenceDamaged("not a saved snapshot")
            before = read(Snapshot, document)
        if None not in (before.server, snapshot.server) and before.server != snapshot.server:
            hint = "name one of this server, or wait for a second snapshot: --since 10m"
            raise ServerUnsuited(f"--since {since} is of another server", hint)
        return between(before, snapshot)
    seconds = parse_duration_s(since, "--since")
    wait(seconds)
    return between(snapshot, again())


#: The maximum number of samples of sessions, and the minimum and maximum interval (s): a sample
#: takes the server a millisecond.
SAMPLES_MAX, INTERVAL_S = 600, (0.05, 0.2)
#: The first version that shows a worker's leader and the identifier of a session's statement.
LEADER_SINCE = 140_000
_RUNNING = (
    "select query_id::text, pid, leader_pid from pg_stat_activity "
    "where state = 'active' and query_id is not null and pid <> pg_backend_pid()"
)


class WorkersSeen:
    """Samples sessions; counts each statement's samples and its maximum number of workers."""

    def __init__(self, connection: Connection) -> None:
        self.connection = connection
        self.samples, self.max_workers = Counter[str](), Counter[str]()
        self.asked_s = 0.0

    def during(self, seconds: float) -> None:
        """Samples sessions for ``seconds``."""
        end_s = time.monotonic() + seconds
        interval_s = min(max(seconds / SAMPLES_MAX, INTERVAL_S[0]), INTERVAL_S[1])
        knows_leader = self.connection.info.server_version >= LEADER_SINCE
        while (left_s := end_s - time.monotonic()) > 0:
            if knows_leader:
                self._sample()
            time.sleep(min(interval_s, left_s) if knows_leader else left_s)

    def add_to(self, snapshot: Snapshot) -> Snapshot:
        """Returns the snapshot with the samples and the workers of each statement."""
        rows = []
        for record in snapshot.rows:
            queryid = str(record.get("queryid"))
            seen = {"looks": self.samples[queryid], "workers_seen": self.max_workers[queryid]}
            rows.append({**record, **seen})
        unseen = list(snapshot.unseen)
        if all(row["looks"] >= LOOKS_MIN for row in rows):
            unseen = [note for note in unseen if note.code != "processes"]
        total_s = snapshot.asked_s + self.asked_s
        return replace(snapshot, rows=rows, unseen=unseen, asked_s=total_s)

    def _sample(self) -> None:
        began = time.monotonic()
        records = self.connection.execute(_RUNNING.encode()).fetchall()
        self.asked_s += time.monotonic() - began
        # Before version 16, leader_pid of a leader is its own process.
        workers = Counter(leader for _, pid, leader in records if leader not in (None, pid))
        for queryid, pid, leader in records:
            if leader in (None, pid):
                self.samples[queryid] += 1
                self.max_workers[queryid] = max(self.max_workers[queryid], workers[pid])


#: The maximum length of the log's end that is read, in pieces that do not burden the server.
READ_MAX_BYTES, PIECE_BYTES = 32 << 20, 4 << 20


def server_log(connection: Connection) -> Logs | None:
    """Temp files, plans and exceeded limits in the server's log; None if unreadable or missing."""
    import psycopg

    # Formats with the statement in the same record as its temp files come first.
    for kind in ("csvlog", "jsonlog", "stderr"):
        try:
            (name,) = row(connection, "select pg_current_logfile(%s)", kind)
            if name is None:
                continue
            logs = logs_of(Path(name), _end(connection, name))
        except psycopg.Error:
            return None
        return logs if logs.temp or logs.plans or logs.exceeded else None
    return None


def _end(connection: Connection, name: str) -> str:
    """The end of a log file, from the beginning of a message."""
    (size,) = row(connection, "select size from pg_stat_file(%s)", name)
    begin = max(0, size - READ_MAX_BYTES)
    part = "select pg_read_binary_file(%s, %s, %s)"
    pieces = [
        row(connection, part, name, at, min(PIECE_BYTES, size - at))[0]
        for at in range(begin, size, PIECE_BYTES)
    ]
    text = text_of_server(b"".join(pieces))
    if begin == 0:
        return text
    message = re.search(r"\n(?=\d{4}-\d\d-\d\d \d\d:|\{)", text)
    return text[message.end() :] if message else text[text.find("\n") + 1 :]


#: The last word or constant of a text, which may be incomplete if the text is truncated.
_LAST_WORD = re.compile(r"(?:'.*|(?<!\w)\w+)$", re.DOTALL)


def call_on_postgres(
    dsn: str, selector: StatementSelector, notify: Notify = lambda _text: None
) -> Executed:
    """The mean of the calls that the server counted, or a session's query once it has ended.

    InputError if the server does not answer, if it has counted no such statement or several, and
    if the session does not exist or is hidden from our role.
    """
    with (
        closing(open_session(dsn, SAMPLER)) as connection,
        reading(shown_dsn(dsn), HINT_COUNTS),
    ):
        if selector.backend is not None:
            return _of_session(connection, selector.backend, notify)
        return executed_row(_counted(connection, selector))


def pattern_of(query: str, *, cut: bool = False) -> str:
    """A pattern of the text of ``query`` in pg_stat_statements, for any constants.

    If ``query`` is ``cut``, the pattern is that of its beginning, up to the last whole word.
    """
    parts = CONSTANT.split(query.strip().rstrip("; \n"))
    if cut:
        parts[-1] = _LAST_WORD.sub("", parts[-1])
    words = (r"\s+".join(map(re.escape, re.split(r"\s+", part))) for part in parts)
    return rf"^\s*{'.+'.join(words)}" + ("" if cut else r"\s*;?\s*$")


def _counted(connection: Connection, selector: StatementSelector) -> StatementRow:
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
    if queryid is not None and pattern is not None and not _rows(snapshot):
        # The identifier may come from another server, or from another version.
        queryid = None
        snapshot = take_snapshot(connection, None, pattern)
    if selector.since is not None:
        snapshot = snapshot_since(
            selector.since, snapshot, lambda: take_snapshot(connection, queryid, pattern)
        )
    rows = _rows(snapshot)
    like = selector.queryid or f"like '{selector.query or selector.text}'"
    if not rows:
        codes = ("statements", "rights")
        hints = [note.message for note in snapshot.unseen if note.code in codes]
        hint = (hints or ["let it run there first; pg_monitor sees the statements of others"])[0]
        raise SelectionEmpty(f"has counted no statement {like}", hint)
    if len(rows) > 1:
        raise ambiguous_rows(rows, f"{len(rows):,} statements are {like}:")
    return rows[0]


def _of_session(connection: Connection, pid: int, notify: Notify) -> Executed:
    """The session's query once it has ended: its times, and the temp I/O counted for this call."""
    find_session(connection, SessionSelector(backend=pid), notify)
    notify(f"waiting for the query of session {pid} to end; Ctrl-C ends it")
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
        rows = _rows(between(before, take_snapshot(connection, queryid)))
    if len(rows) == 1 and rows[0].calls == 1:
        return executed_row(rows[0], life.elapsed_s)
    notify("pg_stat_statements has not counted this call alone: its temp I/O is not known")
    return Executed(life.elapsed_s, None)


def _rows(snapshot: Snapshot) -> list[StatementRow]:
    rows = merged(StatementRow.of(row) for row in snapshot.rows if row.get("asked"))
    return sorted((row for row in rows if row.calls), key=lambda row: -row.elapsed_s)

"""What a server's statements lose by spilling: from the server itself, or a folder of its logs."""

import os
import re
import time
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from spillcast.engines.gains import RankRequest, request_of
from spillcast.engines.postgres.connection import (
    Connection,
    open_session,
    shown_dsn,
    while_it_answers,
)
from spillcast.engines.postgres.live.rehearse import COMMENTS
from spillcast.engines.postgres.live.sessions import HIDDEN
from spillcast.engines.postgres.rank.enable import enabling
from spillcast.engines.postgres.rank.measured import CONSTANT
from spillcast.engines.postgres.rank.rank import of_logs, of_rows, rows_of, spill_s
from spillcast.engines.postgres.rank.snapshot import (
    PROCESSES_UNSEEN,
    Snapshot,
    check_since,
    document_of,
    save,
    server_log,
    snapshot_since,
    take_snapshot,
)
from spillcast.engines.ranking import Ranked, ServerRanking
from spillcast.errors import OptionConflict
from spillcast.evidence.open import kind_of
from spillcast.evidence.postgres.logs import Logs, counted, read_logs
from spillcast.evidence.postgres.statements import LOOKS_MIN, read_rows
from spillcast.fleet.looks import keep_look
from spillcast.recording.calibration import MachineCalibration, kept_calibration
from spillcast.redaction import struck_text
from spillcast.text import shell_word

#: Looks at sessions in a short time, and the minimum and maximum time between two of them (s): a
#: look takes the server a millisecond.
LOOKS, PACE_S = 600, (0.05, 0.2)
#: The first versions that tell a worker's leader and the statement that a session runs.
LEADER_SINCE = 140_000
_SESSIONS = (
    "select query_id::text, pid, leader_pid from pg_stat_activity "
    "where state = 'active' and query_id is not null and pid <> pg_backend_pid()"
)


class WorkersSeen:
    """For each statement, how often it was seen running, and its maximum number of workers."""

    def __init__(self, connection: Connection) -> None:
        self.connection = connection
        self.looks: dict[str, int] = {}
        self.max_workers: dict[str, int] = {}
        self.asked_s = 0.0

    def during(self, seconds: float) -> None:
        """Look at sessions for ``seconds``."""
        end_s = time.monotonic() + seconds
        pace_s = min(max(seconds / LOOKS, PACE_S[0]), PACE_S[1])
        knows_leader = self.connection.info.server_version >= LEADER_SINCE
        while (left_s := end_s - time.monotonic()) > 0:
            if knows_leader:
                self._look()
            time.sleep(min(pace_s, left_s) if knows_leader else left_s)

    def with_rows(self, rows: Sequence[Mapping[str, Any]]) -> list[Mapping[str, Any]]:
        """The rows of pg_stat_statements with looks and workers of each statement."""
        return [{**row, **self._seen(str(row.get("queryid")))} for row in rows]

    def _seen(self, queryid: str) -> Mapping[str, int]:
        return {
            "looks": self.looks.get(queryid, 0),
            "workers_seen": self.max_workers.get(queryid, 0),
        }

    def _look(self) -> None:
        began = time.monotonic()
        records = self.connection.execute(_SESSIONS.encode()).fetchall()
        self.asked_s += time.monotonic() - began
        workers: dict[int, int] = {}
        for _, pid, leader in records:
            # Before version 16 a leader is told as its own.
            if leader is not None and leader != pid:
                workers[leader] = workers.get(leader, 0) + 1
        for queryid, pid, leader in records:
            if leader is None or leader == pid:
                self.looks[queryid] = self.looks.get(queryid, 0) + 1
                self.max_workers[queryid] = max(
                    self.max_workers.get(queryid, 0), workers.get(pid, 0)
                )


NAME = "spillcast postgres"
#: As calibrations name it.
ENGINE = "postgres"
#: Letters of a statement by which a recorder finds it.
_PATTERN_MAX = 40


def rank_postgres(
    server: str,
    targets: Sequence[str],
    *,
    log: str | None = None,
    since: str | None = None,
    save_as: Path | None = None,
    origin: str | None = None,
    confidence: float = 0.9,
) -> ServerRanking:
    """Rank what spills on a server, by DSN, or in a folder of logs.

    ``since`` is how long to wait between two looks, or the file of an earlier one. InputError where
    the server does not answer, or an argument goes with the other kind.
    """
    request = request_of(targets, origin, confidence)
    # A DSN may be longer than a file's name can be.
    if server and os.path.exists(server):
        if (log, since, save_as) != (None, None, None):
            raise OptionConflict("--log, --since and --save need a server, not its logs")
        path = Path(server)
        if path.is_file() and kind_of(path) == "statements":
            rows = read_rows(path)
            statements = of_rows(rows, None, request)
            ranking = ServerRanking(
                struck_text(server), None, statements, targets, confidence, counted=rows
            )
            return replace(ranking, record=_record("DSN", statements))
        return _of_logs(path, request)
    if since is not None:
        check_since(since)
    logs = None if log is None else read_logs(Path(log))
    with open_session(server, NAME) as connection, while_it_answers():
        snapshot = take_snapshot(connection)
        if save_as is not None:
            save(snapshot, save_as)
        if since is not None:
            seen = WorkersSeen(connection)
            snapshot = snapshot_since(
                since, snapshot, lambda: take_snapshot(connection), seen.during
            )
            snapshot = _with_workers(snapshot, seen)
        request = replace(request, calibration=_calibration(connection))
        shown = shown_dsn(server)
        if snapshot.statements_seen is not None:
            return _of_server(shown, snapshot, logs, request)
        logged = logs or (None if since is not None else server_log(connection))
        enable = enabling(connection, shown, snapshot.settings)
    return _of_databases(shown, snapshot, logged, enable, request)


def save_look(server: str, address: str, *, redact: bool = False) -> dict[str, Any]:
    """Save one look at a server into the dataset at ``address``; what was saved, as a document.

    InputError where the server does not answer, SpillcastError where the look cannot be written.
    """
    with open_session(server, NAME) as connection, while_it_answers():
        snapshot = take_snapshot(connection)
    path, size = keep_look(address, document_of(snapshot), redact=redact)
    return {
        "schema": "spillcast.saved/1",
        "path": path,
        "bytes": size,
        "server": snapshot.name,
        "statements": len(snapshot.rows),
        "asked_s": snapshot.asked_s,
        "unseen": [text for text in snapshot.unseen if not text.startswith("processes")],
    }


def _calibration(connection: Connection) -> MachineCalibration | None:
    """The calibration of this machine, if the server surely runs on it (connected by a socket)."""
    kept = kept_calibration() if connection.info.host.startswith("/") else None
    if kept is None or kept.for_recordings is None:
        return None
    version = connection.info.parameter_status("server_version")
    return replace(kept.for_recordings, costs=[kept.for_recordings.cost_of(ENGINE, version)])


def _with_workers(snapshot: Snapshot, seen: WorkersSeen) -> Snapshot:
    """The snapshot with the parallel workers that sessions showed."""
    rows = seen.with_rows(snapshot.rows)
    unseen = list(snapshot.unseen)
    if all(row["looks"] >= LOOKS_MIN for row in rows):
        unseen = [text for text in unseen if text != PROCESSES_UNSEEN]
    return replace(snapshot, rows=rows, unseen=unseen, asked_s=snapshot.asked_s + seen.asked_s)


def _of_server(
    shown: str, snapshot: Snapshot, logs: Logs | None, request: RankRequest
) -> ServerRanking:
    rows = rows_of(snapshot)
    statements = of_rows(rows, logs, request)
    window_s = None if snapshot.since_s is None else snapshot.taken_s - snapshot.since_s
    return ServerRanking(
        source=shown,
        window_s=window_s or None,
        statements=statements,
        targets=request.targets,
        confidence=request.confidence,
        statements_seen=snapshot.statements_seen,
        elapsed_s=snapshot.elapsed_s,
        databases=snapshot.databases,
        database_temp_bytes=sum(database.temp_bytes for database in snapshot.databases),
        data_read_s=snapshot.data_read_s,
        live=snapshot.live,
        exceeded=[] if logs is None else counted(logs.exceeded),
        settings=snapshot.settings,
        unseen=snapshot.unseen,
        record=_record(shown, statements),
        asked_s=snapshot.asked_s,
        counted=rows,
    )


def _of_databases(
    shown: str, snapshot: Snapshot, logs: Logs | None, enable: Sequence[str], request: RankRequest
) -> ServerRanking:
    """Rank without statement counts: by the databases' temp bytes and the log."""
    ranked = _of_server(shown, snapshot, None, request)
    statements = [] if logs is None else of_logs(logs, request)
    databases = [
        replace(database, spill_s=spill_s(database.temp_bytes, request))
        for database in snapshot.databases
    ]
    # What enables the extension says both.
    known = ("statements: this database", "times of temp I/O: set")
    return replace(
        ranked,
        unseen=[text for text in ranked.unseen if not text.startswith(known)],
        statements=statements,
        window_s=ranked.window_s if logs is None else logs.window_s,
        databases=databases,
        exceeded=[] if logs is None else counted(logs.exceeded),
        enable=enable,
        record=_record(shown, statements),
    )


def _of_logs(path: Path, request: RankRequest) -> ServerRanking:
    logs = read_logs(path)
    statements = of_logs(logs, request)
    unseen = [f"plans: {note}" for note in logs.notes]
    timed = any(statement.elapsed_s for statement in statements)
    if not logs.plans and timed:
        unseen.append(
            "times of temp I/O: the logs tell only how long the calls took, so it took no longer; "
            "load auto_explain"
        )
    elif not logs.plans and statements:
        unseen.append("times and plans: the logs contain only temp files; load auto_explain")
    if any(statement.query is None for statement in statements):
        unseen.append("statements: the log has some temp files without their statement")
    ranking = ServerRanking(
        struck_text(str(path)), logs.window_s, statements, request.targets, request.confidence
    )
    record = _record("DSN", statements)
    return replace(ranking, unseen=unseen, record=record, exceeded=counted(logs.exceeded))


def _words(query: str) -> str:
    """A pattern of the longest part of a statement that is the same in each of its calls.

    Constants and comments are others each time; line breaks are no blanks.
    """
    text = CONSTANT.sub("?", COMMENTS.sub("?", query))
    words = max(re.findall(r"[^\W\d](?:[\w.]|,?\s+(?=[^\W\d]))*", text), key=len, default="")
    if len(words) > _PATTERN_MAX:
        words = words[:_PATTERN_MAX]
        complete = re.sub(r"\s+\S*$", "", words)
        words = complete if 2 * len(complete) > _PATTERN_MAX else words
    return re.sub(r"(?! \S)\s+", r"\\s+", words)


def _record(shown: str, statements: Sequence[Ranked]) -> str | None:
    """The command that records the first of them when it runs next."""
    patterns = (
        _words(statement.query)
        for statement in statements
        if statement.query and statement.query != HIDDEN
    )
    words = next(filter(None, patterns), None)
    if words is None:
        return None
    pattern = shell_word(words)
    dsn = shown if shown == "DSN" else shell_word(shown)
    return f"spillcast record --postgres {dsn} --query {pattern} -o run.spill"

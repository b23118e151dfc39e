"""Ranks statements by the cost of their spills: of a server, its logs or an export of counts."""

import os
import re
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

from spillcast.engines.postgres import (
    RANKED_MIN,
    Connection,
    driver_errors,
    open_session,
    shown_dsn,
)
from spillcast.engines.postgres.live.activity import HIDDEN
from spillcast.engines.postgres.rank.enable import enable_commands
from spillcast.engines.postgres.rank.snapshot import (
    WorkersSeen,
    document_of,
    save,
    server_log,
    snapshot_since,
    take_snapshot,
)
from spillcast.engines.ranking import (
    FORECAST_MAX,
    Ranked,
    RankRequest,
    ServerRanking,
    SpillNode,
    outlasting,
    temp_bounds_s,
    with_gains,
)
from spillcast.errors import InputError, OptionConflict, PathMissing, Refusal
from spillcast.evidence.counts import Counts, feasible_processes
from spillcast.evidence.open import kind_of, rereadable
from spillcast.evidence.postgres import BLOCK_BYTES, COMMENTS, CONSTANT
from spillcast.evidence.postgres.logs import Logs, counted, normal, read_logs
from spillcast.evidence.postgres.nodes import nodes_of
from spillcast.evidence.postgres.plan import blocks_of, counts_of_plan
from spillcast.evidence.postgres.statements import (
    HINT,
    MAINTENANCE,
    PER_GATHER,
    READ_ONCE,
    StatementRow,
    counts_of_row,
    merged,
    other_memory,
    processes_of,
    read_rows,
)
from spillcast.evidence.postgres.temp_files import TempFile
from spillcast.evidence.postgres.work_memory import enough_bytes, work_mem_between
from spillcast.fleet.snapshots import LiveSession, Snapshot, Unseen, store_snapshot
from spillcast.forecast.question import Question
from spillcast.forecast.sizing import size, sized_rows
from spillcast.forecast.sizing.products import Sized
from spillcast.forecast.workload.counted import loads_on, with_origin
from spillcast.forecast.workload.load import total_s
from spillcast.gate import reading
from spillcast.recording.calibration import MachineCalibration, kept_calibration
from spillcast.redaction import masked_text
from spillcast.storage.catalogue.prices import load_prices
from spillcast.storage.target import depends_on_recording
from spillcast.text import path_hint, shell_word
from spillcast.units import parse_duration_s

NAME = "spillcast postgres"
_session = partial(open_session, name=NAME, version_min=RANKED_MIN)
#: The maximum length of a statement in the command that records it.
_PATTERN_MAX = 40


def rank_postgres(
    server: str,
    request: RankRequest,
    *,
    log: str | None = None,
    since: str | None = None,
    save_as: Path | None = None,
) -> ServerRanking:
    """Ranks the statements of ``server``: a DSN, logs, or a file of pg_stat_statements.

    ``since`` is the time between two snapshots, or the file of an earlier one. InputError if the
    server does not answer, and for an argument that applies to a server but not to logs.
    """
    # Path.exists would raise an error for a DSN that is longer than a file name can be.
    if server == "-" or (server and os.path.exists(server)):
        if (log, since, save_as) != (None, None, None):
            raise OptionConflict("--log, --since and --save need a server, not its logs")
        path = rereadable(server)
        if path.is_file() and kind_of(path) == "statements":
            rows = read_rows(path)
            statements = of_rows(rows, None, request)
            source, record = masked_text(server), _record("dbname=DATABASE", statements)
            return ServerRanking(
                *(source, None, statements, request.targets, request.confidence),
                record=record,
                counted=rows,
                unseen=[Unseen("reads", READ_ONCE)] * any(not row.has_reads for row in rows),
            )
        return _of_logs(path, request)
    if server and "=" not in server and "://" not in server:
        hint = path_hint(Path(server)) or "a server is named as in dbname=dw, a log by its path"
        raise PathMissing("there is no such file or folder", hint, server)
    if since is not None and not os.path.isfile(since):
        parse_duration_s(since, "--since")
    logs = None if log is None else read_logs(Path(log))
    with _session(server) as connection, driver_errors():
        snapshot = take_snapshot(connection)
        if save_as is not None:
            save(snapshot, save_as)
        if since is not None:
            seen, again = WorkersSeen(connection), partial(take_snapshot, connection)
            snapshot = seen.add_to(snapshot_since(since, snapshot, again, seen.during))
        request = replace(request, calibration=_calibration(connection))
        shown, enable = shown_dsn(server), list[str]()
        if snapshot.statements_seen is None:
            logs = logs or (None if since is not None else server_log(connection))
            enable = enable_commands(connection, shown, snapshot.settings)
    return _of_server(shown, snapshot, logs, enable, request)


def save_snapshot(server: str, address: str, *, redact: bool = False) -> dict[str, Any]:
    """Saves a snapshot of a server into the dataset at ``address``; returns a summary document.

    InputError if the server does not answer, SpillcastError if the file cannot be written.
    """
    with _session(server) as connection, driver_errors():
        snapshot = take_snapshot(connection)
    path, size = store_snapshot(address, document_of(snapshot), redact=redact)
    return {
        "schema": "spillcast.saved/1",
        "path": path,
        "bytes": size,
        "server": snapshot.name,
        "statements": len(snapshot.rows),
        "asked_s": snapshot.asked_s,
        "unseen": [vars(note) for note in snapshot.unseen if note.code != "processes"],
    }


def _calibration(connection: Connection) -> MachineCalibration | None:
    """The calibration of this machine if the server is on it, as a connection by socket shows."""
    calibration = kept_calibration() if connection.info.host.startswith("/") else None
    if calibration is None or (measured := calibration.for_recordings) is None:
        return None
    version = connection.info.parameter_status("server_version")
    return replace(measured, costs=[measured.cost_of("postgres", version)])


def _of_server(
    shown: str, snapshot: Snapshot, logs: Logs | None, enable: Sequence[str], request: RankRequest
) -> ServerRanking:
    """The ranking by counts of statements, or by the log if counting is yet to be enabled."""
    rows, databases = rows_of(snapshot), snapshot.databases
    window_s = None
    if snapshot.since_s is not None and snapshot.since_s < snapshot.taken_s:
        window_s = snapshot.taken_s - snapshot.since_s
    if enable:
        statements = [] if logs is None else of_logs(logs, request)
        window_s = window_s if logs is None else logs.window_s
        databases = [replace(d, spill_s=spill_s(d.temp_bytes, request)) for d in databases]
        # The lines of ``enable`` are the remedy for both.
        remedied = {"statements", "times-off"}
    else:
        statements = of_rows(rows, logs, request)
        remedied = set() if request.origin is None else {"times-off", "times-old"}
    return ServerRanking(
        source=shown,
        window_s=window_s,
        statements=statements,
        targets=request.targets,
        confidence=request.confidence,
        statements_seen=snapshot.statements_seen,
        elapsed_s=snapshot.elapsed_s,
        databases=databases,
        enable=enable,
        database_temp_bytes=sum(database.temp_bytes for database in snapshot.databases),
        data_read_s=snapshot.data_read_s,
        live=snapshot.live,
        exceeded=[] if logs is None else counted(logs.exceeded),
        settings=snapshot.settings,
        unseen=[note for note in snapshot.unseen if note.code not in remedied],
        record=_record(shown, statements, snapshot.live),
        asked_s=snapshot.asked_s,
        counted=rows,
    )


def _of_logs(path: Path, request: RankRequest) -> ServerRanking:
    logs = read_logs(path)
    statements = of_logs(logs, request)
    unseen = [Unseen("logs", text) for text in logs.notes]
    if not logs.plans and statements:
        timed = any(statement.elapsed_s for statement in statements)
        untimed = (
            "times of temp I/O: the logs contain only how long the calls took, at most that; "
            "load auto_explain"
            if timed
            else "times and plans: the logs contain only temp files; load auto_explain"
        )
        unseen.append(Unseen("times", untimed))
    if any(statement.query is None and not statement.item for statement in statements):
        nameless = "statements: the log has some temp files without their statement"
        unseen.append(Unseen("statements", nameless))
    return ServerRanking(
        masked_text(str(path)),
        logs.window_s,
        statements,
        request.targets,
        request.confidence,
        unseen=unseen,
        record=_record("dbname=DATABASE", statements),
        exceeded=counted(logs.exceeded),
    )


def _pattern(query: str) -> str:
    """A pattern of the longest part of a statement without constants and comments.

    Constants and comments differ between calls. Blanks in the pattern match any white space,
    including line breaks.
    """
    text = CONSTANT.sub("?", COMMENTS.sub("?", query))
    words = max(re.findall(r"[^\W\d](?:[\w.]|,?\s+(?=[^\W\d]))*", text), key=len, default="")
    if len(words) > _PATTERN_MAX:
        words = words[:_PATTERN_MAX]
        complete = re.sub(r"\s+\S*$", "", words)
        words = complete if 2 * len(complete) > _PATTERN_MAX else words
    return re.sub(r"(?! \S)\s+", r"\\s+", words)


def _record(
    shown: str, statements: Sequence[Ranked], live: Sequence[LiveSession] = ()
) -> str | None:
    """The command that records what spills now, or the first statement when it next runs."""
    record = f"spillcast record --postgres {shell_word(shown)}"
    if (session := outlasting(live, statements)) is not None:
        return f"{record} --backend {session.pid} --duration 60s -o run.spill"
    for statement in statements:
        if statement.query and statement.query != HIDDEN and (pattern := _pattern(statement.query)):
            return f"{record} --query {shell_word(pattern)} -o run.spill"
    return None


def rows_of(snapshot: Snapshot) -> list[StatementRow]:
    """The statements of a snapshot."""
    with reading("pg_stat_statements", HINT):
        return merged(StatementRow.of(statement) for statement in snapshot.rows)


def of_rows(rows: Sequence[StatementRow], logs: Logs | None, request: RankRequest) -> list[Ranked]:
    """The statements of a snapshot or an export that spill."""
    rows = [row for row in rows if row.spills]
    rows.sort(key=lambda row: (row.temp_s, row.blocks), reverse=True)
    plans = {} if logs is None else _all_plans(logs)
    ranked = [
        _of_row(row, plans.get(normal(row.query or ""), []), request if at < FORECAST_MAX else None)
        for at, row in enumerate(rows)
    ]
    return sorted(ranked, key=lambda statement: statement.weight, reverse=True)


def with_sizing(ranking: ServerRanking) -> ServerRanking:
    """The ranking with the storage to buy for all its statements, if their counts suffice."""
    try:
        sizing = size(statements_to_size(ranking), load_prices(), confidence=ranking.confidence)
    except (InputError, Refusal):
        return ranking
    return replace(ranking, sizing=sizing)


def statements_to_size(
    ranking: ServerRanking, question: Question | None = None, runs_per_day: float | None = None
) -> list[Sized]:
    """The statements of a ranking that spill; ``runs_per_day`` replaces the counted runs of all."""
    rows = ranking.counted
    if runs_per_day is None and ranking.per_day is not None:
        runs_per_day = sum(row.calls for row in rows if row.spills) * ranking.per_day
    return sized_rows(rows, question or Question(), runs_per_day)


def spill_s(size_bytes: int, request: RankRequest) -> dict[str, float]:
    """The time (s) by target to write ``size_bytes`` and read them back, and do nothing else.

    Targets that are relative to current latencies are omitted, because those are unknown.
    """
    count = max(1, round(size_bytes / BLOCK_BYTES))
    blocks = {"temp_blks_read": count, "temp_blks_written": count}
    one_process = {PER_GATHER: 0, MAINTENANCE: 0}
    row = StatementRow.of({"calls": 1, "total_exec_time": 1e3 * count, **one_process, **blocks})
    # No time for other work.
    counts = replace(counts_of_row(row, timed=False), elapsed_s=0.0)
    return {
        target: total_s(loads_on(counts, request.storage(target, counts)))
        for target in request.targets
        if not depends_on_recording(target)
    }


def of_logs(logs: Logs, request: RankRequest) -> list[Ranked]:
    """The statements in logs that spill, by the sizes of their temp files and by their plans."""
    files: dict[str, list[TempFile]] = {}
    for file in logs.temp:
        files.setdefault(normal(file.query or ""), []).append(file)
    texts = {key: (group[0].queryid, group[0].query) for key, group in files.items()}
    all_plans = _all_plans(logs)
    for key, plans in all_plans.items():
        text = str(max(plans, key=_blocks).get("Query Text", ""))
        texts.setdefault(key, (None, masked_text(text) or None))
    sizes = {}
    for key in texts:
        written = sum(file.bytes for file in files.get(key, ()))
        # By plans: as if each call moved as many blocks as the largest.
        blocks = list(map(_blocks, all_plans.get(key, ())))
        sizes[key] = max(written, BLOCK_BYTES * len(blocks) * max(blocks, default=0))
    ranked = []
    for number, key in enumerate(sorted(texts, key=lambda statement: -sizes[statement])):
        memory = other_memory(texts[key][1])
        item = int(key[1:]) if key[:1] == "\0" else None
        statement = Ranked(*texts[key], None, None, sizes[key], memory=memory, item=item)
        if plans := all_plans.get(key, []):
            elapsed_s = sum(float(plan.get("Execution Time", 0.0)) for plan in plans) / 1e3
            statement = replace(statement, calls=len(plans), elapsed_s=elapsed_s)
        if plans and number < 2 * FORECAST_MAX:
            statement = _of_plan(statement, max(plans, key=_blocks), len(plans), request)
        elif key in files:
            statement = _of_files(statement, files[key])
        if plans and number >= 2 * FORECAST_MAX:
            text = f"only the {2 * FORECAST_MAX} with the most temp bytes are forecast"
            statement = replace(statement, refused=text)
        ranked.append(statement)
    return sorted(ranked, key=lambda statement: statement.weight, reverse=True)


def _of_row(
    row: StatementRow, plans: Sequence[Mapping[str, Any]], request: RankRequest | None
) -> Ranked:
    moved_bytes = row.blocks * BLOCK_BYTES
    ranked = Ranked(
        *(row.queryid, row.query, row.calls, row.elapsed_s or None, moved_bytes, _temp_s(row)),
        memory=other_memory(row.query),
    )
    if request is None:
        text = f"only the {FORECAST_MAX} with the most temp I/O are forecast"
        return replace(ranked, refused=text)
    try:
        counts = with_origin(counts_of_row(row, timed=request.origin is None), request)
        counts = replace(counts, calibration=request.calibration)
        at_bounds = _at_bounds(counts, plans)
        ranked = replace(ranked, temp_s=temp_bounds_s(at_bounds, row.calls))
        ranked = with_gains(ranked, at_bounds, row.calls, request)
    except (InputError, Refusal) as error:
        return replace(ranked, refused=error.message)
    if not plans:
        return ranked
    largest = max(plans, key=_blocks)
    enough = None
    with suppress(InputError, Refusal):
        enough = _enough_bytes(counts_of_plan(largest, timed=False))
    return replace(ranked, work_mem_bytes=enough, nodes=_spilling(largest))


def _at_bounds(counts: Counts, plans: Sequence[Mapping[str, Any]]) -> list[Counts]:
    """The counts of a call with the fewest and with the most processes that may share its I/O.

    The numbers of processes come from the statement's plans, limited to the bounds of the counts.
    """
    shared = counts.processes_bounds
    if shared is None or counts.time_bounds is not None:
        return counts.at_bounds() or [counts]
    processes = [counts_of_plan(plan, timed=False).processes for plan in plans]
    ends = sorted({min(max(number, shared.lower), shared.upper) for number in processes})
    ends = ends or [shared.lower, shared.upper]
    return [counts.with_processes(number) for number in dict.fromkeys((ends[0], ends[-1]))]


def _temp_s(row: StatementRow) -> tuple[float, float] | None:
    """Elapsed time (s) of all calls in temp I/O, shared by the most and by the fewest processes."""
    if not row.temp_s:
        return None
    shared, calls = processes_of(row), row.calls
    per_call = row.elapsed_s / calls, row.temp_s / calls, row.other_s / calls
    try:
        shared = feasible_processes(shared, *per_call)
    except Refusal:
        return row.temp_s / shared.upper, min(row.temp_s, row.elapsed_s or row.temp_s)
    return row.temp_s / shared.upper, row.temp_s / shared.lower


def _of_files(ranked: Ranked, files: Sequence[TempFile]) -> Ranked:
    """Adds the bounds from temp files: their I/O took at most the time of their calls."""
    sizes = [(file.call, file.bytes) for file in files]
    ranked = replace(ranked, work_mem_between=work_mem_between(sizes))
    calls = {file.call: file.elapsed_s for file in files if file.elapsed_s is not None}
    if not calls:
        return ranked
    elapsed_s = sum(calls.values())
    return replace(ranked, calls=len(calls), elapsed_s=elapsed_s, temp_s=(0.0, elapsed_s))


def _of_plan(ranked: Ranked, plan: Mapping[str, Any], calls: int, request: RankRequest) -> Ranked:
    """Adds the times, gains and nodes of ``plan`` as if all ``calls`` had this plan."""
    try:
        counts = counts_of_plan(plan, timed=request.origin is None)
        enough = _enough_bytes(counts)
        counts = with_origin(counts, request)
        at_bounds = counts.at_bounds() or [counts]
        ranked = replace(ranked, temp_s=temp_bounds_s(at_bounds, calls))
        ranked = with_gains(ranked, at_bounds, calls, request)
    except (InputError, Refusal) as error:
        return replace(ranked, refused=error.message)
    return replace(ranked, work_mem_bytes=enough, nodes=_spilling(plan))


def _enough_bytes(counts: Counts) -> int | None:
    """The work_mem with which no node of a plan spills; None if the plan does not show it."""
    return None if counts.plan is None else enough_bytes(counts.plan)


_DETAILS = ("Sort Method", "Hash Batches", "HashAgg Batches", "Disk Usage", "Workers Launched")


def _spilling(plan: Mapping[str, Any]) -> list[SpillNode]:
    with reading("a plan in the log"):
        nodes = [node for node in nodes_of(plan["Plan"]).walk() if node.temp.blocks]
    nodes.sort(key=lambda node: -node.temp.blocks)
    return [
        SpillNode(
            node.kind,
            BLOCK_BYTES * node.temp.blocks,
            ", ".join(f"{name} {node.values[name]}" for name in _DETAILS if name in node.values),
        )
        for node in nodes
    ]


def _all_plans(logs: Logs) -> dict[str, list[dict[str, Any]]]:
    """The plans that spill, by statement; a plan without text counts as a separate statement."""
    by_key: dict[str, list[dict[str, Any]]] = {}
    for number, plan in enumerate(logs.plans, 1):
        if _blocks(plan):
            key = normal(str(plan.get("Query Text", ""))) or f"\0{number}"
            by_key.setdefault(key, []).append(plan)
    return by_key


def _blocks(plan: Mapping[str, Any]) -> int:
    return blocks_of(plan["Plan"])

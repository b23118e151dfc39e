"""Moves PostgreSQL's temp files on a running server: checks, applies, verifies, reverts a move."""

import shlex
import subprocess
import time
from collections.abc import Iterator
from contextlib import nullcontext
from dataclasses import replace
from pathlib import Path
from typing import Any

from spillcast.engines.move import Move, Step
from spillcast.engines.postgres import (
    MOVER,
    RANKED_MIN,
    Connection,
    identifier,
    open_session,
    refused,
    row,
    shown_name,
)
from spillcast.engines.postgres.live.activity import temp_files
from spillcast.engines.postgres.move.plan import (
    Directory,
    MoveRequest,
    check_move,
    check_server,
    plan,
    remaining,
    remove_directory,
    revert_steps,
    set_statement,
    used_by_settings,
)
from spillcast.engines.postgres.move.tablespaces import (
    Scope,
    ServerFacts,
    Tablespace,
    check_exists,
    open_sessions,
    parse_names,
    parse_scope,
    roles_that_lack,
    server_facts,
    settings,
    users_of,
)
from spillcast.errors import (
    InputError,
    LockTaken,
    MoveBlocked,
    MoveFailed,
    SpillcastError,
    StatementFailed,
)
from spillcast.evidence.postgres import MARK
from spillcast.text import shell_word

#: Sorts about 1 MB in 64 kB; its temp files exist until the last row is fetched.
SPILL = (
    b"select md5(i::text) from pg_catalog.generate_series(1, 20000) i order by 1 " + MARK.encode()
)
RELOAD_S = 20.0
#: How long a move waits for another one to end.
LOCK_S = 10.0
#: The sessions that hold the lock in any database: each database has its own lock.
_LOCKED_BY = (
    "select string_agg(pid::text, ', ') from pg_locks "
    "where locktype = 'advisory' and granted and objsubid = 1 "
    "and objid::bigint = hashtext('spillcast move')::bigint & 4294967295 "
    "and pid <> pg_backend_pid()"
)


def plan_move(dsn: str | None, request: MoveRequest) -> Move:
    """The plan of a move, without changes; without a DSN, for an unknown server."""
    if dsn is not None:
        with open_session(dsn, MOVER, version_min=RANKED_MIN) as connection:
            return _plan_and_facts(connection, dsn, request)[0]
    role = request.scope and request.scope.role
    move = plan(request, ServerFacts(), [role] if role else [], Directory())
    move.warnings.append(
        "no server was contacted: this assumes one that runs as user postgres, where "
        f"{move.whom} has no temp_tablespaces yet"
    )
    return move


def apply_move(dsn: str, request: MoveRequest) -> Move:
    """Moves temp files, and verifies the move.

    InputError for what is known to fail, before anything is changed. SpillcastError if the server
    refuses a step, or if temp files are not in the tablespace afterwards.
    """
    with open_session(dsn, MOVER, version_min=RANKED_MIN) as connection:
        _lock(connection)
        move, facts = _plan_and_facts(connection, dsn, request)
        check_move(connection, facts, request)
        _run_steps(connection, move)
        assert move.tablespace is not None
        move.applied = True
        move.verified = verified(connection, dsn, request.scope, move.tablespace)
        if request.scope and request.scope != Scope():
            count = open_sessions(connection, request.scope)
            if count:
                move.warnings.append(f"open sessions of {move.whom} keep their setting: {count}")
    return move


def revert_move(dsn: str, to: Path | None, scope: Scope | None, *, whole: bool) -> Move:
    """Undoes a move to ``to``, for ``scope`` or ``whole``, even if the move was interrupted.

    Without ``to``, undoes the only move that spillcast has made.
    """
    with open_session(dsn, MOVER, version_min=RANKED_MIN) as connection:
        from psycopg import errors

        # The server's errors for a tablespace that is in use.
        in_use = (
            errors.ObjectNotInPrerequisiteState,
            errors.ObjectInUse,
            errors.DependentObjectsStillExist,
        )
        _lock(connection)
        facts = server_facts(connection, dsn)
        check_server(facts)
        to = to or _only_move(facts)
        move = _undo_steps(facts, to, scope, whole=whole)
        try:
            _run_steps(connection, move)
        except SpillcastError as error:
            if not isinstance(error.__cause__, in_use):
                raise
            tablespace = facts.at(to)
            users = users_of(connection, tablespace) if tablespace else []
            move.left = users or [error.message]
    move.reverted = True
    return move


def _run_steps(connection: Connection, move: Move) -> None:
    """Runs the steps, except those for the user's own session. SpillcastError if one is refused."""
    for index, step in enumerate(move.steps):
        if step.command is not None or step.client:
            _run(connection, step)
            move.steps[index] = replace(step, done=True)


def _run(connection: Connection, step: Step) -> None:
    hint = "--revert undoes what was done"
    if step.command is not None:
        ran = subprocess.run(shlex.split(step.command), capture_output=True, text=True)
        if ran.returncode:
            raise MoveFailed(ran.stderr.strip(), hint)
        return
    # CREATE and DROP TABLESPACE cannot run in a transaction block.
    together = connection.transaction() if len(step.sql) > 1 else nullcontext()
    with refused(StatementFailed, "PostgreSQL", hint), together:
        for statement in step.sql:
            connection.execute(statement.encode())


def verified(
    connection: Connection, dsn: str, scope: Scope | None, tablespace: str
) -> dict[str, Any]:
    """Spills in a session of the scope. MoveFailed unless all temp files are in the tablespace."""
    from psycopg.conninfo import make_conninfo

    if scope is not None and scope.database:
        dsn = make_conninfo(dsn, dbname=scope.database)
    with open_session(dsn, MOVER, version_min=RANKED_MIN) as session:
        _take_setting(connection, session, scope, tablespace)
        (pid,) = row(session, "select pg_backend_pid()")
        with session.transaction(), session.cursor(name=MARK) as cursor:
            session.execute("set local work_mem = '64kB'")
            cursor.execute(SPILL)
            cursor.fetchone()
            spilled = {file.tablespace: file for file in temp_files(connection) if file.pid == pid}
    if list(spilled) != [tablespace]:
        places = ", ".join(spilled) or "nowhere"
        raise MoveFailed(
            f"tablespace {tablespace} is set for {scope or 'session'}, but temp files of such a "
            f"session are in {places}",
            "--revert restores everything",
        )
    seen = spilled[tablespace]
    return {"session": str(scope or "session"), "files": seen.files, "bytes": seen.bytes}


def _lock(connection: Connection) -> None:
    """Locks out other moves. LockTaken if another move still runs after ``LOCK_S``."""
    deadline = time.monotonic() + LOCK_S
    while True:
        (is_ours,) = row(connection, "select pg_try_advisory_lock(hashtext('spillcast move'))")
        (pids,) = row(connection, _LOCKED_BY)
        if is_ours and pids is None:
            return
        if is_ours:
            row(connection, "select pg_advisory_unlock(hashtext('spillcast move'))")
        if time.monotonic() > deadline:
            raise LockTaken(
                f"another move runs on this server: session {pids or '?'}; nothing was changed",
                "try again when it has ended",
            )
        time.sleep(0.1)


def _plan_and_facts(
    connection: Connection, dsn: str, request: MoveRequest
) -> tuple[Move, ServerFacts]:
    """The plan for a server, and the facts about the server."""
    facts = server_facts(connection, dsn)
    check_exists(facts, request.scope)
    existing = facts.at(request.to)
    name = existing.name if existing else ""
    directory = Directory.look(request.to) if facts.local else Directory()
    move = plan(request, facts, roles_that_lack(connection, request.scope, name), directory)
    move.warnings += _warnings(facts, request, move)
    return move, facts


def _warnings(facts: ServerFacts, request: MoveRequest, move: Move) -> Iterator[str]:
    from spillcast.storage.free_space import is_tmpfs

    grant = f"GRANT CREATE ON TABLESPACE {shown_name(move.tablespace or '')} TO ..."
    try:
        check_server(facts)
    except InputError as error:
        yield f"--apply would be refused: {error.message}"
    if facts.local and is_tmpfs(request.to):
        yield (
            "it is in memory: after a restart of the machine temp files silently go where they "
            "were before, until you run --revert and --apply"
        )
    if request.scope is None:
        yield f"a role without SUPERUSER may set it after {grant}"
        return
    if not request.scope.role:
        yield f"roles created later need {grant}, otherwise their temp files stay where they are"
    for scope, names in facts.settings.items():
        if scope.outranks(request.scope) and names != [move.tablespace]:
            yield f"{scope} has a setting of its own, which takes precedence: {', '.join(names)}"


def _only_move(facts: ServerFacts) -> Path:
    """The only directory of a move. InputError if there is none, or if there are several."""
    moved = [tablespace for tablespace in facts.tablespaces if tablespace.note is not None]
    if len(moved) == 1:
        return Path(moved[0].location)
    if not moved:
        raise MoveBlocked(
            "spillcast has moved temp files to no tablespace of this server",
            "if a move was interrupted before it made one, name the directory with --to",
        )
    places = ", ".join(tablespace.location for tablespace in moved)
    raise MoveBlocked(f"spillcast has moved temp files to {places}", "say which with --to")


def _undo_steps(facts: ServerFacts, to: Path, scope: Scope | None, *, whole: bool) -> Move:
    """The steps that undo a move to ``to``. InputError if spillcast made none, or a later one."""
    whom = "all" if whole else str(scope or "session")
    tablespace = facts.at(to)
    if tablespace is None:
        directory = Directory.look(to)
        steps = [remove_directory(to)] if directory.made and not any(to.iterdir()) else []
        return Move("postgres", str(to), whom, steps)
    note = tablespace.note
    if note is None:
        raise MoveBlocked(
            f"--to {to}: tablespace {tablespace.name} exists, but spillcast moved no temp files "
            "to it",
            "nothing was changed",
        )
    _check_last(facts, tablespace)
    if not to.exists():
        # A reboot may have removed a directory in memory or on an instance's local disk.
        note = replace(note, made_directory=False)
    scopes = [
        candidate
        for candidate in map(parse_scope, note.before)
        if candidate and (whole or candidate == scope)
    ]
    other_scopes = remaining(note, scopes).before
    left = []
    if note.made_tablespace and not other_scopes:
        left = used_by_settings(facts, note, scopes, tablespace.name)
    steps = revert_steps(tablespace, note, scopes, facts, drop=not left)
    move = Move("postgres", str(to), whom, steps, tablespace=tablespace.name, left=left)
    if other_scopes:
        move.warnings.append(f"the tablespace stays for {', '.join(other_scopes)}")
    for candidate in scopes:
        now = facts.settings.get(candidate)
        if now != [tablespace.name] and now != note.before[str(candidate)]:
            state = "has none" if now is None else f"is set to {', '.join(now)}"
            move.warnings.append(f"{candidate} {state} now, which is kept")
    return move


def _check_last(facts: ServerFacts, tablespace: Tablespace) -> None:
    """InputError if undoing a later move will need this tablespace."""
    for later in facts.tablespaces:
        if later == tablespace or later.note is None:
            continue
        if any(tablespace.name in (names or []) for names in later.note.before.values()):
            raise MoveBlocked(
                f"a later move, to {later.location}, goes back to tablespace {tablespace.name}; "
                "nothing was changed",
                f"undo that one first, with --to {shell_word(later.location)} --revert",
            )


def _take_setting(
    connection: Connection, session: Connection, scope: Scope | None, tablespace: str
) -> None:
    """Gives a session the setting that new sessions of the scope have."""
    if scope is None:
        session.execute(set_statement(None, [tablespace]).encode())
        return
    now = settings(connection, server=True)
    (user, database) = row(session, "select session_user, current_database()")
    if scope.role:
        session.execute(f"set role {identifier(scope.role)}".encode())
    elif not any(
        other.outranks(scope)
        for other in now
        if other.role in (None, user) and other.database in (None, database)
    ):
        # A reload reaches the server's processes one by one.
        deadline = time.monotonic() + RELOAD_S
        query = "select current_setting('temp_tablespaces')"
        while parse_names(row(session, query)[0]) != [tablespace]:
            if time.monotonic() > deadline:
                hint = "--revert restores everything"
                raise MoveFailed(f"a new session of {scope} did not get the setting", hint)
            time.sleep(0.02)
        return
    # Our session does not belong to the scope, so it takes the value that is stored for the scope.
    session.execute(set_statement(None, now[scope]).encode())

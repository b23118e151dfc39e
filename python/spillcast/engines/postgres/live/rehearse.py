"""Runs a recorded SELECT again for a while, in a session of its own with temp files elsewhere."""

import re
from collections.abc import Callable
from contextlib import closing
from pathlib import Path

from spillcast.engines.postgres.connection import EXPLAINER, Connection, literal, open_session, row
from spillcast.engines.postgres.live.record import record_postgres
from spillcast.errors import InputError, RehearsalFailed, RehearsalRefused, TargetUnsuited
from spillcast.recording import Recording
from spillcast.recording.capture import RecordOptions
from spillcast.redaction import STRUCK
from spillcast.storage.rehearse import LONGER, Rehearsal
from spillcast.units import format_duration

#: Settings of the recorded session that its plan follows from.
PLANNED_BY = ("work_mem", "hash_mem_multiplier", "max_parallel_workers_per_gather")
#: What a read-only transaction lets through, and which changes something nevertheless.
CHANGES = re.compile(
    r"(?i)\b(pg_(?:terminate|cancel)_backend|pg_(?:try_)?advisory\w*|pg_notify|pg_reload_conf|"
    r"pg_switch_wal|pg_logical\w*|pg_replication\w*|dblink\w*|lo_\w+|pg_file_\w+)\s*\("
)
COMMENTS = re.compile(r"--[^\n]*|/\*.*?\*/", re.DOTALL)
_SPACE = "select spcname from pg_tablespace where pg_tablespace_location(oid) = %s"
#: The statement is ended by the server, should we not come to it.
GRACE_S = 5.0


def rehearse_postgres(
    dsn: str,
    recording: Recording,
    directory: Path,
    duration_s: float,
    folder: Path,
    *,
    statement: str | None = None,
    say: Callable[[str], None] = lambda _text: None,
) -> Rehearsal:
    """Run the recorded query, or ``statement``, under EXPLAIN (ANALYZE) for so long.

    Read-only, with the recording's settings and its temp files in the tablespace in ``directory``.
    InputError where there is none, Refusal for what is no SELECT, changes something, or does no
    temp I/O until then.
    """
    with closing(open_session(dsn, EXPLAINER)) as connection:
        text = _checked(_text(connection, recording, statement))
        space = _tablespace(connection, directory)
    recorded_settings = recording.meta.engine.settings
    settings = {
        name: str(recorded_settings[name])
        for name in PLANNED_BY
        if recorded_settings.get(name) is not None
    }
    settings |= {
        "temp_tablespaces": space,
        "default_transaction_read_only": "on",
        "statement_timeout": f"{round((duration_s + GRACE_S) * 1000)}ms",
    }
    limit = f"for {format_duration(duration_s)} at most and cancelled then"
    say(
        f"runs under EXPLAIN ANALYZE in a read-only transaction, {limit}, its temp files in "
        f"tablespace {space}: {' '.join(text.split())}"
    )
    output = folder / f"rehearsal-{len(list(folder.iterdir()))}.spill"
    try:
        made = record_postgres(
            dsn,
            output,
            explain=text,
            # The clock of each node would take time that the recorded run did not.
            timed=recorded_settings.get("plan") is not None,
            settings=settings,
            options=RecordOptions(duration_s=duration_s),
            say=say,
        )
    except InputError as error:
        raise RehearsalFailed(f"it could not be rehearsed: {error.message}", error.hint) from None
    if not made.meta.captured:
        raise RehearsalFailed(f"it could not be rehearsed: {made.meta.capture.absent_because}")
    if not made.meta.temp.operations:
        raise RehearsalFailed(
            f"no temp I/O was done in {format_duration(made.elapsed_s)} of rehearsal", LONGER
        )
    return Rehearsal(made)


def _text(connection: Connection, recording: Recording, given: str | None) -> str:
    """The statement. Refusal where the recording does not hold all of it."""
    hint = "give the statement as it is to be run: --command 'select ...'"
    text = given or recording.meta.engine.query or recording.meta.engine.sql
    if not text:
        raise RehearsalRefused("the recording does not contain the text of its query", hint)
    if given is None and STRUCK in text:
        raise RehearsalRefused("its query contains secrets, which are not stored", hint)
    kept = "select setting::int from pg_settings where name = 'track_activity_query_size'"
    if given is None and len(text.encode()) >= row(connection, kept)[0] - 1:
        raise RehearsalRefused("the recording contains only the beginning of its query", hint)
    return text.strip().rstrip(";")


def _checked(text: str) -> str:
    """The statement. Refusal where it is no SELECT, or calls what changes something."""
    bare = COMMENTS.sub(" ", text).strip()
    if not re.match(r"(?i)\(*\s*(select|with|values|table)\b", bare):
        word = (bare.split() or [""])[0]
        raise RehearsalRefused(f"its query begins with '{word}', and only a SELECT is rehearsed")
    if (match := CHANGES.search(bare)) is not None:
        raise RehearsalRefused(
            f"its query calls {match[1]}, and queries that change something are not rehearsed"
        )
    return text


def _tablespace(connection: Connection, directory: Path) -> str:
    """The tablespace in a directory. InputError says how to make one."""
    place = str(directory.resolve())
    record = connection.execute(_SPACE, [place]).fetchone()
    if record is None:
        hint = f"as a superuser: create tablespace rehearsal location {literal(place)}"
        raise TargetUnsuited(f"{directory}: no tablespace of the server lies there", hint)
    return str(record[0])

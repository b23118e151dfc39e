"""Oracle: the SQL*Plus script that a DBA runs to collect the evidence for a forecast."""

import re
from collections.abc import Iterator
from dataclasses import dataclass
from importlib.resources import files
from typing import Annotated

import typer

from spillcast.errors import OptionConflict, OptionInvalid

#: How long V$SESSION is sampled instead of ASH.
SAMPLED_MINUTES = 10
#: A window that ASH keeps in memory on most databases; an older one is in DBA_HIST.
MEMORY_MINUTES = 60
MINUTES_MAX = 60 * 24 * 366
INTERVAL_S_MAX = 3600
#: Statistics are sampled, and the session is traced, for about a minute.
TRACE_S = 60


@dataclass(frozen=True)
class Session:
    """A session of an Oracle instance."""

    sid: int
    serial: int


def collect(
    sql_id: Annotated[str | None, typer.Option(help="Statement that ASH is exported for.")] = None,
    sid: Annotated[
        str | None,
        typer.Option(metavar="SID,SERIAL", help="Session to trace and take statistics of."),
    ] = None,
    minutes: Annotated[
        int | None,
        typer.Option(
            help="How far ASH goes back (default: 60); without the pack, for how long sessions are "
            "sampled (default: 10)."
        ),
    ] = None,
    interval: Annotated[int, typer.Option(help="Seconds between samples of statistics.")] = 3,
    history: Annotated[
        bool | None,
        typer.Option(
            "--history/--memory",
            help="ASH from DBA_HIST or from memory (default: memory up to 60 minutes).",
        ),
    ] = None,
    without_pack: Annotated[
        bool,
        typer.Option(
            "--without-pack", help="Sample V$SESSION each second: no Diagnostics Pack is needed."
        ),
    ] = False,
) -> str:
    """Print a SQL*Plus script: ASH, work areas, temp space, statistics and a session's trace.

    It only reads views, and turns the session's trace on and off. ASH needs the
    Diagnostics Pack licence; --without-pack samples sessions instead, which is less accurate. The
    folder that it writes is the evidence: spillcast forecast FOLDER --to TARGET.

    Example: spillcast collect oracle --sql-id 09bmj7j9q8a5z --sid 33,4711 -o collect.sql
    """
    # All values are checked here, as they stand in the script as literals. Trace and statistics are
    # of a session and are skipped where none is named.
    session = None if sid is None else parse_session(sid)
    if sql_id is not None and re.fullmatch(r"[0-9a-z]{13}", sql_id) is None:
        raise OptionInvalid(
            f"--sql-id '{sql_id}' is not an SQL_ID",
            "it has 13 characters of 0-9 and a-z, such as 09bmj7j9q8a5z",
        )
    if minutes is None:
        minutes = SAMPLED_MINUTES if without_pack else MEMORY_MINUTES
    if without_pack and history is not None:
        raise OptionConflict("--history and --memory are of ASH, and --without-pack reads none")
    _check_range("--minutes", minutes, MINUTES_MAX)
    _check_range("--interval", interval, INTERVAL_S_MAX)
    samples = max(1, round(TRACE_S / interval))
    fields: dict[str, object] = {
        "sql_id": sql_id,
        "sid": session and session.sid,
        "serial": session and session.serial,
        "minutes": minutes,
        "interval_s": interval,
        "samples": samples,
        "trace_s": samples * interval,
        **_conditions(sql_id, session),
    }
    from_history = minutes > MEMORY_MINUTES if history is None else history
    text = _sections()
    samples_of = "sampler" if without_pack else "ash_history" if from_history else "ash_memory"
    parts = _parts(sql_id, session, samples_of)
    return "\n".join(text[part].format(**fields).rstrip() + "\n" for part in parts)


def parse_session(text: str) -> Session:
    """A session from ``SID,SERIAL``."""
    match = re.fullmatch(r"\s*([0-9]{1,9})\s*,\s*([0-9]{1,9})\s*", text)
    if match is None:
        raise OptionInvalid(
            f"--sid '{text}' is not SID,SERIAL",
            "write for example 33,4711, as in: select sid, serial# from v$session",
        )
    return Session(int(match[1]), int(match[2]))


def _parts(sql_id: str | None, session: Session | None, samples_of: str) -> Iterator[str]:
    """Sections in the order of their work: ASH comes last, so that it covers the trace."""
    yield from ("begin", "database")
    if session is None and sql_id is not None:
        yield "sessions"
    yield "temp"
    if session is not None:
        yield from ("trace_on", "statistics", "trace_off")
    if samples_of != "sampler":
        yield "licence"
    yield samples_of
    yield "end"


def _sections() -> dict[str, str]:
    """The template beside this file, cut at its lines ``--# name``."""
    template = files(__package__).joinpath("collect.sql").read_text("utf-8")
    pieces = re.split(r"^--# (\w+)\n", template, flags=re.MULTILINE)
    return dict(zip(pieces[1::2], pieces[2::2], strict=True))


def _conditions(sql_id: str | None, session: Session | None) -> dict[str, str]:
    """WHERE conditions by part; parallel workers belong to the session that coordinates them."""
    ash, workareas, temp, sampler = [], [], [], []
    if sql_id is not None:
        ash.append(f"sql_id = '{sql_id}'")
        workareas.append(f"a.sql_id = '{sql_id}'")
        sampler.append(f"s.sql_id = '{sql_id}'")
        temp.append(f"s.sql_id = '{sql_id}'")
    if session is not None:
        sid, serial = session.sid, session.serial
        ash.append(
            f"(session_id = {sid} and session_serial# = {serial}\n"
            f"        or qc_session_id = {sid} and qc_session_serial# = {serial})"
        )
        workareas.append(f"(a.sid = {sid} or a.qcsid = {sid})")
        sampler.append(f"(s.sid = {sid} and s.serial# = {serial} or x.qcsid = {sid})")
        temp.append(f"s.sid = {sid} and s.serial# = {serial}")
    return {
        "ash_where": "\n   and ".join(ash) or "1 = 1",
        "workareas_where": "\n   and ".join(workareas) or "1 = 1",
        "sampler_where": "\n              and ".join(sampler) or "1 = 1",
        # Workers take temp in sessions of their own, which run the same statement.
        "temp_where": "\n    or ".join(temp) or "1 = 1",
    }


def _check_range(flag: str, value: int, max_value: int) -> None:
    if not 1 <= value <= max_value:
        raise OptionInvalid(f"{flag} {value} is not between 1 and {max_value}")

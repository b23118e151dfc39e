"""Oracle: the SQL*Plus script that a DBA runs to collect the evidence for a forecast."""

import re
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


#: For each part of the script, where its conditions stand: what precedes ``sql_id``, the condition
#: on a session (SID, serial number), and what joins both. Parallel workers belong to the session
#: that coordinates them; they take temp in sessions of their own, which run the same statement.
_CONDITIONS = (
    (
        "ash_where",
        "",
        "(session_id = {0} and session_serial# = {1}\n"
        "        or qc_session_id = {0} and qc_session_serial# = {1})",
        "\n   and ",
    ),
    ("workareas_where", "a.", "(a.sid = {0} or a.qcsid = {0})", "\n   and "),
    (
        "sampler_where",
        "s.",
        "(s.sid = {0} and s.serial# = {1} or x.qcsid = {0})",
        "\n              and ",
    ),
    ("temp_where", "s.", "s.sid = {0} and s.serial# = {1}", "\n    or "),
)


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
    for flag, value, max_value in (
        ("--minutes", minutes, MINUTES_MAX),
        ("--interval", interval, INTERVAL_S_MAX),
    ):
        if not 1 <= value <= max_value:
            raise OptionInvalid(f"{flag} {value} is not between 1 and {max_value}")
    samples = max(1, round(TRACE_S / interval))
    fields: dict[str, object] = {
        "sql_id": sql_id,
        "sid": session and session[0],
        "serial": session and session[1],
        "minutes": minutes,
        "interval_s": interval,
        "samples": samples,
        "trace_s": samples * interval,
    }
    for name, prefix, of_session, joined_by in _CONDITIONS:
        conditions = [] if sql_id is None else [f"{prefix}sql_id = '{sql_id}'"]
        conditions += [] if session is None else [of_session.format(*session)]
        fields[name] = joined_by.join(conditions) or "1 = 1"
    from_history = minutes > MEMORY_MINUTES if history is None else history
    # ASH comes last, so that it covers the trace.
    parts = ["begin", "database", "temp"]
    if session is not None:
        parts += ["trace_on", "statistics", "trace_off"]
    elif sql_id is not None:
        parts.insert(2, "sessions")
    if without_pack:
        parts += ["sampler", "end"]
    else:
        parts += ["licence", "ash_history" if from_history else "ash_memory", "end"]
    # The template beside this file is cut at its lines ``--# name``.
    template = files(__package__).joinpath("collect.sql").read_text("utf-8")
    pieces = re.split(r"^--# (\w+)\n", template, flags=re.MULTILINE)
    text = dict(zip(pieces[1::2], pieces[2::2], strict=True))
    return "\n".join(text[part].format(**fields).rstrip() + "\n" for part in parts)


def parse_session(text: str) -> tuple[int, int]:
    """SID and serial number of a session from ``SID,SERIAL``."""
    match = re.fullmatch(r"\s*([0-9]{1,9})\s*,\s*([0-9]{1,9})\s*", text)
    if match is None:
        raise OptionInvalid(
            f"--sid '{text}' is not SID,SERIAL",
            "write for example 33,4711, as in: select sid, serial# from v$session",
        )
    return int(match[1]), int(match[2])

"""Oracle: scripts for a DBA that collect evidence or move temp files.

Source of the commands for Exadata's flash: "Temp tablespace on Flash: boost your SQL query without
even running it".
"""

import re
from collections.abc import Mapping, Sequence
from importlib.resources import files
from typing import Annotated

import typer

from spillcast.engines.move import Move, Step
from spillcast.errors import OptionConflict, OptionInvalid
from spillcast.text import sql_literal
from spillcast.units import format_bytes, format_mount_size, parse_bytes

#: How long V$SESSION is sampled instead of ASH.
SAMPLED_MINUTES = 10
#: The window that ASH keeps in memory on most databases; older samples are in DBA_HIST.
MEMORY_MINUTES = 60
MINUTES_MAX = 60 * 24 * 366
INTERVAL_S_MAX = 3600
#: The approximate time for which the session is traced and its statistics are sampled.
TRACE_S = 60
_OF_SAMPLES = (
    "(session_id = {0} and session_serial# = {1}\n"
    "        or qc_session_id = {0} and qc_session_serial# = {1})"
)
_OF_SAMPLER = "(s.sid = {0} and s.serial# = {1} or x.qcsid = {0})"
#: For each placeholder of the script: the prefix of ``sql_id``, the condition on a session (SID,
#: serial number), and the operator that joins both. Parallel workers belong to the session that
#: coordinates them, but use temp space in their own sessions, which run the same statement.
_CONDITIONS = (
    ("ash_where", "", _OF_SAMPLES, "\n   and "),
    ("workareas_where", "a.", "(a.sid = {0} or a.qcsid = {0})", "\n   and "),
    ("sampler_where", "s.", _OF_SAMPLER, "\n              and "),
    ("temp_where", "s.", "s.sid = {0} and s.serial# = {1}", "\n    or "),
)


def collect(
    sql_id: Annotated[str | None, typer.Option(metavar="SQL_ID", help="Statement for ASH.")] = None,
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
    # All values are checked here, because they become literals in the script.
    session = None if sid is None else parse_session(sid)
    if sql_id is not None and re.fullmatch(r"[0-9a-z]{13}", sql_id) is None:
        raise OptionInvalid(
            f"--sql-id '{sql_id}' is not an SQL_ID",
            "it has 13 characters of 0-9 and a-z, such as 09bmj7j9q8a5z",
        )
    if minutes is None:
        minutes = SAMPLED_MINUTES if without_pack else MEMORY_MINUTES
    if without_pack and history is not None:
        raise OptionConflict(
            "--history and --memory select ASH, which --without-pack does not read"
        )
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
    return _script(parts, fields)


def _script(parts: Sequence[str], fields: Mapping[str, object]) -> str:
    """The named parts of oracle.sql, which its lines ``--# name`` begin, with values for fields."""
    template = files(__package__).joinpath("oracle.sql").read_text("utf-8")
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


TABLESPACE = "TEMP_SPILLCAST"
USERS = (
    "select s.sid, s.serial#, s.username, u.segtype, u.blocks\n"
    "  from v$tempseg_usage u join v$session s on s.saddr = u.session_addr\n"
    f" where u.tablespace = '{TABLESPACE}'"
)
PREFIX = "flashd"
FIRST_CELL = "cell=$(sed -n 1p cell_group)"
FLUSH = "alter flashcache all flush nowait"


def move(
    to: Annotated[str, typer.Option(metavar="PLACE", help="Directory, or a disk group: +FLASH.")],
    user: Annotated[
        str | None,
        typer.Option(metavar="USER", help="User to move (default: all)."),
    ] = None,
    size: Annotated[str, typer.Option(metavar="SIZE", help="Size of the temp file.")] = "32G",
    exadata_flash: Annotated[
        bool,
        typer.Option("--exadata-flash", help="Make the disk group from Exadata's flash disks."),
    ] = False,
    cells: Annotated[
        int | None, typer.Option(help="With --exadata-flash: number of cells.")
    ] = None,
    cell_flash: Annotated[
        str | None, typer.Option(metavar="SIZE", help="With --exadata-flash: flash of a cell.")
    ] = None,
    cell_cache: Annotated[
        str, typer.Option(metavar="SIZE", help="With --exadata-flash: cache that a cell keeps.")
    ] = "2T",
) -> Move:
    """Oracle: a temporary tablespace on other storage, and its users. Only prints the steps.

    With --exadata-flash also the steps that take flash disks from the flash cache, and the price.

    Example: spillcast move oracle --to +FLASH --user etl --size 200G
    """
    if not exadata_flash:
        if cells is not None or cell_flash is not None:
            raise OptionConflict("--cells and --cell-flash belong to --exadata-flash")
        return _tablespace_move(to, user, size)
    price = _price(size, cells, cell_flash, cell_cache)
    if not to.startswith("+"):
        raise OptionInvalid(
            f"--to {to}: flash disks make a disk group", "name it, such as +FLASH_DG"
        )
    kept_bytes = parse_bytes(cell_cache, "--cell-cache")
    if kept_bytes == 0:
        raise OptionInvalid(
            f"--cell-cache {cell_cache}: a flash cache cannot be created with a size of 0",
            "give what each cell keeps, such as 1T",
        )
    move = _tablespace_move(to, user, size, client="sqlplus / as sysdba")
    move.steps = [*_flash_steps(to[1:], format_mount_size(kept_bytes).lower()), *move.steps]
    move.revert += _flash_revert_steps(to[1:])
    move.warnings = [
        "run it by hand, a step at a time: a flush takes long, and must end before the cache is "
        "dropped",
        f"price: at least half of the flash that is taken is lost to redundancy{price}",
        "price: each cell's flash cache is dropped, so its contents are read from disk again, and "
        "scans have a smaller cache from then on",
        "from 12.2.1.1 on temp may be in the flash cache already, where it is a write-back cache; "
        "if 'cell flash cache read hits for temp IO' grows while the query runs, little is gained",
        *move.warnings,
    ]
    return move


def _tablespace_move(to: str, user: str | None, size: str, client: str = "") -> Move:
    """The statements for one user, or for all users with the database's default.

    ``client`` is the command that reads the statements if they are part of a shell script.
    """
    user = user.upper() if user else None
    _check_name("--user", user)
    if to.startswith("+"):
        _check_name("--to", to[1:])
        file = to
    elif to.startswith("/"):
        file = f"{to.rstrip('/')}/{TABLESPACE.lower()}.dbf"
    else:
        hint = "write for example /u02/temp or +FLASH"
        raise OptionInvalid(f"--to {to} is neither an absolute path nor a disk group", hint)
    if re.fullmatch(r"[1-9][0-9]*[KMGT]?", size.upper()) is None:
        raise OptionInvalid(f"--size '{size}' is not an Oracle size", "write for example 32G")
    subject = f"User {user}" if user else "Every user with the database's default"
    alter = f"ALTER USER {user}" if user else "ALTER DATABASE DEFAULT"
    query_back = (
        "select 'alter user ' || username || ' temporary tablespace '\n"
        "       || temporary_tablespace || ';' as back\n"
        f"  from dba_users where username = '{user}'"
        if user
        else "select 'alter database default temporary tablespace '\n"
        "       || property_value || ';' as back\n"
        "  from database_properties where property_name = 'DEFAULT_TEMP_TABLESPACE'"
    )
    create = (
        f"CREATE BIGFILE TEMPORARY TABLESPACE {TABLESPACE}\n"
        f"  TEMPFILE {sql_literal(file)} SIZE {size.upper()}"
    )
    steps = {
        "Keep the output: it is the statement that restores the setting.": query_back,
        "One file for all: a bigfile tablespace has no limit at 32 GB.": create,
        f"{subject} uses it, in new sessions.": (f"{alter} TEMPORARY TABLESPACE {TABLESPACE}"),
        "While a query spills, this lists its session and its temp segments.": USERS,
    }
    revert = {
        "If the first statement printed another tablespace, use that name.": (
            f"{alter} TEMPORARY TABLESPACE TEMP"
        ),
        "While this lists sessions, the tablespace is in use:": USERS,
        "Then:": f"DROP TABLESPACE {TABLESPACE} INCLUDING CONTENTS AND DATAFILES",
    }
    return Move(
        "oracle",
        to,
        f"user:{user}" if user else "database",
        [Step(why, sql=(sql,), client=client) for why, sql in steps.items()],
        [Step(why, sql=(sql,), client=client) for why, sql in revert.items()],
        TABLESPACE,
        warnings=["connect to the users' database: the pluggable one if there is one"],
    )


def _check_name(flag: str, name: str | None) -> None:
    """InputError for a name that would need quotes."""
    if name is not None and re.fullmatch(r"[A-Za-z][A-Za-z0-9_$#]{0,127}", name) is None:
        raise OptionInvalid(f"{flag} '{name}' is not an Oracle name")


def _price(size: str, cells: int | None, cell_flash: str | None, cell_cache: str) -> str:
    """The flash that cells contribute and what it holds, as text; empty without ``--cells``."""
    if cells is None and cell_flash is None:
        return ""
    if cells is None or cell_flash is None:
        raise OptionConflict(
            "--cells and --cell-flash go together: the number, and the flash of each"
        )
    flash_bytes = parse_bytes(cell_flash, "--cell-flash")
    taken_bytes = cells * (flash_bytes - parse_bytes(cell_cache, "--cell-cache"))
    if cells < 2:
        raise OptionInvalid("--cells: normal redundancy needs at least two cells")
    if taken_bytes <= 0:
        raise OptionInvalid(
            f"--cell-cache {cell_cache} leaves nothing of --cell-flash {cell_flash}"
        )
    # Normal redundancy stores each block twice.
    usable_bytes = taken_bytes // 2
    price = (
        f": {cells} cells give {format_bytes(taken_bytes)} of their "
        f"{format_bytes(cells * flash_bytes)}, which hold {format_bytes(usable_bytes)} of temp "
        "data at most"
    )
    if parse_bytes(size, "--size") > usable_bytes:
        raise OptionInvalid(
            f"--size {size} does not fit{price}",
            "take more of the cache with a smaller --cell-cache",
        )
    return price


def _flash_steps(disk_group: str, cache: str) -> list[Step]:
    """The steps that shrink each cell's flash cache and make a disk group of the freed flash."""
    return [
        Step(
            "The current flash caches. Keep the output: going back needs the sizes.",
            'dcli -g cell_group -l celladmin "cellcli -e list flashcache detail"',
        ),
        Step(
            "One cell after the other, so that the others still have a cache: from here to the "
            "grid disks, then again for the next line of cell_group.",
            FIRST_CELL,
        ),
        _on_cell("Flush what only the cache holds to disk.", FLUSH),
        _on_cell(
            "Repeat until every flash disk has finished and none shows an error.",
            "list celldisk attributes name, flushstatus, flusherror",
            " | grep FD",
        ),
        _on_cell("Drop the cache", "drop flashcache"),
        _on_cell("and create a smaller one.", f"create flashcache all size={cache}"),
        _on_cell(
            "The rest of each flash disk becomes a grid disk.",
            f"create griddisk all flashdisk prefix={PREFIX}",
        ),
        _as_sysasm(
            "When all cells are done: a disk group of the grid disks. Fill in your own versions.",
            f"CREATE DISKGROUP {disk_group} NORMAL REDUNDANCY DISK 'o/*/{PREFIX}*'\n"
            "  ATTRIBUTE 'compatible.asm' = '19.10.0.0.0', 'compatible.rdbms' = '11.2.0.0.0',\n"
            "  'cell.smart_scan_capable' = 'TRUE', 'au_size' = '4M'",
        ),
    ]


def _flash_revert_steps(disk_group: str) -> list[Step]:
    drop = f"DROP DISKGROUP {disk_group}"
    return [
        _as_sysasm("The disk group; ASM refuses while a file is in it.", drop),
        Step("Again one cell after the other:", FIRST_CELL),
        _on_cell("Drop its grid disks,", f"drop griddisk all flashdisk prefix={PREFIX}"),
        _on_cell("flush the small cache and wait for its end as before,", FLUSH),
        _on_cell("is dropped,", "drop flashcache"),
        _on_cell(
            "and give all flash to the cache again; set size= if it had less.",
            "create flashcache all",
        ),
    ]


def _on_cell(why: str, command: str, then: str = "") -> Step:
    return Step(why, f'dcli -c "$cell" -l celladmin "cellcli -e {command}"{then}')


def _as_sysasm(why: str, statement: str) -> Step:
    return Step(why, sql=(statement,), client="sqlplus / as sysasm")

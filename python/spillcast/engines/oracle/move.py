"""Temp files of Oracle to other storage: a temporary tablespace, on Exadata's flash disks too.

Source of the commands for flash: "Temp tablespace on Flash: boost your SQL query without even
running it".
"""

import re
from dataclasses import dataclass, replace
from typing import Annotated

import typer

from spillcast.engines.move import Move, Step, sql_literal
from spillcast.errors import OptionConflict, OptionInvalid
from spillcast.storage.memory import mount_word
from spillcast.units import format_bytes, parse_bytes

TABLESPACE = "TEMP_SPILLCAST"
SYSDBA = "sqlplus / as sysdba"


def oracle_move(to: str, user: str | None, size: str, *, client: str = "") -> Move:
    """The statements for one user, or for all who have the database's default.

    ``to`` is a directory or a disk group such as ``+FLASH``; ``size`` is Oracle's word, such as
    ``32G``. ``client`` reads the statements where they stand in a shell's script. InputError
    names the flag that is wrong.
    """
    user = user.upper() if user else None
    check_name("--user", user)
    if to.startswith("+"):
        check_name("--to", to[1:])
        file = to
    elif to.startswith("/"):
        file = f"{to.rstrip('/')}/{TABLESPACE.lower()}.dbf"
    else:
        hint = "write for example /u02/temp or +FLASH"
        raise OptionInvalid(f"--to {to} is neither an absolute path nor a disk group", hint)
    if re.fullmatch(r"[1-9][0-9]*[KMGT]?", size.upper()) is None:
        raise OptionInvalid(f"--size '{size}' is not a size of Oracle's", "write for example 32G")
    who = f"User {user}" if user else "Every user with the database's default"
    steps = [
        Step("Keep what this prints: it is the statement that goes back.", sql=(_way_back(user),)),
        Step(
            "One file for all: a bigfile tablespace has no limit at 32 GB.",
            sql=(
                f"CREATE BIGFILE TEMPORARY TABLESPACE {TABLESPACE}\n"
                f"  TEMPFILE {sql_literal(file)} SIZE {size.upper()}",
            ),
        ),
        Step(f"{who} takes it, in sessions that begin from now on.", sql=(_set(user),)),
        Step("While a query spills: its session and its temp segments are here.", sql=(USERS,)),
    ]
    revert = [
        Step(
            "If the first statement printed another tablespace, use that name.",
            sql=(_set(user, "TEMP"),),
        ),
        Step("Until this finds nothing the tablespace is in use:", sql=(USERS,)),
        Step("Then:", sql=(f"DROP TABLESPACE {TABLESPACE} INCLUDING CONTENTS AND DATAFILES",)),
    ]
    return Move(
        "oracle",
        to,
        f"user:{user}" if user else "database",
        [replace(step, client=client) for step in steps],
        [replace(step, client=client) for step in revert],
        TABLESPACE,
        warnings=["connect to the users' database: the pluggable one if there is one"],
    )


USERS = (
    "select s.sid, s.serial#, s.username, u.segtype, u.blocks\n"
    "  from v$tempseg_usage u join v$session s on s.saddr = u.session_addr\n"
    f" where u.tablespace = '{TABLESPACE}'"
)


def check_name(flag: str, name: str | None) -> None:
    """InputError where a name would have to be quoted, which is not done here."""
    if name is not None and re.fullmatch(r"[A-Za-z][A-Za-z0-9_$#]{0,127}", name) is None:
        raise OptionInvalid(f"{flag} '{name}' is not a name of Oracle's")


def _set(user: str | None, tablespace: str = TABLESPACE) -> str:
    if user is None:
        return f"ALTER DATABASE DEFAULT TEMPORARY TABLESPACE {tablespace}"
    return f"ALTER USER {user} TEMPORARY TABLESPACE {tablespace}"


def _way_back(user: str | None) -> str:
    if user is None:
        return (
            "select 'alter database default temporary tablespace '\n"
            "       || property_value || ';' as back\n"
            "  from database_properties where property_name = 'DEFAULT_TEMP_TABLESPACE'"
        )
    return (
        "select 'alter user ' || username || ' temporary tablespace '\n"
        "       || temporary_tablespace || ';' as back\n"
        f"  from dba_users where username = '{user}'"
    )


SYSASM = "sqlplus / as sysasm"
PREFIX = "flashd"
FIRST_CELL = "cell=$(sed -n 1p cell_group)"
FLUSH = "alter flashcache all flush nowait"


@dataclass(frozen=True)
class Flash:
    """The flash of the cells: how many there are, what each has, and what stays a cache in each."""

    cells: int
    bytes: int
    cache_bytes: int

    @property
    def taken_bytes(self) -> int:
        """What the cells together no longer have as a cache."""
        return self.cells * (self.bytes - self.cache_bytes)

    @property
    def usable_bytes(self) -> int:
        """What of it can hold temp data at most: normal redundancy keeps everything twice."""
        return self.taken_bytes // 2


def parse_flash(cells: int | None, flash: str | None, cache: str) -> Flash | None:
    """The figures of the price; None where the cells are not described."""
    if cells is None and flash is None:
        return None
    if cells is None or flash is None:
        raise OptionConflict(
            "--cells and --cell-flash go together: the number, and the flash of each"
        )
    parsed = Flash(cells, parse_bytes(flash, "--cell-flash"), parse_bytes(cache, "--cell-cache"))
    if cells < 2:
        raise OptionInvalid("--cells: normal redundancy needs at least two cells")
    if parsed.cache_bytes >= parsed.bytes:
        raise OptionInvalid(f"--cell-cache {cache} leaves nothing of --cell-flash {flash}")
    return parsed


def exadata_flash_move(
    to: str, user: str | None, size: str, cache: str, flash: Flash | None
) -> Move:
    """The whole plan: flash cache made smaller cell by cell, a disk group, a temp tablespace.

    ``to`` is the disk group to make, ``cache`` what each cell keeps as flash cache. InputError
    where ``size`` cannot fit.
    """
    if not to.startswith("+"):
        raise OptionInvalid(
            f"--to {to}: flash disks make a disk group", "name it, such as +FLASH_DG"
        )
    check_name("--to", to[1:])
    wanted, kept = parse_bytes(size, "--size"), parse_bytes(cache, "--cell-cache")
    if kept == 0:
        raise OptionInvalid(
            f"--cell-cache {cache}: a flash cache cannot be created with a size of 0",
            "give what each cell keeps, such as 1T",
        )
    if flash is not None and wanted > flash.usable_bytes:
        raise OptionInvalid(
            f"--size {size} does not fit: {_figures(flash)}",
            "take more of the cache with a smaller --cell-cache",
        )
    move = oracle_move(to, user, size, client=SYSDBA)
    move.steps = [*_cell_steps(mount_word(kept).lower()), _disk_group(to[1:]), *move.steps]
    move.revert = [*move.revert, *_back_steps(to[1:])]
    by_hand = (
        "run it by hand, a step at a time: a flush takes long, and must end before the cache is "
        "dropped"
    )
    half = "at least half of the flash that is taken is lost to redundancy"
    move.warnings = [
        by_hand,
        f"price: {half}" + (f": {_figures(flash)}" if flash else ""),
        "price: each cell's flash cache is dropped, so its contents are read from disk again, and "
        "scans have a smaller cache from then on",
        "from 12.2.1.1 on temp may be in the flash cache already, where it is a write-back cache; "
        "if 'cell flash cache read hits for temp IO' grows while the query runs, little is gained",
        *move.warnings,
    ]
    return move


def _figures(flash: Flash) -> str:
    return (
        f"{flash.cells} cells give {format_bytes(flash.taken_bytes)} of their "
        f"{format_bytes(flash.cells * flash.bytes)}, which hold "
        f"{format_bytes(flash.usable_bytes)} of temp data at most"
    )


def _cell_steps(cache: str) -> list[Step]:
    return [
        Step(
            "The flash caches as they are. Keep what this prints: the way back needs the sizes.",
            command='dcli -g cell_group -l celladmin "cellcli -e list flashcache detail"',
        ),
        Step(
            "One cell after the other, so that the others still have a cache: from here to the "
            "grid disks, then again for the next line of cell_group.",
            command=FIRST_CELL,
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
    ]


def _on_cell(why: str, command: str, then: str = "") -> Step:
    return Step(why, command=f'dcli -c "$cell" -l celladmin "cellcli -e {command}"{then}')


def _disk_group(name: str) -> Step:
    return Step(
        "When all cells are done: a disk group of the grid disks. Fill in your own versions.",
        sql=(
            f"CREATE DISKGROUP {name} NORMAL REDUNDANCY DISK 'o/*/{PREFIX}*'\n"
            "  ATTRIBUTE 'compatible.asm' = '19.10.0.0.0', 'compatible.rdbms' = '11.2.0.0.0',\n"
            "  'cell.smart_scan_capable' = 'TRUE', 'au_size' = '4M'",
        ),
        client=SYSASM,
    )


def _back_steps(name: str) -> list[Step]:
    return [
        Step(
            "The disk group; ASM refuses while a file is in it.",
            sql=(f"DROP DISKGROUP {name}",),
            client=SYSASM,
        ),
        Step("Again one cell after the other:", command=FIRST_CELL),
        _on_cell("Drop its grid disks,", f"drop griddisk all flashdisk prefix={PREFIX}"),
        _on_cell("flush the small cache and wait for its end as before,", FLUSH),
        _on_cell("is dropped,", "drop flashcache"),
        _on_cell(
            "and give all flash to the cache again; set size= if it had less.",
            "create flashcache all",
        ),
    ]


def move(
    to: Annotated[str, typer.Option(help="Directory or disk group, such as +FLASH.")],
    user: Annotated[
        str | None, typer.Option(help="User to move (default: all with the database's default).")
    ] = None,
    size: Annotated[str, typer.Option(help="Size of the temp file.")] = "32G",
    exadata_flash: Annotated[
        bool,
        typer.Option("--exadata-flash", help="Make the disk group from Exadata's flash disks."),
    ] = False,
    cells: Annotated[
        int | None, typer.Option(help="With --exadata-flash: number of cells.")
    ] = None,
    cell_flash: Annotated[
        str | None, typer.Option(help="With --exadata-flash: flash size of a cell.")
    ] = None,
    cell_cache: Annotated[
        str, typer.Option(help="With --exadata-flash: flash cache that a cell keeps.")
    ] = "2T",
) -> Move:
    """Oracle: a temporary tablespace on other storage, and its users. Only prints the steps.

    With --exadata-flash also the steps that take flash disks from the flash cache, and the price.

    Example: spillcast move oracle --to +FLASH --user etl --size 200G
    """

    flash = parse_flash(cells, cell_flash, cell_cache)
    if exadata_flash:
        return exadata_flash_move(to, user, size, cell_cache, flash)
    if flash is not None:
        raise OptionConflict("--cells and --cell-flash belong to --exadata-flash")
    return oracle_move(to, user, size)

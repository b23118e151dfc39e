"""Temp files of Oracle to other storage: statements for SQL*Plus, never run here."""

import re
from dataclasses import replace

from spillcast.engines.move import Move, Step, sql_literal
from spillcast.errors import OptionInvalid

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
    steps = [
        Step("Keep what this prints: it is the statement that goes back.", sql=(_way_back(user),)),
        Step(
            "One file for all: a bigfile tablespace has no limit at 32 GB.",
            sql=(
                f"CREATE BIGFILE TEMPORARY TABLESPACE {TABLESPACE}\n"
                f"  TEMPFILE {sql_literal(file)} SIZE {size.upper()}",
            ),
        ),
        Step(f"{_who(user)} takes it, in sessions that begin from now on.", sql=(_set(user),)),
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


def _who(user: str | None) -> str:
    return f"User {user}" if user else "Every user with the database's default"


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

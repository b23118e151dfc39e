"""The keys of groups: names, and any SQL expression over the columns of a row."""

import re
from collections.abc import Mapping, Sequence
from datetime import date, timedelta
from decimal import Decimal
from pathlib import Path
from typing import Any

import duckdb

from spillcast.errors import QueryInvalid, first_line

_NAME = re.compile(r"\w+")


def confine(
    connection: duckdb.DuckDBPyConnection, folder: Path, files: Sequence[Path] = ()
) -> None:
    """Restrict SQL to the evidence: no file is readable but ``files`` and those in ``folder``."""
    connection.execute("set temp_directory = ?", [str(folder / "temp")])
    connection.execute("set allowed_directories = ?", [[str(folder)]])
    connection.execute("set allowed_paths = ?", [[str(file) for file in files]])
    connection.execute("set python_enable_replacements = false")
    connection.execute("set enable_external_access = false")
    connection.execute("set lock_configuration = true")


def keys_of(by: Sequence[str], columns: Mapping[str, str]) -> list[str]:
    """The select list for ``by``, as ``key_0`` and so on; ``columns`` are known names."""
    return [f"({columns.get(name, name)}) as key_{number}" for number, name in enumerate(by)]


def condition_of(where: str | None) -> str:
    """The condition in brackets, so that it cannot extend beyond WHERE."""
    return "true" if where is None else f"({where}\n)"


def check_keys(
    connection: duckdb.DuckDBPyConnection, table: str, by: Sequence[str], columns: Mapping[str, str]
) -> None:
    """InputError that names an invalid expression or an unknown name."""
    available = ", ".join(connection.sql(f"from {table} limit 0").columns)
    for key in by:
        if key in columns:
            continue
        try:
            connection.sql(f"select ({key}) as key_0 from {table} group by 1 limit 0").fetchall()
        except duckdb.Error as error:
            reason = "unknown" if _NAME.fullmatch(key) else first_line(error)
            known = ", ".join(columns)
            hint = f"it may be {known}, or SQL over the columns {available}"
            raise QueryInvalid(f"--by {key}: {reason}", hint) from error


def named(row: dict[str, Any], by: Sequence[str]) -> dict[str, Any]:
    """The row with its keys under the names of ``by``."""
    keys = {expression: _plain(row.pop(f"key_{number}")) for number, expression in enumerate(by)}
    return {**keys, **{name: value for name, value in row.items() if name not in keys}}


def _plain(value: Any) -> Any:
    """A value in the form of a JSON document."""
    if isinstance(value, Decimal):
        return float(value)
    if isinstance(value, date | timedelta | list | dict | bytes):
        return str(value)
    return value

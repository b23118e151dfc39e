"""Temp files of DuckDB to another directory: statements for a session, never run here."""

import os
from pathlib import Path
from typing import Annotated

import typer

from spillcast.engines.move import Move, Step, sql_literal
from spillcast.units import parse_bytes


def move(
    to: Annotated[Path, typer.Option(help="Directory of the temp files.")],
    size: Annotated[str | None, typer.Option(help="Limit of their size, such as 100G.")] = None,
) -> Move:
    """DuckDB: the settings of a session. Only prints the steps.

    Example: spillcast move duckdb --to /mnt/nvme/duckdb --size 100G
    """
    path = os.path.abspath(to)
    directory = sql_literal(path)
    why = "Before the session spills for the first time: DuckDB refuses it afterwards."
    steps = [Step(why, sql=(f"SET temp_directory = {directory}",))]
    why = "In a session that has not spilled yet; a new session has the default anyway."
    revert = [Step(why, sql=("RESET temp_directory",))]
    limit = ""
    if size is not None:
        size_bytes = parse_bytes(size, "--size")
        gib = size_bytes % (1 << 30) == 0
        word = f"{size_bytes >> 30}GiB" if gib else f"{size_bytes >> 20}MiB"
        limit = f", 'max_temp_directory_size': '{word}'"
        statement = f"SET max_temp_directory_size = {sql_literal(word)}"
        why = "A query that needs more fails; without a limit it may take 90 % of the free space."
        steps.append(Step(why, sql=(statement,)))
        revert.append(Step("The limit.", sql=("RESET max_temp_directory_size",)))
    why = "In a second connection while a query spills: its files are there."
    steps.append(Step(why, sql=("SELECT path, size FROM duckdb_temporary_files()",)))
    warnings = [
        "a database keeps no settings: to have them in every session, put the SET statements into "
        "~/.duckdbrc for DuckDB's shell, or for Python write duckdb.connect(FILE, "
        f"config={{'temp_directory': {directory}{limit}}})",
    ]
    return Move("duckdb", path, "session", steps, revert, warnings=warnings)

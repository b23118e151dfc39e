"""Temp files of DuckDB to another directory: statements for a session, never run here."""

from pathlib import Path

from spillcast.engines.move import Move, Step, sql_literal
from spillcast.units import parse_bytes


def duckdb_move(to: Path, size: str | None) -> Move:
    """The statements for a session; ``size`` is the most that temp files may take there."""
    directory = sql_literal(str(to))
    steps = [
        Step(
            "Before the session spills for the first time: DuckDB refuses it afterwards.",
            sql=(f"SET temp_directory = {directory}",),
        )
    ]
    revert = [
        Step(
            "In a session that has not spilled yet; another begins with the default anyway.",
            sql=("RESET temp_directory",),
        )
    ]
    limit = ""
    if size is not None:
        size_bytes = parse_bytes(size)
        gib = size_bytes % (1 << 30) == 0
        word = f"{size_bytes >> 30}GiB" if gib else f"{size_bytes >> 20}MiB"
        limit = f", 'max_temp_directory_size': '{word}'"
        statement = f"SET max_temp_directory_size = {sql_literal(word)}"
        why = "A query that wants more fails; without a limit it may take 90 % of the free space."
        steps.append(Step(why, sql=(statement,)))
        revert.append(Step("The limit.", sql=("RESET max_temp_directory_size",)))
    steps.append(
        Step(
            "In a second connection while a query spills: its files are there.",
            sql=("SELECT path, size FROM duckdb_temporary_files()",),
        )
    )
    move = Move("duckdb", str(to), "session", steps, revert)
    move.warnings = [
        "a database keeps no settings: to have them in every session, put the SET statements into "
        "~/.duckdbrc for DuckDB's shell, or for Python write duckdb.connect(FILE, "
        f"config={{'temp_directory': {directory}{limit}}})",
    ]
    return move

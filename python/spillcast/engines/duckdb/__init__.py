"""DuckDB: queries in processes of our own, on databases of ours or of the user's."""

from collections.abc import Callable
from typing import TYPE_CHECKING

from spillcast.engines.engine import BY_PROCESS, Coverage, Engine, WorkMemory

if TYPE_CHECKING:
    from spillcast.engines.duckdb.lab import DuckDbLab
    from spillcast.engines.move import Move

#: It spills buffers of its own block, whole or compressed.
IO_SIZE = (
    "there is no setting. Temp files are written and read in blocks of 256 KiB, or less where they "
    "are compressed; default_block_size is for database files"
)


def _lab() -> "type[DuckDbLab]":
    from spillcast.engines.duckdb.lab import DuckDbLab

    return DuckDbLab


def _move() -> "Callable[..., Move]":
    from spillcast.engines.duckdb.move import move

    return move


ENGINE = Engine(
    name="duckdb",
    label="DuckDB",
    temp_names={"blocks": "duckdb_temp_*"},
    io_size=lambda _least, _most: (IO_SIZE, ()),
    memory=WorkMemory(
        "memory_limit", "32M..512M", "KiB", report_settings={"enable_profiling": "no_output"}
    ),
    lab=_lab,
    move=_move,
    coverage=Coverage(
        live=f"{BY_PROCESS}, demo",
        evidence="profiles in JSON or as text",
        cure="memory_limit (sweep memory)",
    ),
)

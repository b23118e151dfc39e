"""What to set in an engine for I/Os of some size on temp files, where there is anything to set."""

from dataclasses import dataclass
from typing import Any


@dataclass(frozen=True)
class IoSizeAdvice:
    """An engine, what to know, and the statements, none where there is no setting."""

    engine: str
    text: str
    statements: tuple[str, ...] = ()

    def to_json(self) -> dict[str, Any]:
        """The entry of docs/schema.md."""
        return {"engine": self.engine, "text": self.text, "statements": list(self.statements)}


#: DuckDB spills buffers of its own block, whole or compressed; PostgreSQL a block of its build. Its
#: io_combine_limit joins reads of tables and indexes (read streams); src/backend/storage/file/
#: buffile.c has one buffer of BLCKSZ for each file and issues it alone.
DUCKDB = (
    "there is no setting. Temp files are written and read in blocks of 256 KiB, or less where they "
    "are compressed; default_block_size is for database files"
)
POSTGRES = (
    "there is no setting. Temp files are written and read in blocks of the server's build, 8 KiB "
    "(BLCKSZ); io_combine_limit and effective_io_concurrency are for tables and indexes. The "
    "kernel's readahead makes sequential reads larger (blockdev --setra)"
)


def io_size_advice(min_bytes: int, max_bytes: int) -> list[IoSizeAdvice]:
    """Advice for each engine. Oracle's parameters are in KiB."""
    least, most = (max(1, round(size / 1024)) for size in (min_bytes, max_bytes))
    oracle = (
        "hidden parameters of automatic work areas (workarea_size_policy=auto), in KB. They are "
        "undocumented: change them only on Oracle Support's word, and on a test system first. They "
        "hold after a restart"
    )
    statements = (
        f'ALTER SYSTEM SET "_smm_auto_max_io_size"={most} SCOPE=SPFILE;',
        f'ALTER SYSTEM SET "_smm_auto_min_io_size"={least} SCOPE=SPFILE;',
    )
    return [
        IoSizeAdvice("oracle", oracle, statements),
        IoSizeAdvice("duckdb", DUCKDB),
        IoSizeAdvice("postgres", POSTGRES),
    ]

"""DuckDB: queries in processes of our own, on databases of ours or of the user's."""

from spillcast.engines.engine import Engine, WorkMemory, late

#: It spills buffers of its own block, whole or compressed.
IO_SIZE = (
    "there is no setting. Temp files are written and read in blocks of 256 KiB, or less where they "
    "are compressed; default_block_size is for database files"
)
ENGINE = Engine(
    name="duckdb",
    label="DuckDB",
    io_size=lambda _least, _most: (IO_SIZE, ()),
    memory=WorkMemory(
        "memory_limit", "32M..512M", "KiB", telling={"enable_profiling": "no_output"}
    ),
    lab=late(f"{__name__}.lab", "DuckDbLab"),
    move=late(f"{__name__}.move", "move"),
)

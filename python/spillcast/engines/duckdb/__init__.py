"""DuckDB: queries in processes of their own, on generated databases or the user's."""

from spillcast.engines.engine import BY_PROCESS, Coverage, Engine, WorkMemory

#: It spills buffers of its own block, whole or compressed.
IO_SIZE = (
    "there is no setting. Temp files are written and read in blocks of 256 KiB, or less where they "
    "are compressed; default_block_size is for database files"
)

ENGINE = Engine(
    name="duckdb",
    label="DuckDB",
    temp_names={"blocks": "duckdb_temp_*"},
    io_size=lambda _min_bytes, _max_bytes: (IO_SIZE, ()),
    memory=WorkMemory(
        "memory_limit", "32M..512M", "KiB", report_settings={"enable_profiling": "no_output"}
    ),
    lab="spillcast.engines.duckdb.lab:DuckDbLab",
    move="spillcast.engines.duckdb.move:move",
    coverage=Coverage(
        live=f"{BY_PROCESS}, demo",
        evidence="profiles in JSON or as text",
        cure="memory_limit (sweep memory)",
    ),
)

"""Engines without a package: a declaration, and at most one module for all their features."""

from spillcast.engines.engine import BY_PROCESS, Coverage, Engine, LikelyName, WorkMemory

SPILLS = "a test records its spill"
NOTHING_RUN = "names alone: it was not run"

#: It spills buffers of its own block, whole or compressed.
DUCKDB_IO_SIZE = (
    "there is no setting. Temp files are written and read in blocks of 256 KiB, or less where they "
    "are compressed; default_block_size is for database files"
)
DUCKDB = Engine(
    name="duckdb",
    label="DuckDB",
    temp_names={"blocks": "duckdb_temp_*"},
    io_size=lambda _min_bytes, _max_bytes: (DUCKDB_IO_SIZE, ()),
    memory=WorkMemory(
        "memory_limit", "32M..512M", "KiB", report_settings={"enable_profiling": "no_output"}
    ),
    lab="spillcast.engines.duckdb:DuckDbLab",
    move="spillcast.engines.move:move_duckdb",
    coverage=Coverage(
        live=f"{BY_PROCESS}, demo",
        evidence="profiles in JSON or as text",
        cure="memory_limit (sweep memory)",
    ),
)
SORT = Engine(
    name="sort",
    label="GNU sort",
    temp_names={"sorted runs": LikelyName("sort??????")},
    memory=WorkMemory("-S", "256K..8M", "K"),
    lab="spillcast.engines.sort:SortLab",
    coverage=Coverage(parallel="a thread merges and does all I/O", cure="-S (sweep memory)"),
)
DATAFUSION = Engine(
    name="datafusion",
    label="DataFusion",
    temp_names={"batches in Arrow IPC": LikelyName("datafusion-*/")},
    memory=WorkMemory("memory pool", "12M..256M", "K"),
    lab="spillcast.engines.datafusion:DataFusionLab",
    coverage=Coverage(
        evidence="EXPLAIN ANALYZE counts bytes alone: figures:",
        cure="the memory pool (sweep memory); a hash join never spills, it fails",
    ),
)
POLARS = Engine(
    name="polars",
    label="Polars",
    temp_names={"blocks in Arrow IPC": LikelyName("spill-*.ipc")},
    coverage=Coverage(cure="POLARS_OOC_MEMORY_BUDGET_MB", verified=SPILLS),
)
SQLITE = Engine(
    name="sqlite",
    label="SQLite",
    temp_names={"sorter, transient tables, statement journal": LikelyName("etilqs_*")},
    coverage=Coverage(cure="PRAGMA cache_size, temp_store = MEMORY", verified=SPILLS),
)
DASK = Engine(
    name="dask",
    label="Dask",
    temp_names={
        "worker's spilled objects": LikelyName("dask-scratch-space*/"),
        "worker's spilled objects, until 2023": LikelyName("dask-worker-space/"),
    },
    coverage=Coverage(
        parallel="each worker is recorded by itself",
        cure="distributed.worker.memory.target and spill",
        verified=SPILLS,
    ),
)
TRINO = Engine(
    name="trino",
    label="Trino",
    aliases=("presto", "prestodb"),
    temp_names={"pages of rows": LikelyName("spill*.bin")},
    coverage=Coverage(
        live="record --pid of a worker",
        evidence="EXPLAIN ANALYZE counts bytes alone: figures:",
        parallel="each worker is recorded by itself",
        cure="query.max-memory-per-node",
        verified=NOTHING_RUN,
    ),
)
GREENPLUM = Engine(
    name="greenplum",
    label="Greenplum",
    temp_names={"workfiles": "pgsql_tmp/"},
    coverage=Coverage(
        live="record --pid of a segment's process",
        parallel="each segment is recorded by itself",
        cure="statement_mem",
        verified=NOTHING_RUN,
    ),
)
#: A directory of an executor below each local directory, and one of its 64 folders.
_BLOCKS = "blockmgr-*/*"
SPARK = Engine(
    name="spark",
    label="Spark",
    temp_names={
        # UnsafeExternalSorter, ExternalAppendOnlyMap
        "spill": f"{_BLOCKS}/temp_local_*",
        # One file a partition, or sorted parts, which are merged to a shuffle file.
        "unmerged shuffle": f"{_BLOCKS}/temp_shuffle_*",
        "shuffle": f"{_BLOCKS}/shuffle_*.data*",
        "shuffle index": f"{_BLOCKS}/shuffle_*",
        "cached block": f"{_BLOCKS}/rdd_*",
        "broadcast": f"{_BLOCKS}/broadcast_*",
        "task result": f"{_BLOCKS}/taskresult_*",
        # As of Python workers.
        "other block": "blockmgr-*/",
    },
    notice="spillcast.engines.spark:local_dirs_notice",
    coverage=Coverage(
        live="record --pid of an executor",
        evidence="event logs, with or without recordings of executors",
        parallel="tasks are simulated in slots",
        cure="executors, memory: forecast of an event log",
        verified="measured applications",
    ),
)
SQLSERVER = Engine(
    name="sqlserver",
    label="SQL Server",
    coverage=Coverage(
        live="",
        evidence="actual plans, dm_exec_query_stats, dm_io_virtual_file_stats",
        parallel="threads that spilled, by the plan",
        cure="the memory grant, by the plan",
        verified="plans of published forms; no measured run",
    ),
)
DATABEND = Engine(
    name="databend",
    label="Databend",
    coverage=Coverage(
        live="record --pid of databend-query",
        evidence="EXPLAIN ANALYZE",
        parallel="threads that were busy, by the plan",
        cure="max_memory_usage",
        verified="plans beside recordings of their runs",
    ),
)

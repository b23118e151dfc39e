"""Engines that one declaration describes: the names of their temp files, and what they lack."""

from spillcast.engines.engine import Coverage, Engine, LikelyName

SPILLS = "a test records its spill"
NOTHING_RUN = "names alone: it was not run"

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

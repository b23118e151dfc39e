"""The declarations of all engines, and the functions that look them up.

``tests/paper_engine.py`` is an example of an engine in one file.
"""

from dataclasses import replace
from importlib import import_module
from typing import Any

from spillcast.engines import BY_PROCESS, Coverage, Engine, Lab, LikelyName, MemorySetting
from spillcast.errors import ChoiceUnknown, EngineUnsupported

#: Values of ``Coverage.verified``.
SPILLS = "a test records its spill"
NOTHING_RUN = "names alone: it was not run"


def _oracle_io_size(min_bytes: int, max_bytes: int) -> tuple[str, ...]:
    min_kib, max_kib = (max(1, round(size / 1024)) for size in (min_bytes, max_bytes))
    return (
        f'ALTER SYSTEM SET "_smm_auto_max_io_size"={max_kib} SCOPE=SPFILE;',
        f'ALTER SYSTEM SET "_smm_auto_min_io_size"={min_kib} SCOPE=SPFILE;',
    )


ORACLE = Engine(
    name="oracle",
    label="Oracle",
    io_size=(
        "hidden parameters of automatic work areas (workarea_size_policy=auto), in KB. They are "
        "undocumented: change them only on Oracle Support's advice, and on a test system first. "
        "They take effect after a restart"
    ),
    set_io_size=_oracle_io_size,
    move="spillcast.engines.oracle:move",
    collect="spillcast.engines.oracle:collect",
    coverage=Coverage(
        live="record --pid",
        evidence="SQL traces, ASH, AWR, Statspack, SQL Monitor, tkprof, wait views",
        parallel="a trace for each parallel server, or samples of ASH",
        fix="work area sizes of V$SQL_WORKAREA",
        verified="published cases; no measured run",
    ),
)
DUCKDB = Engine(
    name="duckdb",
    label="DuckDB",
    temp_names={"blocks": "duckdb_temp_*"},
    # DuckDB spills buffers of its own block size, whole or compressed.
    io_size=(
        "there is no setting. Temp files are written and read in blocks of 256 KiB, or less "
        "where they are compressed; default_block_size is for database files"
    ),
    memory=MemorySetting(
        "memory_limit", "32M..512M", "KiB", report_settings={"enable_profiling": "no_output"}
    ),
    lab="spillcast.engines.duckdb:DuckDbLab",
    move="spillcast.engines.move:move_duckdb",
    coverage=Coverage(
        live=f"{BY_PROCESS}, demo",
        evidence="profiles in JSON or as text",
        fix="memory_limit (sweep memory)",
    ),
)
POSTGRES = Engine(
    name="postgres",
    label="PostgreSQL",
    temp_names={"sort runs, hash batches, rows": "pgsql_tmp/"},
    # The name in the meta.json of a recording with a plan of EXPLAIN.
    aliases=("postgresql",),
    settings=("work_mem", "hash_mem_multiplier", "max_parallel_workers_per_gather", "io_method"),
    # src/backend/storage/file/buffile.c has one buffer of BLCKSZ for each file and reads or writes
    # one at a time; io_combine_limit combines only the reads of tables and indexes (read streams).
    io_size=(
        "there is no setting. Temp files are written and read in blocks of the server's build, "
        "8 KiB (BLCKSZ); io_combine_limit and effective_io_concurrency are for tables and "
        "indexes. The kernel's readahead makes sequential reads larger (blockdev --setra)"
    ),
    memory=MemorySetting("work_mem", "256K..32M", "kB", (64 << 10, ((1 << 31) - 1) << 10)),
    lab="spillcast.engines.postgres.lab:PostgresLab",
    server=True,
    record="spillcast.engines.postgres.live:record_postgres",
    move="spillcast.engines.postgres.move:move",
    coverage=Coverage(
        live="record --postgres, postgres DSN, rehearsals",
        evidence="plans, pg_stat_statements, logs, histories",
        parallel="leader and workers are recorded",
        fix="work_mem (sweep memory, forecast of a plan)",
    ),
)
_MYSQL_COVERAGE = Coverage(
    live="record --mysql (the session's thread), record --pid, mysql DSN",
    evidence="digests of statements, summaries of file I/O",
    parallel="a statement has one thread; those of InnoDB with record --pid",
    fix="sort_buffer_size, tmp_table_size, max_heap_table_size",
)
_MYSQL_NAMES = {
    "sort": LikelyName("MY*"),
    "binary log cache": LikelyName("ML*"),
    "temporary table": LikelyName("#sql*.MY?"),
    "shared temporary tablespace": "ibtmp*",
}
MYSQL = Engine(
    name="mysql",
    label="MySQL",
    temp_names={
        **_MYSQL_NAMES,
        "temporary tables of a session": "temp_*.ibt",
        "overflow of TempTable": "mysql_temptable.*",
    },
    # These settings of a session decide whether a statement spills.
    settings=("sort_buffer_size", "tmp_table_size", "max_heap_table_size", "join_buffer_size"),
    io_size=(
        "there is no setting. A sort reads its runs in parts of sort_buffer_size; temporary "
        "tables on disk have pages of their storage engine: 8 KiB in Aria, 16 KiB in InnoDB"
    ),
    record="spillcast.engines.mysql.record:record_mysql",
    move="spillcast.engines.move:move_mysql",
    lab="spillcast.engines.mysql.lab:MySqlLab",
    coverage=_MYSQL_COVERAGE,
)
MARIADB = replace(
    MYSQL,
    name="mariadb",
    label="MariaDB",
    temp_names={**_MYSQL_NAMES, "temporary table in Aria": LikelyName("#sql*.MA?")},
    lab="spillcast.engines.mysql.lab:MariaDbLab",
    coverage=replace(
        _MYSQL_COVERAGE,
        evidence=f"{_MYSQL_COVERAGE.evidence}, ANALYZE FORMAT=JSON",
        fix=f"{_MYSQL_COVERAGE.fix}, by the plan",
    ),
)
SORT = Engine(
    name="sort",
    label="GNU sort",
    temp_names={"sorted runs": LikelyName("sort??????")},
    memory=MemorySetting("-S", "256K..8M", "K"),
    lab="spillcast.engines.sort:SortLab",
    coverage=Coverage(parallel="a thread merges and does all I/O", fix="-S (sweep memory)"),
)
DATAFUSION = Engine(
    name="datafusion",
    label="DataFusion",
    temp_names={"batches in Arrow IPC": LikelyName("datafusion-*/")},
    memory=MemorySetting("memory pool", "12M..256M", "K"),
    lab="spillcast.engines.datafusion:DataFusionLab",
    coverage=Coverage(
        evidence="EXPLAIN ANALYZE counts bytes alone: figures:",
        fix="the memory pool (sweep memory); a hash join never spills, it fails",
    ),
)
CLICKHOUSE = Engine(
    name="clickhouse",
    label="ClickHouse",
    temp_names={
        "sort runs, hash buckets, join blocks": "tmp????????-????-????-????-????????????",
    },
    io_size=(
        "temp files are written in buffers of temporary_files_buffer_size, 1 MiB by default, "
        "and read in buffers of 1 MiB; a smaller file is one operation"
    ),
    lab="spillcast.engines.clickhouse.lab:ClickHouseLab",
    move="spillcast.engines.move:move_clickhouse",
    coverage=Coverage(
        live=f"{BY_PROCESS}, clickhouse DSN",
        evidence="system.query_log: exact counts of a query, clickhouse EXPORT",
        parallel="each thread is recorded; with the log alone max_threads bounds them",
        fix="max_bytes_before_external_*, max_bytes_in_join, by the peak of memory in the log",
    ),
)
POLARS = Engine(
    name="polars",
    label="Polars",
    temp_names={"blocks in Arrow IPC": LikelyName("spill-*.ipc")},
    coverage=Coverage(fix="POLARS_OOC_MEMORY_BUDGET_MB", verified=SPILLS),
)
SQLITE = Engine(
    name="sqlite",
    label="SQLite",
    temp_names={"sorter, transient tables, statement journal": LikelyName("etilqs_*")},
    coverage=Coverage(fix="PRAGMA cache_size, temp_store = MEMORY", verified=SPILLS),
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
        fix="distributed.worker.memory.target and spill",
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
        fix="query.max-memory-per-node",
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
        fix="statement_mem",
        verified=NOTHING_RUN,
    ),
)
#: An executor's directory in each local directory, and one of its 64 subfolders.
_BLOCKS = "blockmgr-*/*"
SPARK = Engine(
    name="spark",
    label="Spark",
    temp_names={
        # By UnsafeExternalSorter and ExternalAppendOnlyMap.
        "spill": f"{_BLOCKS}/temp_local_*",
        # One file for each partition, or sorted parts, which are merged into a shuffle file.
        "unmerged shuffle": f"{_BLOCKS}/temp_shuffle_*",
        "shuffle": f"{_BLOCKS}/shuffle_*.data*",
        "shuffle index": f"{_BLOCKS}/shuffle_*",
        "cached block": f"{_BLOCKS}/rdd_*",
        "broadcast": f"{_BLOCKS}/broadcast_*",
        "task result": f"{_BLOCKS}/taskresult_*",
        # For example, of Python workers.
        "other block": "blockmgr-*/",
    },
    notice="spillcast.engines.spark:local_dirs_notice",
    coverage=Coverage(
        live="record --pid of an executor",
        evidence="event logs, with or without recordings of executors",
        parallel="tasks are simulated in slots",
        fix="executors, memory: forecast of an event log",
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
        fix="the memory grant, by the plan",
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
        fix="max_memory_usage",
        verified="plans beside recordings of their runs",
    ),
)

#: Engines by name, in the order of tables and choices.
ENGINES = {
    engine.name: engine
    for engine in (
        ORACLE,
        DUCKDB,
        POSTGRES,
        MYSQL,
        MARIADB,
        SORT,
        DATAFUSION,
        CLICKHOUSE,
        POLARS,
        SQLITE,
        DASK,
        TRINO,
        GREENPLUM,
        SPARK,
        SQLSERVER,
        DATABEND,
    )
}
#: The words after "no" in the error for a missing feature, by the field of ``Engine``.
_FEATURES = {
    "lab": "experiments are made on it",
    "record": "session of it is recorded",
    "move": "move of its temp files is known",
    "collect": "script collects its evidence",
}


def engine_of(name: str) -> Engine:
    """The engine with a name. InputError if there is none."""
    if name not in ENGINES:
        raise ChoiceUnknown(f"--engine {name}: no such engine", f"there are: {', '.join(ENGINES)}")
    return ENGINES[name]


def engines(*offering: str) -> list[Engine]:
    """The engines that have all named features: ``lab``, ``record``, ``move``, ..."""
    return [
        engine
        for engine in ENGINES.values()
        if all(getattr(engine, feature) is not None for feature in offering)
    ]


def feature_of(engine: Engine, name: str) -> Any:
    """Imports a feature of an engine, such as ``move``. InputError if the engine lacks it."""
    reference = getattr(engine, name)
    if reference is None:
        raise EngineUnsupported(
            f"--engine {engine.name}: {engine.label} does not support this: no {_FEATURES[name]}"
        )
    module, _, attribute = reference.partition(":")
    return getattr(import_module(module), attribute)


def lab_of(name: str) -> type[Lab]:
    """The class for experiments on an engine. InputError if there is none."""
    lab: type[Lab] = feature_of(engine_of(name), "lab")
    return lab


def work_memory_of(name: str) -> MemorySetting:
    """The engine's setting of work memory. InputError if it is unknown."""
    engine = engine_of(name)
    if engine.memory is None:
        raise EngineUnsupported(
            f"--engine {name}: {engine.label} does not support this: its work memory is not swept"
        )
    return engine.memory


def notices_of(pid: int) -> list[str]:
    """Engines' notices about a process before its recording, such as where its temp files are."""
    notices = (feature_of(engine, "notice")(pid) for engine in engines("notice"))
    return [notice for notice in notices if notice is not None]


def known_as(name: str) -> Engine | None:
    """The engine with a name or alias in meta.json; None for ``process`` and unknown engines."""
    return next((engine for engine in engines() if name in (engine.name, *engine.aliases)), None)

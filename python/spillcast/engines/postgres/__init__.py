"""PostgreSQL: servers that run already, watched and changed, and servers of our own."""

from spillcast.engines.engine import Coverage, Engine, WorkMemory

#: It spills a block of its build. Its io_combine_limit joins reads of tables and indexes (read
#: streams); src/backend/storage/file/buffile.c has one buffer of BLCKSZ for each file and issues it
#: alone.
IO_SIZE = (
    "there is no setting. Temp files are written and read in blocks of the server's build, 8 KiB "
    "(BLCKSZ); io_combine_limit and effective_io_concurrency are for tables and indexes. The "
    "kernel's readahead makes sequential reads larger (blockdev --setra)"
)

ENGINE = Engine(
    name="postgres",
    label="PostgreSQL",
    temp_names={"sort runs, hash batches, rows": "pgsql_tmp/"},
    # What a plan of EXPLAIN becomes, which knows nothing of a process.
    aliases=("postgresql",),
    settings=("work_mem", "hash_mem_multiplier", "max_parallel_workers_per_gather", "io_method"),
    io_size=lambda _min_bytes, _max_bytes: (IO_SIZE, ()),
    memory=WorkMemory("work_mem", "256K..32M", "kB", (64 << 10, ((1 << 31) - 1) << 10)),
    lab="spillcast.engines.postgres.lab:PostgresLab",
    server=True,
    record="spillcast.engines.postgres.live.record:record_postgres",
    move="spillcast.engines.postgres.move:move",
    coverage=Coverage(
        live="record --postgres, postgres DSN, rehearsals",
        evidence="plans, pg_stat_statements, logs, histories",
        parallel="leader and workers are recorded",
        cure="work_mem (sweep memory, forecast of a plan)",
    ),
)

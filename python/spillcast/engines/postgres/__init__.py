"""PostgreSQL: servers that run already, watched and changed, and servers of our own."""

from spillcast.engines.engine import Engine, WorkMemory, late

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
    # What a plan of EXPLAIN becomes, which knows nothing of a process.
    aliases=("postgresql",),
    settings=("work_mem", "hash_mem_multiplier", "max_parallel_workers_per_gather", "io_method"),
    io_size=lambda _least, _most: (IO_SIZE, ()),
    memory=WorkMemory("work_mem", "256K..32M", "kB", (64 << 10, ((1 << 31) - 1) << 10)),
    lab=late(f"{__name__}.lab", "PostgresLab"),
    live=late(f"{__name__}.live.record", "record_postgres"),
    live_all=late(f"{__name__}.live.record_all", "record_all_of_postgres"),
    rehearse=late(f"{__name__}.live.rehearse", "rehearse_postgres"),
    rank=late(f"{__name__}.rank.command", "rank_postgres"),
    took=late(f"{__name__}.rank.took", "took_on_postgres"),
    move=late(f"{__name__}.move.command", "move"),
)

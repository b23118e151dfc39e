"""ClickHouse: its query log as evidence, a ranking of a server, experiments on chdb."""

from spillcast.engines.engine import BY_PROCESS, Coverage, Engine

IO_SIZE = (
    "temp files are written in buffers of temporary_files_buffer_size, 1 MiB by default, and read "
    "in buffers of 1 MiB; a smaller file is one operation"
)

ENGINE = Engine(
    name="clickhouse",
    label="ClickHouse",
    temp_names={
        "sort runs, hash buckets, join blocks": "tmp????????-????-????-????-????????????",
    },
    io_size=lambda _min_bytes, _max_bytes: (IO_SIZE, ()),
    lab="spillcast.engines.clickhouse.lab:ClickHouseLab",
    move="spillcast.engines.move:move_clickhouse",
    coverage=Coverage(
        live=f"{BY_PROCESS}, clickhouse DSN",
        evidence="system.query_log: exact counts of a query, clickhouse EXPORT",
        parallel="each thread is recorded; with the log alone max_threads bounds them",
        cure="max_bytes_before_external_*, max_bytes_in_join, by the peak of memory in the log",
    ),
)

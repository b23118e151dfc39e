"""ClickHouse: its query log as evidence, a ranking of a server, experiments on chdb."""

from collections.abc import Callable
from typing import TYPE_CHECKING

from spillcast.engines.engine import BY_PROCESS, Coverage, Engine

if TYPE_CHECKING:
    from spillcast.engines.clickhouse.lab import ClickHouseLab
    from spillcast.engines.move import Move

IO_SIZE = (
    "temp files are written in buffers of temporary_files_buffer_size, 1 MiB by default, and read "
    "in buffers of 1 MiB; a smaller file is one operation"
)


def _lab() -> "type[ClickHouseLab]":
    from spillcast.engines.clickhouse.lab import ClickHouseLab

    return ClickHouseLab


def _move() -> "Callable[..., Move]":
    from spillcast.engines.clickhouse.move import move

    return move


ENGINE = Engine(
    name="clickhouse",
    label="ClickHouse",
    temp_names={
        "sort runs, hash buckets, join blocks": "tmp????????-????-????-????-????????????",
    },
    io_size=lambda _lower, _upper: (IO_SIZE, ()),
    lab=_lab,
    move=_move,
    coverage=Coverage(
        live=f"{BY_PROCESS}, clickhouse DSN",
        evidence="system.query_log: exact counts of a query, clickhouse EXPORT",
        parallel="each thread is recorded; from afar max_threads bounds them",
        cure="max_bytes_before_external_*, max_bytes_in_join, by the peak of memory in the log",
    ),
)

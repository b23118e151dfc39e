"""Engines that one declaration describes: the names of their temp files, and what they lack."""

from spillcast.engines.engine import Engine, LikelyName

POLARS = Engine(
    name="polars",
    label="Polars",
    temp_names={"blocks in Arrow IPC": LikelyName("spill-*.ipc")},
)
SQLITE = Engine(
    name="sqlite",
    label="SQLite",
    temp_names={"sorter, transient tables, statement journal": LikelyName("etilqs_*")},
)
DASK = Engine(
    name="dask",
    label="Dask",
    temp_names={
        "worker's spilled objects": LikelyName("dask-scratch-space*/"),
        "worker's spilled objects, until 2023": LikelyName("dask-worker-space/"),
    },
)
TRINO = Engine(
    name="trino",
    label="Trino",
    aliases=("presto", "prestodb"),
    temp_names={"pages of rows": LikelyName("spill*.bin")},
)
GREENPLUM = Engine(
    name="greenplum",
    label="Greenplum",
    temp_names={"workfiles": "pgsql_tmp/"},
)
SPARK = Engine(
    name="spark",
    label="Spark",
    temp_names={"shuffle, spilled and cached blocks": "blockmgr-*/"},
)

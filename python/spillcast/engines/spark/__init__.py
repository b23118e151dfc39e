"""Spark: executors that shuffle and spill to local directories."""

from spillcast.engines.engine import Coverage, Engine

#: A directory of an executor below each local directory, and one of its 64 folders.
_BLOCKS = "blockmgr-*/*"


ENGINE = Engine(
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
    notice="spillcast.engines.spark.local_dirs:local_dirs_notice",
    coverage=Coverage(
        live="record --pid of an executor",
        evidence="event logs, with or without recordings of executors",
        parallel="tasks are simulated in slots",
        cure="executors, memory: forecast of an event log",
        verified="measured applications",
    ),
)

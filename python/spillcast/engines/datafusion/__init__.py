"""DataFusion: queries in processes of our own, on a table in Parquet."""

from typing import TYPE_CHECKING

from spillcast.engines.engine import Coverage, Engine, LikelyName, WorkMemory

if TYPE_CHECKING:
    from spillcast.engines.datafusion.lab import DataFusionLab


def _lab() -> "type[DataFusionLab]":
    from spillcast.engines.datafusion.lab import DataFusionLab

    return DataFusionLab


ENGINE = Engine(
    name="datafusion",
    label="DataFusion",
    temp_names={"batches in Arrow IPC": LikelyName("datafusion-*/")},
    memory=WorkMemory("memory pool", "12M..256M", "K"),
    lab=_lab,
    coverage=Coverage(
        evidence="EXPLAIN ANALYZE counts bytes alone: figures:",
        cure="the memory pool (sweep memory); a hash join never spills, it fails",
    ),
)

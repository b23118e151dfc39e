"""DataFusion: queries in processes of their own, on a table in Parquet."""

from spillcast.engines.engine import Coverage, Engine, LikelyName, WorkMemory

ENGINE = Engine(
    name="datafusion",
    label="DataFusion",
    temp_names={"batches in Arrow IPC": LikelyName("datafusion-*/")},
    memory=WorkMemory("memory pool", "12M..256M", "K"),
    lab="spillcast.engines.datafusion.lab:DataFusionLab",
    coverage=Coverage(
        evidence="EXPLAIN ANALYZE counts bytes alone: figures:",
        cure="the memory pool (sweep memory); a hash join never spills, it fails",
    ),
)

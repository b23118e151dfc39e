"""TPC-H and TPC-DS on the engines of experiments: generated tables, queries that spill."""

from spillcast.engines.engine import Lab


def tpc_labs_of(engine: str) -> dict[str, list[type[Lab]]]:
    """The experiments on each suite's tables, one for each server that an engine has."""
    if engine == "duckdb":
        from spillcast_lab.tpc.duckdb import DuckDbTpcds, DuckDbTpch

        return {"tpch": [DuckDbTpch], "tpcds": [DuckDbTpcds]}
    if engine == "postgres":
        from spillcast_lab.tpc.postgres import DebianTpch, PostgresTpcds, PostgresTpch

        return {"tpch": [PostgresTpch, DebianTpch], "tpcds": [PostgresTpcds]}
    if engine == "datafusion":
        from spillcast_lab.tpc.datafusion import DataFusionTpch

        return {"tpch": [DataFusionTpch]}
    if engine == "clickhouse":
        from spillcast_lab.tpc.clickhouse import ClickHouseTpch

        return {"tpch": [ClickHouseTpch]}
    return {}

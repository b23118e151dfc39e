"""TPC-H on the engines of experiments: tables made to size, queries as specified."""

from spillcast.engines.engine import Lab


def tpch_labs_of(engine: str) -> list[type[Lab]]:
    """The experiments on TPC-H's tables, one for each server that an engine has."""
    if engine == "duckdb":
        from spillcast_lab.tpch.duckdb import DuckDbTpch

        return [DuckDbTpch]
    if engine == "postgres":
        from spillcast_lab.tpch.postgres import DebianTpch, PostgresTpch

        return [PostgresTpch, DebianTpch]
    return []

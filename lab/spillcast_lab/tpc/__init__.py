"""TPC-H and TPC-DS on the engines of experiments: generated tables, queries that spill."""

from importlib import import_module

from spillcast.engines.engine import Lab

#: Classes by engine, module of this package, and suite: one for each server that an engine has.
_LABS = {
    "duckdb": {"tpch": ["DuckDbTpch"], "tpcds": ["DuckDbTpcds"]},
    "postgres": {"tpch": ["PostgresTpch", "DebianTpch"], "tpcds": ["PostgresTpcds"]},
    "datafusion": {"tpch": ["DataFusionTpch"]},
    "clickhouse": {"tpch": ["ClickHouseTpch"]},
}


def tpc_labs_of(engine: str) -> dict[str, list[type[Lab]]]:
    """The experiments on each suite's tables."""
    suites = _LABS.get(engine, {})
    module = import_module(f"spillcast_lab.tpc.{engine}") if suites else None
    return {suite: [getattr(module, name) for name in names] for suite, names in suites.items()}

"""TPC-H and TPC-DS on the engines of experiments: generated tables, queries that spill."""

from importlib import import_module

from spillcast.engines.engine import Lab

#: Classes by engine and suite, as ``module:class`` of this package: one for each server.
_LABS = {
    "duckdb": {"tpch": ["embedded:DuckDbTpch"], "tpcds": ["embedded:DuckDbTpcds"]},
    "postgres": {
        "tpch": ["postgres:PostgresTpch", "postgres:DebianTpch"],
        "tpcds": ["postgres:PostgresTpcds"],
    },
    "datafusion": {"tpch": ["embedded:DataFusionTpch"]},
    "clickhouse": {"tpch": ["embedded:ClickHouseTpch"]},
}


def tpc_labs_of(engine: str) -> dict[str, list[type[Lab]]]:
    """The experiments on each suite's tables."""
    return {suite: list(map(_lab, names)) for suite, names in _LABS.get(engine, {}).items()}


def _lab(name: str) -> type[Lab]:
    module, _, lab = name.partition(":")
    of_suite: type[Lab] = getattr(import_module(f"spillcast_lab.tpc.{module}"), lab)
    return of_suite

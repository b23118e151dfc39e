"""One job of Spark in a separate process: ``python -m spillcast_lab.spark.jobs SETTINGS``.

The settings are a JSON object: the job, its rows, the master, Spark's properties, the file for its
output, and the folder of the tables of TPC-H and TPC-DS, as Parquet.
"""

import json
import os
import sys
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any

from spillcast.engines.queries import end_with_parent
from spillcast_lab.tpc.suite import TPCDS, TPCH

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

#: Number of partitions of synthetic rows.
INPUT_PARTITIONS = 4
#: Number of repeats of an 8-byte text in every row.
TEXT_REPEATS = 28
#: Queries of the suites, by the tables that they read.
SUITE_JOBS: Mapping[str, tuple[str, ...]] = {
    "tpch Q18": ("customer", "orders", "lineitem"),
    "tpcds self-join": ("store_sales",),
}

OWN_JOBS: Mapping[str, "Callable[[DataFrame], DataFrame]"] = {
    "sort": lambda rows: rows.orderBy("v", "t"),
    "group by": lambda rows: rows.groupBy("k", "t").agg({"v": "sum"}),
    "sort-merge join": lambda rows: rows.join(
        rows.selectExpr("id * 3 as id", "t as u").hint("merge"), "id"
    ),
    "window": lambda rows: rows.selectExpr(
        "*", "row_number() over (partition by k % 1000 order by v) as r"
    ),
    "distinct": lambda rows: rows.select("t", "v").distinct(),
    "repartition": lambda rows: rows.repartition(16, "k"),
}


def _result(session: "SparkSession", settings: Mapping[str, Any]) -> "DataFrame":
    name = settings["job"]
    if name in OWN_JOBS:
        rows = session.range(0, settings["rows"], 1, INPUT_PARTITIONS).selectExpr(
            "id",
            "id * 7919 % 1000003 as k",
            f"cast(rand({settings['seed']}) * 1e9 as bigint) as v",
            f"repeat(lpad(id, 8, '0'), {TEXT_REPEATS}) as t",
        )
        return OWN_JOBS[name](rows)
    suite, _, query = name.partition(" ")
    for table in SUITE_JOBS[name]:
        path = f"{settings['tables']}/{table}.parquet"
        session.read.parquet(path).createOrReplaceTempView(table)
    return session.sql({"tpch": TPCH, "tpcds": TPCDS}[suite].text(query))


def main(settings: Mapping[str, Any]) -> None:
    """Run the job to its end; its rows are discarded."""
    from pyspark.sql import SparkSession

    builder = SparkSession.builder.master(settings["master"]).appName(settings["job"])
    for key, value in settings["properties"].items():
        builder = builder.config(key, value)
    session = builder.getOrCreate()
    session.sparkContext.setLogLevel("ERROR")
    _result(session, settings).write.format("noop").mode("overwrite").save()
    session.stop()


if __name__ == "__main__":
    end_with_parent()
    chosen = json.loads(sys.argv[1])
    with open(chosen["output"], "wb") as output:
        for descriptor in (1, 2):
            os.dup2(output.fileno(), descriptor)
    main(chosen)

"""A DuckDB job that spills: it sorts more than its memory holds, with temp files beside it."""

import duckdb

connection = duckdb.connect(
    config={"memory_limit": "100MB", "threads": 1, "temp_directory": "duckdb_temp"}
)
connection.execute("set enable_progress_bar = false")
connection.execute(
    "create table ranked as select hash(i) as k, i from range(3000000) r(i) order by k"
)

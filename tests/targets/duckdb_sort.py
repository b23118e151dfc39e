"""A sort of DuckDB that spills; arguments: the temp directory and the number of rows."""

import sys

import duckdb

temp, rows = sys.argv[1], int(sys.argv[2])
settings = {"temp_directory": temp, "memory_limit": "40MB", "threads": 1}
made = duckdb.connect(config=settings)
made.execute(f"select hash(i) as id, repeat('x', 40) || i as f from range({rows}) r(i) order by id")
print(sum(len(made.fetchmany(50_000)) for _ in range(rows // 50_000)))

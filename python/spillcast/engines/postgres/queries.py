"""PostgreSQL queries that spill, over one generated table.

PostgreSQL moves temp data in calls of 8 KiB, so that little of it takes long on slow storage: each
query reads the whole table and spills a part of it, in about five thousand calls.
"""

from collections.abc import Mapping
from dataclasses import replace

from spillcast.engines.workload import Workload

#: The columns of DuckDB's table, and one of few values; ``hashint8extended`` gives the same rows on
#: every machine.
TABLE = """
create unlogged table t as
select hash(0, i) % {rows} as id,
       date '2020-01-01' + cast(hash(1, i) % 1500 as integer) as business_date,
       cast(hash(2, i) % 1000000 / 100.0 as numeric(10, 2)) as amount01,
       cast(hash(3, i) % 1000000 / 100.0 as numeric(10, 2)) as amount02,
       cast(hash(4, i) % 1000000 / 100.0 as numeric(10, 2)) as amount03,
       cast(hash(5, i) % 30000 as integer) as part
from generate_series(1, {rows}) as r(i)
"""
#: A hash that is never negative.
HASH = """
create function hash(seed bigint, i bigint) returns bigint immutable parallel safe
return hashint8extended(i, seed) & 9223372036854775807
"""

JOIN = """
select max(a.business_date), sum(ln(1 + a.amount01 * b.amount02))
from (select * from t where id < {kept}) a join (select * from t where id < {kept}) b using (id)
"""
SORT = """
select sum(ln(1 + amount01 * amount02)) from (
  select amount01, amount02 from t where id < {kept} order by amount02, id offset 0
) s
"""
GROUP_BY = """
select count(*), max(total), max(root) from (
  select part, sum(amount01) as total, sum(ln(1 + amount02)) as root
  from t where id < {kept} group by part
) s
"""
COUNT_DISTINCT = """
select count(distinct id), sum(ln(1 + amount01)) from t where id < {kept}
"""
WINDOW = """
select max(ln(1 + running)), max(spread) from (
  select sum(amount01) over part as running, stddev(amount02) over part as spread
  from t where id < {kept} window part as (partition by business_date order by id)
) s
"""

ROWS = 4_000_000
MEMORY_KB = 2048
#: Each query is to spill in the way its name says, whatever the planner would like better.
HASHED = {"enable_mergejoin": "off", "enable_nestloop": "off"}
MERGED = {"enable_hashjoin": "off", "enable_nestloop": "off", "parallel_tuple_cost": "0.1"}
AGGREGATED = {"enable_sort": "off", "parallel_tuple_cost": "0.1"}
#: Rows that workers hand over cost nothing, for sorted ones are handed over whatever is planned.
PARALLEL = {
    "parallel_setup_cost": "0",
    "parallel_tuple_cost": "0",
    "min_parallel_table_scan_size": "0",
}


def _workload(
    name: str, sql: str, kept: int, settings: Mapping[str, str], processes: int = 1
) -> Workload:
    """Each process has its part of the memory, so that all together spill as much as one alone."""
    if processes > 1:
        workers = str(processes - 1)
        settings = {**PARALLEL, **settings, "max_parallel_workers_per_gather": workers}
    memory = f"{MEMORY_KB // processes}kB"
    return Workload(name, sql.format(kept=kept), ROWS, memory, processes, settings)


def verified(processes: int) -> tuple[Workload, ...]:
    """What a verification runs: by a leader and its workers, so many processes together."""
    return (
        _workload("hash join", JOIN, 200_000, HASHED, processes),
        _workload("merge join", JOIN, 190_000, MERGED, processes),
        _workload("sort", SORT, 280_000, {}, processes),
        _workload("group by", GROUP_BY, 250_000, AGGREGATED, processes),
        _workload("count distinct", COUNT_DISTINCT, 300_000, {}, processes),
        _workload("window", WINDOW, 220_000, {}, processes),
    )


#: Half of a smaller table, joined with itself.
DEMO = replace(_workload("hash join", JOIN, 1_000_000, HASHED), rows=2_000_000, memory="4MB")

"""PostgreSQL queries that spill, over one generated table.

PostgreSQL moves temp data in calls of 8 KiB, so that little of it takes long on slow storage: each
query reads the whole table and spills a part of it, in about five thousand calls.
"""

from dataclasses import replace

from spillcast.lab.workload import Workload

#: The columns of DuckDB's table; ``hashint8extended`` gives the same rows on every machine.
TABLE = """
create unlogged table t as
select hash(0, i) % {rows} as id,
       date '2020-01-01' + cast(hash(1, i) % 1500 as integer) as business_date,
       cast(hash(2, i) % 1000000 / 100.0 as numeric(10, 2)) as amount01,
       cast(hash(3, i) % 1000000 / 100.0 as numeric(10, 2)) as amount02,
       cast(hash(4, i) % 1000000 / 100.0 as numeric(10, 2)) as amount03
from generate_series(1, {rows}) as r(i)
"""
#: A hash that is never negative.
HASH = """
create function hash(seed bigint, i bigint) returns bigint immutable parallel safe
return hashint8extended(i, seed) & 9223372036854775807
"""

JOIN = """
select max(a.business_date), sum(a.amount01 * b.amount02)
from (select * from t where id < {kept}) a join (select * from t where id < {kept}) b using (id)
"""
SORT = """
select sum(amount01), max(n) from (
  select amount01, row_number() over (order by amount02, id) as n from t where id < {kept}
) s
"""
COUNT_DISTINCT = "select count(distinct id), sum(amount01 * amount02) from t where id < {kept}"
GROUP_BY = """
select count(*), max(total) from (
  select id, sum(amount01) as total from t where id < {kept} group by id
) s
"""

ROWS = 2_000_000
WORK_MEM = "4MB"
#: Each query is to spill in the way its name says, whatever the planner would like better.
HASHED = {"enable_mergejoin": "off", "enable_nestloop": "off"}
MERGED = {"enable_hashjoin": "off", "enable_nestloop": "off"}
AGGREGATED = {"enable_sort": "off"}
PARALLEL = {
    "max_parallel_workers_per_gather": "2",
    "parallel_setup_cost": "0",
    "parallel_tuple_cost": "0",
    "min_parallel_table_scan_size": "0",
}


def _workload(name: str, sql: str, kept: int, settings: dict[str, str]) -> Workload:
    return Workload(name, sql.format(kept=kept), ROWS, WORK_MEM, settings=settings)


DEMO = _workload("hash join", JOIN, 1_000_000, HASHED)
VERIFIED = (
    _workload("hash join", JOIN, 350_000, HASHED),
    _workload("merge join", JOIN, 330_000, MERGED),
    _workload("count distinct", COUNT_DISTINCT, 600_000, {}),
    _workload("sort", SORT, 600_000, {}),
    _workload("group by", GROUP_BY, 350_000, AGGREGATED),
    # Three processes have three times the memory for their hash table.
    replace(
        _workload("parallel hash join", JOIN, 350_000, {**HASHED, **PARALLEL}),
        memory="1MB",
        threads=3,
    ),
)

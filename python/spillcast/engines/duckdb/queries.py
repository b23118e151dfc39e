"""DuckDB queries that spill, over one generated table."""

from spillcast.engines.workload import Workload

#: id, a business date and three amounts, as in the query that started this: about 40 bytes a row.
TABLE = """
create table t as
select hash(i) % {rows} as id,
       date '2020-01-01' + cast(hash(i + 1) % 1500 as integer) as business_date,
       (hash(i + 2) % 1000000) / 100.0 as amount01,
       (hash(i + 3) % 1000000) / 100.0 as amount02,
       (hash(i + 4) % 1000000) / 100.0 as amount03
from range({rows}) as r(i)
"""

HASH_JOIN = """
select max(c.business_date)
from (select a.*, b.amount01 from t a, t b where a.id = b.id) c
"""
#: Both sides are sorted, and read in step: a merge join that spills.
MERGE_JOIN = "select count(*), sum(b.amount02) from t a asof join t b on a.id >= b.id"
#: So far into the rows that all are sorted, not the first ones alone.
SORT = "select amount01, id from t order by amount02, id limit 5 offset 1900000"
GROUP_BY = """
select count(*), max(total) from (
  select id, sum(amount01) as total, max(business_date), min(amount02) from t group by id
)
"""
COUNT_DISTINCT = "select count(distinct (id, amount03)) from t"
WINDOW = """
select max(running) from (
  select sum(amount01) over (partition by business_date order by id) as running from t
)
"""

DEMO = Workload("hash join", HASH_JOIN, rows=45_000_000, memory="400MB")


def verified(threads: int) -> tuple[Workload, ...]:
    """What a verification runs: 1 to 2 s of CPU each and 500 to 2,000 temp operations."""
    return (
        Workload("hash join", HASH_JOIN, 8_000_000, "130MB", threads),
        Workload("merge join", MERGE_JOIN, 2_000_000, "80MB", threads),
        Workload("sort", SORT, 4_000_000, "70MB", threads),
        Workload("group by", GROUP_BY, 6_000_000, "100MB", threads),
        Workload("count distinct", COUNT_DISTINCT, 8_000_000, "130MB", threads),
        Workload("window", WINDOW, 3_000_000, "50MB", threads),
    )

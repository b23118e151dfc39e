"""DuckDB queries that spill, over one generated table."""

from spillcast.lab.workload import Workload

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
SORT = """
select sum(amount01), max(n) from (
  select amount01, row_number() over (order by amount02, id) as n from t
)
"""
COUNT_DISTINCT = "select count(distinct (id, amount03)) from t"

DEMO = Workload("hash join", HASH_JOIN, rows=45_000_000, memory="400MB")
#: What a verification runs: about two seconds of CPU each and one to four thousand temp operations.
VERIFIED = (
    Workload("hash join", HASH_JOIN, rows=12_000_000, memory="200MB"),
    Workload("sort", SORT, rows=4_000_000, memory="100MB"),
    Workload("count distinct", COUNT_DISTINCT, rows=12_000_000, memory="200MB"),
)

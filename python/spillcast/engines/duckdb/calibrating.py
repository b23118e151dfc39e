"""DuckDB queries that measure a machine: small, they spill, and none of them is verified."""

from spillcast.engines.workload import Workload

ROWS = 1_500_000
QUERIES = (
    Workload(
        "join of equal amounts",
        "select count(*), sum(a.amount02 - b.amount02) from t a join t b "
        "on a.amount03 = b.amount03 and a.amount01 <= b.amount01",
        ROWS,
        "36MB",
    ),
    Workload(
        "anti join",
        "select count(*), max(a.amount02) from t a where not exists "
        "(select 1 from t b where b.id = a.id + 7 and b.amount01 > a.amount02)",
        ROWS,
        "36MB",
    ),
    Workload(
        "sort of text",
        "select md5(id::varchar) as text, amount03 from t order by text, amount03 "
        "limit 2 offset 900000",
        ROWS,
        "44MB",
    ),
    Workload(
        "group by two amounts",
        "select count(*), max(total), sum(few) from (select amount02, amount03, "
        "sum(amount01) as total, min(id) as few from t group by amount02, amount03)",
        ROWS,
        "36MB",
    ),
    Workload(
        "difference to the last",
        "select sum(step) from (select amount03 - lag(amount03) over "
        "(partition by id % 2000 order by amount01) as step from t)",
        ROWS,
        "36MB",
    ),
)

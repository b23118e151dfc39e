"""PostgreSQL queries that measure a machine: small, they spill, and none of them is verified.

They have the work memory that a server has by default: what goes cold in a wait is in the caches
beyond a core's own, and with a quarter of it waits cost two thirds as much.
"""

from collections.abc import Mapping

from spillcast.engines.postgres.queries import AGGREGATED, HASHED
from spillcast.engines.workload import Workload

ROWS = 1_200_000
MEMORY = "4MB"


def _query(name: str, sql: str, settings: Mapping[str, str] | None = None) -> Workload:
    return Workload(name, sql, ROWS, MEMORY, settings=settings or {})


QUERIES = (
    _query(
        "join of equal amounts",
        "select count(*), sum(a.id - b.part) from (select * from t where id < 255000) a "
        "join (select * from t where id < 255000) b on a.amount03 = b.amount03",
        HASHED,
    ),
    _query(
        "sort of text",
        "select max(text) from (select md5(id::text) as text, amount02 from t "
        "where id < 240000 order by 1, 2 offset 0) s",
    ),
    _query(
        "group by amounts",
        "select count(*), max(total) from (select amount02, sum(amount01) as total, min(id) "
        "from t where id < 240000 group by amount02) s",
        AGGREGATED,
    ),
    _query(
        "difference to the last",
        "select sum(step) from (select amount03 - lag(amount03) over "
        "(partition by business_date order by id) as step from t where id < 240000) s",
    ),
)

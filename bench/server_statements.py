"""Statements of a server: reports and a shop's; some parallel, some that never spill."""

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from spillcast.engines.postgres.lab import PARALLEL
from spillcast_lab.tpc.labs import FORCED
from spillcast_lab.tpc.suite import TPCH

if TYPE_CHECKING:
    import psycopg

#: Rows of lineitem, and of the shop's table.
TPCH_ROWS, SHOP_ROWS = 600_000, 100_000
#: At this scale; those of the lab are for ten times as many rows.
REPORTS_KB = {3: 192, 4: 192, 7: 256, 8: 64, 10: 768, 11: 128, 13: 384, 14: 128, 15: 128, 16: 192}
#: Calls of each, in the order of their numbers: what spills much does not run often.
REPORT_CALLS = (1, 2, 1, 3, 2, 6, 4, 2, 1, 2)
PARALLEL_REPORTS = (3, 4, 8, 13, 15)
#: With enough memory: tables are read and nothing spills.
CACHED_REPORTS = (5, 9, 12, 18, 22)
SHOP_TABLE = """
create unlogged table shop as
select i as id, hashint8(i) as noise, repeat('x', 80) as filler, i % 1000 as part, 0 as balance
from generate_series(1, {rows}) i
"""


@dataclass(frozen=True)
class Statement:
    """A statement, its session's settings, and its number of runs."""

    name: str
    sql: str
    calls: int
    settings: dict[str, str] = field(default_factory=dict)


def statements() -> list[Statement]:
    """All of them, always in the same order."""
    return [*_reports(), *_shop()]


def _reports() -> list[Statement]:
    matches = []
    for (number, memory_kb), calls in zip(REPORTS_KB.items(), REPORT_CALLS, strict=True):
        parallel = number in PARALLEL_REPORTS
        workers: dict[str, Any] = {**PARALLEL, "max_parallel_workers_per_gather": 1}
        private = {"work_mem": f"{memory_kb}kB", **FORCED, **(workers if parallel else _ALONE)}
        name = f"Q{number}, two processes" if parallel else f"Q{number}"
        matches.append(Statement(name, TPCH.text(f"Q{number}"), calls, _words(private)))
    for number in CACHED_REPORTS:
        private = {"work_mem": "256MB", **FORCED, **_ALONE}
        matches.append(Statement(f"Q{number}, cached", TPCH.text(f"Q{number}"), 2, _words(private)))
    return matches


def _shop() -> list[Statement]:
    """Short ones like pgbench's, and lists that spill a little each time."""
    small = _words({"work_mem": "128kB", **_ALONE})
    large = _words({"work_mem": "64MB", **_ALONE})
    by_key = "where id = 4711"
    ordered = (
        "select count(*) from (select id, filler from shop where part < {} order by noise {}) s"
    )
    return [
        Statement("by key", f"select balance from shop {by_key}", 400, small),
        Statement("update", f"update shop set balance = balance + 1 {by_key}", 200, small),
        Statement("insert", "insert into journal values (4711, now(), 1)", 400, small),
        Statement(
            "range", "select sum(balance) from shop where id between 100 and 900", 200, small
        ),
        Statement("count", "select count(*) from shop", 10, small),
        Statement("join of few", f"select * from shop join journal using (id) {by_key}", 20, small),
        Statement("list, often", ordered.format(40, "offset 0"), 150, small),
        Statement("list, seldom", ordered.format(400, ", part offset 0"), 3, small),
        Statement("list, rarely", ordered.format(999, ", id, part offset 0"), 1, small),
        Statement("list, cached", ordered.format(200, ", id offset 0"), 10, large),
        Statement(
            "distinct",
            "select count(distinct filler || noise) from shop where part < 200",
            6,
            small,
        ),
        Statement(
            "self join",
            "select max(a.noise) from shop a join shop b using (noise) where a.part < 300",
            4,
            {**small, "enable_mergejoin": "off", "enable_nestloop": "off"},
        ),
        Statement(
            "groups",
            "select count(*) from (select noise, count(*) from shop group by noise) s",
            2,
            small,
        ),
        Statement("latest", "select * from shop order by noise desc limit 10", 20, small),
        Statement("by part", "select part, sum(balance) from shop group by part", 10, large),
    ]


_ALONE = {"max_parallel_workers_per_gather": 0}


def _words(settings: dict[str, Any]) -> dict[str, str]:
    return {name: str(value) for name, value in settings.items()}


def make_shop(connection: "psycopg.Connection[tuple[Any, ...]]") -> None:
    """The tables besides TPC-H's."""
    connection.execute(SHOP_TABLE.format(rows=SHOP_ROWS).encode())
    connection.execute("create index on shop (id)")
    connection.execute("create unlogged table journal (id int, at timestamptz, amount int)")
    connection.execute("vacuum (analyze) shop")

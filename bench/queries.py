"""Queries that spill and are not among the verified ones, and recordings of them in turns."""

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

from spillcast.engines import Lab, LabQuery
from spillcast.engines.postgres import lab as postgres
from spillcast.lab.run import run, run_recorded
from spillcast.lab.storages import SpillDirectory
from spillcast.recording import Recording
from spillcast.workspace import workspace


def postgres_query(name: str, sql: str, **settings: str) -> LabQuery:
    """A query on the lab's table, with its work memory."""
    memory = f"{postgres.MEMORY_KB}kB"
    return LabQuery(name, sql, postgres.ROWS, memory, settings=settings)


QUERIES: dict[str, tuple[LabQuery, ...]] = {
    "duckdb": (
        LabQuery(
            "join of amounts",
            "select sum(a.amount02 * b.amount03) from t a join t b "
            "on a.id = b.id and a.amount03 >= b.amount02",
            5_000_000,
            "110MB",
        ),
        LabQuery(
            "sort of whole rows",
            "select * from t order by business_date, amount03 desc, id limit 3 offset 1400000",
            3_000_000,
            "90MB",
        ),
        LabQuery(
            "distinct",
            "select count(*) from (select distinct amount01, amount02, business_date from t)",
            5_000_000,
            "110MB",
        ),
        LabQuery(
            "group by dates",
            "select count(*), max(n) from (select amount01, business_date, count(*) as n, "
            "avg(amount03), max(id) from t group by all)",
            4_000_000,
            "110MB",
        ),
        LabQuery(
            "rank",
            "select sum(r) from (select amount02, row_number() over "
            "(partition by business_date order by amount03, id) as r from t)",
            3_500_000,
            "60MB",
        ),
    ),
    "postgres": (
        postgres_query(
            "join of amounts",
            "select sum(a.amount02 * b.amount03), max(a.part) "
            "from (select * from t where id < 240000) a "
            "join (select id, amount03 from t where id < 240000) b using (id)",
            **postgres.HASHED,
        ),
        postgres_query(
            "sort of dates",
            "select max(part + rank) from (select part, row_number() over () as rank from (select "
            "part, amount03, business_date from t where id < 320000 "
            "order by business_date, amount03 offset 0) a) b",
        ),
        postgres_query(
            "distinct",
            "select count(*) from (select distinct amount01, amount02, business_date "
            "from t where id < 260000) a",
            enable_hashagg="off",
        ),
        postgres_query(
            "group by dates",
            "select count(*), max(n) from (select amount01, business_date, count(*) as n, "
            "avg(amount03) from t where id < 180000 group by 1, 2) a",
            **postgres.AGGREGATED,
        ),
        postgres_query(
            "rank",
            "select sum(r) from (select amount02, row_number() over "
            "(partition by part order by amount03) as r from t where id < 260000) a",
        ),
    ),
}


@contextmanager
def recordings(
    engine: Lab, query: LabQuery, places: Sequence[SpillDirectory], room: Path, repeat: int
) -> Iterator[dict[str, list[Recording]]]:
    """Recordings of the query in each place, by its name; they exist as long as the context."""
    engine.build(query.rows)
    run(engine, query, places[0])
    made: dict[str, list[Recording]] = {place.name: [] for place in places}
    with workspace(room) as folder:
        for number in range(repeat):
            for at, place in enumerate(places):
                _, recording = run_recorded(engine, query, place, folder / f"{number}-{at}.spill")
                made[place.name].append(recording)
        yield made

"""What longer waits cost a query in CPU time, over what is forecast: queries that are not verified.

The constants of spillcast.forecast.drift were taken from these. The peer is to leave CPU time as it
is. Takes about ten minutes.
"""

from collections.abc import Iterator
from itertools import permutations
from pathlib import Path
from statistics import mean, median, stdev

import numpy as np

from bench.result import Result
from spillcast.forecast.elsewhere import elsewhere
from spillcast.forecast.here import Here
from spillcast.lab import postgres_queries as postgres
from spillcast.lab.engine import Engine, EngineName, open_engine
from spillcast.lab.named_places import named_places
from spillcast.lab.run import run as run_bare
from spillcast.lab.run import run_recorded
from spillcast.lab.storages import Place
from spillcast.lab.workload import Workload
from spillcast.storage.observed import observed
from spillcast.workspace import workspace

STORAGES = ("tmpfs", "latency:0.15ms", "latency:1.2ms", "latency:5ms")
REPEAT = 3
#: The mean of the ratios is to be so near to 1.
AIM = 0.2


def _of_postgres(name: str, sql: str, **settings: str) -> Workload:
    memory = f"{postgres.MEMORY_KB}kB"
    return Workload(name, sql, postgres.ROWS, memory, settings=settings)


QUERIES: dict[EngineName, tuple[Workload, ...]] = {
    "duckdb": (
        Workload(
            "join of amounts",
            "select sum(a.amount02 * b.amount03) from t a join t b "
            "on a.id = b.id and a.amount03 >= b.amount02",
            5_000_000,
            "110MB",
        ),
        Workload(
            "sort of whole rows",
            "select * from t order by business_date, amount03 desc, id limit 3 offset 1400000",
            3_000_000,
            "90MB",
        ),
        Workload(
            "distinct",
            "select count(*) from (select distinct amount01, amount02, business_date from t)",
            5_000_000,
            "110MB",
        ),
        Workload(
            "group by dates",
            "select count(*), max(n) from (select amount01, business_date, count(*) as n, "
            "avg(amount03), max(id) from t group by all)",
            4_000_000,
            "110MB",
        ),
        Workload(
            "rank",
            "select sum(r) from (select amount02, row_number() over "
            "(partition by business_date order by amount03, id) as r from t)",
            3_500_000,
            "60MB",
        ),
    ),
    "postgres": (
        _of_postgres(
            "join of amounts",
            "select sum(a.amount02 * b.amount03), max(a.part) "
            "from (select * from t where id < 240000) a "
            "join (select id, amount03 from t where id < 240000) b using (id)",
            **postgres.HASHED,
        ),
        _of_postgres(
            "sort of dates",
            "select max(part + rank) from (select part, row_number() over () as rank from (select "
            "part, amount03, business_date from t where id < 320000 "
            "order by business_date, amount03 offset 0) a) b",
        ),
        _of_postgres(
            "distinct",
            "select count(*) from (select distinct amount01, amount02, business_date "
            "from t where id < 260000) a",
            enable_hashagg="off",
        ),
        _of_postgres(
            "group by dates",
            "select count(*), max(n) from (select amount01, business_date, count(*) as n, "
            "avg(amount03) from t where id < 180000 group by 1, 2) a",
            **postgres.AGGREGATED,
        ),
        _of_postgres(
            "rank",
            "select sum(r) from (select amount02, row_number() over "
            "(partition by part order by amount03) as r from t where id < 260000) a",
        ),
    ),
}


def run() -> Iterator[Result]:
    """Each query on each storage, by turns; then from each storage to each other one."""
    ratios = list[float]()
    with workspace() as room, named_places(STORAGES, room) as places:
        for name, queries in QUERIES.items():
            engine = open_engine(name, room)
            for query in queries:
                likely_s, seen_s = _moves(engine, query, places, room)
                ratio = float(seen_s @ likely_s / (likely_s @ likely_s))
                ratios.append(ratio)
                off_s = float(np.median(np.abs(likely_s - seen_s)))
                yield _result(f"{engine.label}, {query.name}", seen_s, ratio, off_s)
    spread = f"of {len(ratios)} queries {mean(ratios):.2f}, standard deviation {stdev(ratios):.2f}"
    yield Result(
        "CPU time seen over forecast", spread, "0", mean(ratios), f"1 +- {AIM}",
        abs(mean(ratios) - 1) <= AIM,
    )  # fmt: skip


def _moves(
    engine: Engine, query: Workload, places: list[Place], room: Path
) -> tuple[np.ndarray, np.ndarray]:
    """By how much CPU time (s) is forecast to move, and was seen to, for each two storages."""
    engine.build(query.rows)
    run_bare(engine, query, places[0])
    heres: dict[str, list[Here]] = {place.name: [] for place in places}
    with workspace(room) as folder:
        for number in range(REPEAT):
            for at, place in enumerate(places):
                _, recording = run_recorded(engine, query, place, folder / f"{number}-{at}.spill")
                heres[place.name].append(Here.of(recording, None))
        cpu_s = {
            name: median(float(here.baseline.meta["cpu_s"]) for here in runs)
            for name, runs in heres.items()
        }
        pairs = [
            (elsewhere(here, observed(there.baseline)).drift_s, cpu_s[target] - cpu_s[source])
            for source, target in permutations(heres, 2)
            for here, there in zip(heres[source], heres[target], strict=True)
        ]
    likely_s, seen_s = np.array(pairs).T
    return likely_s, seen_s


def _result(name: str, seen_s: np.ndarray, ratio: float, off_s: float) -> Result:
    left_s = float(np.median(np.abs(seen_s)))
    return Result(
        f"cold caches: {name}",
        f"{off_s:.3f} s off, median of {len(seen_s)}; seen over forecast {ratio:.2f}",
        f"{left_s:.3f} s off, where it stays as it is",
        off_s / left_s,
        "less than the peer",
        off_s < left_s,
    )

"""Plans of PostgreSQL forecast for looked-up storage, against runs on it.

ext4 on loop devices over emulated files with known figures. A memory cgroup leaves no page cache
for the temp files. The plan of a run on each device is forecast for each other one; the truth is
the query there. The peer counts each block of the plan as an operation of the device.
"""

from collections.abc import Iterator
from contextlib import ExitStack
from dataclasses import replace
from math import log
from statistics import median

from bench.page_cache import ENOUGH_BYTES, FAR, NEAR, device, peak_of, storage_of
from bench.queries import postgres_query
from bench.result import Result
from spillcast.engines import LabQuery
from spillcast.engines.postgres.lab import AGGREGATED, HASHED, PostgresLab
from spillcast.evidence.counts import Counts
from spillcast.forecast.project import Projector
from spillcast.forecast.workload.counted import workload_of_counts
from spillcast.lab.run import run as run_bare
from spillcast.lab.storages import Emulated
from spillcast.workspace import memory_group, workspace

AIM, RUNS = 0.25, 2
#: A rented volume of 125 MB/s with 0.7 ms per operation.
RENTED = Emulated("rented", 7e-4, 7e-4, 8e-9)
DEVICES = (NEAR, FAR, RENTED)
#: Memory beyond the engine's earlier peak.
LEAST = 1.04
#: Each spills more than 100 MB.
QUERIES = (
    postgres_query(
        "join",
        "select sum(a.amount02 * b.amount03), max(a.part) from t a "
        "join (select id, amount03 from t) b using (id)",
        **HASHED,
    ),
    postgres_query(
        "sort",
        "select max(part + rank) from (select part, row_number() over () as rank from (select "
        "part, amount03, business_date from t order by business_date, amount03 offset 0) a) b",
    ),
    postgres_query(
        "group by",
        "select count(*), max(n) from (select id, count(*) as n, avg(amount03) from t "
        "group by 1) a",
        **AGGREGATED,
    ),
)


def run() -> Iterator[Result]:
    """Each query, from each device to each other one."""
    cases = [case for query in QUERIES for case in of_query(replace(query, memory="8MB"))]
    off, peer = (median(abs(log(case[at] / case[2])) for case in cases) for at in (0, 1))
    yield Result(
        f"plans: {len(cases)} forecasts of plans for storage that was looked up",
        f"a factor of e^{off:.2f} off in the median, {sum(held for *_, held in cases)} held",
        f"each block an operation: e^{peer:.2f} off",
        off / peer,
        f"e^{AIM}",
        off <= AIM,
    )


def of_query(query: LabQuery) -> Iterator[tuple[float, float, float, bool]]:
    """Forecast, the peer's, measured time (s), and whether the interval contains it."""
    with workspace() as room, ExitStack() as stack:
        engine = PostgresLab(room)
        engine.build(query.rows)
        group = stack.enter_context(memory_group(ENOUGH_BYTES))
        places = {item.name: stack.enter_context(device(item, group, room)) for item in DEVICES}
        explaining = engine.explaining(query)
        with peak_of(group) as held_bytes:
            run_bare(engine, explaining, places[NEAR.name])
        (group / "memory.limit_in_bytes").write_text(str(int(LEAST * max(held_bytes))))
        plans, measured_s = dict[str, Counts](), dict[str, float]()
        for name, place in places.items():
            runs = [run_bare(engine, query, place).elapsed_s for _ in range(RUNS)]
            plans[name] = engine.plan_of(run_bare(engine, explaining, place))
            measured_s[name] = median(runs)
        (group / "memory.limit_in_bytes").write_text(str(ENOUGH_BYTES))
    for source, counts in plans.items():
        projector, peer = (
            Projector(workload_of_counts(replace(counts, buffered=buffered)))
            for buffered in (True, False)
        )
        for target in DEVICES:
            if target.name == source:
                continue
            answer, other = (each.forecast(storage_of(target)) for each in (projector, peer))
            actual_s = measured_s[target.name]
            assert answer.interval_s is not None
            assert answer.forecast_s is not None
            assert other.forecast_s is not None
            held = answer.interval_s[0] <= actual_s <= answer.interval_s[1]
            print(
                f"{query.name}, {source} to {target.name}: {answer.forecast_s:.2f} s, each block "
                f"an operation {other.forecast_s:.2f} s, measured {actual_s:.2f} s, "
                f"{'held' if held else 'missed'}",
                flush=True,
            )
            yield answer.forecast_s, other.forecast_s, actual_s, held

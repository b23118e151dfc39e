"""Training cases for intervals of parts: runs of queries that `bench part` does not judge, cut.

`python -m bench.part_training ROOM` records each of them twice, on random storages by a seed, and
keeps the recordings in ROOM (half an hour); existing ones are reused. Their parts go to
docs/accuracy/parts.parquet, for `python -m bench calibrate residuals`.
"""

import sys
from collections.abc import Iterator
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path
from random import Random

from bench.part import FAST_S, LATEST, SHARE
from bench.part_cases import Whole, of_lab
from bench.queries import postgres_query
from spillcast.engines import LabQuery
from spillcast.engines.postgres.lab import AGGREGATED, HASHED
from spillcast.engines.queries import RunResult
from spillcast.engines.registry import engine_of, lab_of
from spillcast.errors import SpillcastError
from spillcast.forecast import Forecast, forecast
from spillcast.forecast.remaining import RemainingWorkHints, hints_of
from spillcast.lab.case import Case, Runs, Truth, evidence_of, write_truth
from spillcast.recording import Recording
from spillcast.recording.meta import describe_machine
from spillcast.storage import Storage
from spillcast.storage.observed import assumed_latency, observed
from spillcast.workspace import workspace
from spillcast_lab.partial_runs import FIFTH, MINUTE, attached

PARTS = Path(__file__).parents[1] / "docs" / "accuracy" / "parts.parquet"
SEED, WINDOWS, TURNS = 771, 8, 2
QUERIES: dict[str, tuple[LabQuery, ...]] = {
    "duckdb": (
        LabQuery(
            "two joins",
            "select sum(a.amount01 + b.amount02 + c.amount03) from t a join t b on a.id = b.id "
            "join t c on a.id = c.id",
            3_000_000,
            "110MB",
        ),
        LabQuery(
            "sort one",
            "select sum(r) from (select row_number() over (order by amount01, id) as r, id from t)",
            5_000_000,
            "100MB",
        ),
        LabQuery(
            "lag",
            "select sum(d) from (select amount01 - lag(amount01) over "
            "(partition by business_date order by id) as d from t)",
            4_000_000,
            "80MB",
        ),
        LabQuery(
            "group many",
            "select count(*), max(m) from (select id // 3 as g, amount02, max(amount01) as m, "
            "count(*) from t group by 1, 2)",
            5_000_000,
            "110MB",
        ),
        LabQuery(
            "group then sort",
            "select max(m) from (select g, m from (select amount02 as g, id // 2 as h, "
            "max(amount01) as m from t group by 1, 2) order by m, g offset 1000)",
            3_000_000,
            "90MB",
        ),
        LabQuery(
            "left join",
            "select count(*), sum(b.amount01) from t a "
            "left join (select * from t where amount02 > amount01) b on a.id = b.id",
            6_000_000,
            "110MB",
        ),
        LabQuery(
            "ordered rows",
            "select amount01, amount02, id from t order by amount02, amount01 "
            "limit 3 offset 2000000",
            5_000_000,
            "80MB",
        ),
    ),
    "postgres": (
        postgres_query(
            "two sorts",
            "select count(*) from (select part, amount01 from t where id < 200000 "
            "order by amount01 offset 0) a join (select part, amount01 from t where id < 200000 "
            "order by amount01 offset 0) b using (amount01)",
        ),
        postgres_query(
            "lag",
            "select sum(d) from (select amount01 - lag(amount01) over "
            "(partition by part order by id) as d from t where id < 250000) x",
        ),
        postgres_query(
            "left join",
            "select count(*), sum(b.amount01) from (select * from t where id < 260000) a "
            "left join (select id, amount01 from t where id < 200000) b using (id)",
            **HASHED,
        ),
        postgres_query(
            "group many",
            "select count(*), max(m) from (select id / 3 as g, amount02, max(amount01) as m "
            "from t where id < 200000 group by 1, 2) x",
            **AGGREGATED,
        ),
    ),
}


def made(room: Path) -> Iterator[tuple[str, Whole]]:
    """The engine and a run, each recorded unless it is in the room already."""
    for engine, private in QUERIES.items():
        chance = Random(f"train {SEED} {engine}")
        with workspace(room) as data:
            lab = lab_of(engine)(data)
            for turn in range(1, TURNS + 1):
                for query in (*lab.verified(1), *private):
                    named = replace(query, name=f"{query.name} r{turn}")
                    target = _recorded(room / f"{engine} {named.name}")
                    made = of_lab(lab, [named], engine, room, chance, 1)
                    yield engine, next(made) if target is None else target


def _recorded(path: Path) -> Whole | None:
    """An existing recording of a run."""
    run, former, plan = (path.with_suffix(end) for end in (".spill", ".former.spill", ".plan.json"))
    return Whole(run, former, plan if plan.exists() else None) if former.exists() else None


def cases(engine: str, whole: Whole) -> Iterator[Case]:
    """Parts with random starts, and the first fifth, if they contain temp I/O.

    Each for the storage of the run, and for a fast one, there also with a known elapsed time.
    """
    recording = Recording.open(whole.run)
    storage, took_s = observed(recording), recording.elapsed_s
    fast = assumed_latency(storage, FAST_S, "fast")
    fast_s = forecast(recording, fast).forecast_s
    questions: list[tuple[Storage, float, float | None]] = [(storage, took_s, None)]
    if fast_s is not None:
        questions += [(fast, fast_s, None), (fast, fast_s, took_s)]
    known = hints_of([] if whole.plan is None else [whole.plan])
    chance = Random(f"{SEED} {whole.run.name}")
    windows = [(MINUTE, chance.uniform(0, LATEST), SHARE) for _ in range(WINDOWS)]
    workload = whole.run.name.removesuffix(".spill").partition(" ")[2].rpartition(" ")[0]
    for name, begin, share in (*windows, (FIFTH, 0.0, 2 * SHARE)):
        part = attached(recording, begin * took_s, (begin + share) * took_s)
        for target, target_s, elapsed_s in questions:
            answer = _forecast_of(part, target, known, elapsed_s)
            if answer is None or answer.uncertainty is None:
                continue
            cpu_s = recording.meta.cpu_s or 0.0
            origin, destination = (
                Runs([RunResult(s, "", 0.0, cpu_s)], 1) for s in (took_s, target_s)
            )
            yield Case(
                engine=engine_of(engine).label,
                workload=workload,
                threads=1,
                source="emulated",
                target="emulated",
                direction=answer.uncertainty.direction,
                on_source=origin,
                on_target=destination,
                forecast=answer,
                seed_formula_s=None,
                evidence=evidence_of(name, part, storage),
                source_means="fuse",
                target_means="fuse",
            )


def _forecast_of(
    part: Recording, target: Storage, known: RemainingWorkHints, elapsed_s: float | None
) -> Forecast | None:
    """None if there is no forecast of the whole."""
    try:
        answer = forecast(part, target, known=known, elapsed_s=elapsed_s)
    except SpillcastError:
        return None
    return None if answer.part is not None else answer


def main(room: Path) -> None:
    """Writes the cases."""
    matches = [case for engine, whole in made(room) for case in cases(engine, whole)]
    machine = describe_machine()
    about = {
        "started_at": datetime.now(UTC).isoformat(timespec="seconds"),
        "machine": {key: getattr(machine, key) for key in ("cpus", "memory_bytes", "kernel")},
        "seed": SEED,
    }
    write_truth(PARTS, Truth(matches, about))
    print(f"{len(matches)} cases: {PARTS}")


if __name__ == "__main__":
    main(Path(sys.argv[1]))

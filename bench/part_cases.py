"""Whole runs for cutting into parts: each recorded twice, and explained without a run."""

import json
from collections.abc import Iterator, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, replace
from pathlib import Path
from random import Random

from bench.queries import QUERIES
from spillcast.engines import Explains, Lab, LabQuery
from spillcast.engines.registry import lab_of
from spillcast.lab.run import run_recorded
from spillcast.lab.storages import Emulated, SpillDirectory, emulated
from spillcast.workspace import workspace
from spillcast_lab.tpc.labs import LABS

STORAGES = (
    Emulated("0.5 ms", 0.0005, 0.0005),
    Emulated("2 ms", 0.002, 0.002),
    Emulated("r1.5 w0.2", 0.0015, 0.0002),
    Emulated("r0.2 w1.5", 0.0002, 0.0015),
)
ENGINES = ("postgres", "duckdb")


@dataclass(frozen=True)
class Whole:
    """A recorded run of a query, an earlier one on the same storage, and its plan, as paths."""

    run: Path
    former: Path
    plan: Path | None


def wholes(room: Path, seed: int, *, queries: int | None = None) -> Iterator[Whole]:
    """Runs of queries that no constant was fitted to, each on a random storage by the seed."""
    chance = Random(f"parts {seed}")
    for engine in ENGINES:
        lab = lab_of(engine)(room)
        yield from of_lab(lab, QUERIES[engine], engine, room, chance, queries)
        # Only those of one server, as the other has the same queries.
        tpch, *_ = LABS[engine]["tpch"]
        lab = tpch(room)
        every = [item for item in lab.verified(1) if not item.cold]
        yield from of_lab(lab, every, engine, room, chance, queries)


def of_lab(
    lab: Lab,
    every: Sequence[LabQuery],
    engine: str,
    room: Path,
    chance: Random,
    queries: int | None,
) -> Iterator[Whole]:
    """On separate storages: a server takes no directory that contains another's temp files."""
    with ExitStack() as stack:
        private = stack.enter_context(workspace(room))
        places = [stack.enter_context(emulated(item, private, private)) for item in STORAGES]
        for query in chance.sample(every, min(queries or len(every), len(every))):
            yield _made(lab, query, chance.choice(places), room / f"{engine} {query.name}")


def _made(lab: Lab, query: LabQuery, place: SpillDirectory, path: Path) -> Whole:
    lab.build(query.rows)
    made, former = path.with_suffix(".spill"), path.with_suffix(".former.spill")
    for output in (made, former):
        run_recorded(lab, query, place, output)
    plan = path.with_suffix(".plan.json") if isinstance(lab, Explains) else None
    if plan is not None:
        explained = replace(query, sql=f"explain (settings, format json) {query.sql}")
        with lab.hold(explained, place.directory, {}) as held:
            held.start()
            rows = json.loads(held.result().rows)
        plan.write_text(json.dumps(rows[0][0]))
    return Whole(made, former, plan)

"""Forecasts from every storage to every other with no run there, then the measured times."""

from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field, replace
from itertools import permutations
from pathlib import Path
from statistics import median
from typing import TypeVar

from spillcast.engines.duckdb import Query, Ran, version
from spillcast.errors import InputError
from spillcast.forecast import Forecast, forecast
from spillcast.forecast.seed import seed_formula_s
from spillcast.lab.case import Case
from spillcast.lab.demo import Stage
from spillcast.lab.run import busy, run, run_recorded
from spillcast.lab.storages import Emulated, Place, emulated, fast_parent, plain
from spillcast.lab.workloads import VERIFIED, Workload, build_table
from spillcast.recording import Recording
from spillcast.storage.budget import OWNED
from spillcast.storage.probe import probe
from spillcast.workspace import workspace

STORAGES = (
    Emulated("0.3 ms", 0.0003, 0.0003),
    Emulated("1 ms", 0.001, 0.001),
    Emulated("5 ms", 0.005, 0.005),
)
PLAIN = "tmpfs"
NEED_BYTES = 4 << 30
T = TypeVar("T")
#: How often a run is repeated when other work on the machine disturbed it.
RETRIES = 2


@dataclass
class _Runs:
    """What was measured of one workload on one storage."""

    place: Place
    recording: Recording
    elapsed_s: list[float] = field(default_factory=list)


def verify(
    stage: Stage,
    work: Path | None = None,
    *,
    workloads: Sequence[Workload] = VERIFIED,
    storages: Sequence[Emulated] = STORAGES,
    repeat: int = 3,
) -> list[Case]:
    """All cases. InputError where there is no room in memory for the plain storage."""
    memory = fast_parent(NEED_BYTES)
    if memory is None:
        raise InputError("verify wants 4 GiB of room in /dev/shm", "run demo for a smaller check")
    cases: list[Case] = []
    with workspace(memory) as fast, workspace(work) as room:
        for workload in workloads:
            database = room / f"{workload.rows}.db"
            if not database.exists():
                stage.step(f"making a table of {workload.rows // 1_000_000} million rows")
                build_table(database, workload.rows, stage.tick)
            with _places(storages, room, fast) as places:
                cases += _verify_workload(stage, workload, database, places, room, repeat)
    return cases


@contextmanager
def _places(storages: Sequence[Emulated], room: Path, fast: Path) -> Iterator[list[Place]]:
    """The emulated storages and plain shared memory, each with an empty directory of its own."""
    with workspace(fast) as below, workspace(room) as mounts, ExitStack() as stack:
        places = []
        for storage in storages:
            backing = below / storage.name
            backing.mkdir()
            places.append(stack.enter_context(emulated(storage, mounts, backing)))
        directory = below / PLAIN
        directory.mkdir()
        yield [*places, plain(PLAIN, directory)]


def _verify_workload(
    stage: Stage,
    workload: Workload,
    database: Path,
    places: Sequence[Place],
    room: Path,
    repeat: int,
) -> list[Case]:
    def query(place: Place) -> Query:
        return Query(workload.sql, database, place.directory, workload.memory_limit)

    def recorded(place: Place, attempt: int) -> tuple[Ran, Recording]:
        output = room / f"{workload.name}-{place.name}-{attempt}.spill"
        return run_recorded(query(place), place, output, stage.status)

    def bare(place: Place, _attempt: int) -> tuple[Ran, None]:
        return run(query(place), place, stage.tick), None

    stage.step(f"{workload.name} once, to warm up")
    bare(places[-1], 0)
    runs = []
    for place in places:
        stage.step(f"{workload.name} on {place.name}, recorded")
        _, recording = _least_disturbed(place, recorded)
        runs.append(_Runs(place, recording))
    forecasts = _forecasts(stage, workload, runs)
    # Interleaved, so that what drifts on the machine drifts for all.
    for number in range(repeat):
        for one in runs:
            stage.step(f"{workload.name} on {one.place.name}, run {number + 1} of {repeat}")
            ran, _ = _least_disturbed(one.place, bare)
            one.elapsed_s.append(ran.elapsed_s)
    return [
        Case(
            engine=f"DuckDB {version()}",
            workload=workload.name,
            threads=1,
            source=here.place.name,
            target=there.place.name,
            measured_from_s=median(here.elapsed_s),
            measured_to_s=median(there.elapsed_s),
            forecast=said,
            seed_formula_s=seed_s,
        )
        for here, there, said, seed_s in forecasts
    ]


def _least_disturbed(place: Place, attempt: Callable[[Place, int], tuple[Ran, T]]) -> tuple[Ran, T]:
    """Run, and again while other work on the machine took CPU; the best attempt counts."""
    attempts = []
    for number in range(1 + RETRIES):
        attempts.append(attempt(place, number))
        if not busy(attempts[-1][0]):
            break
    return min(attempts, key=lambda a: a[0].run_queue_delay_s / a[0].elapsed_s)


def _forecasts(
    stage: Stage, workload: Workload, runs: Sequence[_Runs]
) -> list[tuple[_Runs, _Runs, Forecast, float]]:
    """From every storage to every other: (from, to, forecast, what the seed's formula says)."""
    forecasts = []
    for here, there in permutations(runs, 2):
        stage.step(f"{workload.name}: {here.place.name} to {there.place.name}, probe")
        directory = there.place.directory
        storage = probe(directory, here.recording, budget=OWNED, on_progress=stage.progress)
        storage = replace(storage, name=there.place.name)
        said = forecast(here.recording, storage)
        forecasts.append((here, there, said, seed_formula_s(here.recording, storage)))
    return forecasts

"""Forecasts from one storage to another with no run there, then the measured times."""

from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field, replace
from itertools import permutations
from pathlib import Path
from statistics import median
from typing import TypeVar

from spillcast.engines.held import Ran
from spillcast.errors import InputError
from spillcast.forecast import Forecast, forecast
from spillcast.forecast.seed import seed_formula_s
from spillcast.lab.case import Case
from spillcast.lab.demo import Stage
from spillcast.lab.engine import Engine, Explains, open_engine
from spillcast.lab.matrix import Matrix
from spillcast.lab.run import busy, run, run_recorded
from spillcast.lab.storages import Place, emulated, fast_parent, plain
from spillcast.lab.workload import Workload
from spillcast.recording import Recording
from spillcast.storage.budget import OWNED
from spillcast.storage.probe import probe
from spillcast.workspace import workspace

NEED_BYTES = 4 << 30
T = TypeVar("T")
#: How often a run is repeated when other work on the machine disturbed it.
RETRIES = 2


@dataclass
class _Runs:
    """What was measured of one workload on one storage."""

    place: Place
    #: What forecasts are made from, by the name of the evidence; none where nothing is recorded.
    evidence: dict[str, Recording]
    elapsed_s: list[float] = field(default_factory=list)


@dataclass(frozen=True)
class _Said:
    """A forecast before its run was measured."""

    here: _Runs
    there: _Runs
    evidence: str
    forecast: Forecast
    seed_formula_s: float | None


def verify(
    stage: Stage, matrix: Matrix, work: Path | None = None, *, repeat: int = 3
) -> list[Case]:
    """All cases of a matrix.

    InputError where a package is missing, or where there is no room in memory to emulate in.
    """
    memory = fast_parent(NEED_BYTES)
    if memory is None:
        raise InputError("verify wants 4 GiB of room in /dev/shm", "run demo for a smaller check")
    cases: list[Case] = []
    with workspace(memory) as fast, workspace(work) as room:
        engine = open_engine(matrix.engine, room)
        stage.step(f"{len(matrix.storages)} storages to emulate")
        with _places(matrix, room, fast) as places:
            for workload in matrix.workloads:
                stage.step(f"a table of {workload.rows // 1_000_000} million rows")
                engine.build(workload.rows)
                cases += _verify_workload(stage, engine, workload, matrix, places, room, repeat)
    return cases


@contextmanager
def _places(matrix: Matrix, room: Path, fast: Path) -> Iterator[list[Place]]:
    """The emulated storages and a plain one, each with an empty directory of its own."""
    with ExitStack() as stack:
        places = []
        for storage in matrix.storages:
            backing = fast / storage.folder
            backing.mkdir()
            places.append(stack.enter_context(emulated(storage, room, backing)))
        directory = (fast if matrix.plain == "tmpfs" else room) / matrix.plain
        directory.mkdir()
        yield [*places, plain(matrix.plain, directory)]


def _verify_workload(
    stage: Stage,
    engine: Engine,
    workload: Workload,
    matrix: Matrix,
    places: Sequence[Place],
    room: Path,
    repeat: int,
) -> list[Case]:
    def recorded(place: Place, attempt: int) -> tuple[Ran, Recording]:
        output = room / f"{workload.name}-{place.directory.name}-{attempt}.spill"
        return run_recorded(engine, workload, place, output, stage.status)

    def bare(place: Place, _attempt: int) -> tuple[Ran, None]:
        return run(engine, workload, place, stage.tick), None

    def evidence(place: Place) -> dict[str, Recording]:
        stage.step(f"{workload.name} on {place.name}, recorded")
        found = {"recording": _least_disturbed(workload, place, recorded)[1]}
        if isinstance(engine, Explains):
            stage.step(f"{workload.name} on {place.name}, explained")
            plan = engine.plan
            attempt = _least_disturbed(workload, place, lambda place, _: plan(workload, place))
            found["plan"] = attempt[1]
        return found

    stage.step(f"{workload.name} once, to warm up")
    bare(places[-1], 0)
    sources = matrix.sources or [place.name for place in places]
    runs = [_Runs(place, evidence(place) if place.name in sources else {}) for place in places]
    forecasts = list(_forecasts(stage, workload, runs))
    # Interleaved, so that what drifts on the machine drifts for all.
    for number in range(repeat):
        for one in runs:
            stage.step(f"{workload.name} on {one.place.name}, run {number + 1} of {repeat}")
            ran, _ = _least_disturbed(workload, one.place, bare)
            one.elapsed_s.append(ran.elapsed_s)
    return [
        Case(
            engine=engine.label,
            workload=workload.name,
            threads=workload.threads,
            source=said.here.place.name,
            target=said.there.place.name,
            measured_from_s=median(said.here.elapsed_s),
            measured_to_s=median(said.there.elapsed_s),
            forecast=said.forecast,
            seed_formula_s=said.seed_formula_s,
            evidence=said.evidence,
        )
        for said in forecasts
    ]


def _least_disturbed(
    workload: Workload, place: Place, attempt: Callable[[Place, int], tuple[Ran, T]]
) -> tuple[Ran, T]:
    """Run, and again while other work on the machine took CPU; the best attempt counts."""
    attempts = []
    for number in range(1 + RETRIES):
        attempts.append(attempt(place, number))
        if not busy(attempts[-1][0], workload):
            break
    return min(attempts, key=lambda a: a[0].run_queue_delay_s / a[0].elapsed_s)


def _forecasts(stage: Stage, workload: Workload, runs: Sequence[_Runs]) -> Iterator[_Said]:
    """From all that was recorded to every other storage."""
    for here, there in permutations(runs, 2):
        for name, baseline in here.evidence.items():
            stage.step(f"{workload.name}: {here.place.name} to {there.place.name}, {name} replayed")
            directory = there.place.directory
            storage = probe(directory, baseline, budget=OWNED, on_progress=stage.progress)
            storage = replace(storage, name=there.place.name)
            said = forecast(baseline, storage)
            seed_s = seed_formula_s(baseline, storage) if name == "recording" else None
            yield _Said(here, there, name, said, seed_s)

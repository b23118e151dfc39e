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
from spillcast.lab.engine import Engine, open_engine
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
    recording: Recording | None
    elapsed_s: list[float] = field(default_factory=list)


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
        for workload in matrix.workloads:
            stage.step(f"a table of {workload.rows // 1_000_000} million rows")
            engine.build(workload.rows)
            with _places(matrix, room, fast) as places:
                cases += _verify_workload(stage, engine, workload, matrix, places, room, repeat)
    return cases


@contextmanager
def _places(matrix: Matrix, room: Path, fast: Path) -> Iterator[list[Place]]:
    """The emulated storages and a plain one, each with an empty directory of its own."""
    with workspace(fast) as below, workspace(room) as mounts, ExitStack() as stack:
        places = []
        for storage in matrix.storages:
            backing = below / storage.folder
            backing.mkdir()
            places.append(stack.enter_context(emulated(storage, mounts, backing)))
        directory = (below if matrix.plain == "tmpfs" else mounts) / matrix.plain
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

    stage.step(f"{workload.name} once, to warm up")
    bare(places[-1], 0)
    runs = []
    for place in places:
        recording = None
        if matrix.sources is None or place.name in matrix.sources:
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
            engine=engine.label,
            workload=workload.name,
            threads=workload.threads,
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
    """From every recording to every other storage: (from, to, forecast, what the seed says)."""
    forecasts = []
    for here, there in permutations(runs, 2):
        if here.recording is None:
            continue
        stage.step(f"{workload.name}: {here.place.name} to {there.place.name}, probe")
        directory = there.place.directory
        storage = probe(directory, here.recording, budget=OWNED, on_progress=stage.progress)
        storage = replace(storage, name=there.place.name)
        said = forecast(here.recording, storage)
        forecasts.append((here, there, said, seed_formula_s(here.recording, storage)))
    return forecasts

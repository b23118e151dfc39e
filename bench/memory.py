"""Elapsed time at sizes of work memory that were not measured, against runs with them.

The peer has no model: it gives the time of the nearest measured size.
"""

from collections.abc import Iterator
from math import log
from statistics import median

from bench.result import Result
from spillcast.cli.progress import TerminalStage
from spillcast.engines.registry import lab_of
from spillcast.lab.memory_result import CheckedForecast, MemorySweep
from spillcast.lab.memory_sweep import SweepPlan, memory_sizes, sweep_memory
from spillcast.lab.storages import named_places
from spillcast.workspace import workspace

#: Engine, queries, sizes, storages.
CASES: tuple[tuple[str, tuple[str, ...], str, tuple[str, ...]], ...] = (
    ("postgres", ("sort", "hash join"), "256K..32M", ("tmpfs", "latency:0.3ms")),
    ("duckdb", ("sort", "hash join"), "32M..512M", ("tmpfs", "latency:1ms")),
)
SIZES, MEASURED, REPEAT = 7, 4, 5
AIM = 0.10


def run() -> Iterator[Result]:
    """Forecasts are made before the first run with their size."""
    checked, peers = list[float](), list[float]()
    for engine, names, sizes, storages in CASES:
        for name in names:
            sweep = _sweep(engine, name, sizes, storages)
            private = [abs(forecast.error) for forecast in sweep.errors]
            theirs = [
                abs(_nearest_s(sweep, forecast) / forecast.measured_s - 1)
                for forecast in sweep.errors
            ]
            held = sum(forecast.covered for forecast in sweep.errors)
            about = f"{len(private)} cells, {held} held"
            yield _result(f"memory: {sweep.engine}, {name}, {about}", private, theirs)
            checked += private
            peers += theirs
    yield _result(f"memory: all, {len(checked)} cells", checked, peers)


def _sweep(engine: str, name: str, sizes: str, storages: tuple[str, ...]) -> MemorySweep:
    workload = next(item for item in lab_of(engine).verified(1) if item.name == name)
    plan = SweepPlan(
        engine,
        workload,
        memory_sizes(engine, sizes, SIZES),
        MEASURED,
        check=True,
        repeat=REPEAT,
    )
    with (
        workspace(None) as room,
        named_places(storages, room) as places,
        TerminalStage() as stage,
    ):
        return sweep_memory(stage, lab_of(engine)(room), plan, places)


def _nearest_s(sweep: MemorySweep, point: CheckedForecast) -> float:
    """The time of the nearest measured size on the storage, or on any if nothing was spilled."""
    measured = [
        other
        for other in sweep.points
        if other.measured and (other.storage == point.storage or other.state == "none")
    ]
    nearest = min(measured, key=lambda other: abs(log(other.memory_bytes / point.memory_bytes)))
    return nearest.elapsed_s


def _result(name: str, private: list[float], theirs: list[float]) -> Result:
    error, peer = median(private), median(theirs)
    return Result(
        name,
        f"median error {error:.1%}, most {max(private):.1%}",
        f"{peer:.1%}, most {max(theirs):.1%}, the nearest measured size",
        error / peer if peer else float("inf"),
        f"median error at most {AIM:.0%}",
        error <= AIM,
    )

"""The machine measured with real work: small queries spill to memory and to delays."""

import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from statistics import median

from spillcast import _core
from spillcast.engines.engine import Calibrates, Lab
from spillcast.engines.registry import engines
from spillcast.engines.workload import Workload
from spillcast.errors import InputError, ProgramMissing, SpaceInsufficient
from spillcast.forecast.load import Load, temp_load
from spillcast.lab.demo import Stage
from spillcast.lab.fit_waits import Kind, kinds_of, pooled
from spillcast.lab.named_places import named_places
from spillcast.lab.run import run_recorded_if_spilled
from spillcast.lab.storages import SHARED_MEMORY, Place, fast_parent
from spillcast.recording.bursts import READ, WRITE, Bursts
from spillcast.recording.calibration import (
    CALIBRATION_SCHEMA,
    CalibratedOn,
    Calibration,
    Chase,
    Point,
)
from spillcast.recording.wait_cost import WaitCost
from spillcast.units import format_bytes
from spillcast.workspace import free_bytes, workspace

STORAGES = ("tmpfs", "latency:0.25ms", "latency:1.5ms")
REPEAT = 2
#: What the engines' data takes, and what a query spills.
DATA_BYTES, SPILL_BYTES = 1 << 30, 1 << 30


@dataclass(frozen=True)
class _Measured:
    """An engine, its queries, and what was measured of them: bursts by query and storage."""

    name: str
    lab: Lab
    queries: Sequence[Workload]
    bursts: dict[str, dict[str, list[Bursts]]] = field(default_factory=dict)


def measure_machine(
    stage: Stage, work: Path | None = None, repeat: int = REPEAT, queries: int | None = None
) -> Calibration:
    """Run the engines' queries by turns, the first so many of each; leaves nothing behind.

    InputError where there is no room, or no engine.
    """
    started_s = time.monotonic()
    stage.step("reading memory after waits")
    chases = [Chase(*measured) for measured in _core.chases()]
    with workspace(work) as room:
        _check_room(room)
        opened, skipped = _opened(room, queries)
        with named_places(STORAGES, room) as places:
            points = list(_points(stage, opened, places, room, repeat))
    costs = _costs(opened, points)
    return Calibration(
        CALIBRATION_SCHEMA,
        time.time(),
        time.monotonic() - started_s,
        CalibratedOn.this_machine(),
        costs,
        points,
        chases,
        skipped,
    )


def _check_room(room: Path) -> None:
    if free_bytes(room) < DATA_BYTES:
        message = f"{room.parent}: calibration needs {format_bytes(DATA_BYTES)} of free space"
        raise SpaceInsufficient(message, "name another directory with --work DIR")
    if fast_parent(SPILL_BYTES) is None:
        message = f"{SHARED_MEMORY}: calibration needs {format_bytes(SPILL_BYTES)} of free space"
        raise SpaceInsufficient(
            message, "free some, or make it larger: mount -o remount,size=2G /dev/shm"
        )


def _opened(room: Path, queries: int | None) -> tuple[list[_Measured], list[str]]:
    """The engines that there are, and why others are not."""
    opened, skipped = list[_Measured](), list[str]()
    for engine in engines("lab"):
        assert engine.lab is not None
        try:
            lab = engine.lab()(room)
        except InputError as error:
            skipped.append(f"{engine.label}: {error.message}; {error.hint}".rstrip("; "))
        except ImportError as error:
            skipped.append(f"{engine.label}: {error}; pip install spillcast")
        else:
            if isinstance(lab, Calibrates):
                opened.append(_Measured(engine.name, lab, lab.calibrating()[:queries]))
    if not opened:
        raise ProgramMissing("no engine to calibrate with is installed", ". ".join(skipped))
    return opened, skipped


def _points(
    stage: Stage, opened: Sequence[_Measured], places: Sequence[Place], room: Path, repeat: int
) -> Iterator[Point]:
    """Each query on each storage in turn, and again: what drifts on the machine drifts for all."""
    stage.step("making tables")
    for engine in opened:
        for rows in {query.rows for query in engine.queries}:
            engine.lab.build(rows)
    for number in range(repeat):
        for engine in opened:
            for query in engine.queries:
                stage.step(f"{engine.lab.label}, {query.name}")
                for place in places:
                    point = _point(stage, engine, query, place, number, room)
                    if point is not None:
                        yield point


def _point(
    stage: Stage, engine: _Measured, query: Workload, place: Place, number: int, room: Path
) -> Point | None:
    """A recorded run, whose bursts go into the engine's entry; None if it did not spill."""
    with workspace(room) as folder:
        ran, recording = run_recorded_if_spilled(
            engine.lab, query, place, folder / "run.spill", stage.status
        )
        if recording is None:
            return None
        meta, loads, bursts = recording.meta, temp_load(recording), recording.bursts
    if bursts is not None:
        engine.bursts.setdefault(query.name, {}).setdefault(place.name, []).append(bursts)
    # The preload library sees no CPU time outside calls.
    cpu_s = ran.cpu_s if meta.cpu_s is None else meta.cpu_s
    return Point(
        engine=engine.lab.label,
        query=query.name,
        storage=place.name,
        repeat=number,
        operations=sum(load.count for load in loads),
        latency_s=_mean_s(loads),
        read_latency_s=_mean_s([load for load in loads if load.op == "read"]),
        write_latency_s=_mean_s([load for load in loads if load.op == "write"]),
        cpu_s=cpu_s,
        cpu_per_operation_s=cpu_s / sum(load.count for load in loads),
        process_cpu_s=ran.cpu_s,
        run_queue_delay_s=ran.run_queue_delay_s,
        elapsed_s=ran.elapsed_s,
    )


def _costs(opened: Sequence[_Measured], points: Sequence[Point]) -> list[WaitCost]:
    """What a wait costs each engine, and all; none where no query was seen on all storages."""
    waits_s = [
        median(point.latency_s for point in points if point.storage == name)
        for name in STORAGES[1:]
    ]
    kinds = {engine.name: _kinds(engine) for engine in opened}
    return pooled(kinds, waits_s) if any(kinds.values()) else []


def _kinds(engine: _Measured) -> list[Kind]:
    """What its queries' bursts are compared by. What compressing takes is no cost of waits."""
    assert isinstance(engine.lab, Calibrates)
    before = [READ] if engine.lab.compresses_writes else [READ, WRITE]
    seen = {query: runs for query, runs in engine.bursts.items() if len(runs) == len(STORAGES)}
    return [
        kind
        for query, runs in seen.items()
        for kind in kinds_of(query, [runs[name] for name in STORAGES], before)
    ]


def _mean_s(loads: Sequence[Load]) -> float:
    """The mean latency of an operation; 0 without any."""
    return sum(load.total_s for load in loads) / max(sum(load.count for load in loads), 1)

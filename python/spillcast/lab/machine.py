"""Calibrates a machine: the CPU cost of waits, from queries run in memory and on slow storage."""

import time
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from statistics import median
from typing import TypeVar

import numpy as np

from spillcast.columns import Floats
from spillcast.engines import Calibrates, Engine, LabQuery
from spillcast.engines.registry import engines, lab_of
from spillcast.errors import EvidenceUnsuited, InputError, ProgramMissing, SpaceInsufficient
from spillcast.forecast.workload.load import mean_latency_s, operations
from spillcast.forecast.workload.recorded import recorded_loads
from spillcast.lab.run import ExperimentProgress, run_recorded_if_spilled
from spillcast.lab.storages import SHARED_MEMORY, SpillDirectory, fast_parent, named_places
from spillcast.recording.calibration import (
    ANY,
    CALIBRATION_SCHEMA,
    CalibratedOn,
    Calibration,
    CalibrationRun,
    WaitCost,
    filled_s,
)
from spillcast.recording.thread_trace import READ, WRITE, Bursts
from spillcast.stats import nonnegative_least_squares
from spillcast.units import format_bytes
from spillcast.workspace import free_bytes, workspace

T = TypeVar("T")
#: Candidate times to refill a part of the caches, half a power of ten apart.
FILL_S = tuple(float(f"{fill_s:.3g}") for fill_s in np.geomspace(1e-6, 1e-2, 9))
#: Number of quantiles by which bursts of a kind are compared, and least number of bursts in each.
QUANTILES, BURSTS_MIN = 12, 4
#: Error of a quantile due to other causes: relative and absolute.
OFF_SHARE, OFF_S = 0.08, 0.5e-6
#: Bounds of the spread over queries, because few queries give a rough estimate.
SPREAD_MIN, SPREAD_MAX = 0.2, 1.5
#: Lower limit of the spread of the cost for an engine that was not measured.
OTHER_ENGINE_SPREAD = 0.6
#: Mean wait on each storage except memory (s).
Waits = Sequence[float]


@dataclass(frozen=True)
class BurstKind:
    """Bursts of one kind of one query: quantiles of their CPU time, a row for each storage."""

    query: str
    #: Bursts per quantile.
    count: float
    cpu_s: Floats
    #: Variance, over repeated runs, of the mean CPU time that the longest wait adds to all bursts.
    noise: float = 0.0

    @property
    def extra_s(self) -> Floats:
        """CPU time that waits add to each quantile, a row for each storage except memory."""
        return np.asarray(self.cpu_s[1:] - self.cpu_s[0])


def kinds_of(
    query: str, runs: Sequence[Sequence[Bursts]], before: Sequence[int]
) -> list[BurstKind]:
    """The bursts of runs by storage (memory first), grouped by the operations around them.

    ``before`` are the operations that may follow a burst: READ, WRITE. Bursts are matched by rank,
    because the work is the same on every storage. Repeated runs count by their median.
    """
    kinds = []
    for op in (READ, WRITE):
        for next_op in before:
            quantiles = [[_quantiles(run, op, next_op) for run in repeats] for repeats in runs]
            if any(run is None for repeats in quantiles for run in repeats):
                continue
            cpu_s = np.array([np.median(np.array(repeats), axis=0) for repeats in quantiles])
            of_kind = (runs[0][0].op == op) & (runs[0][0].next_op == next_op)
            count = of_kind.sum() / QUANTILES
            kinds.append(BurstKind(query, count, cpu_s, _noise(quantiles, count)))
    return kinds


def fit(engine: str, kinds: Sequence[BurstKind], waits_s: Waits, version: str = "") -> WaitCost:
    """The cost of a wait over all queries, and the spread of each query around the others' cost.

    InputError without any query.
    """
    if not kinds:
        raise EvidenceUnsuited(f"{engine}: too few temp operations to measure what a wait costs")
    shares = [[float(share) for share in row] for row in _shares(kinds)]
    by_query = _grouped([(kind.query, kind) for kind in kinds])
    spread = _spread(by_query)
    return WaitCost(engine, len(by_query), spread, FILL_S, list(waits_s), shares, version)


def _grouped(kinds: Iterable[tuple[T, BurstKind]]) -> list[list[BurstKind]]:
    groups = dict[T, list[BurstKind]]()
    for name, kind in kinds:
        groups.setdefault(name, []).append(kind)
    return list(groups.values())


def _spread(groups: Sequence[Sequence[BurstKind]]) -> float:
    """Relative deviation of each group from the others' cost, less that of repeated runs.

    SPREAD_MAX for a single group.
    """
    off, noise = list[float](), list[float]()
    for number, members in enumerate(groups):
        others = [kind for at, group in enumerate(groups) if at != number for kind in group]
        if others:
            shares = _shares(others)
            predicted = sum(_total(kind, _predicted(kind, shares)[-1]) for kind in members)
            measured = sum(_total(kind, kind.extra_s[-1]) for kind in members)
            off.append(
                ((measured - predicted) / predicted) ** 2 if predicted > 0 else SPREAD_MAX**2
            )
            noise.append(sum(k.noise for k in members) / predicted**2 if predicted > 0 else 0.0)
    if not off:
        return SPREAD_MAX
    squared = float(np.mean(off)) - float(np.mean(noise))
    spread = float(np.sqrt(max(squared, 0.0)))
    return min(max(spread, SPREAD_MIN), SPREAD_MAX)


def _noise(quantiles: Sequence[Sequence[Floats | None]], count: float) -> float:
    """The variance of the mean cost of a wait among repeated runs, by storage and repeat."""
    repeats = min(map(len, quantiles))
    if repeats < 2:
        return 0.0
    totals = [
        count * float(np.sum(np.asarray(quantiles[-1][n]) - np.asarray(quantiles[0][n])))
        for n in range(repeats)
    ]
    return float(np.var(totals, ddof=1)) / repeats


def _quantiles(bursts: Bursts, op: int, next_op: int) -> Floats | None:
    """Mean CPU time between neighbouring quantiles; None for too few bursts."""
    cpu_s = np.sort(bursts.cpu_s[(bursts.op == op) & (bursts.next_op == next_op)])
    if len(cpu_s) < QUANTILES * BURSTS_MIN:
        return None
    return np.array([part.mean() for part in np.array_split(cpu_s, QUANTILES)])


def _total(kind: BurstKind, extra_s: Floats) -> float:
    return float(kind.count * extra_s.sum())


def _predicted(kind: BurstKind, shares: Floats) -> Floats:
    """Predicted extra CPU time of the quantiles of a kind, a row for each wait."""
    return np.asarray(shares @ filled_s(kind.cpu_s[0], np.array(FILL_S)).T)


def _shares(kinds: Sequence[BurstKind]) -> Floats:
    """Cost (s) by wait and fill time: least squares such that a longer wait never costs less."""
    warm_s = np.concatenate([kind.cpu_s[0] for kind in kinds])
    count = np.concatenate([np.full(len(kind.cpu_s[0]), kind.count) for kind in kinds])
    weight = np.sqrt(count) / np.hypot(OFF_SHARE * warm_s, OFF_S)
    filled = filled_s(warm_s, np.array(FILL_S)) * weight[:, None]
    extra = np.concatenate([kind.extra_s for kind in kinds], axis=1) * weight
    waits = len(extra)
    # The unknowns are non-negative increments from wait to wait; a wait costs their sum.
    up_to = np.tril(np.ones((waits, waits)))
    shares = nonnegative_least_squares(np.kron(up_to, filled), extra.reshape(-1)).reshape(
        waits, len(FILL_S)
    )
    return np.asarray(np.cumsum(shares, axis=0))


def pooled(costs: Mapping[tuple[str, str], Sequence[BurstKind]], waits_s: Waits) -> list[WaitCost]:
    """A cost for each engine and version, and a common one for engines that were not measured.

    The common cost's spread is that of each engine around the others' cost.
    """
    measured = {name: kinds for name, kinds in costs.items() if kinds}
    fits = [fit(name, kinds, waits_s, version) for (name, version), kinds in measured.items()]
    all_kinds = [
        (engine, replace(kind, query=f"{engine} {kind.query}"))
        for (engine, _), kinds in measured.items()
        for kind in kinds
    ]
    together = fit(ANY, [kind for _, kind in all_kinds], waits_s)
    by_engine = _grouped(all_kinds)
    spread = max(together.spread, OTHER_ENGINE_SPREAD)
    if len(by_engine) > 1:
        spread = max(spread, _spread(by_engine))
    return [*fits, replace(together, spread=spread)]


STORAGES = ("tmpfs", "latency:0.25ms", "latency:1.5ms")
REPEAT = 2
#: Space for the engines' data, and for a spill.
DATA_BYTES, SPILL_BYTES = 1 << 30, 1 << 30


@dataclass(frozen=True)
class _Measured:
    """An engine of one version, its queries, and their bursts by query and storage."""

    engine: Engine
    lab: Calibrates
    queries: Sequence[LabQuery]
    bursts: dict[str, dict[str, list[Bursts]]] = field(default_factory=dict)


def measure_machine(
    stage: ExperimentProgress,
    work: Path | None = None,
    repeat: int = REPEAT,
    queries: int | None = None,
    server: str | None = None,
) -> Calibration:
    """Run queries of each engine in turn, at most the first ``queries``. No files are left behind.

    With a DSN ``server``, PostgreSQL runs with the programs of that server. InputError for too
    little space, or without any engine.
    """
    started_s = time.monotonic()
    with workspace(work) as workdir:
        if free_bytes(workdir) < DATA_BYTES:
            message = f"calibration needs {format_bytes(DATA_BYTES)} of free space"
            hint = "name another directory with --work DIR"
            raise SpaceInsufficient(message, hint, workdir.parent)
        if fast_parent(SPILL_BYTES) is None:
            raise SpaceInsufficient(
                f"calibration needs {format_bytes(SPILL_BYTES)} of free space",
                "free some, or make it larger: mount -o remount,size=2G /dev/shm",
                SHARED_MEMORY,
            )
        opened, skipped = _opened(workdir, queries, server)
        with named_places(STORAGES, workdir) as places:
            points = list(_points(stage, opened, places, workdir, repeat))
    costs = _costs(opened)
    return Calibration(
        schema=CALIBRATION_SCHEMA,
        measured_at_s=time.time(),
        took_s=time.monotonic() - started_s,
        machine=CalibratedOn.this_machine(),
        costs=costs,
        points=points,
        skipped=skipped,
    )


def _opened(
    workdir: Path, queries: int | None, server: str | None
) -> tuple[list[_Measured], list[str]]:
    """The available engines, and the reasons why other engines are unavailable."""
    opened, skipped = list[_Measured](), list[str]()
    for engine in engines("lab"):
        try:
            labs = lab_of(engine.name).calibrators(workdir, server if engine.server else None)
            opened += [_Measured(engine, lab, lab.calibrating[:queries]) for lab in labs]
        except InputError as error:
            if server is not None and engine.server:
                raise
            reason = "; ".join(filter(None, (error.message, error.hint)))
            skipped.append(f"{engine.label}: {reason}")
        except ImportError as error:
            skipped.append(f"{engine.label}: {error}; pip install spillcast")
    if not opened:
        raise ProgramMissing("no engine to calibrate with is installed", ". ".join(skipped))
    return opened, skipped


def _points(
    stage: ExperimentProgress,
    opened: Sequence[_Measured],
    places: Sequence[SpillDirectory],
    workdir: Path,
    repeat: int,
) -> Iterator[CalibrationRun]:
    """Runs of each query on each storage, repeated in turn, so that a drift affects all."""
    stage.step("making tables")
    for engine in opened:
        for rows in {query.rows for query in engine.queries}:
            engine.lab.build(rows)
    for number in range(repeat):
        for engine in opened:
            for query in engine.queries:
                stage.step(f"{engine.lab.label}, {query.name}")
                for place in places:
                    point = _point(stage, engine, query, place, number, workdir)
                    if point is not None:
                        yield point


def _point(
    stage: ExperimentProgress,
    engine: _Measured,
    query: LabQuery,
    place: SpillDirectory,
    number: int,
    workdir: Path,
) -> CalibrationRun | None:
    """A recorded run, whose bursts go into the engine's entry; None if it did not spill."""
    with workspace(workdir) as folder:
        ran, recording = run_recorded_if_spilled(
            engine.lab, query, place, folder / "run.spill", stage.status
        )
        if recording is None:
            return None
        meta, loads, bursts = recording.meta, recorded_loads(recording), recording.work.bursts
    if bursts is not None:
        engine.bursts.setdefault(query.name, {}).setdefault(place.name, []).append(bursts)
    # The preload library does not see CPU time outside calls.
    cpu_s = ran.cpu_s if meta.cpu_s is None else meta.cpu_s
    return CalibrationRun(
        engine=engine.lab.label,
        query=query.name,
        storage=place.name,
        repeat=number,
        operations=operations(loads),
        latency_s=mean_latency_s(loads),
        read_latency_s=mean_latency_s([load for load in loads if load.op == "read"]),
        write_latency_s=mean_latency_s([load for load in loads if load.op == "write"]),
        cpu_s=cpu_s,
        cpu_per_operation_s=cpu_s / operations(loads),
        process_cpu_s=ran.cpu_s,
        run_queue_delay_s=ran.run_queue_delay_s,
        elapsed_s=ran.elapsed_s,
    )


def _costs(opened: Sequence[_Measured]) -> list[WaitCost]:
    """The cost of a wait by engine, and for all; empty if no query ran on all storages."""
    kinds = dict[tuple[str, str], list[BurstKind]]()
    for measured in opened:
        # The CPU time of compression is not a cost of waits.
        before = [READ] if measured.lab.compresses_writes else [READ, WRITE]
        kinds[measured.engine.name, measured.lab.describe(measured.queries[0]).version or ""] = [
            kind
            for query, runs in measured.bursts.items()
            if len(runs) == len(STORAGES)
            for kind in kinds_of(query, [runs[name] for name in STORAGES], before)
        ]
    if not any(kinds.values()):
        return []
    return pooled(kinds, [median(_mean_idle_s(opened, name)) for name in STORAGES[1:]])


def _mean_idle_s(opened: Sequence[_Measured], storage: str) -> Iterator[float]:
    """The mean wait in an operation of each run on a storage."""
    for measured in opened:
        for runs in measured.bursts.values():
            yield from (float(run.idle_s.mean()) for run in runs.get(storage, ()))

"""One query with work memory from too little to enough on some storages: measured, and forecast."""

import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from itertools import pairwise
from pathlib import Path
from statistics import median

from spillcast.engines.held import Ran
from spillcast.errors import InputError, SpillcastError
from spillcast.forecast.result import Warned
from spillcast.forecast.work_memory.curve import Between, MemoryCurve, MemoryRun, memory_run
from spillcast.forecast.work_memory.spills import (
    HASH_MEM_MULTIPLIER,
    Spill,
    State,
    io_share,
    spills_of,
    state_with,
)
from spillcast.lab.demo import Stage
from spillcast.lab.engine import Engine, EngineName, Explains, open_engine
from spillcast.lab.memory_points import next_size
from spillcast.lab.memory_result import Point, Sweep, Told, Turn
from spillcast.lab.run import run, run_recorded_if_spilled
from spillcast.lab.storages import Place
from spillcast.lab.turns import least_disturbed, undisturbed
from spillcast.lab.workload import Workload
from spillcast.recording import Recording
from spillcast.recording.explain.nodes import nodes_of
from spillcast.recording.spill import spill_bytes
from spillcast.units import format_bytes, format_duration
from spillcast.workspace import free_bytes, workspace

#: A spill may take so much more elsewhere than where it was measured.
ROOM = 1.25


@dataclass(frozen=True)
class Plan:
    """What a sweep is to do."""

    engine_name: EngineName
    workload: Workload
    sizes: Sequence[int]
    #: Sizes to measure at most, the least and the most among them.
    measure: int
    #: None: as long as it takes.
    budget_s: float | None = None
    #: Whether to measure what was forecast, too.
    check: bool = False
    confidence: float = 0.9
    #: Runs of each size on each storage, of which the median counts.
    repeat: int = 1


def open_swept(name: EngineName, room: Path, database: Path | None, *, own: bool) -> Engine:
    """The engine with its data in ``room``; of a query of the user's own with their database.

    Without one the query finds its data itself. InputError where it is not there.
    """
    if not own:
        return open_engine(name, room)
    from spillcast.lab.duckdb import DuckDbEngine, make_empty

    if database is None:
        database = room / "empty.db"
        make_empty(database)
    elif not database.is_file():
        raise InputError(f"--database {database}: there is no such file")
    return DuckDbEngine(room, database)


def sweep_memory(stage: Stage, engine: Engine, plan: Plan, places: Sequence[Place]) -> Sweep:
    """Measure some sizes on each place and forecast the others.

    InputError where the engine refuses the least memory, or a place is too small for the spill.
    """
    with workspace(None) as room:
        return _Run(stage, engine, plan, places, room).sweep()


@dataclass
class _Run:
    """A sweep under way."""

    stage: Stage
    engine: Engine
    plan: Plan
    places: Sequence[Place]
    room: Path
    runs: dict[tuple[str, int], MemoryRun] = field(default_factory=dict)
    told: dict[int, Told] = field(default_factory=dict)
    spills: Sequence[Spill] = ()
    enough_bytes: int | None = None
    held_bytes: int = 0
    took_s: dict[str, list[float]] = field(default_factory=dict)
    outputs: int = 0
    busy: bool = False
    warnings: list[Warned] = field(default_factory=list)

    def sweep(self) -> Sweep:
        plan = self.plan
        self.stage.step("made ready")
        self.engine.build(plan.workload.rows)
        begun = time.monotonic()
        self._first()
        while len(self._measured()) < plan.measure:
            size = self._next()
            if size is None:
                break
            expected_s = sum(max(took, default=0.0) for took in self.took_s.values())
            if plan.budget_s is not None:
                spent_s = time.monotonic() - begun
                if spent_s + expected_s > plan.budget_s:
                    self._warn_of_budget()
                    break
            self._size(size)
        # What is measured to check takes no part in what is forecast.
        forecasts, told, turns = self._forecasts(), self._all_told(), self._turns()
        if plan.check:
            for storage, size in forecasts:
                self._measure(size, self._place(storage))
        if self.busy:
            text = "other work on the machine disturbed some runs: their times say less"
            self.warnings.append(Warned("busy", text))
        return Sweep(
            self.engine.label,
            plan.workload.name,
            plan.confidence,
            [place.name for place in self.places],
            plan.sizes,
            [
                Point(
                    place.name,
                    size,
                    told[size],
                    self.runs.get((place.name, size)),
                    forecasts.get((place.name, size)),
                )
                for place in self.places
                for size in plan.sizes
            ],
            turns,
            self.warnings,
        )

    def _first(self) -> None:
        """The least memory, which the engine may refuse, and the most."""
        least, most = self.plan.sizes[0], self.plan.sizes[-1]
        workload, first = self._workload(most), self.places[0]
        self.stage.step(f"{workload.name}, {format_bytes(most)} on {first.name}, to warm up")
        with _refusal_said(workload.name, most):
            run(self.engine, workload, first, self.stage.tick)
        with _refusal_said(workload.name, least):
            self._size(least)
        self._size(most)

    def _size(self, size: int) -> None:
        """A size on every storage; on one of them where it spills nothing."""
        first, *others = self.places
        run, recording = self._measure(size, first)
        self.told[size] = self._tell(size, recording, first)
        if not run.ops:
            return
        for place in others:
            self._need_room(place)
            self._measure(size, place)

    def _measure(self, size: int, place: Place) -> tuple[MemoryRun, Recording | None]:
        """The run of median elapsed time."""
        begun = time.monotonic()
        words = f"{self.plan.workload.name}, {format_bytes(size)} on {place.name}"
        self.stage.step(words + self._time_left(place))
        runs = [self._run(size, place) for _ in range(self.plan.repeat)]
        ran, recording = sorted(runs, key=lambda done: done[0].elapsed_s)[(len(runs) - 1) // 2]
        self.busy = self.busy or not undisturbed([ran], self.plan.workload)
        found = memory_run(place.name, size, ran.elapsed_s, ran.run_queue_delay_s, recording)
        if recording is None and ran.peak_buffer_bytes is not None:
            self.enough_bytes = min(ran.peak_buffer_bytes, self.enough_bytes or size, size)
        self.runs[place.name, size] = found
        self.took_s.setdefault(place.name, []).append(time.monotonic() - begun)
        return found, recording

    def _run(self, size: int, place: Place) -> tuple[Ran, Recording | None]:
        """Once, or again where other work on the machine took CPU."""
        workload = self._workload(size)

        def recorded(_number: int) -> tuple[Ran, Recording | None]:
            self.outputs += 1
            output = self.room / f"{self.outputs}.spill"
            return run_recorded_if_spilled(self.engine, workload, place, output, self.stage.status)

        return least_disturbed(workload, recorded)

    def _tell(self, size: int, recording: Recording | None, place: Place) -> Told:
        """How it spilled, by the server's own plan where it has one."""
        if recording is None:
            return Told("none", 0, None, measured=True)
        self.held_bytes = max(self.held_bytes, spill_bytes(recording))
        engine = self.engine
        if isinstance(engine, Explains):
            _, explained = engine.plan(self._workload(size), place)
            settings = self.plan.workload.settings
            multiplier = float(settings.get("hash_mem_multiplier", HASH_MEM_MULTIPLIER))
            plan = (explained.meta.engine.document or {})["Plan"]
            spills = spills_of(nodes_of(plan), multiplier)
            self.spills = self.spills or spills
            return _told(spills, [s.passes for s in spills], [s.batches for s in spills])
        # DuckDB writes what does not fit, when it does not: there are no passes to count.
        return Told("spills", None, None, measured=True)

    def _all_told(self) -> dict[int, Told]:
        return {size: self._told(size) for size in self.plan.sizes}

    def _told(self, size: int) -> Told:
        """What a run said of a size, or arithmetic."""
        if size in self.told:
            return self.told[size]
        if not self._curve().spills(size):
            return Told("none", 0, None, measured=False)
        if self.spills:
            told = _told(
                self.spills,
                [spill.passes_with(size) for spill in self.spills],
                [spill.batches_with(size) for spill in self.spills],
            )
            return replace(told, state=state_with(self.spills, size), measured=False)
        return Told("spills", None, None, measured=False)

    def _forecasts(self) -> dict[tuple[str, int], Between]:
        """For what was not measured; nothing that is measured later takes part."""
        curve = self._curve()
        return {
            (place.name, size): curve.at(place.name, size)
            for place in self.places
            for size in self.plan.sizes
            if (place.name, size) not in self.runs
        }

    def _curve(self) -> MemoryCurve:
        spills = self.spills
        return MemoryCurve(
            list(self.runs.values()),
            io_share=(lambda size: io_share(spills, size)) if spills else None,
            enough_bytes=self.enough_bytes,
            confidence=self.plan.confidence,
        )

    def _turns(self) -> list[Turn]:
        """Where it spills less than with the size before."""
        states = [(size, self._told(size).state) for size in self.plan.sizes]
        return [
            Turn(size, before, after)
            for (_, before), (size, after) in pairwise(states)
            if before != after
        ]

    def _measured(self) -> dict[int, float]:
        """Times of the sizes that were measured, summed over the storages."""
        sums: dict[int, float] = {}
        for size in {size for _, size in self.runs}:
            found = [self.runs.get((place.name, size)) for place in self.places]
            shared = next(run for run in found if run is not None)
            sums[size] = sum((run or shared).elapsed_s for run in found)
        return sums

    def _next(self) -> int | None:
        fits = [size for size, told in self.told.items() if told.state == "none"]
        enough = self.enough_bytes
        if self.spills:
            computed = [size for size in self.plan.sizes if not io_share(self.spills, size)]
            enough = min(computed, default=enough)
        return next_size(self.plan.sizes, self._measured(), fits, enough)

    def _workload(self, size: int) -> Workload:
        return with_memory(self.plan.engine_name, self.plan.workload, size)

    def _place(self, name: str) -> Place:
        return next(place for place in self.places if place.name == name)

    def _need_room(self, place: Place) -> None:
        free, needed = free_bytes(place.directory), ROOM * self.held_bytes
        if free < needed:
            text = f"--on {place.name}: {format_bytes(free)} are free, and the query spills "
            raise InputError(text + format_bytes(self.held_bytes), "name a larger directory")

    def _time_left(self, place: Place) -> str:
        """What the runs still to come may take, by those that were done; once there is one."""
        taken = self.took_s.get(place.name)
        if not taken:
            return ""
        sizes = len(self.plan.sizes) if self.plan.check else self.plan.measure
        left_s = sum(
            median(self.took_s.get(each.name, taken)) * max(sizes - self._done(each), 0)
            for each in self.places
        )
        return f", about {format_duration(round(left_s))} left"

    def _done(self, place: Place) -> int:
        return sum(name == place.name for name, _ in self.runs)

    def _warn_of_budget(self) -> None:
        text = (
            f"the budget had time for {len(self._measured())} sizes of {self.plan.measure}: "
            "more between them is forecast"
        )
        self.warnings.append(Warned("budget", text))


def with_memory(engine: EngineName, workload: Workload, size: int) -> Workload:
    """The query with so many bytes of memory; DuckDB tells what its buffers took."""
    if engine == "postgres":
        return replace(workload, memory=f"{size >> 10}kB")
    settings = {**workload.settings, "enable_profiling": "no_output"}
    return replace(workload, memory=f"{size >> 10}KiB", settings=settings)


def _told(
    spills: Sequence[Spill], passes: Sequence[int | None], batches: Sequence[int | None]
) -> Told:
    most_passes = max((each for each in passes if each is not None), default=None)
    most_batches = max((each for each in batches if each is not None), default=None)
    state: State = "multi-pass" if (most_passes or 0) > 1 else "one-pass" if spills else "none"
    return Told(state, most_passes, most_batches, measured=True)


@contextmanager
def _refusal_said(name: str, size: int) -> Iterator[None]:
    """What the engine says of too little memory, as an InputError."""
    try:
        yield
    except InputError:
        raise
    except SpillcastError as error:
        if "memory" not in error.message.lower():
            raise
        message = f"--memory {format_bytes(size)}: too little for {name}: {error.message}"
        raise InputError(message, "begin with more, such as --memory 64M..1G") from error

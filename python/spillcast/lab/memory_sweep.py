"""Sweeps work memory: measures some sizes on each storage, and forecasts the others."""

import time
from collections.abc import Collection, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from itertools import pairwise, product
from math import log2
from pathlib import Path
from statistics import median

from spillcast.document import Note
from spillcast.engines import Explains, Lab, LabQuery
from spillcast.engines.queries import RunResult
from spillcast.engines.registry import engine_of, work_memory_of
from spillcast.errors import InputError, OptionInvalid, SpaceInsufficient, SpillcastError
from spillcast.evidence.postgres.work_memory import NodeSpill, State, io_share, state_with
from spillcast.lab.memory_result import (
    Interpolated,
    MemoryCurve,
    MemoryPoint,
    MemoryRun,
    MemorySweep,
    SpillState,
    checked,
    memory_run,
    turns_of,
)
from spillcast.lab.run import (
    ExperimentProgress,
    least_disturbed,
    run,
    run_recorded_if_spilled,
    undisturbed,
)
from spillcast.lab.storages import SpillDirectory
from spillcast.recording import Recording
from spillcast.units import format_bytes, format_count, format_duration, parse_bytes
from spillcast.workspace import free_bytes, workspace

#: Sizes are multiples of 1 KiB, the unit of engines.
UNIT_BYTES = 1 << 10
POINTS_MAX = 64


def memory_sizes(engine: str, text: str | None, points: int | None = None) -> list[int]:
    """Sizes (bytes) of a range such as ``1M..256M``: its lower end doubled, or ``points`` sizes.

    InputError for an invalid range, or one that the engine does not allow.
    """
    setting = work_memory_of(engine)
    text = text or setting.default_range
    first, dots, last = text.partition("..")
    if not dots:
        raise OptionInvalid(f"--memory {text}: not a range", "write for example 1M..256M")
    lower, upper = (parse_bytes(end, f"--memory {text}") for end in (first, last))
    if not 0 < lower < upper:
        raise OptionInvalid(
            f"--memory {text}: it must go from less to more", "for example 1M..256M"
        )
    min_bytes, max_bytes = setting.bounds_bytes or (lower, upper)
    if not min_bytes <= lower < upper <= max_bytes:
        whose = f"{engine_of(engine).label}'s {setting.name}"
        message = f"--memory {text}: {whose} goes from {min_bytes >> 10}K to {max_bytes >> 30}G"
        raise OptionInvalid(message, f"for example --memory {setting.default_range}")
    if points is None:
        doublings = int(log2(upper / lower) + 1e-9)
        sizes = {lower << number for number in range(doublings + 1)} | {upper}
    else:
        step = (upper / lower) ** (1 / (points - 1))
        sizes = {round(lower * step**number) for number in range(points)}
    kib_sizes = sorted({max(size // UNIT_BYTES, 1) * UNIT_BYTES for size in sizes})
    if not 2 <= len(kib_sizes) <= POINTS_MAX:
        message = f"--memory {text}: {len(kib_sizes)} sizes from {format_bytes(lower)} on"
        raise OptionInvalid(message, f"2 to {POINTS_MAX} can be swept: name a range that has them")
    return kib_sizes


def next_size(
    sizes: Sequence[int],
    elapsed_s: dict[int, float],
    fits: Collection[int],
    enough_bytes: int | None,
) -> int | None:
    """The size to measure next: in the middle of the neighbours whose times differ most.

    ``elapsed_s`` contains the times of the measured sizes, ``fits`` the sizes without a spill.
    Sizes from the smallest of these or ``enough_bytes`` on are not measured. None if none is left.
    """
    measured = sorted(elapsed_s)
    enough = min([*fits, *([enough_bytes] if enough_bytes is not None else [])], default=None)
    best: tuple[float, float, int] | None = None
    for low, high in pairwise(measured):
        end = high if enough is None else min(high, max(enough, low))
        inside = [size for size in sizes if low < size < end]
        if not inside:
            continue
        middle = min(inside, key=lambda size: abs(log2(size) - (log2(low) + log2(end)) / 2))
        candidate = (abs(elapsed_s[low] - elapsed_s[high]), log2(end / low), middle)
        best = max(best, candidate) if best else candidate
    return None if best is None else best[2]


#: Free space that a spill needs, over its size on another storage.
SPACE_FACTOR = 1.25


@dataclass(frozen=True)
class SweepPlan:
    """The sizes and runs of a sweep."""

    engine: str
    workload: LabQuery
    sizes: Sequence[int]
    #: Maximum number of measured sizes, including the smallest and the largest.
    measure: int
    #: None for unlimited time.
    budget_s: float | None = None
    #: Whether to measure the forecast sizes too.
    check: bool = False
    confidence: float = 0.9
    #: Runs of each size on each storage, of which the median counts.
    repeat: int = 1


def sweep_memory(
    stage: ExperimentProgress, engine: Lab, plan: SweepPlan, places: Sequence[SpillDirectory]
) -> MemorySweep:
    """Measure some sizes on each place and forecast the others.

    InputError if the engine refuses the smallest size, or a place is too small for the spill.
    """
    with workspace(None) as workdir:
        return _Run(stage, engine, plan, places, workdir).sweep()


@dataclass
class _Run:
    """A sweep in progress."""

    stage: ExperimentProgress
    engine: Lab
    plan: SweepPlan
    places: Sequence[SpillDirectory]
    workdir: Path
    runs: dict[tuple[str, int], MemoryRun] = field(default_factory=dict)
    states: dict[int, SpillState] = field(default_factory=dict)
    spills: Sequence[NodeSpill] = ()
    enough_bytes: int | None = None
    held_bytes: int = 0
    took_s: dict[str, list[float]] = field(default_factory=dict)
    outputs: int = 0
    busy: bool = False
    warnings: list[Note] = field(default_factory=list)

    def sweep(self) -> MemorySweep:
        plan = self.plan
        self.stage.step("made ready")
        self.engine.build(plan.workload.rows)
        begun = time.monotonic()
        self._first()
        while len(self._measured()) < plan.measure and (size := self._next()) is not None:
            expected_s = sum(max(took, default=0.0) for took in self.took_s.values())
            spent_s = time.monotonic() - begun
            if plan.budget_s is not None and spent_s + expected_s > plan.budget_s:
                text = (
                    f"the budget had time for {len(self._measured())} of "
                    f"{format_count(plan.measure, 'size')}: the others are forecast"
                )
                self.warnings.append(Note(code="budget", message=text))
                break
            self._size(size)
        # The runs that check forecasts must not be used for them.
        forecasts, by_size = self._forecasts(), {size: self._state(size) for size in plan.sizes}
        for place, size in self._cells() if plan.check else ():
            if (place.name, size) in forecasts:
                self._measure(size, place)
        if self.busy:
            text = "other work on the machine disturbed some runs: their times are less reliable"
            self.warnings.append(Note(code="busy", message=text))
        points = [
            MemoryPoint.of(place.name, size, by_size[size], self.runs.get(key), forecasts.get(key))
            for place, size in self._cells()
            for key in [(place.name, size)]
        ]
        errors = checked(points)
        return MemorySweep(
            engine=self.engine.label,
            workload=plan.workload.name,
            confidence=plan.confidence,
            points=points,
            turns=turns_of(by_size),
            errors=errors,
            median_error=median(abs(check.error) for check in errors) if errors else None,
            warnings=self.warnings,
        )

    def _cells(self) -> Iterator[tuple[SpillDirectory, int]]:
        return product(self.places, self.plan.sizes)

    def _first(self) -> None:
        """Measure the smallest size, which the engine may refuse, and the largest."""
        smallest, largest = self.plan.sizes[0], self.plan.sizes[-1]
        workload, first = self._workload(largest), self.places[0]
        self.stage.step(f"{workload.name}, {format_bytes(largest)} on {first.name}, to warm up")
        with _refusal_explained(workload.name, largest):
            run(self.engine, workload, first, self.stage.tick)
        with _refusal_explained(workload.name, smallest):
            self._size(smallest)
        self._size(largest)

    def _size(self, size: int) -> None:
        """Measure a size on every storage; only on the first if the query does not spill."""
        first, *others = self.places
        run, recording = self._measure(size, first)
        self.states[size] = self._observed_state(size, recording, first)
        if not run.ops:
            return
        needed = SPACE_FACTOR * self.held_bytes
        for place in others:
            if (free := free_bytes(place.directory)) < needed:
                text = f"--on {place.name}: {format_bytes(free)} are free, and the query spills "
                hint = "name a larger directory"
                raise SpaceInsufficient(text + format_bytes(self.held_bytes), hint)
            self._measure(size, place)

    def _measure(self, size: int, place: SpillDirectory) -> tuple[MemoryRun, Recording | None]:
        """The run of median elapsed time."""
        begun = time.monotonic()
        words = f"{self.plan.workload.name}, {format_bytes(size)} on {place.name}"
        self.stage.step(words + self._time_left(place))
        runs = [self._run(size, place) for _ in range(self.plan.repeat)]
        ran, recording = sorted(runs, key=lambda done: done[0].elapsed_s)[(len(runs) - 1) // 2]
        self.busy = self.busy or not undisturbed([ran], self.plan.workload)
        measured = memory_run(place.name, size, ran.elapsed_s, ran.run_queue_delay_s, recording)
        if recording is None and ran.peak_buffer_bytes is not None:
            self.enough_bytes = min(ran.peak_buffer_bytes, self.enough_bytes or size, size)
        self.runs[place.name, size] = measured
        self.took_s.setdefault(place.name, []).append(time.monotonic() - begun)
        return measured, recording

    def _run(self, size: int, place: SpillDirectory) -> tuple[RunResult, Recording | None]:
        """A recorded run, repeated if other work on the machine disturbed it."""
        workload = self._workload(size)

        def recorded() -> tuple[RunResult, Recording | None]:
            self.outputs += 1
            output = self.workdir / f"{self.outputs}.spill"
            return run_recorded_if_spilled(self.engine, workload, place, output, self.stage.status)

        return least_disturbed(workload, recorded)

    def _observed_state(
        self, size: int, recording: Recording | None, place: SpillDirectory
    ) -> SpillState:
        """The spill of a measured run, by the engine's plan if it has one."""
        if recording is None:
            return SpillState("none", 0, None, measured=True)
        self.held_bytes = max(self.held_bytes, recording.held_bytes)
        engine = self.engine
        if not isinstance(engine, Explains):
            # Without a plan the passes are unknown.
            return SpillState("spills", None, None, measured=True)
        explained = run(engine, engine.explaining(self._workload(size)), place)
        plan = engine.plan_of(explained).plan
        spills = () if plan is None else plan.spills
        self.spills = self.spills or spills
        state: State = (
            "multi-pass" if any((spill.passes or 0) > 1 for spill in spills) else "one-pass"
        )
        counts = [(spill.passes, spill.batches) for spill in spills]
        return _spill_state(counts, state if spills else "none", measured=True)

    def _state(self, size: int) -> SpillState:
        """The spill of the query with a size, observed or computed."""
        if size in self.states:
            return self.states[size]
        if not self._curve().spills(size):
            return SpillState("none", 0, None, measured=False)
        if not self.spills:
            return SpillState("spills", None, None, measured=False)
        counts = [(spill.passes_with(size), spill.batches_with(size)) for spill in self.spills]
        return _spill_state(counts, state_with(self.spills, size), measured=False)

    def _forecasts(self) -> dict[tuple[str, int], Interpolated]:
        """The forecasts of all cells without a run so far."""
        curve = self._curve()
        return {
            (place.name, size): curve.at(place.name, size)
            for place, size in self._cells()
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

    def _measured(self) -> dict[int, float]:
        """Elapsed times of the measured sizes, summed over the storages."""
        sums: dict[int, float] = {}
        for size in {size for _, size in self.runs}:
            runs = [self.runs.get((place.name, size)) for place in self.places]
            shared = next(run for run in runs if run is not None)
            sums[size] = sum((run or shared).elapsed_s for run in runs)
        return sums

    def _next(self) -> int | None:
        fits = [size for size, forecast in self.states.items() if forecast.state == "none"]
        enough = self.enough_bytes
        if self.spills:
            computed = [size for size in self.plan.sizes if not io_share(self.spills, size)]
            enough = min(computed, default=enough)
        return next_size(self.plan.sizes, self._measured(), fits, enough)

    def _workload(self, size: int) -> LabQuery:
        return work_memory_of(self.plan.engine).given(self.plan.workload, size)

    def _time_left(self, place: SpillDirectory) -> str:
        """The expected time of the remaining runs, from the runs so far; empty before the first."""
        taken = self.took_s.get(place.name)
        if not taken:
            return ""
        sizes = len(self.plan.sizes) if self.plan.check else self.plan.measure
        left_s = sum(
            median(self.took_s.get(place.name, taken))
            * max(sizes - sum(name == place.name for name, _ in self.runs), 0)
            for place in self.places
        )
        return f", about {format_duration(round(left_s))} left"


def _spill_state(
    counts: Sequence[tuple[int | None, int | None]], state: State, *, measured: bool
) -> SpillState:
    """The state with the most passes and the most batches of the nodes that spill, if known."""
    passes = max((count for count, _ in counts if count is not None), default=None)
    batches = max((count for _, count in counts if count is not None), default=None)
    return SpillState(state, passes, batches, measured)


@contextmanager
def _refusal_explained(name: str, size: int) -> Iterator[None]:
    """Convert the engine's error about too little memory to an InputError."""
    try:
        yield
    except InputError:
        raise
    except SpillcastError as error:
        if "memory" not in error.message.lower():
            raise
        message = f"--memory {format_bytes(size)}: too little for {name}: {error.message}"
        raise OptionInvalid(message, "begin with more, such as --memory 64M..1G") from error

"""A query on several storages: recorded and measured on each, forecast for the others."""

from collections.abc import Iterator, Mapping, Sequence
from contextlib import nullcontext
from dataclasses import replace
from functools import partial
from pathlib import Path
from random import Random

from spillcast.engines import Explains, Lab
from spillcast.engines.queries import RunResult
from spillcast.errors import SpillcastError, TimesUnknown
from spillcast.evidence.counts import Counts
from spillcast.forecast import Forecast, forecast
from spillcast.forecast.previous_runs import run_instead_of
from spillcast.forecast.question import CONFIDENCE
from spillcast.forecast.remaining import NO_HINTS, hints_of
from spillcast.lab.case import Case, Runs, Variant, evidence_of, seed_formula_s
from spillcast.lab.run import ExperimentProgress, run, run_recorded
from spillcast.lab.storages import SpillDirectory, direction, file_name
from spillcast.recording import Recording
from spillcast.recording.derived import read_back
from spillcast.storage import Storage
from spillcast.storage.free_space import ALL_FREE
from spillcast.storage.observed import TempEvidence
from spillcast.storage.probe import probe
from spillcast.workspace import workspace
from spillcast_lab.kernel_slowed import SlowedPlace
from spillcast_lab.matrix import PART_PROBE_S, PROBE_S, Cell, recordings
from spillcast_lab.outcome import FALLING
from spillcast_lab.partial_runs import (
    AGAIN,
    MINUTE,
    PARTS,
    first_fifth,
    parts,
    rehearse,
    ten_slices,
)
from spillcast_lab.turns import Series, take_turns
from spillcast_lab.variants import rehearsed_s, variants

#: Longest time between the starts of recorder and query. Forecasts must not depend on it.
AHEAD_S = 1.0


class CellRun:
    """The verification of a cell."""

    def __init__(
        self,
        stage: ExperimentProgress,
        title: str,
        engine: Lab,
        cell: Cell,
        places: Sequence[SpillDirectory],
    ) -> None:
        self._stage = stage
        self._title = title
        self._engine = engine
        self._workload = cell.workload
        self._pairs, self._sources, self._targets = cell.directed, cell.sources, cell.targets
        self._places = {place.name: place for place in places}
        #: Another recorded run by storage.
        self._former = dict[str, Path]()
        #: The recording that is evidence by storage.
        self._recorded_on = dict[str, Path]()
        #: The bare runs by storage.
        self._runs = dict[str, Runs]()

    def verify(self, workdir: Path, repeat: int, parts: bool) -> list[Case]:
        """The cases of the cell, with ``parts`` also from parts of runs and from plans.

        Recorded and bare runs alternate. No forecast uses a bare run. A storage that is not a
        target has one bare run.
        """
        with workspace(workdir) as recordings:
            self._warm_up()
            return list(self._forecasts(self._run(recordings, repeat, parts)))

    def _step(self, activity: str) -> None:
        self._stage.step(f"{self._title}: {activity}")

    def _warm_up(self) -> None:
        self._step("prepared")
        self._engine.build(self._workload.rows)
        self._step("warm-up run")
        fastest = min(self._places.values(), key=lambda place: not place.fast)
        run(self._engine, self._workload, fastest, self._stage.tick)
        for place in self._places.values():
            if isinstance(place, SlowedPlace):
                self._step(f"{place.name}, run that shows the memory it needs")
                with place.groups.unbounded(self._engine.memory_spread):
                    run(self._engine, self._workload, place, self._stage.tick)

    def _run(self, folder: Path, repeat: int, parts: bool) -> dict[str, dict[str, TempEvidence]]:
        """Run and record it on each storage; returns the evidence by storage and name."""
        wanted, sources = recordings(repeat, parts), self._sources
        repeats = {name: repeat if name in self._targets else 1 for name in self._places}
        bare = {
            name: Series(name, repeats[name], partial(self._bare, name)) for name in self._places
        }
        recorded = {
            name: Series(name, wanted, partial(self._recorded, name, folder)) for name in sources
        }
        explained = list(self._explained(sources[0], wanted)) if parts else []
        take_turns(self._workload, [*recorded.values(), *explained, *bare.values()])
        # The rank of the bare run that counts: the median of the least disturbed runs.
        rank = (repeat - 1) // 2
        plan = next((series.least_disturbed(rank)[1] for series in explained), None)
        evidence = dict[str, dict[str, TempEvidence]]()
        for name, series in recorded.items():
            recording = series.least_disturbed(rank)[1]
            evidence[name] = {"recording": recording}
            self._recorded_on[name] = recording.path
            if parts:
                former = [made for _, made in series.done if made is not recording]
                evidence[name] |= self._parts(name, recording, former, plan)
        if plan is not None:
            evidence[sources[0]]["plan"] = plan
        self._runs = {name: Runs(series.runs, repeats[name]) for name, series in bare.items()}
        return evidence

    def _parts(
        self, name: str, whole: Recording, former: Sequence[Recording], plan: Counts | None
    ) -> dict[str, TempEvidence]:
        """Parts of a recorded run on a storage, one of them also with a ``former`` run."""
        evidence: dict[str, TempEvidence] = {"first_fifth": first_fifth(whole)}
        if (slices := ten_slices(whole)) is not None:
            evidence["slices"] = slices
        evidence |= parts(whole, Random(f"{self._title} {name}"), plan)
        if MINUTE in evidence and former:
            evidence[AGAIN], self._former[name] = evidence[MINUTE], former[0].path
        return evidence

    def _bare(self, name: str, number: int) -> tuple[RunResult, None]:
        self._step(f"{name}, run {number + 1}")
        return run(self._engine, self._workload, self._places[name], self._stage.tick), None

    def _recorded(self, name: str, folder: Path, number: int) -> tuple[RunResult, Recording]:
        self._step(f"{name}, recorded {number + 1}")
        place, output = self._places[name], folder / f"{file_name(name)}-{number}.spill"
        ahead_s = Random(f"{self._title} {name} {number}").uniform(0, AHEAD_S)
        return run_recorded(
            self._engine, self._workload, place, output, self._stage.status, ahead_s=ahead_s
        )

    def _explained(self, name: str, wanted: int) -> Iterator[Series[Counts]]:
        """Runs for a plan, on one storage: plans on other storages differ only in times of I/O."""
        engine = self._engine
        if isinstance(engine, Explains):

            def attempt(number: int) -> tuple[RunResult, Counts]:
                self._step(f"{name}, explained {number + 1}")
                explaining = engine.explaining(self._workload)
                ran = run(engine, explaining, self._places[name], self._stage.tick)
                return ran, engine.plan_of(ran)

            # EXPLAIN takes CPU time, so these runs are compared only with each other.
            yield Series(f"{name}, explained", wanted, attempt)

    def _forecasts(self, evidence: Mapping[str, Mapping[str, TempEvidence]]) -> Iterator[Case]:
        """Forecasts from whole recordings for all pairs, from other evidence for the first pair."""
        first = {source: target for source, target in reversed(self._pairs)}
        for source, target in self._pairs:
            elapsed_s = evidence[source]["recording"].elapsed_s
            for name, recording in evidence[source].items():
                if name == "recording" or target == first[source]:
                    self._step(f"{source} to {target}, {name} replayed")
                    yield self._case(name, source, target, recording, elapsed_s)

    def _case(
        self, name: str, source: str, target: str, evidence: TempEvidence, elapsed_s: float
    ) -> Case:
        """A forecast, or a refused forecast with the reason."""
        of_part = name in ("slices", "first_fifth")
        part = of_part or name in PARTS
        hints = hints_of([self._former[source]]) if name == AGAIN else NO_HINTS
        like = evidence
        if isinstance(evidence, Recording):
            like = read_back(evidence) if name in PARTS else evidence
            like = run_instead_of(evidence, hints.runs) or like
        budget = replace(ALL_FREE, time_s=PART_PROBE_S if part else PROBE_S)
        origin, goal = self._places[source], self._places[target]
        storage, seed_s = None, None
        others: Mapping[str, Variant] = {}
        try:
            with goal.groups.limited() if isinstance(goal, SlowedPlace) else nullcontext():
                progress = self._stage.progress
                storage = probe(goal.directory, like, budget=budget, on_progress=progress)
            storage = replace(storage, name=target)
            whole_s = elapsed_s if of_part else None
            answer = forecast(evidence, storage, elapsed_s=whole_s, known=hints)
            if name in PARTS and answer.part is not None:
                raise TimesUnknown("the elapsed time of the whole query is unknown")
            if name == "recording" and isinstance(evidence, Recording):
                seed_s = seed_formula_s(evidence, storage)
                rehearsed = partial(self._rehearsed, source, evidence, storage)
                former = [
                    p for name, p in self._recorded_on.items() if name not in (source, target)
                ]
                others = variants(evidence, storage, answer, rehearsed, former)
        except SpillcastError as error:
            reason = str(error).removeprefix(f"{evidence.path}: ")
            whole_s = elapsed_s if part else evidence.elapsed_s
            answer = Forecast.unanswered(
                target, whole_s, CONFIDENCE, refused=reason, refused_code=error.code
            )
        return Case(
            engine=self._engine.label,
            workload=self._workload.name,
            threads=self._workload.threads,
            source=source,
            target=target,
            direction=direction(origin, goal),
            on_source=self._runs[source],
            on_target=self._runs[target],
            forecast=answer,
            seed_formula_s=seed_s,
            evidence=evidence_of(name, evidence, storage),
            source_means=origin.means,
            target_means=goal.means,
            variants=others,
        )

    def _rehearsed(self, source: str, recording: Recording, storage: Storage) -> Storage | None:
        """The target with a rehearsal of the query's first seconds; None without one.

        Only forecasts from slow storage to fast are rehearsed.
        """
        if direction(self._places[source], self._places[storage.name]) != FALLING:
            return None
        self._step(f"{storage.name}, rehearsed")
        try:
            rehearsal = rehearse(
                self._engine,
                self._workload,
                self._places[storage.name],
                like=recording,
                duration_s=rehearsed_s(recording),
                folder=recording.path.parent,
            )
        except SpillcastError:
            return None
        # The rehearsal of a query that ended is a measurement, not a forecast.
        return None if rehearsal.ended else replace(storage, rehearsal=rehearsal)

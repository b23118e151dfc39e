"""Compares a forecast with the measured run: after a move, and in a demo of the whole loop."""

from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from spillcast.document import read
from spillcast.engines import LabQuery, StatementSelector
from spillcast.engines.queries import RunResult
from spillcast.engines.registry import lab_of
from spillcast.errors import (
    EvidenceIncomplete,
    EvidenceUnknown,
    EvidenceUnsuited,
    SpaceInsufficient,
)
from spillcast.evidence.open import find_evidence, read_figures
from spillcast.evidence.postgres.plan import Executed, executed_plan
from spillcast.evidence.postgres.statements import executed_statement
from spillcast.forecast import Forecast, forecast, interval
from spillcast.forecast.ask import ask
from spillcast.forecast.question import Question
from spillcast.forecast.result import RUN_QUEUE, ZERO_LATENCY
from spillcast.gate import json_of, objects_in, reading, text_of
from spillcast.lab.case import (
    Case,
    CaseEvidence,
    Runs,
    Truth,
    error_of,
    evidence_of,
    read_truth,
    seed_formula_s,
    write_truth,
)
from spillcast.lab.run import ExperimentProgress, run, run_recorded, undisturbed
from spillcast.lab.storages import Emulated, SpillDirectory, direction, emulated, fast_parent, plain
from spillcast.recording import Recording
from spillcast.recording.observed import IN_MEMORY, CountedStatement, TempPlace
from spillcast.storage.free_space import ALL_FREE
from spillcast.storage.probe import probe
from spillcast.storage.target import can_probe, parse_assumed, resolve
from spillcast.units import format_bytes, format_duration
from spillcast.workspace import free_bytes, workspace

#: The storage of the evidence itself, as a target.
_SAME_STORAGE = "factor:1"


@dataclass(frozen=True)
class ActualRun:
    """The measured time of a query: in total, and by the terms of a forecast if known."""

    elapsed_s: float
    terms_s: Mapping[str, float]
    operations: int | None = None
    bytes: int | None = None
    #: The statement, and the places of its temp files, if known.
    statement: CountedStatement | None = None
    places: Sequence[TempPlace] = ()
    #: Mean latency of its temp operations, if single operations were measured.
    latency_s: float | None = None


def actual_run_of_evidence(
    paths: Sequence[str], question: Question, forecast_queryid: str | None = None
) -> ActualRun:
    """The run in a recording, plan, statement counts, figures or trace of the query after the move.

    Plans, counts and figures need not spill, nor time their I/O. ``forecast_queryid`` selects one
    of several statements if ``question`` does not. InputError or Refusal.
    """
    evidence = find_evidence(paths)
    kind = evidence.only_kind()
    selection = replace(question.selection, queryid=question.queryid or forecast_queryid)
    if kind != "plans":
        question.check(evidence)
    if kind == "plans" and len(evidence.plans) == 1:
        return actual_run(executed_plan(evidence.plans[0], selection))
    if kind == "statements" and len(evidence.statements) == 1:
        return actual_run(executed_statement(evidence.statements[0], selection))
    if kind == "figures":
        figures = read_figures(evidence.figures, replace(question.selection, timed=False))
        if figures.io_bounds is not None or not figures.total_s:
            return ActualRun(figures.elapsed_s, {})
    [(forecast, _)] = ask(paths, [_SAME_STORAGE], question)
    actual = _of_terms(forecast)
    if len(evidence.recordings) != 1:
        return actual
    recording = Recording.open(evidence.recordings[0])
    count, total_ns = (recording.temp_seconds[name].sum() for name in ("count", "total_ns"))
    latency_s = total_ns / count / 1e9 if count else None
    return replace(actual, places=recording.meta.named_temp_places, latency_s=latency_s)


def actual_run(executed: Executed) -> ActualRun:
    """The run of one call, with terms if its temp I/O was timed."""
    if executed.counts is None:
        return ActualRun(executed.elapsed_s, {}, executed.operations, executed.bytes)
    return _of_terms(forecast(executed.counts, resolve(_SAME_STORAGE, executed.counts)))


def _of_terms(forecast: Forecast) -> ActualRun:
    # If only bounds of the time of temp I/O are known, the total is known, but no term.
    terms = [] if forecast.bounds_only else forecast.terms_by_name
    terms_s, moved = {term.name: term.baseline_s for term in terms}, forecast.moved
    return ActualRun(
        forecast.baseline_s, terms_s, moved.count or None, moved.bytes or 0, forecast.statement
    )


CHECK_SCHEMA = "spillcast.check/1"
HINT = "keep one with: spillcast forecast run.spill --to TARGET --json > forecast.json"
#: The storage of the temp files before the move.
OLD_STORAGE = "the old storage"
#: Runs whose temp operations differ by a larger share did different work.
SAME_WORK = 0.2
#: A storage whose mean latency differs from an assumed one by this factor is another storage.
OTHER_STORAGE = 2.0


@dataclass(frozen=True)
class ForecastCheck:
    """A forecast beside the measured run."""

    forecast: Forecast
    actual: ActualRun

    @property
    def error(self) -> float:
        """The error of the forecast, which is not refused."""
        return error_of(self.forecast, self.actual.elapsed_s) or 0.0

    @property
    def inside(self) -> bool:
        """Whether the interval holds the actual time."""
        return self.forecast.holds(self.actual.elapsed_s)

    @property
    def work(self) -> float | None:
        """Actual temp operations over those of the forecast; None if unknown."""
        forecast = self.forecast.moved.count
        if not forecast or self.actual.operations is None:
            return None
        return self.actual.operations / forecast

    @property
    def objection(self) -> str | None:
        """Why this run cannot verify the forecast; None if no reason is known."""
        forecast, actual = self.forecast, self.actual
        if actual.elapsed_s == forecast.baseline_s and self.work == 1:
            return (
                f"not on that storage: it is the run that the forecast is made of, on {OLD_STORAGE}"
            )
        if forecast.statement is not None and actual.statement is not None:
            known, statement = forecast.statement, actual.statement
            both = known.queryid is not None and statement.queryid is not None
            if both and known.queryid != statement.queryid and known.query != statement.query:
                return f"not the same work: statement {statement.queryid}, not {known.queryid}"
        if self.work is not None and abs(self.work - 1) > SAME_WORK:
            return f"not the same work: {self.work:.2g} times the temp I/O of the forecast"
        kind, assumed_s = parse_assumed(forecast.target) or ("", 0.0)
        if kind == "latency" and (latency_s := actual.latency_s) is not None:
            low_s, high_s = assumed_s / OTHER_STORAGE, assumed_s * OTHER_STORAGE
            if not low_s <= latency_s <= high_s:
                took = format_duration(latency_s)
                return f"not on that storage: a temp operation took {took}, not {forecast.target}"
        if actual.places and not any(_is_on(place, forecast.target) for place in actual.places):
            places = (f"{place.directory} ({place.filesystem})" for place in actual.places)
            return f"not on that storage: temp files were in {', '.join(places)}"
        return None

    def terms(self) -> list[tuple[str, float, float, float | None]]:
        """The terms: name and seconds before the move, as forecast, and as measured."""
        measured_s, terms = self.actual.terms_s, self.forecast.terms_by_name
        rows = [
            (term.name, term.baseline_s, term.forecast_s, measured_s.get(term.name))
            for term in terms
        ]
        # Before the move the machine may have been quiet.
        if RUN_QUEUE in measured_s and all(term.name != RUN_QUEUE for term in terms):
            rows.append((RUN_QUEUE, 0.0, 0.0, measured_s[RUN_QUEUE]))
        return rows

    def to_json(self) -> dict[str, Any]:
        """The document of docs/schema.md."""
        keys = ("name", "baseline_s", "forecast_s", "measured_s")
        return {
            "schema": CHECK_SCHEMA,
            "target": self.forecast.target,
            "baseline_s": self.forecast.baseline_s,
            "forecast_s": self.forecast.forecast_s,
            "interval_s": self.forecast.interval_s and list(self.forecast.interval_s),
            "measured_s": self.actual.elapsed_s,
            "error": self.error,
            "inside": self.inside,
            "work": self.work,
            "objection": self.objection,
            "terms": [dict(zip(keys, term, strict=True)) for term in self.terms()],
        }


def _is_on(place: TempPlace, target: str) -> bool:
    """Whether a place is on the storage of a target; True if the target's name does not show it."""
    if target == "tmpfs":
        return place.filesystem in IN_MEMORY
    named = Path(target)
    if not can_probe(named) and (named.exists() or not named.is_absolute()):
        return True
    directory, named = Path(place.directory).resolve(), named.resolve()
    if named.is_dir() and directory.is_dir():
        return named.stat().st_dev == directory.stat().st_dev
    return directory.is_relative_to(named) or named.is_relative_to(directory)


def kept_forecast(path: Path, target: str | None) -> Forecast:
    """The forecast for ``target`` in a document; without ``target`` the only one.

    InputError for a file that is not a forecast, and if several match.
    """
    with reading(path, HINT):
        if path.is_dir():
            raise EvidenceUnknown("not a forecast: give the forecast first")
        document = json_of(text_of(path))
        if not isinstance(document, dict) or document.get("schema") != Forecast.SCHEMA:
            raise EvidenceUnknown("not a forecast")
        if document.get("targets") == []:
            raise EvidenceUnsuited(f"it was refused: {document.get('refused')}")
        parts = objects_in(document, "targets") if "targets" in document else [document]
        forecasts = [read(Forecast, part) for part in parts]
        names = ", ".join(forecast.target for forecast in forecasts)
        chosen = [forecast for forecast in forecasts if target in (None, forecast.target)]
        if len(chosen) != 1:
            reason = "is for several targets" if target is None else f"has no target {target}"
            raise EvidenceUnsuited(reason, f"name one with --target: {names}")
        if chosen[0].target == ZERO_LATENCY:
            raise EvidenceUnsuited("is for no storage, only the limit of any", HINT)
        if chosen[0].forecast_s is None:
            raise EvidenceUnsuited(f"it was refused: {chosen[0].refused}")
        return chosen[0]


def query_to_measure(forecast: Forecast, named: StatementSelector) -> StatementSelector:
    """The query to look up on a server: the named one, or else the forecast's.

    InputError if neither is known.
    """
    if (named.backend, named.queryid, named.query) != (None, None, None):
        return named
    statement = forecast.statement
    if statement is None or (statement.queryid, statement.query) == (None, None):
        hint = "name it with --query or --queryid, or its session with --backend"
        raise EvidenceIncomplete("the forecast names no statement that a server counts", hint)
    return replace(named, queryid=statement.queryid, text=statement.query)


def log(check: ForecastCheck, path: Path, name: str) -> int:
    """Add a check to a file of cases for ``verify --from``; returns their number."""
    before = read_truth(path) if path.is_file() else Truth([])
    cases = [*before.cases, _case(check, name)]
    write_truth(path, Truth(cases, before.about))
    return len(cases)


def _case(check: ForecastCheck, name: str) -> Case:
    forecast, actual = check.forecast, check.actual
    moved = forecast.moved
    count = moved.count or 1
    was_s, target_s = moved.baseline_s / count, moved.forecast_s / count
    size = (moved.bytes or 0) / count
    source_runs, target_runs = (
        Runs([RunResult(s, "", 0.0, 0.0)], 1) for s in (forecast.baseline_s, actual.elapsed_s)
    )
    return Case(
        engine="site",
        workload=name,
        threads=1,
        source="as it was",
        target=forecast.target,
        direction=interval.direction(was_s, target_s, size),
        on_source=source_runs,
        on_target=target_runs,
        forecast=forecast,
        seed_formula_s=None,
        evidence=CaseEvidence("recording", forecast.baseline_s, 0.0, 0.0, was_s, target_s),
    )


SLOW = Emulated("slow", read_s=0.001, write_s=0.001)
#: Space for the engine's data and a spill, and for the spill in memory.
DISK_BYTES = 4 << 30
SPILL_BYTES = 3 << 30
STEPS = 5


@dataclass(frozen=True)
class Demo:
    """The case of a demo, and how its storage was made slow."""

    case: Case
    means: str
    bytes: int
    #: Whether other work on the machine disturbed one of the runs.
    busy: bool


def run_demo(
    stage: ExperimentProgress,
    work: Path | None = None,
    *,
    engine: str,
    workload: LabQuery | None = None,
) -> Demo:
    """Record, probe, forecast and measure a query. No files are left behind."""
    lab = lab_of(engine)
    workload = workload or lab.demo
    with workspace(work) as workdir, _candidate(workdir) as fast, ExitStack() as stack:
        if free_bytes(workdir) < DISK_BYTES:
            message = f"{workdir.parent}: the demo needs {format_bytes(DISK_BYTES)} of free space"
            raise SpaceInsufficient(message, "name another directory with --work DIR")
        opened = lab(workdir)
        stage.step(f"making a table of {workload.rows:,} rows")
        opened.build(workload.rows)
        stage.step("the query on plain disk, to warm up")
        warm = plain("disk", workdir / "warm-up")
        run(opened, workload, warm, stage.tick)
        slow = stack.enter_context(emulated(SLOW, workdir, workdir))
        stage.step("the query on slow storage, 1 ms an operation, recorded")
        ran, recording = run_recorded(opened, workload, slow, workdir / "slow.spill", stage.status)
        stage.step(f"the recorded I/O replayed on {fast.name}")
        storage = probe(fast.directory, recording, budget=ALL_FREE, on_progress=stage.progress)
        answer = forecast(recording, replace(storage, name=fast.name))
        stage.step(f"the query on {fast.name}, to compare")
        on_target = run(opened, workload, fast, stage.tick)
        if on_target.rows != ran.rows:
            raise AssertionError("the query returned other rows on the other storage")
        case = Case(
            engine=opened.label,
            workload=workload.name,
            threads=workload.threads,
            source="slow storage (1 ms an operation)",
            target=fast.name,
            direction=direction(slow, fast),
            on_source=Runs([ran], 1),
            on_target=Runs([on_target], 1),
            forecast=answer,
            seed_formula_s=seed_formula_s(recording, storage),
            evidence=evidence_of("recording", recording, storage),
        )
        disturbed = not (undisturbed([ran], workload) and undisturbed([on_target], workload))
        return Demo(case, slow.means, recording.meta.temp.bytes, disturbed)


@contextmanager
def _candidate(workdir: Path) -> Iterator[SpillDirectory]:
    """The fast directory: in shared memory if it has room, else on the workspace's disk."""
    memory = fast_parent(SPILL_BYTES)
    if memory is None:
        yield plain(f"a directory in {workdir.parent}", workdir / "fast")
        return
    with workspace(memory) as directory:
        yield plain(str(memory), directory)

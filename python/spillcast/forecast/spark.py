"""How long a Spark application would take with its local files on other storage.

The log has no time of spills and local shuffle reads, so the core simulates them: tasks in slots,
and on each node a page cache and a device. What a task took beyond its simulated I/O on the storage
that it ran on is work. Where that storage, or the page cache of the nodes, is not known, the
forecast has bounds: both ends are simulated.
"""

from collections.abc import Collection, Sequence
from dataclasses import dataclass
from math import exp
from statistics import NormalDist, fmean

from spillcast import _core
from spillcast.errors import NoTempIo, Refusal, TargetUnknown
from spillcast.evidence.spark import Application
from spillcast.forecast.question import Question
from spillcast.forecast.result import Forecast, StageForecast, Term, Warned
from spillcast.recording.event_names import OPS
from spillcast.storage.model import Model
from spillcast.storage.storage import Storage
from spillcast.storage.target import resolve_storage
from spillcast.units import format_bytes

#: Bandwidths (bytes/s) of a reader alone, of all and of writeback; page cache, dirty limit (bytes);
#: whether reads and writes share the bandwidth.
Figures = tuple[float, float, float, float, float, bool]
#: What Linux reads ahead, and what it writes back, at once and so many together.
READ_BYTES, WRITE_BYTES, TOGETHER = 128 << 10, 256 << 10, 8
#: Of the page cache, what may be dirty before writers wait: the default of vm.dirty_ratio.
DIRTY_SHARE = 0.2
#: A page cache of which nothing is known has these bounds.
CACHE_BOUNDS_BYTES = (1 << 28, float("inf"))
#: How far simulations of six jobs on four storages were off, as a standard deviation of the
#: logarithm: a median of 20 % on a machine that was not quiet (a prototype of the same model).
MODEL_SPREAD = 0.3
_FORMS = (
    "catalogue:NAME, limits:iops=3000,throughput=125MiB/s,latency=1ms, tmpfs, or a storage.json, "
    "which is made by: spillcast probe DIR --grid"
)


@dataclass(frozen=True)
class _Scope:
    """What is forecast: the application, or one SQL execution of it; its stages by their places."""

    measured_s: float
    execution: int | None
    stages: Collection[int]

    @classmethod
    def of(cls, application: Application, execution: int | None) -> "_Scope":
        log = application.log
        if execution is None:
            return cls(application.elapsed_s, None, range(len(log.stages)))
        at = application.execution(execution)
        chosen = log.executions[at]
        ended_ms = log.last_ms if chosen.ended_ms is None else chosen.ended_ms
        jobs = {job.id for job in log.jobs if job.execution == execution}
        stages = [place for place, stage in enumerate(log.stages) if stage.job in jobs]
        return cls((ended_ms - chosen.started_ms) / 1e3, at, stages)


@dataclass(frozen=True)
class _Run:
    """A simulated run: its time, and by stage begin, end, work, waits for reads and writes (s)."""

    elapsed_s: float
    stages: Sequence[tuple[float, float, float, float, float]]

    @classmethod
    def of(
        cls, application: Application, scope: _Scope, storage: Figures | None, work: _core.SparkWork
    ) -> "_Run":
        elapsed_s, stages, executions = application.core.simulate(storage, work)
        if scope.execution is not None:
            begin_s, end_s = executions[scope.execution]
            elapsed_s = end_s - begin_s
        return cls(elapsed_s, stages)


@dataclass(frozen=True)
class _Assumption:
    """One assumption on what is not known, and what follows from it whatever the target is."""

    cache_bytes: float
    work: _core.SparkWork
    source: _Run
    ceiling: _Run


@dataclass(frozen=True)
class _Case:
    """Simulations under one assumption on what is not known; ``scale`` makes them measured time."""

    scale: float
    source: _Run
    target: _Run
    ceiling: _Run

    def target_s(self) -> float:
        """Elapsed time on the target."""
        return self.scale * self.target.elapsed_s

    def ceiling_s(self) -> float:
        """Elapsed time on zero-latency storage."""
        return self.scale * self.ceiling.elapsed_s

    def spans_s(self, run: _Run, scope: _Scope) -> dict[int, float]:
        """The elapsed time of each stage; that of several at once goes to the first of them."""
        spans, reached_s = {}, 0.0
        for at in sorted(scope.stages, key=lambda at: run.stages[at][0]):
            begin_s, end_s = run.stages[at][:2]
            spans[at] = self.scale * max(end_s - max(begin_s, reached_s), 0.0)
            reached_s = max(reached_s, end_s)
        return spans


def forecast_application(
    application: Application, targets: Sequence[str | Storage], question: Question
) -> list[tuple[Forecast, Storage | None]]:
    """A forecast for each target. InputError where the application wrote no temp files."""
    application.check_local()
    scope = _Scope.of(application, question.execution)
    if not application.temp_bytes:
        raise NoTempIo(
            f"{application.path}: it neither spilled nor shuffled",
            "no storage for temp files changes its time",
        )
    try:
        assumptions = _assumptions(application, scope, question)
    except Refusal as refusal:
        return [(_refused(scope, target, question, refusal), None) for target in targets]
    return [_answer(application, scope, target, assumptions, question) for target in targets]


def _answer(
    application: Application,
    scope: _Scope,
    target: str | Storage,
    assumptions: Sequence[_Assumption],
    question: Question,
) -> tuple[Forecast, Storage | None]:
    try:
        storage = _storage(target, "--to")
        cases = [_case(application, scope, storage, assumption) for assumption in assumptions]
    except Refusal as refusal:
        return _refused(scope, target, question, refusal), None
    return _forecast(application, scope, _name(target), cases, question), storage


def _name(target: str | Storage) -> str:
    return target.name if isinstance(target, Storage) else target


def _refused(
    scope: _Scope, target: str | Storage, question: Question, refusal: Refusal
) -> Forecast:
    return Forecast.refusal(
        _name(target), scope.measured_s, question.confidence, refusal.message, refusal.code
    )


def _storage(text: str | Storage, option: str) -> Storage | None:
    """The storage that an option names; None for memory."""
    if isinstance(text, Storage):
        return text
    if text == "tmpfs":
        return None
    if text.partition(":")[0] in ("latency", "factor", "cache"):
        problem = f"{option} {text}: an event log has no single operations"
        raise TargetUnknown(problem, f"name {_FORMS}")
    return resolve_storage(text, f"{option} {text}", _FORMS)


def _assumptions(
    application: Application, scope: _Scope, question: Question
) -> Sequence[_Assumption]:
    """Both ends of each quantity that is not known."""
    core, caches = application.core, _page_caches(question)
    if question.origin is None:
        # Nothing waited for storage, or all that may have did.
        works = core.work(None), core.least_work()
        source, least = (_Run.of(application, scope, None, work) for work in works)
        return [
            _Assumption(cache_bytes, work, source, ceiling)
            for cache_bytes in caches
            for work, ceiling in zip(works, (source, least), strict=True)
        ]
    origin, assumptions = _storage(question.origin, "--from"), list[_Assumption]()
    for cache_bytes in caches:
        figures = None if origin is None else figures_of(origin, cache_bytes)
        work = core.work(figures)
        runs = (_Run.of(application, scope, storage, work) for storage in (figures, None))
        assumptions.append(_Assumption(cache_bytes, work, *runs))
    return assumptions


def _case(
    application: Application, scope: _Scope, target: Storage | None, assumption: _Assumption
) -> _Case:
    source, run = assumption.source, assumption.ceiling
    if target is not None:
        figures = figures_of(target, assumption.cache_bytes)
        run = _Run.of(application, scope, figures, assumption.work)
    return _Case(scope.measured_s / source.elapsed_s, source, run, assumption.ceiling)


def _page_caches(question: Question) -> Sequence[float]:
    """Bounds of the memory of a node that its temp files may occupy."""
    known = question.page_cache_bytes
    return CACHE_BOUNDS_BYTES if known is None else [known]


def figures_of(storage: Storage, cache_bytes: float) -> Figures:
    """The bandwidths of a storage, as the kernel reads ahead and writes back on it."""
    model = Model(storage)

    def bytes_per_s(op: str, size_bytes: int, depth: int) -> float:
        latency = model.latency(op, size_bytes, depth=depth, sequential=True, lasting=True)
        return depth * size_bytes / max(latency.mean_s, 1e-9)

    return (
        bytes_per_s("read", READ_BYTES, 1),
        bytes_per_s("read", READ_BYTES, TOGETHER),
        bytes_per_s("write", WRITE_BYTES, TOGETHER),
        cache_bytes,
        DIRTY_SHARE * cache_bytes,
        _shared(storage),
    )


def _shared(storage: Storage) -> bool:
    """Whether a limit counts reads and writes together; so does a storage without stated limits."""
    both = [
        all(limit.cost_ns(op, READ_BYTES, sequential=True) for op in OPS)
        for limit in storage.limits
    ]
    return any(both) or not both


def _forecast(
    application: Application,
    scope: _Scope,
    name: str,
    cases: Sequence[_Case],
    question: Question,
) -> Forecast:
    """Midway between the cases that are furthest apart."""
    ends = [choose(cases, key=_Case.target_s) for choose in (min, max)]
    low_s, high_s = (case.target_s() for case in ends)
    ceilings_s = sorted(case.ceiling_s() for case in cases)
    low_factor, high_factor = (_factor(case, scope.measured_s, question) for case in ends)
    ceiling_s = fmean((ceilings_s[0], ceilings_s[-1]))
    stages = _stages(application, scope, ends)
    tasks_s = sum(stage.baseline_s for stage in stages), sum(stage.forecast_s for stage in stages)
    forecast_s = (low_s + high_s) / 2
    return Forecast(
        target=name,
        baseline_s=scope.measured_s,
        forecast_s=forecast_s,
        interval_s=(low_s / low_factor, high_s * high_factor),
        confidence=question.confidence,
        ceiling_s=ceiling_s,
        ceiling_interval_s=(ceilings_s[0] / low_factor, ceilings_s[-1]),
        terms=_terms(application, scope, ceiling_s, forecast_s, tasks_s),
        method="spark",
        warnings=_warnings(application, question),
        refused=None,
        stages=stages,
    )


def _factor(case: _Case, measured_s: float, question: Question) -> float:
    """How far a case may be off, by the share of the time that moves with the storage."""
    moved = abs(1 - case.ceiling_s() / max(measured_s, case.target_s()))
    return exp(moved * MODEL_SPREAD * NormalDist().inv_cdf((1 + question.confidence) / 2))


def _terms(
    application: Application,
    scope: _Scope,
    ceiling_s: float,
    forecast_s: float,
    stages_s: tuple[float, float],
) -> Sequence[Term]:
    """Temp I/O is what zero-latency storage would save; stages and the driver are the rest."""
    stages = application.log.stages
    written = sum(stages[at].shuffle_write_bytes + stages[at].spill_bytes for at in scope.stages)
    terms = [
        Term(
            "temp I/O", "temp", written, None, scope.measured_s - ceiling_s, forecast_s - ceiling_s
        )
    ]
    driver_s = scope.measured_s - stages_s[0]
    tasks = Term("tasks", None, None, None, ceiling_s - driver_s, ceiling_s - driver_s)
    return [*terms, tasks, Term("driver", None, None, None, driver_s, driver_s)]


def _stages(
    application: Application, scope: _Scope, ends: Sequence[_Case]
) -> Sequence[StageForecast]:
    """The stages in the order of the log, each midway between two cases."""
    spans = [(case.spans_s(case.source, scope), case.spans_s(case.target, scope)) for case in ends]
    return [
        StageForecast(
            id=stage.id,
            name=stage.name,
            tasks=stage.task_count,
            shuffle_read_bytes=stage.shuffle_read_bytes,
            shuffle_write_bytes=stage.shuffle_write_bytes,
            spill_bytes=stage.spill_bytes,
            baseline_s=fmean(spans_s[at] for spans_s, _ in spans),
            forecast_s=fmean(spans_s[at] for _, spans_s in spans),
            bound_by=_bound_by(ends[-1].target.stages[at], stage.cpu_ns / 1e9, stage.gc_ms / 1e3),
        )
        for at, stage in enumerate(application.log.stages)
        if at in scope.stages
    ]


def _bound_by(stage: tuple[float, float, float, float, float], cpu_s: float, gc_s: float) -> str:
    """What the tasks of a stage spend most of their time on, on the target."""
    _, _, work_s, read_s, write_s = stage
    parts = {
        "storage reads": read_s,
        "storage writes": write_s,
        "CPU": min(cpu_s, work_s),
        "GC": min(gc_s, work_s),
        "other waits": max(work_s - cpu_s - gc_s, 0.0),
    }
    return max(parts, key=lambda part: parts[part])


def _warnings(application: Application, question: Question) -> Sequence[Warned]:
    warnings = [Warned("event-log", text) for text in application.notes()]
    if question.origin is None:
        text = (
            "the log does not say on which storage the application ran, nor how long spills and "
            "local shuffle reads took"
        )
        warnings.append(Warned("time-unknown", text))
    if question.page_cache_bytes is None:
        low = format_bytes(CACHE_BOUNDS_BYTES[0])
        text = f"the page cache of the nodes is not known: {low} to all that was written"
        warnings.append(Warned("page-cache-unknown", text))
    return warnings

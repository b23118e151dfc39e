"""How long a Spark application would take with its local files on other storage.

The log has no times of spills and local shuffle reads, so the core simulates them: tasks in slots,
and a page cache and a device on each node. Work is the time of a task beyond its simulated I/O on
today's storage; recordings of executors measure it instead. If today's storage or the page cache of
the nodes is unknown, both ends of the possible range are simulated, and the forecast has bounds.
"""

import json
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cache, partial
from itertools import cycle
from math import exp, hypot, inf, log
from statistics import NormalDist

from spillcast import _core
from spillcast.errors import (
    EvidenceContradictory,
    NoTempIo,
    Refusal,
    TargetUnsuited,
    TimesContradictory,
)
from spillcast.evidence.spark import Application
from spillcast.forecast.caveat import Caveat
from spillcast.forecast.question import Question
from spillcast.forecast.result import Forecast, Interval, StageForecast, Term, WithoutSpills
from spillcast.forecast.spark.simulated import Resources, SimulatedRun, stage_forecasts
from spillcast.forecast.workload.resources import DIRTY_SHARE
from spillcast.recording import OPS
from spillcast.storage.model import Model
from spillcast.storage.storage import Storage
from spillcast.storage.target import RELATIVE, resolve_storage
from spillcast.units import format_bytes, format_duration

#: Bytes/s of one reader, of all readers and of writeback; page cache and dirty limit (bytes);
#: whether reads and writes share the bandwidth.
Figures = tuple[float, float, float, float, float, bool]
#: Bytes of a readahead and of a writeback request of Linux, and requests in flight.
READ_BYTES, WRITE_BYTES, CONCURRENT_OPERATIONS = 128 << 10, 256 << 10, 8
#: A page cache of unknown size has at least the first of these sizes with which the logged run can
#: have been as fast as it was, and at most the last one.
CACHE_SIZES_BYTES = (1 << 28, 1 << 31, 1 << 34, 1 << 37, inf)
#: Standard deviation of the logarithm of simulated over measured times (six jobs, four storages).
MODEL_SPREAD = 0.3
#: The same for the subtracted waits, by recordings of those jobs, relative to the remaining time.
WAITS_SPREAD = 0.05
#: The same for two runs of a job of which storage takes less than a tenth of the time.
RUN_SPREAD = 0.1
#: A logged time below this share of the simulated one is too short for the temp I/O of the run.
TOO_SHORT = exp(-2 * MODEL_SPREAD)
#: A larger relative error of the simulation of the logged run is reported as a warning.
SIMULATION_ERROR_MAX = 0.1
#: Upper limit of a spread: a wider interval gives no more information.
_SPREAD_MAX = 5.0
#: The terms of a forecast.
TERMS = ("temp I/O", "other time of tasks", "time of the driver")
_FORMS = (
    "catalogue:NAME, limits:iops=3000,throughput=125MiB/s,latency=1ms, tmpfs, or a storage.json, "
    "which is made by: spillcast probe DIR --grid"
)
#: A multiple of a task's memory with which nothing can spill.
_UNLIMITED_FACTOR = 1e12
#: Positions of the spans of executions and of jobs in a simulation.
EXECUTIONS, JOBS = 0, 1


@dataclass(frozen=True)
class _Scope:
    """The subject of a forecast: an application, or one of its SQL executions or jobs.

    ``title`` names it in an error. ``part`` is the list of spans of a simulation, of executions or
    of jobs, and its place there; None for the application. ``spill_bytes`` is the spill of each
    stage by its position in the log, with the executors that the question assumes.
    """

    question: Question
    application: Application
    title: str
    measured_s: float
    part: tuple[int, int] | None
    resources: Resources
    core: _core.SparkApplication
    spill_bytes: Mapping[int, int]

    @classmethod
    def of(cls, application: Application, question: Question) -> "_Scope":
        log, title, part = application.log, "it", None
        measured_s, stages = application.elapsed_s, list(range(len(log.stages)))
        if question.job is not None:
            part, title = (JOBS, application.job(question.job)), f"job {question.job}"
            job, jobs = log.jobs[part[1]], {question.job}
            span_ms = job.submitted_ms, job.completed_ms
        elif question.execution is not None:
            part = EXECUTIONS, application.execution(question.execution)
            title, execution = f"SQL execution {question.execution}", log.executions[part[1]]
            span_ms = execution.started_ms, execution.ended_ms
            jobs = {run.id for run in log.jobs if run.execution == question.execution}
        if part is not None:
            measured_s = ((span_ms[1] or log.last_ms) - span_ms[0]) / 1e3
            stages = [place for place in stages if log.stages[place].job in jobs]
        resources = Resources.of(application, question, measured_s)
        core = resources.suppose(application.core)
        spill_bytes = {place: log.stages[place].spill_bytes for place in stages}
        if resources.changed:
            rows = json.loads(core.to_json())["stages"]
            spill_bytes = {place: rows[place]["spill_bytes"] for place in stages}
        return cls(question, application, title, measured_s, part, resources, core, spill_bytes)

    def run(
        self, core: _core.SparkApplication, storage: Figures | None, work: _core.SparkWork
    ) -> SimulatedRun:
        """A simulation with temp files on a storage; None for storage without waits."""
        elapsed_s, stages, *spans_s = core.simulate(storage, work)
        begin_s, end_s = 0.0, elapsed_s
        if self.part is not None:
            kind, place = self.part
            begin_s, end_s = spans_s[kind][place]
        supposed = self.resources.supposed
        slots = supposed.executors * self.resources.slots(supposed)
        of_scope = {place: stages[place] for place in self.spill_bytes}
        return SimulatedRun(begin_s, end_s - begin_s, of_scope, slots)


@dataclass(frozen=True)
class _Case:
    """A target with one assumption about today's storage and the page cache.

    ``scale`` is measured over simulated time. ``source`` is the run on today's storage, ``ceiling``
    the run on zero-latency storage.
    """

    cache_bytes: float
    origin: Storage | None
    work: _core.SparkWork
    scale: float
    source: SimulatedRun
    ceiling: SimulatedRun
    target: SimulatedRun

    @property
    def target_s(self) -> float:
        """Elapsed time on the target."""
        return self.scale * self.target.elapsed_s

    def spread(self, measured_s: float) -> float:
        """Standard deviation of the logarithm of the time on the target.

        Its waits there and the effect of other executors are simulated, and the subtracted waits of
        today's run may be wrong, too.
        """
        source_s, ceiling_s = (self.scale * run.elapsed_s for run in (self.source, self.ceiling))
        simulated = max(1 - ceiling_s / self.target_s, 0.0)
        simulated += abs(1 - source_s / max(source_s, measured_s))
        taken_off = max(source_s - ceiling_s, 0.0) / self.target_s
        spread = hypot(simulated * MODEL_SPREAD, taken_off * WAITS_SPREAD, RUN_SPREAD)
        return min(spread, _SPREAD_MAX)


def forecast_application(
    application: Application, targets: Sequence[str | Storage], question: Question
) -> list[tuple[Forecast, Storage | None]]:
    """A forecast for each target. InputError if the application wrote no temp files."""
    application.check_local()
    scope = _Scope.of(application, question)
    if not any(application.log.stages[place].moves_temp for place in scope.spill_bytes):
        raise NoTempIo(
            f"{scope.title} neither spilled nor shuffled",
            "no storage for temp files changes its time",
            application.path,
        )
    warnings = list(_warnings(scope))
    if question.origin is None and application.local_memory is not None:
        scope = replace(scope, question=replace(question, origin="tmpfs"))
    names = [target.name if isinstance(target, Storage) else target for target in targets]
    elapsed_s, confidence = scope.measured_s, question.confidence
    unanswered = [Forecast.unanswered(name, elapsed_s, confidence) for name in names]
    try:
        origins = _assumptions(scope)
    except Refusal as refusal:
        return [(forecast.refused_by(refusal), None) for forecast in unanswered]
    if question.page_cache_bytes is None:
        least_bytes = min(case.cache_bytes for case in origins)
        least = "" if least_bytes == inf else f"{format_bytes(least_bytes)} to "
        text = f"the page cache of the nodes is not known: {least}all that was written"
        warnings.append(Caveat("page-cache-unknown", text))
    if misfit := _simulation_error(scope, origins):
        warnings.append(misfit)
    without_spills = _without_spills(scope, origins)
    answers = list[tuple[Forecast, Storage | None]]()
    for target, forecast in zip(targets, unanswered, strict=True):
        try:
            storage = _storage(target, "--to")
            cases = origins if storage is None else [_on(scope, storage, case) for case in origins]
        except Refusal as refusal:
            answers.append((forecast.refused_by(refusal), None))
            continue
        forecast = replace(forecast, warnings=warnings, without_spills=without_spills)
        answers.append((_answered(forecast, scope, cases), storage))
    return answers


def _storage(text: str | Storage, option: str) -> Storage | None:
    """The storage that an option names; None for tmpfs."""
    if isinstance(text, Storage):
        return text
    if text == "tmpfs":
        return None
    if text.startswith(RELATIVE):
        problem = f"{option} {text}: an event log has no single operations"
        raise TargetUnsuited(problem, f"name {_FORMS}")
    return resolve_storage(text, f"{option} {text}", _FORMS)


def _assumptions(scope: _Scope) -> Sequence[_Case]:
    """The cases for both ends of each unknown quantity, with zero-latency storage as the target."""
    question, core, cases = scope.question, scope.application.core, list[_Case]()
    # The search for the page cache and the cases simulate the same logged runs.
    work_on, run_on = cache(core.work), cache(partial(scope.run, core))
    observed = scope.application.observed
    is_named = question.origin is not None and observed is None
    origin = _storage(question.origin or "tmpfs", "--from") if is_named else None

    def elapsed_s(figures: Figures | None) -> float:
        return run_on(figures, work_on(figures)).elapsed_s

    for cache_bytes in _cache_bounds_bytes(scope, origin, elapsed_s):
        figures = _figures(origin, cache_bytes)
        all_work = work_on(figures)
        if observed is not None:
            # The recording measured the waits, so work is the rest of each task's time.
            works = [core.work_beside(observed.waits_s)]
        elif origin is None and question.origin is not None:
            works = [all_work]
        else:
            # Tasks waited as simulated (not at all on unknown storage), or as long as possible.
            works = [all_work, core.least_work(figures)]
        # On unknown storage, and with a recording, the logged run is simulated without waits.
        sources = [
            _source(scope, source_work, origin, cache_bytes, run_on(figures, source_work))
            for source_work in ([all_work] if origin is None else works)
        ]
        for work, (scale, source) in zip(works, cycle(sources), strict=False):
            in_memory = origin is None and work is all_work
            ceiling = source if in_memory else scope.run(scope.core, None, work)
            cases.append(_Case(cache_bytes, origin, work, scale, source, ceiling, ceiling))
    return cases


def _cache_bounds_bytes(
    scope: _Scope, origin: Storage | None, elapsed_s: Callable[[Figures | None], float]
) -> Sequence[float]:
    """The page cache of the nodes, or its bounds; ``elapsed_s`` simulates the logged run.

    TimesContradictory if the logged run was too fast for any of its sizes.
    """
    known_bytes, simulated_s = scope.question.page_cache_bytes, 0.0
    sizes_bytes = CACHE_SIZES_BYTES if known_bytes is None else (known_bytes,)
    for size_bytes in sizes_bytes:
        if origin is not None:
            simulated_s = elapsed_s(figures_of(origin, size_bytes))
        if not 0 < scope.measured_s < TOO_SHORT * simulated_s:
            return sorted({size_bytes, sizes_bytes[-1]})
    simulated, measured = map(format_duration, (simulated_s, scope.measured_s))
    raise TimesContradictory(
        f"on today's storage {scope.title} would take {simulated} instead of {measured}: give the "
        "storage that it ran on with --from, and the page cache of its nodes with --page-cache"
    )


def _source(
    scope: _Scope,
    work: _core.SparkWork,
    origin: Storage | None,
    cache_bytes: float,
    source: SimulatedRun,
) -> tuple[float, SimulatedRun]:
    """Measured over simulated time, and the run on today's storage, from the logged ``source``."""
    if min(scope.measured_s, source.elapsed_s) <= 0:
        problem = f"by its log {scope.title} took no time"
        raise EvidenceContradictory(problem, "give the whole event log", scope.application.path)
    scale = scope.measured_s / source.elapsed_s
    if scope.resources.changed:
        work = _work_today(scope, scope.core) or work
        supposed_bytes = scope.resources.cache_bytes(cache_bytes)
        source = scope.run(scope.core, _figures(origin, supposed_bytes), work)
    return scale, source


def _work_today(scope: _Scope, core: _core.SparkApplication) -> _core.SparkWork | None:
    """Work of tasks besides recorded waits, scaled to the bytes of ``core``; None if unrecorded."""
    observed = scope.application.observed
    if observed is None:
        return None
    *_, recorded_bytes = scope.application.core.local_io()
    *_, moved_bytes = core.local_io()
    saved_s = [
        wait_s * (1 - now / before) if before else 0.0
        for wait_s, before, now in zip(observed.waits_s, recorded_bytes, moved_bytes, strict=True)
    ]
    return core.work_beside(saved_s)


def _simulation_error(scope: _Scope, cases: Sequence[_Case]) -> Caveat | None:
    """A warning if the simulated run takes another time than the logged run."""
    scale = min((case.scale for case in cases), key=lambda scale: -abs(log(scale)))
    if abs(log(scale)) <= log(1 + SIMULATION_ERROR_MAX):
        return None
    simulated, measured = map(format_duration, (scope.measured_s / scale, scope.measured_s))
    text = (
        f"simulated as it ran, it takes {simulated} instead of {measured}: the log lacks events, "
        "or --from and --page-cache are not those of the run"
    )
    return Caveat("event-log", text)


def _on(scope: _Scope, target: Storage, case: _Case) -> _Case:
    figures = _figures(target, scope.resources.cache_bytes(case.cache_bytes))
    return replace(case, target=scope.run(scope.core, figures, case.work))


def _without_spills(scope: _Scope, origins: Sequence[_Case]) -> WithoutSpills | None:
    """The effect of more memory for today's executors on today's storage; None without spills."""
    resources, core = scope.resources, scope.application.core
    memory_bytes = resources.memory_without_spills(core)
    if memory_bytes is None or resources.changed or not any(scope.spill_bytes.values()):
        return None
    fitting = core.with_resources(None, None, (resources.task_bytes, _UNLIMITED_FACTOR))
    more_bytes = (memory_bytes - resources.today.memory_bytes) * resources.by_node
    known_bytes = scope.question.page_cache_bytes
    fits = None if known_bytes is None else more_bytes <= known_bytes
    cases, work = [], _work_today(scope, fitting)
    for case in origins:
        # A larger heap takes memory from the page cache if it fits, else the nodes get more memory.
        figures = _figures(case.origin, case.cache_bytes - more_bytes * (fits is True))
        cases.append(replace(case, target=scope.run(fitting, figures, work or case.work)))
    _, forecast_s, interval_s = _ends(scope, cases)
    return WithoutSpills(
        memory_bytes=memory_bytes,
        current_bytes=resources.today.memory_bytes,
        fits=fits,
        forecast_s=forecast_s,
        interval_s=interval_s,
    )


def _figures(storage: Storage | None, cache_bytes: float) -> Figures | None:
    """The bandwidths of a storage behind a page cache; None for memory."""
    return None if storage is None else figures_of(storage, cache_bytes)


def figures_of(storage: Storage, cache_bytes: float) -> Figures:
    """The bandwidths of a storage under the kernel's readahead and writeback."""
    # Buffered writes end in memory, so direct ones show the device; reads include readahead.
    models = {"read": Model(storage), "write": Model(storage, access="direct")}

    def bytes_per_s(op: str, size_bytes: int, depth: int) -> float:
        latency = models[op].latency(op, size_bytes, depth=depth, sequential=True, lasting=True)
        return depth * size_bytes / max(latency.mean_s, 1e-9)

    return (
        bytes_per_s("read", READ_BYTES, 1),
        bytes_per_s("read", READ_BYTES, CONCURRENT_OPERATIONS),
        bytes_per_s("write", WRITE_BYTES, CONCURRENT_OPERATIONS),
        cache_bytes,
        DIRTY_SHARE * cache_bytes,
        _shared(storage),
    )


def _shared(storage: Storage) -> bool:
    """Whether reads and writes share the bandwidth: with a common limit, or without any limit."""
    both = [
        all(limit.cost_ns(op, READ_BYTES, sequential=True) for op in OPS)
        for limit in storage.limits
    ]
    return any(both) or not both


def _ends(scope: _Scope, cases: Sequence[_Case]) -> tuple[tuple[_Case, _Case], float, Interval]:
    """The fastest and the slowest case, the time midway between them (s), and its interval."""
    low, high = (choose(cases, key=lambda case: case.target_s) for choose in (min, max))
    deviations = NormalDist().inv_cdf((1 + scope.question.confidence) / 2)
    low_s = low.target_s / exp(deviations * low.spread(scope.measured_s))
    high_s = high.target_s * exp(deviations * high.spread(scope.measured_s))
    return (low, high), (low.target_s + high.target_s) / 2, (low_s, high_s)


def _answered(unanswered: Forecast, scope: _Scope, cases: Sequence[_Case]) -> Forecast:
    """The forecast with its numbers."""
    ends, forecast_s, interval_s = _ends(scope, cases)
    today, baseline_s = ends, scope.measured_s
    if scope.resources.changed:
        # With other executors today's time has bounds, too, which are the same for each target.
        sources = [replace(case, target=case.source) for case in cases]
        today, baseline_s, _ = _ends(scope, sources)
    limits = [replace(case, target=case.ceiling) for case in cases]
    (_, slowest), ceiling_s, limit_interval_s = _ends(scope, limits)
    stages = stage_forecasts(
        scope.application,
        [(case.scale, case.source) for case in today],
        [(case.scale, case.target) for case in ends],
        scope.spill_bytes,
    )
    return replace(
        unanswered,
        baseline_s=baseline_s,
        forecast_s=forecast_s,
        interval_s=interval_s,
        ceiling_s=ceiling_s,
        ceiling_interval_s=(limit_interval_s[0], slowest.target_s),
        terms=_terms(baseline_s, ceiling_s, forecast_s, stages),
        method="spark",
        stages=stages,
        supposed=scope.resources.supposed if scope.resources.changed else None,
    )


def _terms(
    baseline_s: float, ceiling_s: float, forecast_s: float, stages: Sequence[StageForecast]
) -> Sequence[Term]:
    """The terms: temp I/O, which zero-latency storage would save, tasks, and the driver."""
    # A spill is written and read; remote shuffle reads are from other executors' disks.
    moved_bytes = sum(
        s.shuffle_write_bytes + s.shuffle_read_bytes + 2 * s.spill_bytes for s in stages
    )
    saved_s = baseline_s - ceiling_s, forecast_s - ceiling_s
    driver_s = baseline_s - sum(stage.baseline_s for stage in stages)
    tasks_s = ceiling_s - driver_s
    temp, tasks, driver = TERMS
    return [
        Term(temp, "temp", moved_bytes, None, *saved_s),
        Term(tasks, None, None, None, tasks_s, tasks_s),
        Term(driver, None, None, None, driver_s, driver_s),
    ]


def _warnings(scope: _Scope) -> Iterator[Caveat]:
    question, application, resources = scope.question, scope.application, scope.resources
    yield from (Caveat(*warning) for warning in application.warnings())
    if resources.changed:
        yield Caveat(
            "other-executors",
            f"a node runs {resources.by_node} of the supposed executors, which take their memory "
            "from its page cache; a task spills what exceeds its share of the executor's memory",
        )
    is_source_known = question.origin is not None or application.observed is not None
    if not is_source_known and application.local_memory is not None:
        text = f"the local directories lie in memory ({application.local_memory})"
        yield Caveat("local-in-memory", text)
    elif not is_source_known:
        yield Caveat(
            "time-unknown",
            "the log does not say on which storage the application ran, nor how long spills and "
            "local shuffle reads took",
        ).of_engine("spark")

"""Verifies Spark: runs jobs on every volume, and forecasts each run for the other volumes.

The event log and the recording of a run are evidence, and its elapsed time verifies forecasts from
other volumes. One forecast is made from the log and the name of its storage, and another from log
and recording. Two simpler methods are variants: ``naive`` multiplies all time in which tasks were
not on a CPU by the ratio of bandwidths, ``sparklens`` does so by task and reschedules the tasks.
"""

import json
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, replace
from functools import partial
from importlib.metadata import PackageNotFoundError, version
from itertools import permutations
from pathlib import Path
from random import Random
from typing import Any

from spillcast.engines.queries import RunResult
from spillcast.errors import ChoiceUnknown, ProgramMissing, SpaceInsufficient
from spillcast.evidence.spark import Application
from spillcast.evidence.spark.observed import observed
from spillcast.forecast import Forecast
from spillcast.forecast.question import Question
from spillcast.forecast.spark import figures_of, forecast_application
from spillcast.lab.case import Case, CaseEvidence, Runs, Truth, Variant
from spillcast.lab.run import ExperimentProgress
from spillcast.lab.storages import fast_parent
from spillcast.storage import Storage
from spillcast.storage.free_space import Budget
from spillcast.storage.observed import limits_storage
from spillcast.storage.probe import probe_grid
from spillcast.storage.storage import Limit
from spillcast.units import format_bytes
from spillcast.workspace import workspace
from spillcast_lab.spark.jobs import OWN_JOBS, SUITE_JOBS
from spillcast_lab.spark.runs import (
    CORES,
    DIRTY_BYTES,
    PAGE_CACHE_BYTES,
    Job,
    JobRun,
    Volume,
    mounted,
    run_job,
)
from spillcast_lab.tpc.suite import TPCDS, TPCH
from spillcast_lab.verify import Clock, about_run, begun, handle

LOG, LOG_AND_RECORDING = "event_log", "event_log+recording"
NAIVE, SPARKLENS = "naive", "sparklens"
NEED_BYTES = 12 << 30
#: Rows of a synthetic job, 1 GB of text, and the bounds of its random factor.
ROWS, ROWS_FACTORS = 4_000_000, (0.8, 1.2)
SUITES, SCALE_FACTOR = {suite.name: suite for suite in (TPCH, TPCDS)}, 3
#: Synthetic jobs that also run on a cluster.
ON_CLUSTER = ("sort-merge join", "sort")
#: Bandwidth of memory for the methods that use only bandwidths.
MEMORY_BYTES_PER_S = 2e9
PROBE_BUDGET = Budget(time_s=20.0)
#: Expected time of a run before the first job has ended.
EXPECTED_S = 35.0


def jobs_of(seed: int, names: Sequence[str] | None = None) -> list[Job]:
    """The jobs in random order, with random numbers of rows; synthetic jobs come first.

    InputError for unknown names.
    """
    generator = Random(f"spark {seed}")

    def with_rows(name: str, master: str) -> Job:
        return Job(name, round(ROWS * generator.uniform(*ROWS_FACTORS)), master, seed)

    first = [with_rows(name, "local") for name in OWN_JOBS]
    others = [
        Job(name, SCALE_FACTOR * SUITES[name.split()[0]].rows_of_scale_1) for name in SUITE_JOBS
    ]
    others += [with_rows(name, "cluster") for name in ON_CLUSTER]
    generator.shuffle(first)
    generator.shuffle(others)
    jobs = [*first, *others]
    known = dict.fromkeys(name for job in jobs for name in job.names)
    for name in names or ():
        if name not in known:
            raise ChoiceUnknown(f"--workload {name}: no such job", f"there are: {', '.join(known)}")
    return [job for job in jobs if not names or {*job.names} & {*names}]


def verify_spark(
    stage: ExperimentProgress,
    jobs: Sequence[Job],
    volumes: Sequence[Volume],
    work: Path | None = None,
    *,
    repeat: int = 1,
    seed: int = 0,
    budget_s: float | None = None,
    former: Truth | None = None,
    on_truth: Callable[[Truth], None] = lambda _truth: None,
) -> Truth:
    """Verify jobs one after the other; ``on_truth`` gets all cases after each.

    ``former`` are the cases of an interrupted run, which is continued. A job that fails, or does
    not fit into the budget, is skipped and reported. InputError for a missing package, or too
    little memory.
    """
    try:
        engine = f"Spark {version('pyspark')}"
    except PackageNotFoundError as error:
        hint = "pip install pyspark"
        raise ProgramMissing("verify --engine spark needs pyspark and Java", hint) from error
    memory = fast_parent(NEED_BYTES)
    if memory is None:
        need = format_bytes(NEED_BYTES)
        raise SpaceInsufficient(f"verify --engine spark needs {need} of space in /dev/shm")
    truth = begun(_about(jobs, volumes, repeat, seed, budget_s), former)
    clock, expected_s = Clock(budget_s, truth.about["spent_s"]), EXPECTED_S * repeat * len(volumes)
    with workspace(memory) as fast, workspace(work) as workdir, ExitStack() as stack:
        made = []
        for volume in volumes:
            stage.step(f"{volume.name} made ready")
            directory = stack.enter_context(mounted(volume, workdir, fast, DIRTY_BYTES))
            storage = _storage(volume, directory, stage)
            document = workdir / f"{directory.parent.name}.json"
            if storage is not None:
                storage.save(document)
            made.append(_Volume(volume, directory, storage, str(document) if storage else "tmpfs"))
        runs = _Runs(stage, made, workdir, repeat)

        def verified(job: Job) -> list[Case]:
            clock.check(expected_s)
            cases = _cases(engine, job, made, runs.of(job))
            clock.count(expected_s)
            return cases

        for job in jobs[truth.about["handled"] :]:
            handle(stage, truth, job.title, _named(job), partial(verified, job), clock.spent_s)
            on_truth(truth)
    return truth


@dataclass(frozen=True)
class _Volume:
    """A mounted volume, and its storage in forecasts; None for memory."""

    volume: Volume
    directory: Path
    storage: Storage | None
    #: The storage as a target of a forecast.
    target: str

    @property
    def write_bytes_per_s(self) -> float:
        """Bandwidth of writeback."""
        if self.storage is None:
            return MEMORY_BYTES_PER_S
        return figures_of(self.storage, PAGE_CACHE_BYTES)[2]


class _Runs:
    """Runs jobs on volumes, with a page cache of the same size on each."""

    def __init__(
        self, stage: ExperimentProgress, made: Sequence[_Volume], workdir: Path, repeat: int
    ) -> None:
        self._stage, self._made, self._workdir, self._repeat = stage, made, workdir, repeat
        #: Memory of the processes without page cache, by master.
        self._memory_bytes = dict[str, int]()
        self._count = 0

    def of(self, job: Job) -> list[list[JobRun]]:
        """The runs by volume, the fastest first."""
        tables = self._workdir
        if (suite := SUITES.get(job.name.split()[0])) is not None:
            self._stage.step(f"{job.title}: tables generated")
            tables = suite.generate(self._workdir, job.rows, "parquet", SUITE_JOBS[job.name])
        on_device = [made for made in self._made if not made.volume.in_memory]
        if job.master not in self._memory_bytes:
            self._stage.step(f"{job.title}: once, to measure its memory")
            first = self._run(job, on_device[0], tables, None)
            self._memory_bytes[job.master] = first.memory_bytes
        limit_bytes = self._memory_bytes[job.master] + PAGE_CACHE_BYTES
        runs: list[list[JobRun]] = [[] for _ in self._made]
        for number in range(self._repeat):
            for made, of_volume in zip(self._made, runs, strict=True):
                self._stage.step(f"{job.title}: {made.volume.name}, run {number + 1}")
                # Files in memory would count against the limit, but are not page cache.
                bounded = made in on_device
                of_volume.append(self._run(job, made, tables, limit_bytes if bounded else None))
        return [sorted(done, key=lambda run: run.application.elapsed_s) for done in runs]

    def _run(self, job: Job, made: _Volume, tables: Path, memory_bytes: int | None) -> JobRun:
        self._count += 1
        folder = self._workdir / f"run-{self._count}"
        return run_job(job, made.directory, folder, tables, memory_bytes, self._stage.tick)


def _storage(volume: Volume, directory: Path, stage: ExperimentProgress) -> Storage | None:
    """The storage of a volume in forecasts: its limits, or a probe of the disk; None for memory."""
    if volume.in_memory:
        return None
    if volume.bytes_per_s is None:
        return probe_grid(directory, budget=PROBE_BUDGET, on_progress=stage.progress)
    ns = 1e9 / volume.bytes_per_s
    stated = limits_storage(volume.name, f"latency=0.1ms,throughput={volume.bytes_per_s / 1e6}MB/s")
    burst_ns = stated.limits[0].burst_ns
    # The kernel limits reads and writes separately.
    limits = [
        Limit("reads", read_ns_per_byte=ns, burst_ns=burst_ns),
        Limit("writes", write_ns_per_byte=ns, burst_ns=burst_ns),
    ]
    return replace(stated, limits=limits)


def _cases(
    engine: str, job: Job, made: Sequence[_Volume], job_runs: Sequence[Sequence[JobRun]]
) -> list[Case]:
    """The cases from every volume to every other volume, by each evidence of the median run."""
    runs = [Runs([_run_result(run) for run in done], len(done)) for done in job_runs]
    cases = []
    for source, target in permutations(range(len(made)), 2):
        origin, goal = made[source], made[target]
        run = job_runs[source][(len(job_runs[source]) - 1) // 2]
        ratio = origin.write_bytes_per_s / goal.write_bytes_per_s
        others_s = {
            NAIVE: naive_s(run.application, ratio),
            SPARKLENS: sparklens_s(run.application, ratio),
        }
        speeds = ["fast" if place.volume.is_fast else "slow" for place in (origin, goal)]
        for evidence, answer in _forecasts(run, origin, goal):
            case = Case(
                engine=engine,
                workload=job.title,
                threads=CORES,
                source=origin.volume.name,
                target=goal.volume.name,
                direction=" to ".join(speeds),
                on_source=runs[source],
                on_target=runs[target],
                forecast=replace(answer, target=goal.volume.name),
                seed_formula_s=None,
                evidence=evidence,
                source_means=origin.volume.means,
                target_means=goal.volume.means,
                variants={
                    name: Variant(other_s, (other_s, other_s), answer.ceiling_s, None)
                    for name, other_s in others_s.items()
                },
            )
            cases.append(case)
    return cases


def _forecasts(run: JobRun, at: _Volume, to: _Volume) -> Iterator[tuple[CaseEvidence, Forecast]]:
    """The forecasts from the log and the name of its storage, and from log and recording."""
    known = Question(page_cache_bytes=PAGE_CACHE_BYTES)
    log, capture = run.application, run.recording.meta.capture
    for name, application, question, delay_s in (
        (LOG, log, replace(known, origin=at.target), 0.0),
        (LOG_AND_RECORDING, observed(log, [run.recording]), known, capture.run_queue_delay_s),
    ):
        [(answer, _)] = forecast_application(application, [to.target], question)
        overhead_s = capture.overhead_s
        yield CaseEvidence(name, log.elapsed_s, delay_s, 0.0, None, None, overhead_s), answer


def naive_s(application: Application, ratio: float) -> float:
    """Elapsed time if all time in which tasks were not on a CPU grows by ``ratio``."""
    stages = application.log.stages
    waited = 1 - sum(stage.cpu_ns for stage in stages) / 1e6 / sum(s.task_ms for s in stages)
    return application.elapsed_s * (1 + max(waited, 0.0) * (ratio - 1))


def sparklens_s(application: Application, ratio: float) -> float:
    """Elapsed time if the time in which each task was not on a CPU grows by ``ratio``."""
    core, cpu_s = application.core, _cpu_s(application.path)
    begun_ms, ended_ms, _ = core.local_io()
    more_s = [
        max((end_ms - begin_ms) / 1e3 - cpu_s.get((begin_ms, end_ms), 0.0), 0.0) * (ratio - 1)
        for begin_ms, end_ms in zip(begun_ms, ended_ms, strict=True)
    ]
    work = core.work_beside([-task_s for task_s in more_s])
    before_s, *_ = core.simulate(None, core.work(None))
    after_s, *_ = core.simulate(None, work)
    return application.elapsed_s * after_s / before_s


def _cpu_s(log: Path) -> dict[tuple[int, int], float]:
    """CPU time (s) of tasks by launch and end (ms), from a log in one uncompressed file."""
    cpu_s = {}
    for line in log.read_text().splitlines():
        if line.startswith('{"Event":"SparkListenerTaskEnd"'):
            task = json.loads(line)
            info, metrics = task["Task Info"], task.get("Task Metrics") or {}
            times_ms = info["Launch Time"], info["Finish Time"]
            cpu_s[times_ms] = metrics.get("Executor CPU Time", 0) / 1e9
    return cpu_s


def _run_result(run: JobRun) -> RunResult:
    application, capture = run.application, run.recording.meta.capture
    cpu_s = sum(stage.cpu_ns for stage in application.log.stages) / 1e9
    return RunResult(application.elapsed_s, "", capture.run_queue_delay_s, cpu_s)


def _named(job: Job) -> dict[str, Any]:
    return {"engine": "spark", "workload": job.title, "threads": CORES, "rows": job.rows}


def _about(
    jobs: Sequence[Job],
    volumes: Sequence[Volume],
    repeat: int,
    seed: int,
    budget_s: float | None,
) -> dict[str, Any]:
    return about_run(
        budget_s=budget_s,
        seed=seed,
        repeat=repeat,
        parts=False,
        page_cache_bytes=PAGE_CACHE_BYTES,
        storages=[{"name": volume.name, "what": volume.description} for volume in volumes],
        drawn=[_named(job) for job in jobs],
        left_out=[],
    )

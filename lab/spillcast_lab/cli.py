"""``spillcast verify``: forecasts against measured runs on this machine."""

from collections.abc import Callable, Sequence
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Literal

import typer

from spillcast.cli.lab import DEFAULT_ENGINE, ENGINE_NAMES
from spillcast.cli.options import WorkOption, option
from spillcast.cli.output import Answer, notify
from spillcast.cli.usage import refuse

if TYPE_CHECKING:
    from spillcast.lab.case import Truth
    from spillcast_lab.matrix import Cell, Storage

#: Spark's jobs are applications, not queries: event logs are forecast, not recordings.
SPARK = "spark"
ALL = "all"
if TYPE_CHECKING:
    Choice = str
else:
    Choice = Literal[(*ENGINE_NAMES, SPARK, ALL)]


def verify(
    engine: Annotated[
        Choice,
        option("--engine", "Which engine's queries; all is without Spark, whose jobs are long."),
    ] = DEFAULT_ENGINE,
    minutes: Annotated[
        float, option("--minutes MINUTES", "Time limit; as many cases are drawn as fit.", min=0.1)
    ] = 5.0,
    workload: Annotated[
        list[str] | None,
        option(
            "--workload NAME", 'Only queries of this kind or suite: "tpch", "tpcds". Repeatable.'
        ),
    ] = None,
    threads: Annotated[
        list[int] | None,
        option("--threads N", "Only with this number of threads or processes. Repeatable."),
    ] = None,
    storage: Annotated[
        list[str] | None,
        option("--storage NAME", "Only between these storages; two or more. Repeatable."),
    ] = None,
    repeat: Annotated[
        int, option("--repeat N", "Measured runs of each; the median counts.", min=1)
    ] = 3,
    seed: Annotated[
        int,
        option(
            "--seed N",
            "Seed for drawing cases and random storages; the same seed draws the same cases.",
        ),
    ] = 0,
    parts: Annotated[
        bool,
        typer.Option(
            help="Also forecast from parts of runs and from plans; takes half as long again."
        ),
    ] = True,
    output: Annotated[
        Path | None, option("--output, -o FILE", "Write all cases as Parquet, as each ends.")
    ] = None,
    resume: Annotated[
        bool,
        option(
            "--resume",
            "Continue the interrupted run in the file of -o; give the same other options.",
        ),
    ] = False,
    from_: Annotated[
        Path | None, option("--from FILE", "Read the cases of an earlier run; run nothing.")
    ] = None,
    page: Annotated[
        Path | None, option("--page FILE", "Also write a page with charts, like docs/accuracy.md.")
    ] = None,
    work: WorkOption = None,
) -> Answer:
    """Forecast queries for other storage, then measure them.

    Built-in queries, TPC-H and TPC-DS spill with 1, 2 and 4 threads or processes on twenty
    storages: emulated ones (some with random parameters from the seed), some slowed by the kernel,
    the disk and memory. All cases would take hours, so storages are drawn for each query until the
    time is used up; at least half of the forecasts are from slow to fast. A query that fails is
    skipped. If it is interrupted, the cases of completed queries are kept, and --resume continues.

    Spark's jobs run on memory, on the disk and on two devices of limited bandwidth; the event log
    of each run is forecast for the other three.

    Example: spillcast verify --minutes 30 -o cases.parquet

    Example: spillcast verify --from cases.parquet --page accuracy.md
    """
    from spillcast.cli.progress import TerminalStage
    from spillcast.errors import OptionConflict, OptionInvalid, OptionMissing
    from spillcast.lab.case import document, read_truth, write_truth
    from spillcast.workspace import check_output_file
    from spillcast_lab.accuracy import write_accuracy
    from spillcast_lab.matrix import STORAGES, choose_storages, random_storages
    from spillcast_lab.summary import verify_page

    check_output_file(output)
    check_output_file(page, "--page")
    if page is not None and not page.suffix:
        raise OptionInvalid(
            f"--page {page}: name it with a suffix", f"its charts go to {page}/: {page}.md"
        )
    if from_ is not None:
        refuse({"-o": output, "--resume": resume}, "does not go with --from, which runs nothing")
    if resume and output is None:
        raise OptionMissing("--resume: name the file of the interrupted run with -o FILE")
    if engine == SPARK and threads:
        raise OptionConflict(f"--threads: jobs of --engine {SPARK} run two tasks at a time")
    former = read_truth(output) if resume and output is not None and output.exists() else None

    def keep(truth: "Truth") -> None:
        if output is not None:
            write_truth(output, truth)

    budget_s = 60 * minutes
    if from_ is not None:
        truth = read_truth(from_)
    else:
        if engine == SPARK:
            run = _spark_jobs(workload, storage, seed)
        else:
            cells = _cells(engine, threads, workload)
            storages = choose_storages(storage, [*STORAGES, *random_storages(seed)])
            run = _queries_drawn(cells, storages, budget_s, repeat=repeat, seed=seed, parts=parts)
        with TerminalStage(budget_s=budget_s) as stage:
            truth = run(
                stage, work=work, repeat=repeat, budget_s=budget_s, former=former, on_truth=keep
            )
    if page is not None:
        write_accuracy(truth, page)
    status = 0 if truth.cases else 3
    return Answer(lambda: document(truth.cases, truth.about), lambda: verify_page(truth), status)


def _spark_jobs(
    workload: Sequence[str] | None, storage: Sequence[str] | None, seed: int
) -> Callable[..., "Truth"]:
    """The verification of Spark's jobs on the chosen storages."""
    from spillcast_lab.matrix import choose_storages
    from spillcast_lab.spark.runs import VOLUMES
    from spillcast_lab.spark.verify import jobs_of, verify_spark

    jobs, volumes = jobs_of(seed, workload), choose_storages(storage, VOLUMES)
    return partial(verify_spark, jobs=jobs, volumes=volumes, seed=seed)


def _cells(
    engine: str, threads: Sequence[int] | None, workload: Sequence[str] | None
) -> list["Cell"]:
    """The chosen queries; those of the suites only if their generator is installed."""
    from spillcast_lab.matrix import THREADS, all_cells
    from spillcast_lab.tpc.suite import INSTALL, generator

    cells = all_cells(ENGINE_NAMES if engine == ALL else [engine], threads or THREADS, workload)
    if workload is not None or generator() is not None:
        return cells
    notify(f"tpcgen-cli is not installed: without queries of TPC-H and TPC-DS ({INSTALL})")
    return [cell for cell in cells if not cell.workload.suite]


def _queries_drawn(
    cells: Sequence["Cell"],
    storages: Sequence["Storage"],
    budget_s: float,
    *,
    repeat: int,
    seed: int,
    parts: bool,
) -> Callable[..., "Truth"]:
    """The verification of the queries that fit into a time budget. OptionInvalid if none does."""
    from spillcast.errors import OptionInvalid
    from spillcast_lab.draw import OVERDRAFT_FACTOR, draw
    from spillcast_lab.verify import verify as verify_queries

    drawn = draw(
        cells, storages, budget_s=budget_s, repeat=repeat, seed=seed, parts=parts,
        overdraft_factor=OVERDRAFT_FACTOR,
    )  # fmt: skip
    if not drawn.cells:
        hint = "allow more, or run less with --repeat 1"
        raise OptionInvalid(f"--minutes {budget_s / 60:g}: there is no time for one query", hint)
    return partial(verify_queries, drawn=drawn, storages=storages, parts=parts)

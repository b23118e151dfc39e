"""``spillcast verify``: forecasts against measured runs on this machine."""

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Literal

import typer

from spillcast.cli.engine_options import ALL, DEFAULT, NAMES
from spillcast.cli.options import Csv, Json, Work

if TYPE_CHECKING:
    from spillcast.lab.case import Truth
    from spillcast_lab.draw import Drawn
    from spillcast_lab.matrix import Cell, Storage

#: Its jobs are applications, not queries: their event logs are forecast, not recordings.
SPARK = "spark"
if TYPE_CHECKING:
    Choice = str
else:
    Choice = Literal[(*NAMES, SPARK, ALL)]


def add_to(application: typer.Typer) -> None:
    """Register the verb."""
    application.command("verify")(verify)


def verify(
    engine: Annotated[
        Choice,
        typer.Option(help="Which engine's queries; all is without Spark, whose jobs are long."),
    ] = DEFAULT,
    minutes: Annotated[
        float, typer.Option(min=0.1, help="Time limit; as many cases are drawn as fit.")
    ] = 5.0,
    workload: Annotated[
        list[str] | None,
        typer.Option(help='Only queries of this kind or suite: "tpch", "tpcds". Repeatable.'),
    ] = None,
    threads: Annotated[
        list[int] | None, typer.Option(help="Only with this number of threads or processes.")
    ] = None,
    storage: Annotated[
        list[str] | None, typer.Option(help="Only between these storages; two or more.")
    ] = None,
    repeat: Annotated[
        int, typer.Option(min=1, help="Measured runs of each; the median counts.")
    ] = 3,
    seed: Annotated[
        int,
        typer.Option(
            help="Seed for drawing cases and random storages; the same seed draws the same cases."
        ),
    ] = 0,
    parts: Annotated[
        bool,
        typer.Option(
            help="Also forecast from parts of runs and from plans; takes half as long again."
        ),
    ] = True,
    output: Annotated[
        Path | None,
        typer.Option("--output", "-o", help="Write all cases as Parquet, as they come."),
    ] = None,
    resume: Annotated[
        bool,
        typer.Option(
            "--resume",
            help="Continue the interrupted run in the file of -o; give the same other options.",
        ),
    ] = False,
    from_: Annotated[
        Path | None, typer.Option("--from", help="Read the cases of an earlier run; run nothing.")
    ] = None,
    markdown: Annotated[
        Path | None,
        typer.Option(
            help="Also write a page with charts, like docs/accuracy.md; - prints the tables."
        ),
    ] = None,
    work: Work = None,
    json: Json = False,
    csv: Csv = False,
) -> None:
    """Forecast queries for other storage, then measure them.

    Built-in queries, TPC-H and TPC-DS spill with 1, 2 and 4 threads or processes on twenty
    storages: emulated ones (some with random parameters from the seed), some slowed by the kernel,
    the disk and memory. All cases would take hours, so storages are drawn for each query until the
    time is used up; at least half of the forecasts are from slow to fast. A query that fails is
    skipped. If it is interrupted, the cases of completed queries are kept, and --resume continues.

    Spark's jobs run on memory, on the disk and on two devices of limited bandwidth; the event log
    of each run is forecast for the other three.
    """
    from spillcast.cli.output import show
    from spillcast.errors import OptionConflict, OptionInvalid, OptionMissing
    from spillcast.lab.case import document
    from spillcast.lab.truth_file import read_truth, write_truth
    from spillcast.workspace import check_output_file
    from spillcast_lab.verify_page import verify_page

    printed, markdown = markdown == Path("-"), None if markdown == Path("-") else markdown
    if printed and (json or csv):
        raise OptionConflict(
            f"--{'json' if json else 'csv'} and --markdown -: stdout has one format, give one"
        )
    for option, path in (("-o", output), ("--markdown", markdown)):
        if path is not None:
            check_output_file(path, option)
    if markdown is not None and not markdown.suffix:
        hint = f"its charts go to {markdown}/: {markdown}.md"
        raise OptionInvalid(f"--markdown {markdown}: name it with a suffix", hint)
    if resume and output is None:
        raise OptionMissing("--resume: name the file of the interrupted run with -o FILE")
    if engine == SPARK and threads:
        raise OptionConflict(f"--threads: jobs of --engine {SPARK} run two tasks at a time")
    former = read_truth(output) if resume and output is not None and output.exists() else None

    def keep(truth: "Truth") -> None:
        if output is not None:
            write_truth(output, truth)

    if from_ is not None:
        truth = read_truth(from_)
    elif engine == SPARK:
        truth = _run_spark(workload, storage, minutes, repeat, seed, former, keep, work)
    else:
        from spillcast_lab.draw import OVERDRAWN, draw
        from spillcast_lab.matrix import (
            STORAGES,
            THREADS,
            all_cells,
            choose_storages,
            random_storages,
        )

        storages = choose_storages(storage, [*STORAGES, *random_storages(seed)])
        cells = all_cells(NAMES if engine == ALL else [engine], threads or THREADS, workload)
        if workload is None:
            cells = _that_can_be_made(cells)
        drawn = draw(
            cells,
            storages,
            budget_s=60 * minutes,
            repeat=repeat,
            seed=seed,
            parts=parts,
            overdrawn=OVERDRAWN,
        )
        truth = _run(drawn, storages, minutes, repeat, parts, former, keep, work)
    if markdown is not None:
        from spillcast_lab.accuracy import write_accuracy

        write_accuracy(truth, markdown)
    show(
        lambda: document(truth.cases, truth.about),
        lambda: verify_page(truth),
        json=json,
        csv=csv,
        markdown=printed,
    )


def _that_can_be_made(cells: "list[Cell]") -> "list[Cell]":
    """Without TPC-H's and TPC-DS's queries, and a notice, where their generator is missing."""
    from spillcast_lab.tpc.suite import INSTALL, generator

    if generator() is not None:
        return cells
    typer.echo(
        f"tpcgen-cli is not installed: without queries of TPC-H and TPC-DS ({INSTALL})", err=True
    )
    return [cell for cell in cells if not cell.workload.suite]


def _run(
    drawn: "Drawn",
    storages: "Sequence[Storage]",
    minutes: float,
    repeat: int,
    parts: bool,
    former: "Truth | None",
    keep: "Callable[[Truth], None]",
    work: Path | None,
) -> "Truth":
    """Measure what was drawn. InputError where there is time for nothing."""
    from spillcast.cli.progress import TerminalStage
    from spillcast.errors import OptionInvalid
    from spillcast_lab.verify import verify as run_verify

    if not drawn.cells:
        hint = "allow more, or run less with --repeat 1"
        raise OptionInvalid(f"--minutes {minutes:g}: there is no time for one query", hint)
    with TerminalStage(budget_s=60 * minutes) as stage:
        return run_verify(
            stage,
            drawn,
            storages,
            work,
            repeat=repeat,
            parts=parts,
            budget_s=60 * minutes,
            former=former,
            on_truth=keep,
        )


def _run_spark(
    workloads: Sequence[str] | None,
    storages: Sequence[str] | None,
    minutes: float,
    repeat: int,
    seed: int,
    former: "Truth | None",
    keep: "Callable[[Truth], None]",
    work: Path | None,
) -> "Truth":
    from spillcast.cli.progress import TerminalStage
    from spillcast_lab.spark.verify import jobs_of, verify_spark, volumes_of

    jobs, volumes = jobs_of(seed, workloads), volumes_of(storages)
    with TerminalStage(budget_s=60 * minutes) as stage:
        return verify_spark(
            stage,
            jobs,
            volumes,
            work,
            repeat=repeat,
            seed=seed,
            budget_s=60 * minutes,
            former=former,
            on_truth=keep,
        )

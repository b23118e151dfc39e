"""Verbs that find the least storage, work memory or I/O size that suffices: size, sweep."""

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from spillcast.cli.lab import DEFAULT_ENGINE, Engine
from spillcast.cli.options import BudgetOption, Confidence, WorkOption, option, with_question
from spillcast.cli.output import Answer
from spillcast.cli.usage import AnswerCommand, command_group, refuse
from spillcast.engines import THREADS_MAX, LabQuery, RunsSql
from spillcast.engines.registry import engine_of, engines, lab_of
from spillcast.errors import ChoiceUnknown, OptionConflict, OptionInvalid, PathMissing
from spillcast.lab import IO_BLOCK, IO_SIZES_MAX, IO_SIZES_MIN, SORT_DATA, SORT_MEMORY
from spillcast.units import parse_duration_s

if TYPE_CHECKING:
    from spillcast.forecast.question import Question
    from spillcast.forecast.sizing.products import Sized


@with_question
def size(
    evidence: Annotated[
        list[str],
        typer.Argument(
            help="Recordings, plans, rows of pg_stat_statements, folders that postgres --save "
            "made, reports or figures: one storage for all."
        ),
    ],
    within_s: Annotated[
        float | None,
        option("--within TIME", "Limit of each statement, such as 60s.", parse=parse_duration_s),
    ] = None,
    provider: Annotated[
        str, option("--provider NAMES", "aws, gcp, azure, or several with commas.")
    ] = "aws,gcp,azure",
    region: Annotated[
        str | None,
        option("--region REGION", "Region of prices (default: us-east-1, us-central1, eastus)."),
    ] = None,
    runs: Annotated[
        str | None, option("--runs RATE", "Runs of each statement or an export, such as 40/day.")
    ] = None,
    prices: Annotated[
        Path | None,
        option(
            "--prices FILE",
            "CSV of prices in place of the built-in ones: product,unit,above,price,currency,"
            "region,as_of,source.",
        ),
    ] = None,
    *,
    question: "Question",
) -> Answer:
    """Find the cheapest storage for temp files that is fast enough.

    It searches the catalogue's products and their settings, tmpfs and more work memory. A storage
    meets the limit if the upper end of the interval does. Exits with 3 if no storage does.

    Example: spillcast size run.spill --within 60s --provider aws --runs 40/day

    Example: spillcast size statements.csv --runs 5000/day --prices contract.csv
    """
    from spillcast.forecast.sizing import free_memory_bytes, parse_runs_per_day
    from spillcast.forecast.sizing import size as sized
    from spillcast.report.sizing import size_page
    from spillcast.storage.catalogue.prices import PROVIDERS, load_prices

    providers = [name.strip() for name in provider.split(",") if name.strip()]
    if unknown := [name for name in providers if name not in PROVIDERS]:
        names = ", ".join(PROVIDERS)
        raise OptionInvalid(f"--provider {unknown[0]}: not known", f"providers are {names}")
    runs_per_day = None if runs is None else parse_runs_per_day(runs)
    price_list = load_prices(prices, region, providers or PROVIDERS)
    statements = _statements(evidence, question, runs_per_day)
    answer = sized(
        statements,
        price_list,
        within_s=within_s,
        confidence=question.confidence,
        free_memory_bytes=free_memory_bytes(statements),
    )
    missed = answer.chosen is None and (within_s is not None or not answer.frontier)
    return Answer(answer.to_json, lambda: size_page(answer), 3 if missed else 0)


def _statements(
    evidence: list[str], question: "Question", runs_per_day: float | None
) -> "list[Sized]":
    """The statements of all evidence; those of server snapshots with their counted runs."""
    from spillcast.cli.ranking import TEN_TIMES, rankings_of_snapshots
    from spillcast.engines.postgres.rank import statements_to_size
    from spillcast.engines.ranking import RankRequest
    from spillcast.evidence.open import EvidenceFiles
    from spillcast.fleet.dataset import is_dataset
    from spillcast.forecast.sizing import statements_of
    from spillcast.gate import reading

    statements = list["Sized"]()
    for argument in evidence:
        if is_dataset(argument):
            question.check(EvidenceFiles())
            request = RankRequest([TEN_TIMES], confidence=question.confidence)
            for ranking in rankings_of_snapshots(argument, request):
                with reading(argument):
                    statements += statements_to_size(ranking, question, runs_per_day)
        else:
            statements += statements_of([argument], question, runs_per_day)
    return statements


def io_size(
    storage: Annotated[
        str, typer.Argument(help="Directory to measure, a storage.json, or catalogue:NAME.")
    ],
    like: Annotated[
        Path | None, option("--like RECORDING", "Recording to replay in each size.")
    ] = None,
    min_sizes: Annotated[
        str, option("--min SIZES", "Minimum I/O sizes: a range, in powers of two, or 48K,240K.")
    ] = IO_SIZES_MIN,
    max_sizes: Annotated[
        str, option("--max SIZES", "Maximum I/O sizes: a range, in powers of two, or 48K,240K.")
    ] = IO_SIZES_MAX,
    block: Annotated[
        str, option("--block SIZE", "Block size, of which all sizes are multiples.")
    ] = IO_BLOCK,
    data: Annotated[
        str | None, option("--data SIZE", f"Data of a sort, without --like (default: {SORT_DATA}).")
    ] = None,
    memory: Annotated[
        str | None, option("--memory SIZE", f"Work memory (default without --like: {SORT_MEMORY}).")
    ] = None,
    budget: BudgetOption = "60s",
) -> Answer:
    """Find the best I/O size for a spill by issuing it in each size.

    On a directory it measures the sizes in turn and leaves no files behind; on a storage.json it
    computes them. Without --like the spill is an external sort.

    Example: spillcast sweep io-size /mnt/nvme --like run.spill

    Example: spillcast sweep io-size disk.json --data 100G --memory 500M --min 48K,512K,1M
    --max 240K,1M
    """
    from spillcast.cli.progress import progress_bar
    from spillcast.lab.io_size import sweep as sweep_sizes
    from spillcast.recording import Recording
    from spillcast.report.sweep import io_size_page

    with progress_bar(f"sweeping {storage}") as bar:
        result = sweep_sizes(
            storage,
            None if like is None else Recording.open(like),
            min_sizes=min_sizes,
            max_sizes=max_sizes,
            block=block,
            data=data,
            memory=memory,
            budget=budget,
            on_progress=bar,
        )
    return Answer(result.to_json, lambda: io_size_page(result))


def memory(
    engine: Engine = DEFAULT_ENGINE,
    workload: Annotated[
        str | None,
        option("--workload NAME", "A built-in query, as 'hash join' (default: sort or the first)."),
    ] = None,
    sql: Annotated[
        Path | None, option("--sql FILE", "A file with your own query instead; DuckDB only.")
    ] = None,
    database: Annotated[
        Path | None, option("--database FILE", "DuckDB database for --sql; it is only read.")
    ] = None,
    memory: Annotated[
        str | None, option("--memory SIZES", "From far too little to enough, such as 1M..256M.")
    ] = None,
    points: Annotated[
        int | None, option("--points N", "Sizes in the range; powers of two by default.", min=2)
    ] = None,
    measure: Annotated[
        int | None, option("--measure N", "Sizes to measure; the others are forecast.", min=2)
    ] = None,
    on: Annotated[
        list[str] | None,
        option(
            "--on STORAGE",
            "Directory, tmpfs, latency:1ms, storage.json, recording, catalogue:NAME; whatever "
            "is not a directory is emulated. Repeatable. Default: tmpfs and latency:1ms.",
        ),
    ] = None,
    within_s: Annotated[
        float | None,
        option("--within TIME", "Name the cheapest pair within it.", parse=parse_duration_s),
    ] = None,
    cost: Annotated[
        list[str] | None, option("--cost STORAGE=PRICE", "Price of a storage. Repeatable.")
    ] = None,
    check: Annotated[
        bool, option("--check", "Also measure what was forecast, and show the errors.")
    ] = False,
    repeat: Annotated[int, option("--repeat N", "Runs of each; their median counts.", min=1)] = 1,
    threads: Annotated[int, option("--threads N", "Threads or processes of the query.", min=1)] = 1,
    budget: Annotated[
        str, option("--budget TIME", "Time after which no further size is measured, such as 5m.")
    ] = "10m",
    confidence: Confidence = 0.9,
    work: WorkOption = None,
) -> Answer:
    """Show how long a query takes with each amount of work memory.

    A few sizes are measured on each storage; the others are forecast from them. Work memory is
    the engine's own setting, such as work_mem of PostgreSQL.

    Example: spillcast sweep memory --engine postgres --on /mnt/nvme --on latency:1ms --within 2s

    Example: spillcast sweep memory --sql q.sql --database dw.duckdb --memory 64M..4G --on /mnt/nvme
    """
    from spillcast.cli.progress import TerminalStage
    from spillcast.forecast.verdict import parse_costs
    from spillcast.forecast.work_memory import cheapest
    from spillcast.lab.memory_sweep import SweepPlan, memory_sizes, sweep_memory
    from spillcast.lab.storages import named_places
    from spillcast.report.sweep import memory_page
    from spillcast.workspace import workspace

    names = on or ["tmpfs", "latency:1ms"]
    costs = parse_costs(cost or (), names, "--on")
    if within_s is None:
        refuse({"--cost": cost}, "is for --within")
    sizes = memory_sizes(engine, memory, points)
    lab = lab_of(engine)
    of_user = lab if issubclass(lab, RunsSql) else None
    if sql is None:
        refuse({"--database": database}, "is for --sql")
    elif workload is not None:
        raise OptionConflict("--workload and --sql name two queries", "give one")
    elif of_user is None:
        raise _without_sql(engine)
    if work is not None and not work.is_dir():
        raise PathMissing(f"--work {work}: there is no such directory", "make it")
    plan = SweepPlan(
        engine,
        _query(sql, threads) if sql else _workload(engine, workload, threads),
        sizes,
        min(measure or len(sizes) // 3 + 2, len(sizes)),
        parse_duration_s(budget, "--budget"),
        check,
        confidence,
        repeat,
    )
    with workspace(work) as workdir, TerminalStage() as stage:
        opened = lab(workdir) if sql is None or of_user is None else of_user.on(workdir, database)
        with named_places(names, workdir) as places:
            sweep = sweep_memory(stage, opened, plan, places)
    cells = [point.cell for point in sweep.points]
    advice = None if within_s is None else cheapest(cells, within_s, costs)
    return Answer(sweep.with_advice(advice).to_json, lambda: memory_page(sweep, advice))


def _without_sql(engine: str) -> OptionConflict:
    """The error for a query of the user and an engine whose lab runs only its own queries."""
    names = [e.name for e in engines("lab") if issubclass(lab_of(e.name), RunsSql)]
    hint = f"record it with spillcast record --{engine} DSN --explain, and forecast that"
    return OptionConflict(
        f"--sql is for --engine {' or '.join(names)}", hint if engine_of(engine).server else None
    )


def _workload(engine: str, name: str | None, threads: int) -> LabQuery:
    """A query of the lab by name; by default its sort, or its first query."""
    workloads = {workload.name: workload for workload in lab_of(engine).verified(threads)}
    if threads > THREADS_MAX or not workloads:
        message = f"--threads {threads}: no built-in query of {engine} has as many"
        raise OptionInvalid(message, f"give fewer, {THREADS_MAX} at most")
    if name is None:
        name = "sort" if "sort" in workloads else next(iter(workloads))
    if name not in workloads:
        hint = f"there are: {', '.join(workloads)}"
        raise ChoiceUnknown(f"--workload {name}: no such query", hint)
    return workloads[name]


def _query(path: Path, threads: int) -> LabQuery:
    """A query of the user's own, from a file."""
    try:
        text = path.read_text("utf-8").strip().rstrip(";")
    except (OSError, UnicodeDecodeError) as error:
        reason = error.strerror if isinstance(error, OSError) else "it is not text"
        raise OptionInvalid(f"--sql {path}: {reason}") from error
    if not text:
        raise OptionInvalid(f"--sql {path}: it contains no query")
    return LabQuery(path.name, text, 0, "", threads)


sweep = command_group("Find the best I/O size or work memory.")
sweep.command("io-size", cls=AnswerCommand)(io_size)
sweep.command("memory", cls=AnswerCommand)(memory)

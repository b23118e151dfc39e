"""Verbs that find the least storage, work memory or I/O size that suffices: size, sweep."""

from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from spillcast.cli.engine_options import DEFAULT, Engine
from spillcast.cli.options import Budget, Confidence, Work, with_question
from spillcast.cli.usage import Answer, AnswerCommand, command_group

if TYPE_CHECKING:
    from spillcast.engines.engine import Lab, Workload
    from spillcast.forecast.question import Question
    from spillcast.forecast.sizing.products import Sized


@with_question
def size(
    evidence: Annotated[
        list[str],
        typer.Argument(
            help="Recordings, plans of PostgreSQL's EXPLAIN, rows of pg_stat_statements, folders "
            "that postgres --save made, reports or figures: one storage for all statements."
        ),
    ],
    within: Annotated[
        str | None,
        typer.Option(metavar="TIME", help="Time that no statement may exceed, such as 60s."),
    ] = None,
    provider: Annotated[
        str, typer.Option(metavar="NAMES", help="aws, gcp, azure, or several with commas.")
    ] = "aws,gcp,azure",
    region: Annotated[
        str | None,
        typer.Option(
            metavar="REGION",
            help="Region of the prices (default: us-east-1, us-central1 and eastus).",
        ),
    ] = None,
    runs: Annotated[
        str | None,
        typer.Option(
            metavar="RATE",
            help="Runs of each statement, such as 40/day; of an export, of all its statements.",
        ),
    ] = None,
    prices: Annotated[
        Path | None,
        typer.Option(
            metavar="FILE",
            help="CSV of prices in place of the built-in ones: product,unit,above,price,currency,"
            "region,as_of,source.",
        ),
    ] = None,
    *,
    question: "Question",
) -> Answer:
    """Find the cheapest storage for temp files that is fast enough.

    It searches the catalogue's products and their settings, tmpfs and more work memory. A storage
    meets the limit if the upper end of the interval does. Exits with 3 if none does.

    Example: spillcast size run.spill --within 60s --provider aws --runs 40/day

    Example: spillcast size statements.csv --runs 5000/day --prices contract.csv

    Example: spillcast size /var/lib/spillcast --within 60s
    """
    from spillcast.errors import OptionInvalid
    from spillcast.forecast.sizing import free_memory_bytes, parse_runs_per_day
    from spillcast.forecast.sizing import size as sized
    from spillcast.report.size import size_page
    from spillcast.storage.catalogue.prices import PROVIDERS, load_prices
    from spillcast.units import parse_duration_s

    providers = [name.strip() for name in provider.split(",") if name.strip()]
    if unknown := [name for name in providers if name not in PROVIDERS]:
        names = ", ".join(PROVIDERS)
        raise OptionInvalid(f"--provider {unknown[0]}: not known", f"providers are {names}")
    within_s = None if within is None else parse_duration_s(within, "--within")
    runs_per_day = None if runs is None else parse_runs_per_day(runs)
    known = load_prices(prices, region, providers or PROVIDERS)
    statements = _statements(evidence, question, runs_per_day)
    answer = sized(
        statements,
        known,
        within_s=within_s,
        confidence=question.confidence,
        free_memory_bytes=free_memory_bytes(statements),
    )
    missed = answer.chosen is None and (within_s is not None or not answer.frontier)
    return Answer(answer.to_json, lambda: size_page(answer), 3 if missed else 0)


def _statements(
    evidence: list[str], question: "Question", runs_per_day: float | None
) -> "list[Sized]":
    """The statements of all evidence; of snapshots of servers with the runs that were counted."""
    from spillcast.cli.ranking import of_snapshots
    from spillcast.engines.postgres.rank.rank import statements_to_size
    from spillcast.fleet.dataset import is_dataset
    from spillcast.forecast.sizing import statements_of

    statements = list["Sized"]()
    for argument in evidence:
        if is_dataset(argument):
            for ranking in of_snapshots(argument, None, confidence=question.confidence):
                statements += statements_to_size(ranking, Path(argument), runs_per_day)
        else:
            statements += statements_of([argument], question, runs_per_day)
    return statements


#: The synthetic sort by default.
DATA, MEMORY = "1G", "32M"


def io_size(
    storage: Annotated[
        str, typer.Argument(help="Directory to measure, a storage.json, or catalogue:NAME.")
    ],
    like: Annotated[
        Path | None,
        typer.Option(
            metavar="RECORDING", help="Recording whose temp I/O is replayed in each size."
        ),
    ] = None,
    min_sizes: Annotated[
        str,
        typer.Option(
            "--min",
            metavar="SIZES",
            help="Minimum I/O sizes: a range, in powers of two, or 48K,240K.",
        ),
    ] = "48K..1M",
    max_sizes: Annotated[
        str,
        typer.Option(
            "--max",
            metavar="SIZES",
            help="Maximum I/O sizes: a range, in powers of two, or 48K,240K.",
        ),
    ] = "48K..4M",
    block: Annotated[
        str, typer.Option(metavar="SIZE", help="Block size, of which all sizes are multiples.")
    ] = "8K",
    data: Annotated[
        str | None,
        typer.Option(
            metavar="SIZE", help=f"Data of a synthetic sort, without --like (default: {DATA})."
        ),
    ] = None,
    memory: Annotated[
        str | None,
        typer.Option(
            metavar="SIZE", help=f"Work memory: with --like the query's, without it {MEMORY}."
        ),
    ] = None,
    budget: Budget = "60s",
) -> Answer:
    """Issue a spill with I/Os of each size and find the best.

    On a directory it measures the sizes in turn and leaves nothing behind; on a storage.json it
    computes them, with merge levels and a write cache that fills up. Without --like the spill is an
    external sort.

    Example: spillcast sweep io-size /mnt/nvme --like run.spill

    Example: spillcast sweep io-size disk.json --data 100G --memory 500M --min 48K,512K,1M
    --max 240K,1M
    """
    from spillcast.cli.progress import progress_bar
    from spillcast.lab.io_size.sweep import sweep as sweep_sizes
    from spillcast.recording import Recording
    from spillcast.report.sweep import io_size_page

    with progress_bar(f"sweeping {storage}") as done:
        result = sweep_sizes(
            storage,
            None if like is None else Recording.open(like),
            min_sizes=min_sizes,
            max_sizes=max_sizes,
            block=block,
            data=data,
            memory=memory,
            budget=budget,
            on_progress=done,
        )
    return Answer(result.to_json, lambda: io_size_page(result))


def memory(
    engine: Engine = DEFAULT,
    workload: Annotated[
        str,
        typer.Option(
            metavar="NAME", help="A built-in query: 'hash join', sort, 'group by', window and more."
        ),
    ] = "sort",
    sql: Annotated[
        Path | None,
        typer.Option(metavar="FILE", help="A file with your own query instead; DuckDB only."),
    ] = None,
    database: Annotated[
        Path | None,
        typer.Option(metavar="FILE", help="DuckDB database for --sql; it is only read."),
    ] = None,
    memory: Annotated[
        str | None,
        typer.Option(
            "--memory", metavar="SIZES", help="From far too little to enough, such as 1M..256M."
        ),
    ] = None,
    points: Annotated[
        int | None, typer.Option(min=2, help="Sizes in the range; powers of two by default.")
    ] = None,
    measure: Annotated[
        int | None, typer.Option(min=2, help="Sizes to measure; the others are forecast.")
    ] = None,
    on: Annotated[
        list[str] | None,
        typer.Option(
            metavar="STORAGE",
            help="Directory, tmpfs, latency:1ms, storage.json, recording, catalogue:NAME; whatever "
            "is not a directory is emulated. Repeatable. Default: tmpfs and latency:1ms.",
        ),
    ] = None,
    within: Annotated[
        str | None,
        typer.Option(metavar="TIME", help="Time limit: name the cheapest way to meet it."),
    ] = None,
    cost: Annotated[
        list[str] | None,
        typer.Option(metavar="STORAGE=PRICE", help="Price of a storage, as NAME=96. Repeatable."),
    ] = None,
    check: Annotated[
        bool, typer.Option("--check", help="Also measure what was forecast, and show the errors.")
    ] = False,
    repeat: Annotated[int, typer.Option(min=1, help="Runs of each; the median counts.")] = 1,
    threads: Annotated[int, typer.Option(min=1, help="Threads or processes of the query.")] = 1,
    budget: Annotated[
        str,
        typer.Option(
            metavar="TIME", help="Time after which no further size is measured, such as 5m."
        ),
    ] = "10m",
    confidence: Confidence = 0.9,
    work: Work = None,
) -> Answer:
    """Run a query with too little to enough memory.

    Each size is tried on several storages.

    A few sizes are measured; the others are forecast from them. Work memory is DuckDB's
    memory_limit or PostgreSQL's work_mem.

    Example: spillcast sweep memory --engine postgres --on /mnt/nvme --on latency:1ms --within 2s

    Example: spillcast sweep memory --sql q.sql --database dw.duckdb --memory 64M..4G --on /mnt/nvme
    """
    from spillcast.cli.progress import TerminalStage
    from spillcast.errors import OptionConflict, PathMissing
    from spillcast.forecast.verdict import parse_costs
    from spillcast.forecast.work_memory.advice import cheapest
    from spillcast.lab.memory_sweep import Plan, memory_sizes, sweep_memory
    from spillcast.lab.storages import named_places
    from spillcast.report.sweep import memory_page
    from spillcast.units import parse_duration_s
    from spillcast.workspace import workspace

    names = on or ["tmpfs", "latency:1ms"]
    costs = parse_costs(cost or (), names, "--on")
    within_s = None if within is None else parse_duration_s(within, "--within")
    sizes = memory_sizes(engine, memory, points)
    open_lab = _lab(engine, named=sql is not None)
    if database is not None and sql is None:
        raise OptionConflict("--database is for --sql")
    if work is not None and not work.is_dir():
        raise PathMissing(f"--work {work}: there is no such directory")
    plan = Plan(
        engine,
        _query(sql, threads) if sql else _workload(engine, workload, threads),
        sizes,
        min(measure or len(sizes) // 3 + 2, len(sizes)),
        parse_duration_s(budget, "--budget"),
        check,
        confidence,
        repeat,
    )
    with workspace(work) as room, TerminalStage() as stage:
        opened = open_lab(room, database)
        with named_places(names, room) as places:
            sweep = sweep_memory(stage, opened, plan, places)
    cells = [point.cell for point in sweep.points]
    advice = None if within_s is None else cheapest(cells, within_s, costs)
    return Answer(sweep.with_advice(advice).to_json, lambda: memory_page(sweep, advice))


def _lab(name: str, *, named: bool) -> "Callable[[Path, Path | None], Lab]":
    """The function that opens the engine with its data, or a database for the user's query.

    InputError where it sweeps no queries of the user's own.
    """
    from spillcast.engines.engine import OpensOwn
    from spillcast.engines.registry import engine_of, engines, lab_of
    from spillcast.errors import OptionConflict

    lab = lab_of(name)
    if not named:
        return lambda room, _database: lab(room)
    if not issubclass(lab, OpensOwn):
        able = [
            engine.name for engine in engines("lab") if issubclass(lab_of(engine.name), OpensOwn)
        ]
        hint = (
            f"record it with spillcast record --{name} DSN --explain, and forecast that for "
            "several storages: the table has memory, too"
        )
        message = f"--sql is for --engine {' or '.join(able)}: an existing server is not swept"
        raise OptionConflict(message, hint if engine_of(name).server else None)
    return lab.on


def _workload(engine: str, name: str, threads: int) -> "Workload":
    """A query of the lab by its name."""
    from spillcast.engines.engine import THREADS_MAX
    from spillcast.engines.registry import lab_of
    from spillcast.errors import ChoiceUnknown, OptionInvalid

    if threads > THREADS_MAX:
        raise OptionInvalid(f"--threads {threads}: {THREADS_MAX} at most")
    known = {workload.name: workload for workload in lab_of(engine).verified(threads)}
    if name not in known:
        raise ChoiceUnknown(f"--workload {name}: no such query", f"there are: {', '.join(known)}")
    return known[name]


def _query(path: Path, threads: int) -> "Workload":
    """A query of the user's own, from a file."""
    from spillcast.engines.engine import Workload
    from spillcast.errors import OptionInvalid

    try:
        text = path.read_text().strip().rstrip(";")
    except (OSError, UnicodeDecodeError) as error:
        why = error.strerror if isinstance(error, OSError) else "it is not text"
        raise OptionInvalid(f"--sql {path}: {why}") from error
    if not text:
        raise OptionInvalid(f"--sql {path}: it contains no query")
    return Workload(path.name, text, 0, "", threads)


sweep = command_group("Find the best I/O size or work memory.")
sweep.command("io-size", cls=AnswerCommand)(io_size)
sweep.command("memory", cls=AnswerCommand)(memory)

"""``spillcast size``: the cheapest storage that is fast enough, and the frontier of price."""

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from spillcast.cli.question import with_question
from spillcast.cli.usage import Answer

if TYPE_CHECKING:
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
    from spillcast.forecast.sizing import free_memory_bytes
    from spillcast.forecast.sizing import size as sized
    from spillcast.forecast.sizing.evidence import parse_runs_per_day
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
    """The statements of all evidence; of looks at servers with the runs that were counted."""
    from spillcast.cli.postgres import of_looks
    from spillcast.engines.postgres.rank.rank import statements_to_size
    from spillcast.fleet.dataset import is_dataset
    from spillcast.forecast.sizing.evidence import statements_of

    statements = list["Sized"]()
    for argument in evidence:
        if is_dataset(argument):
            for ranking in of_looks(argument, None, confidence=question.confidence):
                statements += statements_to_size(ranking, Path(argument), runs_per_day)
        else:
            statements += statements_of([argument], question, runs_per_day)
    return statements

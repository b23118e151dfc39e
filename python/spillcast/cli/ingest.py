"""``spillcast ingest``: evidence of many databases into one dataset."""

import sys
from typing import Annotated

import typer

from spillcast.cli.options import Json


def ingest(
    source: Annotated[
        list[str],
        typer.Argument(
            help="Traces, ASH exports, recordings, plans, event logs of Spark: files, folders, "
            "patterns, or addresses such as s3://bucket/traces."
        ),
    ],
    output: Annotated[
        str,
        typer.Option(
            "--output", "-o", metavar="DATASET", help="The dataset: a directory or an address."
        ),
    ],
    database: Annotated[
        str | None,
        typer.Option(metavar="NAME", help="Name of the database, if the evidence has none."),
    ] = None,
    json: Json = False,
) -> None:
    """Add evidence to a dataset, each file once.

    If it was killed, run it again: it continues. Files without usable evidence are set aside and
    listed, on stderr and with --json.

    Example: spillcast ingest /backup/traces ash/*.csv -o fleet
    """
    from spillcast.cli.output import emit
    from spillcast.cli.progress import progress_bar
    from spillcast.fleet.ingest import ingest as ingest_sources
    from spillcast.report.fleet import ingested_text, not_taken

    with progress_bar("ingesting") as show:
        done = ingest_sources(source, output, database=database, on_progress=show)
    for words in not_taken(done):
        print(f"spillcast: {words}", file=sys.stderr)
    emit(done.to_json()) if json else print(ingested_text(done))

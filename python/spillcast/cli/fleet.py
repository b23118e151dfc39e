"""``spillcast ingest`` and ``fleet``: evidence of many databases, and who would gain most."""

from pathlib import Path
from typing import Annotated

import typer

from spillcast.cli.options import Confidence, Json, Origin, PageCache, TempEvents, Top, option
from spillcast.cli.output import emit, notify
from spillcast.cli.usage import Answer
from spillcast.errors import EvidenceUnsuited


def fleet(
    dataset: Annotated[
        str, typer.Argument(help="A dataset made by spillcast ingest, or a folder of evidence.")
    ],
    to: Annotated[
        str, option("--to STORAGE", "storage.json, catalogue:NAME, recording, latency:150us.")
    ],
    temp_events: TempEvents = None,
    origin: Origin = None,
    page_cache_bytes: PageCache = None,
    cost: Annotated[
        float | None, option("--cost PRICE", "Price of the target for 30 days.", min=0)
    ] = None,
    top: Top = 20,
    confidence: Confidence = 0.9,
) -> Answer:
    """Rank a fleet's statements by what other storage saves.

    Exits with 3 if there is no forecast for any statement.

    Example: spillcast fleet fleet --to latency:150us --cost 900

    Example: spillcast fleet /spark/events --from catalogue:aws-gp3 --to catalogue:aws-i4i-large
    """
    from contextlib import ExitStack
    from dataclasses import replace

    from spillcast.fleet.dataset import is_dataset
    from spillcast.fleet.fleet import fleet as make
    from spillcast.fleet.ingest import ingest
    from spillcast.recording import TEMP_EVENTS
    from spillcast.report.fleet import fleet_page, not_taken
    from spillcast.workspace import workspace

    with ExitStack() as stack:
        address = dataset
        if Path(dataset).exists() and not is_dataset(dataset):
            address = str(stack.enter_context(workspace()) / "dataset")
            done = ingest([dataset], address)
            for words in not_taken(done):
                notify(words)
            if not done.files:
                raise EvidenceUnsuited(f"{dataset}: none of its files is usable evidence")
        fleet = make(
            address,
            to,
            temp_events=temp_events or TEMP_EVENTS,
            confidence=confidence,
            cost=cost,
            origin=origin,
            page_cache_bytes=page_cache_bytes,
        )
    fleet = replace(fleet, dataset=dataset)
    no_forecast = all(row.saved_s is None for row in fleet.statements)
    return Answer(fleet.to_json, lambda: fleet_page(fleet, top), 3 if no_forecast else 0)


def ingest(
    source: Annotated[
        list[str],
        typer.Argument(
            help="Traces, ASH exports, recordings, plans, event logs of Spark: files, folders, "
            "patterns, or addresses such as s3://bucket/traces."
        ),
    ],
    output: Annotated[
        str, option("--output, -o DATASET", "The dataset: a directory or an address.")
    ],
    database: Annotated[
        str | None, option("--database NAME", "Name of the database, if the evidence has none.")
    ] = None,
    json: Json = False,
) -> None:
    """Add evidence to a dataset, each file once.

    If it was killed, run it again: it continues. Files without usable evidence are set aside and
    listed, on stderr and with --json.

    Example: spillcast ingest /backup/traces ash/*.csv -o fleet
    """
    from spillcast.cli.progress import progress_bar
    from spillcast.fleet.ingest import ingest as ingest_sources
    from spillcast.report.fleet import ingested_text, not_taken

    with progress_bar("ingesting") as show:
        done = ingest_sources(source, output, database=database, on_progress=show)
    for words in not_taken(done):
        notify(words)
    emit(done.to_json()) if json else print(ingested_text(done))

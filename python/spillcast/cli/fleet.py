"""``spillcast fleet``: which queries of which databases would gain most."""

from typing import Annotated

import typer

from spillcast.cli.options import Confidence, TempEvents
from spillcast.cli.usage import Answer


def fleet(
    dataset: Annotated[str, typer.Argument(help="A dataset made by spillcast ingest.")],
    to: Annotated[
        str,
        typer.Option(
            "--to",
            metavar="STORAGE",
            help="storage.json, catalogue:NAME, recording, trace, latency:150us, factor:60.",
        ),
    ],
    temp_events: TempEvents = None,
    cost: Annotated[
        float | None, typer.Option(metavar="PRICE", min=0, help="Price of the target for 30 days.")
    ] = None,
    top: Annotated[int, typer.Option(min=1, help="Number of statements in the table.")] = 20,
    confidence: Confidence = 0.9,
) -> Answer:
    """Rank a fleet's statements by what other storage saves.

    Exits with 3 if there is no forecast for any statement.

    Example: spillcast fleet fleet --to latency:150us --cost 900
    """
    from spillcast.fleet.fleet import fleet as make
    from spillcast.recording.event_names import TEMP_EVENTS
    from spillcast.report.fleet import fleet_page

    fleet = make(
        dataset,
        to,
        temp_events=temp_events or TEMP_EVENTS,
        confidence=confidence,
        cost=cost,
    )
    no_forecast = all(row.saved_s is None for row in fleet.rows)
    return Answer(fleet.to_json, lambda: fleet_page(fleet, top), 3 if no_forecast else 0)

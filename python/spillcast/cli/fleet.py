"""``spillcast fleet``: which queries of which databases would gain most."""

from typing import Annotated

import typer

from spillcast.cli.options import Confidence, Csv, Json, Markdown, TempEvents


def add_to(application: typer.Typer) -> None:
    """Register the verb."""
    application.command("fleet")(fleet)


def fleet(
    dataset: Annotated[str, typer.Argument(help="A dataset made by spillcast ingest.")],
    to: Annotated[
        str,
        typer.Option(
            "--to", help="storage.json, catalogue:NAME, recording, trace, latency:150us, factor:60."
        ),
    ],
    temp_events: TempEvents = None,
    cost: Annotated[
        float | None, typer.Option(min=0, help="Price of the target for 30 days.")
    ] = None,
    top: Annotated[int, typer.Option(min=1, help="Number of statements in the table.")] = 20,
    confidence: Confidence = 0.9,
    json: Json = False,
    csv: Csv = False,
    markdown: Markdown = False,
) -> None:
    """Rank a fleet's statements by what other storage saves.

    Exits with 3 if there is no forecast for any statement.

    Example: spillcast fleet fleet --to latency:150us --cost 900
    """
    from spillcast.cli.output import show
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
    show(fleet.to_json, lambda: fleet_page(fleet, top), json=json, csv=csv, markdown=markdown)
    if all(row.saved_s is None for row in fleet.rows):
        raise typer.Exit(3)

"""``spillcast forecast``: how long the run would take elsewhere."""

from pathlib import Path
from typing import Annotated

import typer

from spillcast.cli.options import Budget, Confidence, Json


def add_to(application: typer.Typer) -> None:
    """Register the verb."""
    application.command("forecast")(forecast)


def forecast(
    baseline: Annotated[Path, typer.Argument(help="Recording of the run as it is now.")],
    to: Annotated[
        list[str],
        typer.Option(
            "--to",
            help="Directory, storage.json, recording, latency:150us or factor:60. Repeatable.",
        ),
    ],
    elapsed: Annotated[
        str | None, typer.Option(help="Time of the whole query, where the recording covers a part.")
    ] = None,
    confidence: Confidence = 0.9,
    budget: Budget = "60s",
    json: Json = False,
) -> None:
    """Forecast a recorded run's elapsed time with its temp files on other storage.

    A directory is probed now. Exits with 3 where the evidence carries no number.

    Example: spillcast forecast run.spill --to /mnt/nvme --to latency:150us
    """
    from spillcast.cli.output import emit, progress_bar
    from spillcast.forecast import forecast as estimate
    from spillcast.recording import Recording
    from spillcast.report.forecast import choices_text, forecast_text
    from spillcast.storage.target import resolve
    from spillcast.units import parse_duration_s

    recording = Recording.open(baseline)
    elapsed_s = None if elapsed is None else parse_duration_s(elapsed)
    forecasts = []
    for text in to:
        with progress_bar(f"probing {text}") as show:
            storage = resolve(text, recording, budget_s=parse_duration_s(budget), on_progress=show)
        forecasts.append(estimate(recording, storage, elapsed_s=elapsed_s, confidence=confidence))
    if json:
        documents = [f.to_json() for f in forecasts]
        schema = documents[0]["schema"]
        emit(documents[0] if len(to) == 1 else {"schema": schema, "targets": documents})
    elif len(forecasts) == 1:
        print(forecast_text(forecasts[0]))
    else:
        print(choices_text(forecasts))
    if all(f.refused for f in forecasts):
        raise typer.Exit(3)

"""``spillcast forecast``: how long the run would take elsewhere."""

from typing import TYPE_CHECKING, Annotated, Literal

import typer

from spillcast.cli.options import Budget, Confidence, Json

if TYPE_CHECKING:
    from spillcast.forecast import Forecast
    from spillcast.recording.evidence import Evidence


def add_to(application: typer.Typer) -> None:
    """Register the verb."""
    application.command("forecast")(forecast)


def forecast(
    baseline: Annotated[
        list[str],
        typer.Argument(help="A recording, or Oracle traces and an ASH export of the run as it is."),
    ],
    to: Annotated[
        list[str],
        typer.Option(
            "--to",
            help="Directory, tmpfs, storage.json, catalogue:NAME, recording, trace, latency:150us, "
            "factor:60. Repeatable.",
        ),
    ],
    elapsed: Annotated[
        str | None, typer.Option(help="Time of the whole query, where the evidence covers a part.")
    ] = None,
    boost: Annotated[
        str | None, typer.Option(help="Events that change, such as 'direct path * temp'.")
    ] = None,
    sql_id: Annotated[
        str | None, typer.Option(help="Only this statement of an ASH export.")
    ] = None,
    method: Annotated[
        Literal["counts", "seed"],
        typer.Option(help="seed: one gain of mean latencies, sizes not matched."),
    ] = "counts",
    lenient: Annotated[
        bool, typer.Option(help="Find WAIT lines in running text of traces too.")
    ] = False,
    cost: Annotated[
        list[str] | None,
        typer.Option(help="Price of a target, as TARGET=96: marks the best value. Repeatable."),
    ] = None,
    confidence: Confidence = 0.9,
    budget: Budget = "60s",
    json: Json = False,
) -> None:
    """Forecast a run's elapsed time with its temp files on other storage.

    A directory is probed now. Exits with 3 where the evidence carries no number.

    Example: spillcast forecast run.spill --to /mnt/nvme --to latency:150us

    Example: spillcast forecast ash.csv hdd.trc --to flash.trc --elapsed 773
    """
    from spillcast.cli.output import emit
    from spillcast.forecast.choices import choices, choices_document, parse_costs
    from spillcast.recording.evidence import find_evidence
    from spillcast.report.forecast import choices_text, forecast_text
    from spillcast.units import parse_duration_s

    costs = parse_costs(cost or (), to)
    evidence = find_evidence(baseline)
    elapsed_s = None if elapsed is None else parse_duration_s(elapsed)
    if evidence.recordings:
        _only_for_oracle(boost=boost, sql_id=sql_id, method=None if method == "counts" else method)
        forecasts = _from_recording(evidence, to, elapsed_s, confidence, parse_duration_s(budget))
    else:
        forecasts = _from_oracle(
            evidence, to, elapsed_s, boost, sql_id, method, lenient, confidence
        )
    found = choices(to, forecasts, costs)
    if len(found) == 1:
        emit(found[0].to_json()) if json else print(forecast_text(found[0].forecast))
    else:
        emit(choices_document(found)) if json else print(choices_text(found))
    if all(f.refused for f in forecasts):
        raise typer.Exit(3)


def _only_for_oracle(**options: str | None) -> None:
    from spillcast.errors import InputError

    for name, value in options.items():
        if value is not None:
            flag = "--" + name.replace("_", "-")
            raise InputError(f"{flag} is for traces and ASH exports, not for a recording")


def _from_recording(
    evidence: "Evidence",
    to: list[str],
    elapsed_s: float | None,
    confidence: float,
    budget_s: float,
) -> "list[Forecast]":
    from spillcast.cli.output import progress_bar
    from spillcast.errors import Refusal
    from spillcast.forecast import forecast as estimate
    from spillcast.forecast.estimate import refused
    from spillcast.recording import Recording
    from spillcast.storage.target import resolve

    evidence.only_kind()
    recording = Recording.open(evidence.recordings[0])
    recording.need_io()
    forecasts = []
    for text in to:
        try:
            with progress_bar(f"probing {text}") as show:
                storage = resolve(text, recording, budget_s=budget_s, on_progress=show)
        except Refusal as refusal:
            forecasts.append(refused(recording, text, str(refusal)))
            continue
        forecasts.append(estimate(recording, storage, elapsed_s=elapsed_s, confidence=confidence))
    return forecasts


def _from_oracle(
    evidence: "Evidence",
    to: list[str],
    elapsed_s: float | None,
    boost: str | None,
    sql_id: str | None,
    method: str,
    lenient: bool,
    confidence: float,
) -> "list[Forecast]":
    from spillcast.forecast.events import read_shares, read_traces
    from spillcast.forecast.oracle import forecast_events
    from spillcast.forecast.oracle_parts import resolve_target
    from spillcast.recording.ash import TEMP_EVENTS
    from spillcast.recording.statistics import read_statistics, temp_on_flash

    boost = boost or TEMP_EVENTS
    traces = read_traces(evidence.traces, lenient=lenient) if evidence.traces else None
    ash = read_shares(evidence.ash, boost, sql_id) if evidence.ash else None
    statistics = evidence.statistics
    flash = temp_on_flash(read_statistics(statistics)) if statistics else None
    return [
        forecast_events(
            resolve_target(text, lenient=lenient),
            boost,
            traces=traces,
            ash=ash,
            flash=flash,
            elapsed_s=elapsed_s,
            method=method,
            confidence=confidence,
        )
        for text in to
    ]

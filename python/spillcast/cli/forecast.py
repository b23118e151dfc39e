"""``spillcast forecast``: how long the run would take elsewhere."""

from typing import TYPE_CHECKING, Annotated, Literal

import typer

from spillcast.cli.options import Budget, Confidence, Json

if TYPE_CHECKING:
    from spillcast.forecast import Forecast
    from spillcast.recording import Recording
    from spillcast.recording.evidence import Evidence
    from spillcast.storage import Storage
    from spillcast.storage.budget import Budget as Budgeted


def add_to(application: typer.Typer) -> None:
    """Register the verb."""
    application.command("forecast")(forecast)


def forecast(
    baseline: Annotated[
        list[str],
        typer.Argument(
            help="A recording; Oracle traces and an ASH export; a plan of PostgreSQL's EXPLAIN or "
            "rows of pg_stat_statements."
        ),
    ],
    to: Annotated[
        list[str],
        typer.Option(
            "--to",
            help="Directory, tmpfs, storage.json, catalogue:NAME, recording, trace, latency:150us, "
            "factor:60, cache:FLASH+DISK?size=2T. Repeatable.",
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
    queryid: Annotated[
        str | None, typer.Option(help="Only this query of pg_stat_statements.")
    ] = None,
    origin: Annotated[
        str | None,
        typer.Option("--from", help="Storage that a plan was made on, where its I/O has no times."),
    ] = None,
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

    Example: spillcast forecast plan.json --to catalogue:aws-gp3
    """
    from spillcast.cli.output import emit
    from spillcast.forecast.choices import choices, choices_document, parse_costs
    from spillcast.recording.evidence import find_evidence
    from spillcast.report.forecast import choices_text, forecast_text

    costs = parse_costs(cost or (), to)
    forecasts, _ = forecast_evidence(
        find_evidence(baseline), to, elapsed=elapsed, boost=boost, sql_id=sql_id, method=method,
        queryid=queryid, origin=origin, lenient=lenient, confidence=confidence, budget=budget,
    )  # fmt: skip
    found = choices(to, forecasts, costs)
    if len(found) == 1:
        emit(found[0].to_json()) if json else print(forecast_text(found[0].forecast))
    else:
        emit(choices_document(found)) if json else print(choices_text(found))
    if all(f.refused for f in forecasts):
        raise typer.Exit(3)


def forecast_evidence(
    evidence: "Evidence",
    to: list[str],
    *,
    elapsed: str | None,
    boost: str | None,
    sql_id: str | None,
    method: str,
    queryid: str | None,
    origin: str | None,
    lenient: bool,
    confidence: float,
    budget: str,
) -> "tuple[list[Forecast], list[Storage | None]]":
    """A forecast for each target in ``to``, and the storage where it was not taken from traces."""
    from spillcast.storage.budget import parse_budget
    from spillcast.units import parse_duration_s

    elapsed_s = None if elapsed is None else parse_duration_s(elapsed)
    parsed = parse_budget(budget)
    _only_for("rows of pg_stat_statements", bool(evidence.statements), queryid=queryid)
    counts = bool(evidence.plans or evidence.statements)
    _only_for("plans and rows of pg_stat_statements", counts, **{"from": origin})
    if not (evidence.recordings or counts):
        return _from_oracle(evidence, to, elapsed_s, boost, sql_id, method, lenient, confidence), [
            None
        ] * len(to)
    asked = None if method == "counts" else method
    _only_for("traces and ASH exports", False, boost=boost, sql_id=sql_id, method=asked)
    recording = _recording(evidence, elapsed_s, queryid, origin, parsed)
    # Counts are those of the whole query, however long it took.
    scaled_s = None if counts else elapsed_s
    return _from_recording(recording, to, scaled_s, confidence, parsed)


def _only_for(kind: str, given: bool, **options: str | None) -> None:
    from spillcast.errors import InputError

    for name, value in options.items():
        if value is not None and not given:
            raise InputError(f"--{name.replace('_', '-')} is for {kind}")


def _recording(
    evidence: "Evidence",
    elapsed_s: float | None,
    queryid: str | None,
    origin: str | None,
    budget: "Budgeted",
) -> "Recording":
    """The one recording, plan or export that is given."""
    from spillcast.cli.output import progress_bar
    from spillcast.errors import InputError
    from spillcast.forecast.assumed import timed_on
    from spillcast.recording import Recording
    from spillcast.recording.explain import read_plan, read_statements
    from spillcast.storage.target import resolve

    kind = evidence.only_kind()
    if len(paths := getattr(evidence, kind)) > 1:
        raise InputError(f"{len(paths)} files are given", "forecast one query at a time")
    if kind == "recordings":
        return Recording.open(paths[0])
    if kind == "plans":
        recording = read_plan(paths[0], elapsed_s=elapsed_s, timed=origin is None)
    else:
        recording = read_statements(
            paths[0], queryid=queryid, elapsed_s=elapsed_s, timed=origin is None
        )
    if origin is None:
        return recording
    with progress_bar(f"probing {origin}") as show:
        return timed_on(recording, resolve(origin, recording, budget=budget, on_progress=show))


def _from_recording(
    recording: "Recording",
    to: list[str],
    elapsed_s: float | None,
    confidence: float,
    budget: "Budgeted",
) -> "tuple[list[Forecast], list[Storage | None]]":
    from spillcast.cli.output import progress_bar
    from spillcast.errors import Refusal
    from spillcast.forecast import forecast as estimate
    from spillcast.forecast.estimate import refused
    from spillcast.storage.target import resolve

    recording.need_io()
    forecasts: list[Forecast] = []
    storages: list[Storage | None] = []
    for text in to:
        try:
            with progress_bar(f"probing {text}") as show:
                storage = resolve(text, recording, budget=budget, on_progress=show)
        except Refusal as refusal:
            forecasts.append(refused(recording, text, str(refusal)))
            storages.append(None)
            continue
        forecasts.append(estimate(recording, storage, elapsed_s=elapsed_s, confidence=confidence))
        storages.append(storage)
    return forecasts, storages


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

"""Ranks the statements of a fleet's databases by what other temp storage saves."""

from collections import Counter, defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path

from spillcast import stats
from spillcast.errors import NoTempIo, TargetUnsuited
from spillcast.fleet import DatabaseRow, DayRow, Fleet, FleetStatement, Interval
from spillcast.fleet.dataset import Dataset
from spillcast.fleet.forecasts import StatementForecast, clashing, forecasts_of
from spillcast.fleet.snapshots import read_snapshots
from spillcast.forecast.question import Question
from spillcast.forecast.verdict import notable_s
from spillcast.recording import TEMP_EVENTS
from spillcast.storage.target import can_probe, parse_assumed, probe_command
from spillcast.units import format_count

#: The share of all savings for which the report shows the number of statements.
MOST_SHARE = 0.8
#: The length of the month for which a price is given.
MONTH_DAYS = 30


def statements_for_most(rows: Sequence[FleetStatement]) -> int:
    """The number of first rows with ``MOST_SHARE`` of all savings; 0 if there are no savings."""
    return next((n for n, row in enumerate(rows, 1) if row.cumulative_share >= MOST_SHARE), 0)


def _cost_per_saved_hour(
    cost: float | None, days: Sequence[DayRow], saved_s: float
) -> float | None:
    """Price of the days with evidence per hour saved on them; None if nothing is saved.

    ``cost`` is for ``MONTH_DAYS``. Evidence from an unknown day does not count.
    """
    observed_days = sum(1 for row in days if row.day[:1].isdigit())
    if cost is None or not observed_days or saved_s <= 0:
        return None
    return cost * observed_days / MONTH_DAYS / (saved_s / 3600)


#: (database, statement)
StatementKey = tuple[str, str]


def fleet(
    address: str,
    to: str,
    *,
    temp_events: str = TEMP_EVENTS,
    confidence: float = 0.9,
    cost: float | None = None,
    origin: str | None = None,
    page_cache_bytes: int | None = None,
) -> Fleet:
    """Forecasts every statement of the dataset at ``address`` with its temp files on ``to``.

    ``temp_events`` is a pattern of the wait events that change; ``cost`` is the price of the target
    for 30 days, ``origin`` the current storage of evidence without times of I/O, and
    ``page_cache_bytes`` the memory of a Spark node for temp files. InputError for a dataset or a
    target that cannot be used, or if nothing in the dataset waits for such events.
    """
    dataset = Dataset.open(address)
    names = ("database", "instance", "host", "set_aside", "is_part")
    sources = dataset.sources.select(names).to_pylist()
    clashes = clashing(sources)
    question = Question(
        temp_events=temp_events,
        confidence=confidence,
        origin=origin,
        page_cache_bytes=page_cache_bytes,
    )
    for option, text in (("--to", to), ("--from", origin)):
        if text is not None and parse_assumed(text, option) is None and can_probe(Path(text)):
            raise TargetUnsuited(
                f"{option} {text}: a fleet is not replayed on a directory",
                f"probe it once: {probe_command(text)}; then {option} storage.json",
            )
    snapshots = list(read_snapshots(dataset))
    forecasts = list(forecasts_of(dataset, snapshots, to, question, clashes))
    statements = defaultdict[StatementKey, list[StatementForecast]](list)
    for forecast in forecasts:
        if forecast.waits:
            statements[forecast.database, forecast.sql].append(forecast)
    if not statements:
        raise NoTempIo(
            f"no statement of the evidence waits for '{temp_events}'",
            "name the events that change with --temp-events",
        )
    rows = _ranked([_row(*key, of_statement) for key, of_statement in statements.items()])
    databases, days = _databases(rows, forecasts), _days(rows, statements)
    # All statements share the errors about the storage, so their bounds are summed.
    saved_s, saved_interval_s = _savings(databases)
    saved_s = saved_s or 0.0
    return Fleet(
        dataset=dataset.place.address,
        target=to,
        boost=temp_events,
        confidence=confidence,
        elapsed_s=sum(row.elapsed_s for row in databases),
        temp_s=sum(row.temp_s for row in databases),
        saved_s=saved_s,
        saved_interval_s=saved_interval_s or (0.0, 0.0),
        statements_for_most=statements_for_most(rows),
        most=MOST_SHARE,
        cost=cost,
        cost_per_saved_hour=_cost_per_saved_hour(cost, days, saved_s),
        sources=sum(1 for source in sources if source["set_aside"] is None) + len(snapshots),
        set_aside=sum(1 for source in sources if source["set_aside"] is not None),
        statements=rows,
        databases=databases,
        days=days,
        warnings=_warnings(
            clashes,
            rows,
            sum(forecast.is_part for forecast in forecasts)
            + sum(bool(source["is_part"]) for source in sources),
        ),
    )


def _row(database: str, sql: str, forecasts: Sequence[StatementForecast]) -> FleetStatement:
    """The sums of all forecasts of a statement."""
    answered = [(f, f.interval_s) for f in forecasts if f.interval_s is not None]
    forecast_s = interval_s = saved_s = saved_interval_s = None
    if answered:
        today_s = sum(forecast.elapsed_s for forecast, _ in answered)
        low_s, high_s = (sum(bounds) for bounds in zip(*(i for _, i in answered), strict=True))
        interval_s, saved_interval_s = (low_s, high_s), (today_s - high_s, today_s - low_s)
        forecasts_s = [f.forecast_s for f, _ in answered if f.forecast_s is not None]
        if len(forecasts_s) == len(answered):
            forecast_s = sum(forecasts_s)
            saved_s = notable_s(today_s - forecast_s, today_s)
    buckets = [bucket for forecast in forecasts for bucket in forecast.buckets]
    return FleetStatement(
        database,
        sql,
        evidence=", ".join(sorted({forecast.kind for forecast in forecasts})),
        sources=sum(forecast.sources for forecast in forecasts),
        elapsed_s=sum(forecast.elapsed_s for forecast in forecasts),
        temp_s=sum(forecast.temp_s for forecast in forecasts),
        forecast_s=forecast_s,
        interval_s=interval_s,
        saved_s=saved_s,
        saved_interval_s=saved_interval_s,
        p50_us=_quantile_us(buckets, 0.5),
        p95_us=_quantile_us(buckets, 0.95),
        refused=next((f.refused for f in forecasts if f.refused is not None), None),
        spills=any(forecast.spills for forecast in forecasts),
    )


def _quantile_us(buckets: Sequence[tuple[int, int]], quantile: float) -> float | None:
    if not buckets:
        return None
    latency_ns, counts = zip(*buckets, strict=True)
    # Traces have whole microseconds; the histogram has no bucket for 0.
    return stats.quantile(latency_ns, counts, quantile) // 10 / 1e2


def _ranked(rows: list[FleetStatement]) -> list[FleetStatement]:
    """The rows in descending order of savings, each with its share of all."""
    total_s = sum(row.saved_s for row in rows if row.saved_s is not None and row.saved_s > 0)

    rows = sorted(rows, key=lambda row: (-_order_s(row), row.database, row.sql))
    reached_s = 0.0
    shared = []
    for row in rows:
        saved_s = row.saved_s or 0.0
        reached_s += max(saved_s, 0.0)
        shares = (saved_s / total_s, reached_s / total_s) if total_s else (0.0, 0.0)
        shared.append(replace(row, share=shares[0], cumulative_share=shares[1]))
    return shared


def _databases(
    rows: Sequence[FleetStatement], forecasts: Sequence[StatementForecast]
) -> list[DatabaseRow]:
    elapsed_us = Counter[str]()
    for forecast in forecasts:
        elapsed_us[forecast.database] += round(1e6 * forecast.elapsed_s)
    rows_of = defaultdict[str, list[FleetStatement]](list)
    for row in rows:
        rows_of[row.database].append(row)
    totals = []
    for database, us in sorted(elapsed_us.items()):
        spilling = [row for row in rows_of[database] if row.spills]
        totals.append(
            DatabaseRow(
                database,
                len(spilling),
                us / 1e6,
                sum(row.temp_s for row in rows_of[database]),
                *_savings(spilling),
                sum(row.share for row in rows_of[database]),
            )
        )
    return sorted(totals, key=lambda row: (-_order_s(row), row.database))


def _order_s(row: FleetStatement | DatabaseRow) -> float:
    """The saving (s) by which rows are ranked: the middle of its bounds if only those are known."""
    if row.saved_s is None and row.saved_interval_s is not None:
        return sum(row.saved_interval_s) / 2
    return row.saved_s or 0.0


def _savings(rows: Sequence[FleetStatement | DatabaseRow]) -> tuple[float | None, Interval | None]:
    """The sums of known savings and of known bounds; None if there are rows, but none is known."""
    known = [row.saved_s for row in rows if row.saved_s is not None]
    bounds = [row.saved_interval_s for row in rows if row.saved_interval_s is not None]
    low_s, high_s = sum(low_s for low_s, _ in bounds), sum(high_s for _, high_s in bounds)
    return (
        sum(known) if known or not rows else None,
        (low_s, high_s) if bounds or not rows else None,
    )


def _days(
    rows: Sequence[FleetStatement], statements: Mapping[StatementKey, Sequence[StatementForecast]]
) -> list[DayRow]:
    """The savings by day: each statement's are divided by its time in temp I/O on each day."""
    temp_s, parts = defaultdict[str, float](float), defaultdict[str, list[FleetStatement]](list)
    for row in sorted(rows, key=lambda row: (row.database, row.sql)):
        day_us = Counter[str]()
        for forecast in statements[row.database, row.sql]:
            day_us.update(forecast.day_us)
        total_us = sum(day_us.values())
        for day, us in day_us.items():
            temp_s[day] += us / 1e6
            if row.spills:
                parts[day].append(_part(row, us / total_us if total_us else 0.0))
    return [DayRow(day, temp_s[day], *_savings(parts[day])) for day in sorted(temp_s)]


def _part(row: FleetStatement, share: float) -> FleetStatement:
    """A row with ``share`` of its saving."""
    bounds = row.saved_interval_s
    return replace(
        row,
        saved_s=None if row.saved_s is None else share * row.saved_s,
        saved_interval_s=bounds and (share * bounds[0], share * bounds[1]),
    )


def _warnings(
    clashes: dict[str, set[str]], rows: Sequence[FleetStatement], parts: int
) -> list[str]:
    warnings = [
        f"databases on {' and '.join(f'host {host}' for host in sorted(hosts))} have the same "
        f"name, {name}: they are listed apart"
        for name, hosts in sorted(clashes.items())
    ]
    reasons = Counter(row.refused for row in rows if row.refused is not None)
    ranked = sorted(reasons.items(), key=lambda pair: (-pair[1], pair[0]))
    warnings += [f"no forecast for {count}: {reason}" for reason, count in ranked[:5]]
    if parts:
        of = format_count(parts, "file")
        warnings.append(
            f"of {of} only a part of the run is known, as spillcast forecast explains: times and "
            "savings are those of the part"
        )
    bounded = sum(row.saved_s is None and row.saved_interval_s is not None for row in rows)
    if bounded:
        of = format_count(bounded, "statement")
        warnings.append(
            f"of {of} only bounds of the saving are known: they count in the sum's interval alone"
        )
    return warnings

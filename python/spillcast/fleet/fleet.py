"""Ranks the statements of a fleet's databases by what other temp storage saves."""

from collections import Counter, defaultdict
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path

import duckdb

from spillcast import stats
from spillcast.errors import InputError, NoTempIo, TargetUnsuited
from spillcast.fleet import DatabaseRow, DayRow, Fleet, FleetStatement, Interval
from spillcast.fleet.dataset import FACTS_FOLDER, Dataset
from spillcast.fleet.forecasts import (
    DAYS,
    LATENCIES,
    TOTALS,
    FactQueries,
    ForecastOutcome,
    clashing,
    of_run,
    of_snapshots,
    of_statement,
    read_runs,
    statements,
)
from spillcast.fleet.snapshots import chains, read_snapshots
from spillcast.forecast.oracle import resolve_target
from spillcast.forecast.oracle.evidence import EventTarget
from spillcast.forecast.question import Question
from spillcast.forecast.verdict import notable_s
from spillcast.recording import TEMP_EVENTS, is_like
from spillcast.recording.meta import is_recording
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
    facts = DatasetFacts(dataset, to, question, clashes)
    if not facts.statements:
        raise NoTempIo(
            f"no statement of the evidence waits for '{temp_events}'",
            "name the events that change with --temp-events",
        )
    rows = _ranked([statement.row(*key) for key, statement in facts.statements.items()])
    databases, days = _databases(rows, facts), _days(rows, facts)
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
        sources=sum(1 for source in sources if source["set_aside"] is None) + facts.snapshots,
        set_aside=sum(1 for source in sources if source["set_aside"] is not None),
        statements=rows,
        databases=databases,
        days=days,
        warnings=_warnings(
            clashes, rows, facts.parts + sum(bool(source["is_part"]) for source in sources)
        ),
    )


@dataclass
class StatementForecasts:
    """The forecasts of a statement from all its evidence, with its days and latencies."""

    outcomes: list[ForecastOutcome] = field(default_factory=list)
    #: Kinds of evidence, and the number of files.
    kinds: set[str] = field(default_factory=set)
    sources: int = 0
    #: Time in temp I/O by day (us).
    day_us: Counter[str] = field(default_factory=Counter)
    #: A histogram: latency (ns) and number of waits.
    buckets: list[tuple[int, int]] = field(default_factory=list)

    def row(self, database: str, sql: str) -> FleetStatement:
        """The sums of all forecasts, as a row of the ranking."""
        answered = [(o, o.interval_s) for o in self.outcomes if o.interval_s is not None]
        refusals = (outcome.refused for outcome in self.outcomes if outcome.refused is not None)
        forecast_s = interval_s = saved_s = saved_interval_s = None
        if answered:
            today_s = sum(outcome.elapsed_s for outcome, _ in answered)
            low_s, high_s = (sum(bounds) for bounds in zip(*(i for _, i in answered), strict=True))
            interval_s, saved_interval_s = (low_s, high_s), (today_s - high_s, today_s - low_s)
            forecasts_s = [o.forecast_s for o, _ in answered if o.forecast_s is not None]
            if len(forecasts_s) == len(answered):
                forecast_s = sum(forecasts_s)
                saved_s = notable_s(today_s - forecast_s, today_s)
        return FleetStatement(
            database,
            sql,
            evidence=", ".join(sorted(self.kinds)),
            sources=self.sources,
            elapsed_s=sum(outcome.elapsed_s for outcome in self.outcomes),
            temp_s=sum(outcome.temp_s for outcome in self.outcomes),
            forecast_s=forecast_s,
            interval_s=interval_s,
            saved_s=saved_s,
            saved_interval_s=saved_interval_s,
            p50_us=self._quantile_us(0.5),
            p95_us=self._quantile_us(0.95),
            refused=next(refusals, None),
            spills=any(outcome.spills for outcome in self.outcomes),
        )

    def _quantile_us(self, quantile: float) -> float | None:
        if not self.buckets:
            return None
        latency_ns, counts = zip(*self.buckets, strict=True)
        # Traces have whole microseconds; the histogram has no bucket for 0.
        return stats.quantile(latency_ns, counts, quantile) // 10 / 1e2


class DatasetFacts:
    """The contents of a dataset, and the forecasts of each statement that spills."""

    def __init__(
        self, dataset: Dataset, to: str, question: Question, clashes: dict[str, set[str]]
    ) -> None:
        for option, text in (("--to", to), ("--from", question.origin)):
            if text is not None and parse_assumed(text, option) is None and can_probe(Path(text)):
                raise TargetUnsuited(
                    f"{option} {text}: a fleet is not replayed on a directory",
                    f"probe it once: {probe_command(text)}; then {option} storage.json",
                )
        self.statements: dict[StatementKey, StatementForecasts] = {}
        #: Elapsed time (us) of all statements by database, including those that do not spill.
        self.elapsed_us = Counter[str]()
        #: The number of PostgreSQL snapshots, and of runs that were recorded only in part.
        self.snapshots = self.parts = 0
        if dataset.parts(FACTS_FOLDER):
            with duckdb.connect() as connection:
                sums = FactQueries(dataset, connection, clashes)
                self._read_facts(sums, to, question)
        self._read_runs(dataset, to, question, clashes)
        self._read_snapshots(dataset, to, question)

    def _read_facts(self, sums: FactQueries, to: str, question: Question) -> None:
        target, temp_events = resolve_facts_target(to), question.temp_events or TEMP_EVENTS
        events, timed_by = set[str](), dict[StatementKey, tuple[str, float]]()
        for statement in statements(sums.rows(TOTALS)):
            key = statement.database, statement.sql_id
            events |= {event for event in statement.events() if is_like(event, temp_events)}
            self.elapsed_us[statement.database] += statement.elapsed_us
            counted = statement.rows[statement.timed_by]
            temp = [row for row in counted if is_like(row["event"], temp_events)]
            temp_us = sum(map(statement.elapsed_us_in, temp))
            if temp_us <= 0 or statement.elapsed_us <= 0:
                continue
            timed_by[key] = statement.timed_by, temp_us / sum(row["total_us"] for row in temp)
            temp_s = temp_us / 1e6
            if isinstance(target, str):
                outcome = ForecastOutcome(statement.elapsed_us / 1e6, temp_s, refused=target)
            else:
                outcome = of_statement(statement, target, question, temp_s)
            sources = max(row["sources"] for row in counted)
            self._add(key, outcome, statement.timed_by, sources)
        for row in sums.rows(DAYS, events=list(events)):
            key = row["label"], row["sql_id"]
            if key in self.statements and row["kind"] == timed_by[key][0]:
                self.statements[key].day_us[row["day"]] = round(row["total_us"] * timed_by[key][1])
        for row in sums.rows(LATENCIES, events=list(events)):
            key = row["label"], row["sql_id"]
            if key in self.statements:
                self.statements[key].buckets.append((row["bucket_ns"], row["waits"]))

    def _read_runs(
        self, dataset: Dataset, to: str, question: Question, clashes: dict[str, set[str]]
    ) -> None:
        runs = [({**row, "evidence": b""}, of_run(row, to, question)) for row in read_runs(dataset)]
        for row, outcome in sorted(runs, key=lambda run: run[0]["source"]):
            database = row["database"]
            if database in clashes:
                database = f"{database}@{row['host']}"
            statement = self._add((database, row["sql_id"]), outcome, row["kind"], 1)
            self.elapsed_us[database] += round(1e6 * outcome.elapsed_s)
            self.parts += outcome.is_part
            statement.day_us[row["day"]] += round(1e6 * outcome.temp_s)

    def _read_snapshots(self, dataset: Dataset, to: str, question: Question) -> None:
        """Adds the statements of PostgreSQL servers, each server as a database."""
        for chain in chains(read_snapshots(dataset)):
            server = chain[-1].name
            self.snapshots += len(chain)
            for queryid, outcome, day_us in of_snapshots(chain, to, question):
                statement = self._add((server, queryid), outcome, "looks", len(chain))
                self.elapsed_us[server] += round(1e6 * outcome.elapsed_s)
                statement.day_us.update(day_us)

    def _add(
        self, key: StatementKey, outcome: ForecastOutcome, kind: str, sources: int
    ) -> StatementForecasts:
        statement = self.statements.setdefault(key, StatementForecasts())
        statement.outcomes.append(outcome)
        statement.kinds.add(kind)
        statement.sources += sources
        return statement


def resolve_facts_target(to: str) -> EventTarget | str:
    """The target for traces and ASH, or why it is unsuitable, such as a recording."""
    try:
        return resolve_target(to)
    except InputError as error:
        if is_recording(Path(to)):
            return error.message
        raise


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


def _databases(rows: Sequence[FleetStatement], facts: DatasetFacts) -> list[DatabaseRow]:
    rows_of = defaultdict[str, list[FleetStatement]](list)
    for row in rows:
        rows_of[row.database].append(row)
    totals = []
    for database, elapsed_us in sorted(facts.elapsed_us.items()):
        spilling = [row for row in rows_of[database] if row.spills]
        totals.append(
            DatabaseRow(
                database,
                len(spilling),
                elapsed_us / 1e6,
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


def _days(rows: Sequence[FleetStatement], facts: DatasetFacts) -> list[DayRow]:
    """The savings by day: each statement's are divided by its time in temp I/O on each day."""
    temp_s, parts = defaultdict[str, float](float), defaultdict[str, list[FleetStatement]](list)
    for row in sorted(rows, key=lambda row: (row.database, row.sql)):
        day_us = facts.statements[row.database, row.sql].day_us
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

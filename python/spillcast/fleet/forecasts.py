"""Sums over the facts of a dataset, by DuckDB on one machine, and forecasts from these sums.

A fleet needs only one machine. Two cores ingest 230 MB of traces per second and the time is
linear (docs/guides/fleet.md), so 16 cores read 5 TB in half an hour if the network delivers them.
Their facts take about 14 GB, which DuckDB reads from local files or, through fsspec, from an object
store. A cluster needed five times the CPU time for the same result.

Sums of integers do not depend on the order of addition, and sums of floats are over sorted rows:
the same dataset always has the same result.
"""

import re
from collections import Counter, defaultdict
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime
from functools import cached_property
from operator import itemgetter
from pathlib import Path
from typing import Any
from urllib.parse import unquote

import duckdb
import numpy as np

from spillcast.errors import InputError, NoTempIo, NotSpilled, Refusal, TargetInvalid, TargetUnknown
from spillcast.evidence.counts import Counts
from spillcast.evidence.postgres.statements import StatementRow, counts_of_row
from spillcast.evidence.spark import Application
from spillcast.fleet.dataset import (
    ACTIVE,
    ASH_SUMS,
    CPU,
    FACTS,
    FACTS_FOLDER,
    INGEST_AGAIN_HINT,
    RUNS,
    RUNS_FOLDER,
    WAIT,
    Dataset,
    Store,
)
from spillcast.fleet.facts import ASH_KINDS, TRACE, unpacked
from spillcast.fleet.snapshots import Snapshot, chains, periods, sums_of, temp_blocks
from spillcast.forecast import forecast as estimate
from spillcast.forecast.oracle import forecast_events, resolve_target
from spillcast.forecast.oracle.evidence import (
    AshEvidence,
    EventLatency,
    EventTarget,
    OracleEvidence,
    TraceEvidence,
    times_s,
)
from spillcast.forecast.question import Question
from spillcast.forecast.result import Forecast
from spillcast.forecast.spark import forecast_application
from spillcast.forecast.workload.counted import with_origin
from spillcast.gate import damaged, reading
from spillcast.recording import TEMP_EVENTS, is_like
from spillcast.recording.meta import is_recording
from spillcast.storage.target import resolve
from spillcast.tables import ParquetTable
from spillcast.tabular import records
from spillcast.text import sql_literal
from spillcast.workspace import workspace

Rows = list[dict[str, Any]]
#: The values that these columns of facts may have.
_VALUES: dict[str, set[str | None]] = {
    "kind": {TRACE, *ASH_KINDS.values()},
    "measure": {ACTIVE, CPU, WAIT},
    "op": {"read", "write", None},
}
_INSTANT_SUMS = [f"instant_{name}" for name in ASH_SUMS]
#: The facts; an instant of ASH counts once, even if several exports contain it.
_VIEW = f"""
create view facts as
with stored as (select *, {{label}} as label from {{facts}}),
parts as (
    select source, label, kind, day, sql_id, measure, event, unnest(instant) as instant,
        {", ".join(f"unnest({name}) as {name}" for name in _INSTANT_SUMS)}
    from stored
),
kept as (
    select * from parts
    qualify source = min(source) over (
        partition by label, kind, sql_id, measure, event, instant
    )
)
select * from stored where kind = '{TRACE}'
union all by name
select source, label, kind, day, sql_id, measure, event,
    sum(instant_count)::bigint as count, round(sum(instant_total_ns) / 1e3)::bigint as total_us,
    sum(instant_sampled_us)::bigint as sampled_us, sum(instant_waits_e6)::bigint as waits_e6
from kept group by all
"""
#: The sums by database, kind of evidence, statement and event.
TOTALS = """
select label, kind, sql_id, measure, event, max(op) as op, bool_and(idle) as idle,
    count(distinct source) as sources, sum(count)::bigint as count,
    sum(total_us)::bigint as total_us,
    coalesce(sum(total_us) filter (where server), 0)::bigint as server_us,
    sum(blocks)::bigint as blocks, sum(blocks_count)::bigint as blocks_count,
    sum(sampled_us)::bigint as sampled_us, sum(waits_e6)::bigint as waits_e6
from facts group by all order by all
"""
_OF_EVENTS = f"from facts where measure = '{WAIT}' and list_contains($events::varchar[], event)"
#: The time of some events, by database, statement, kind of evidence and day.
DAYS = f"""
select label, sql_id, kind, day, sum(total_us)::bigint as total_us
{_OF_EVENTS} group by all order by all
"""
#: The merged latency histogram of some events: a row per statement and bucket.
LATENCIES = f"""
select label, sql_id, bucket_ns, sum(waits)::bigint as waits
from (
    select label, sql_id, unnest(latency_ns) as bucket_ns, unnest(latency_count) as waits
    {_OF_EVENTS}
)
group by all order by all
"""


class FactQueries:
    """Queries on the facts of a dataset, which must have facts."""

    def __init__(
        self, dataset: Dataset, connection: duckdb.DuckDBPyConnection, clashes: Iterable[str]
    ) -> None:
        """If the name of a database is in ``clashes``, its label includes its host."""
        self._connection, self._address = connection, dataset.place.address
        place = dataset.place
        if place.filesystem is not None:
            connection.register_filesystem(place.filesystem)
        parts = dataset.parts(FACTS_FOLDER)
        for part in parts:
            _check_facts(place, part)
        urls = _list_sql(place.url(part) for part in parts)
        facts = f"read_parquet({urls}, hive_partitioning = true, hive_types_autocast = false)"
        label = f"if(list_contains({_list_sql(sorted(clashes))}, database), "
        label += "database || '@' || host, database)"
        with reading(self._address, INGEST_AGAIN_HINT):
            connection.execute(_VIEW.format(label=label, facts=facts))

    def rows(self, sql: str, **parameters: Any) -> Rows:
        """The rows of TOTALS, or of DAYS or LATENCIES with ``events`` as parameter."""
        with reading(self._address, INGEST_AGAIN_HINT):
            return records(self._connection.sql(sql, params=parameters or None))


def clashing(sources: Iterable[Mapping[str, Any]]) -> dict[str, set[str]]:
    """The names that several databases share, with their hosts.

    If instances on several hosts have the same name, they belong to different databases: the
    instances of a cluster have different names.
    """
    hosts: dict[tuple[str, str], set[str]] = {}
    for row in sources:
        if row["database"] is not None and row["host"]:
            hosts.setdefault((row["database"], row["instance"] or ""), set()).add(row["host"])
    labels: dict[str, set[str]] = {}
    for (database, _), names in hosts.items():
        if len(names) > 1:
            labels.setdefault(database, set()).update(names)
    return labels


def _runs(dataset: Dataset) -> Iterator[dict[str, Any]]:
    """The rows of RUNS, one at a time, with database and day."""
    for part in dataset.parts(RUNS_FOLDER):
        path = f"{dataset.place.address}/{part}"
        with reading(path, INGEST_AGAIN_HINT):
            content = dataset.place.read(part)
        folders = (folder.partition("=") for folder in part.split("/") if "=" in folder)
        partition = {name: unquote(value) for name, _, value in folders}
        for row in ParquetTable(path, RUNS, INGEST_AGAIN_HINT, content=content).batches(rows=1):
            yield {**row.to_pylist()[0], **partition}


def _check_facts(place: Store, part: str) -> None:
    """InputError if a part of the facts is damaged."""
    path = f"{place.address}/{part}"
    with reading(path, INGEST_AGAIN_HINT):
        rows = ParquetTable(path, FACTS, INGEST_AGAIN_HINT, content=place.read(part)).read()
        for name, values in _VALUES.items():
            if unknown := set(rows[name].to_pylist()) - values:
                raise damaged(f"{name} is {unknown.pop()!r} in some row")
        for first, *others in (("latency_ns", "latency_count"), ("instant", *_INSTANT_SUMS)):
            if any(not np.array_equal(rows[first].lengths, rows[n].lengths) for n in others):
                raise damaged(f"not each {first} has its sums in some row")
        if not (rows["count"].values > 0).all():
            raise damaged("count is 0 in some row")


def _list_sql(texts: Iterable[str]) -> str:
    """A list of strings in DuckDB's syntax."""
    return f"[{', '.join(map(sql_literal, texts))}]::varchar[]"


@dataclass
class StatementSums:
    """The sums of all facts about a statement of a database."""

    database: str
    sql_id: str
    #: Rows of TOTALS by kind of evidence.
    rows: dict[str, Rows] = field(default_factory=dict)

    @property
    def ash_kind(self) -> str | None:
        """The kind of ASH to use: V$ rather than DBA_HIST, which has every tenth of its samples."""
        return next((kind for kind in ASH_KINDS.values() if kind in self.rows), None)

    @property
    def timed_by(self) -> str:
        """The kind of evidence for the statement's time: ASH, which has whole runs, or traces."""
        return self.ash_kind or TRACE

    @property
    def elapsed_us(self) -> int:
        """CPU time and waits in traces, or the time in which the statement was active in ASH."""
        if self.ash_kind is not None:
            rows = self.rows[self.ash_kind]
            return sum(row["total_us"] for row in rows if row["measure"] == ACTIVE)
        return round(self._traced_times_s[0] * 1e6)

    def elapsed_us_in(self, row: Mapping[str, Any]) -> int:
        """The part of the elapsed time in the event of a row of its ``timed_by`` kind."""
        if self.ash_kind is None and row["event"] in self._traced_times_s[2]:
            return round(self._traced_times_s[2][row["event"]] * self.elapsed_us)
        return int(row["total_us"])

    @cached_property
    def _traced_times_s(self) -> tuple[float, float, dict[str, float]]:
        """``times_s`` of its traces; all servers of parallel queries count as one session."""
        groups = [
            {**row, "session": is_server, "total_us": us}
            for row in self.rows.get(TRACE, [])
            for is_server, us in enumerate((row["total_us"] - row["server_us"], row["server_us"]))
            if us
        ]
        return times_s(groups, {1})

    def events(self) -> set[str]:
        """The names of its wait events."""
        rows = self.rows[self.timed_by]
        return {row["event"] for row in rows if row["measure"] == WAIT}

    def traces(self) -> TraceEvidence | None:
        """The sums of its traces."""
        rows = self.rows.get(TRACE)
        if rows is None:
            return None
        events = {row["event"]: _latency(row) for row in rows if row["measure"] == WAIT}
        elapsed_s, sessions_s, shares = self._traced_times_s
        return TraceEvidence("the traces", elapsed_s, sessions_s, events, 0, shares=shares)

    def ash(self) -> AshEvidence | None:
        """The sums of its ASH samples."""
        if self.ash_kind is None:
            return None
        rows = self.rows[self.ash_kind]
        waits = [row for row in rows if row["measure"] == WAIT]
        instants = sum(row["count"] for row in rows if row["measure"] == ACTIVE)
        active_us = self.elapsed_us
        share = {row["event"]: row["total_us"] / active_us for row in waits}
        latency_s = {
            row["event"]: row["sampled_us"] / row["waits_e6"]
            for row in waits
            if row["waits_e6"] > 0
        }
        sessions = sum(row["sampled_us"] for row in waits) / active_us
        return AshEvidence(active_us / 1e6, instants, share, latency_s, sessions=sessions)


def statements(totals: Iterable[dict[str, Any]]) -> list[StatementSums]:
    """The statements in rows of TOTALS, sorted by database and statement."""
    statements: dict[tuple[str, str], StatementSums] = {}
    for row in totals:
        key = row["label"], row["sql_id"]
        statement = statements.setdefault(key, StatementSums(*key))
        statement.rows.setdefault(row["kind"], []).append(row)
    return [statements[key] for key in sorted(statements)]


def _latency(row: Mapping[str, Any]) -> EventLatency:
    """The latency of an event; its waits are one stretch, because their order is not stored."""
    count, total_s = row["count"], row["total_us"] / 1e6
    blocks = row["blocks"] / row["blocks_count"] if row["blocks_count"] else None
    return EventLatency(
        event=row["event"],
        op=row["op"],
        idle=row["idle"],
        count=count,
        total_s=total_s,
        blocks=blocks,
        stretches=np.array([[count, total_s / count]], dtype=float),
    )


@dataclass(frozen=True, kw_only=True)
class StatementForecast:
    """The times (s) of a statement in some evidence, and their forecast or why there is none.

    There is only an interval if only bounds of the time of temp I/O are known.
    """

    database: str
    sql: str
    #: The kind of evidence, and the number of files.
    kind: str
    sources: int = 1
    elapsed_s: float = 0.0
    temp_s: float = 0.0
    forecast_s: float | None = None
    interval_s: tuple[float, float] | None = None
    refused: str | None = None
    spills: bool = True
    #: Whether it waits for the events that change; if not, only its elapsed time counts.
    waits: bool = True
    #: Whether the times are those of a part of a run, whose length is unknown.
    is_part: bool = False
    #: Time in temp I/O by day (us).
    day_us: Mapping[str, int] = field(default_factory=dict)
    #: A histogram: latency (ns) and number of waits.
    buckets: Sequence[tuple[int, int]] = ()

    def answered(self, forecast: Forecast, temp_s: float, calls: int = 1) -> "StatementForecast":
        """The total times of ``calls`` calls, each with this forecast and time in temp I/O."""
        interval_s = forecast.interval_s
        return replace(
            self,
            elapsed_s=calls * forecast.baseline_s,
            temp_s=calls * temp_s,
            # As for one query, the middle of bounds that are far apart is not a forecast.
            forecast_s=None
            if forecast.forecast_s is None or forecast.bounds_only
            else calls * forecast.forecast_s,
            interval_s=interval_s and (calls * interval_s[0], calls * interval_s[1]),
            refused=forecast.refused,
            is_part=any(warning.code == "part-only" for warning in forecast.warnings),
        )


def forecasts_of(
    dataset: Dataset,
    snapshots: Iterable[Snapshot],
    to: str,
    question: Question,
    clashes: Collection[str],
) -> Iterator[StatementForecast]:
    """The forecasts of all evidence in a dataset, also of the ``snapshots`` in it.

    If the name of a database is in ``clashes``, its label includes its host.
    """
    if dataset.parts(FACTS_FOLDER):
        with duckdb.connect() as connection:
            yield from _of_facts(FactQueries(dataset, connection, clashes), to, question)
    with workspace(private=True) as workdir:
        runs = [
            (row["source"], _of_run(row, to, question, clashes, workdir)) for row in _runs(dataset)
        ]
    for _, forecast in sorted(runs, key=itemgetter(0)):
        yield forecast
    for chain in chains(snapshots):
        yield from _of_snapshots(chain, to, question)


def _of_facts(sums: FactQueries, to: str, question: Question) -> Iterator[StatementForecast]:
    """The forecasts of statements in traces and ASH."""
    target, temp_events = _facts_target(to), question.temp_events or TEMP_EVENTS
    all_statements = statements(sums.rows(TOTALS))
    names = {event for statement in all_statements for event in statement.events()}
    events = [event for event in names if is_like(event, temp_events)]
    day_us = defaultdict[tuple[str, str, str], dict[str, int]](dict)
    for row in sums.rows(DAYS, events=events):
        day_us[row["label"], row["sql_id"], row["kind"]][row["day"]] = row["total_us"]
    buckets = defaultdict[tuple[str, str], list[tuple[int, int]]](list)
    for row in sums.rows(LATENCIES, events=events):
        buckets[row["label"], row["sql_id"]].append((row["bucket_ns"], row["waits"]))
    for statement in all_statements:
        database, sql, kind = statement.database, statement.sql_id, statement.timed_by
        elapsed_s, counted = statement.elapsed_us / 1e6, statement.rows[kind]
        part = StatementForecast(database=database, sql=sql, kind=kind, elapsed_s=elapsed_s)
        temp = [row for row in counted if is_like(row["event"], temp_events)]
        temp_us = sum(map(statement.elapsed_us_in, temp))
        if temp_us <= 0 or elapsed_s <= 0:
            yield replace(part, waits=False)
            continue
        share = temp_us / sum(row["total_us"] for row in temp)
        part = replace(
            part,
            sources=max(row["sources"] for row in counted),
            temp_s=temp_us / 1e6,
            day_us={day: round(us * share) for day, us in day_us[database, sql, kind].items()},
            buckets=buckets[database, sql],
        )
        if isinstance(target, str):
            yield replace(part, refused=target)
            continue
        try:
            evidence = OracleEvidence(traces=statement.traces(), ash=statement.ash())
            forecast = forecast_events(target, evidence, replace(question, elapsed_s=elapsed_s))
            yield part.answered(forecast, part.temp_s)
        except (InputError, Refusal) as error:
            yield replace(part, refused=error.message)


def _facts_target(to: str) -> EventTarget | str:
    """The target for traces and ASH, or why it is unsuitable, such as a recording."""
    try:
        return resolve_target(to)
    except InputError as error:
        if is_recording(Path(to)):
            return error.message
        raise


def _of_run(
    row: Mapping[str, Any], to: str, question: Question, clashes: Collection[str], workdir: Path
) -> StatementForecast:
    """The forecast of a recording, a plan or an application in a row of RUNS."""
    database = row["database"]
    if database in clashes:
        database = f"{database}@{row['host']}"
    part = StatementForecast(database=database, sql=row["sql_id"], kind=row["kind"])
    try:
        with unpacked(row, question.selection, workdir) as evidence:
            part = replace(part, elapsed_s=evidence.elapsed_s)
            if isinstance(evidence, Application):
                [(forecast, _)] = forecast_application(evidence, [to], question)
                part = part.answered(forecast, forecast.moved.baseline_s)
            else:
                run = with_origin(evidence, question) if isinstance(evidence, Counts) else evidence
                forecast = estimate(run, resolve(to, run), confidence=question.confidence)
                terms = (term for term in forecast.terms if term.count is not None)
                part = part.answered(forecast, sum(term.baseline_s for term in terms))
    except (TargetInvalid, TargetUnknown):
        raise
    except (InputError, Refusal) as error:
        # The name of the folder into which it was unpacked is random.
        folder = re.escape(f"{workdir}/") + "[^/]+/"
        refused = re.sub(folder, "", error.message)
        part = replace(part, refused=refused, spills=not isinstance(error, NoTempIo | NotSpilled))
    return replace(part, day_us={row["day"]: round(1e6 * part.temp_s)})


def _of_snapshots(
    chain: Sequence[Snapshot], to: str, question: Question
) -> Iterator[StatementForecast]:
    """The forecasts of statements that spilled between snapshots of a server, as a database.

    The time in temp I/O is divided among days in proportion to the blocks moved on each.
    """
    activity = list(periods(chain))
    blocks = defaultdict[str, Counter[str]](Counter)
    for period in activity:
        day = f"{datetime.fromtimestamp(period.middle_s, UTC):%Y-%m-%d}"
        for queryid, sums in sums_of(period.statements).items():
            blocks[queryid][day] += temp_blocks(sums)
    name, grown = chain[-1].name, (grown for period in activity for grown in period.statements)
    for queryid, total in sums_of(grown).items():
        statement = StatementRow.of({**total, **chain[-1].limits})
        if not statement.spills:
            continue
        part = StatementForecast(database=name, sql=queryid, kind="looks", sources=len(chain))
        try:
            counts = counts_of_row(statement, timed=question.origin is None)
            counts = with_origin(counts.of_file(Path(name)), question)
            forecast = estimate(counts, resolve(to, counts), confidence=question.confidence)
            part = part.answered(forecast, counts.total_s / counts.processes, statement.calls)
        except (TargetInvalid, TargetUnknown):
            raise
        except (InputError, Refusal) as error:
            elapsed_s, temp_s = statement.elapsed_s, min(statement.temp_s, statement.elapsed_s)
            part = replace(part, elapsed_s=elapsed_s, temp_s=temp_s, refused=error.message)
        days = {
            day: round(1e6 * part.temp_s * moved / statement.blocks)
            for day, moved in blocks[queryid].items()
        }
        yield replace(part, day_us=days)

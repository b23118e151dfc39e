"""Profiles ASH samples: executions, time by event, and mean waits without the bias of sampling."""

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from spillcast.columns import Field
from spillcast.errors import SelectionEmpty
from spillcast.evidence.oracle.ash import MEMORY_INTERVAL_US, Ash
from spillcast.evidence.oracle.spooled import clock
from spillcast.evidence.selection import LISTED_MAX, ambiguous
from spillcast.recording import TEMP_EVENTS, is_like
from spillcast.tables import Table
from spillcast.units import format_duration

if TYPE_CHECKING:
    from duckdb import DuckDBPyConnection

#: Columns that identify an execution, and those that identify one of its sessions.
_OF_EXECUTION = ("sql_id", "sql_exec_id", "exec_start")
_KEYS = (*_OF_EXECUTION, "instance", "session", "coordinator", "coordinator_instance")
#: The gap without samples that may separate two executions if the export does not identify them.
#: Within an execution, only a client that fetches slowly causes such a gap.
_GAP_S = 60
_GAP_INTERVALS = 6
#: The least share of an execution that its samples cover: below it, rows are missing, or the client
#: was slow, whose waits are not sampled.
_COVERED_MIN = 0.8
#: The share of samples within half an interval of another one of their session, above which a clock
#: was set back.
_AGAIN_MAX = 0.05
#: The number of instants per interval above which several instances were sampled.
_SAMPLERS_MIN = 1.5

AshRow = dict[str, Any]


@dataclass(frozen=True)
class SampledExecution:
    """One execution, as far as the columns of the export distinguish it from others.

    ``instance`` and ``session`` are those of its coordinator. ``began`` is the time of its first
    sample by the export's clock, and ``elapsed_s`` ends with its last one. ``sessions`` is the
    number of its sessions.
    """

    sql_id: str | None
    exec_id: int | None
    instance: int | None
    session: int | None
    began: str
    elapsed_s: float
    samples: int
    sessions: int


def executions(ash: Ash) -> list[SampledExecution]:
    """The executions of all samples, in order of their start."""
    rows = _grouped_by_execution(ash)
    _add_rows_of_execution(rows, ash.exported)
    groups: dict[tuple[Any, ...], list[AshRow]] = {}
    for row in rows:
        key = (*(row[name] for name in _OF_EXECUTION), row["owner"])
        groups.setdefault(key, []).append(row)
    for missing in reversed(_OF_EXECUTION):
        _join(groups, missing)
    results = [_execution(ash, group) for group in groups.values()]
    return sorted(results, key=lambda execution: (execution.began, -execution.elapsed_s))


def check_single_execution(ash: Ash) -> None:
    """InputError that lists the longest executions if there are several."""
    candidates = sorted(executions(ash), key=lambda execution: -execution.elapsed_s)
    if len(candidates) < 2:
        return
    values_by_option: dict[str, set[Any]] = {
        "--sql-id": {execution.sql_id for execution in candidates},
        "--exec-id": {execution.exec_id for execution in candidates},
    }
    options = [option for option, values in values_by_option.items() if len(values) > 1]
    rows = []
    for execution in candidates[:LISTED_MAX]:
        keys = (execution.sql_id, execution.exec_id, execution.instance, execution.session)
        words = ("-" if key is None else str(key) for key in keys)
        lasted = format_duration(execution.elapsed_s)
        rows.append((execution.began, lasted, f"{execution.samples:,}", *words))
    raise ambiguous(
        f"the samples are of {len(candidates):,} executions, the longest first:",
        ("began", "lasted", "samples", "sql", "exec id", "instance", "session"),
        rows,
        len(candidates),
        f"choose one with {', '.join([*options, '--since and --until'])}, or export it alone",
    )


def hints(ash: Ash) -> list[str]:
    """A sentence about a long gap, which may separate two executions, or other lost samples.

    Or about an hour that the clock repeats.
    """
    if len(executions(ash)) > 1:
        return []
    if _is_sampled_again(ash):
        return [
            "sessions have several samples at a time: the clock was set back, as at the end of "
            "daylight-saving time, or rows are repeated: give the time of the run with --elapsed"
        ]
    because = "perhaps two executions, which the export does not distinguish"
    if {"sql_exec_id", "exec_start"} <= ash.exported:
        because = (
            "rows are missing, its client was slow, or its clock was changed or lacks AM or PM"
        )
    times = ash.samples["time_ns"].values
    gaps = np.diff(times)
    gap_ns = int(gaps.max(initial=0))
    if gap_ns < 1e9 * max(_GAP_S, _GAP_INTERVALS * ash.interval_us / 1e6):
        covered_s = len(np.unique(times)) * float(ash.samples["weight_us"].values.mean()) / 1e6
        elapsed_s = int(times.max()) / 1e9 + ash.interval_us / 1e6
        if not ash.has_seconds or covered_s > _COVERED_MIN * elapsed_s:
            return []
        covered, elapsed = format_duration(covered_s), format_duration(elapsed_s)
        return [
            f"samples cover {covered} of {elapsed}: rows are left out, such as those on CPU, or "
            "its client was slow; shares are those of the sampled time"
        ]
    at = int(gaps.argmax())
    last, first = (clock(ash.began_ns + int(times[n])) for n in (at, at + 1))
    text = (
        f"no sample between {last} and {first} ({format_duration(gap_ns / 1e9)}): {because}; "
        "--until and --since choose a part"
    )
    return [text]


def _is_sampled_again(ash: Ash) -> bool:
    """Whether sessions have samples much closer than the interval of the sampler."""
    if "session" not in ash.exported or not ash.has_seconds:
        return False
    owner = [name for name in ("instance", "session") if name in ash.exported]
    samples = ash.samples.sort_by(*owner, "time_ns")
    is_close = np.diff(samples["time_ns"].values) <= 500 * ash.interval_us
    for name in owner:
        is_close &= np.diff(samples[name].filled(-1)) == 0
    return bool(np.count_nonzero(is_close) > _AGAIN_MAX * len(samples))


def _is_of_instances(ash: Ash) -> bool:
    """Whether the times are those of several samplers, where the export names no instance."""
    if "instance" in ash.exported:
        return False
    times = np.unique(ash.samples["time_ns"].values)
    intervals = np.unique(times // (1000 * ash.interval_us))
    return len(times) > _SAMPLERS_MIN * len(intervals) and not _is_sampled_again(ash)


def _grouped_by_execution(ash: Ash) -> list[AshRow]:
    """A row for each combination of ``_KEYS``, with its number of samples, first and last time."""
    groups = ash.samples.group_by(*(name for name in _KEYS if name in ash.samples.columns))
    times = ash.samples["time_ns"].values
    columns = {
        **groups.keys.columns,
        "time_ns_min": -groups.max(-times),
        "time_ns_max": groups.max(times),
        "time_ns_count": groups.count(),
    }
    return [dict.fromkeys(_KEYS) | row for row in Table(columns).to_pylist()]


def _add_rows_of_execution(rows: Sequence[AshRow], exported: frozenset[str]) -> None:
    """Gives each row its ``owner``: instance and number of the coordinating session.

    Without a column of coordinators the owner is unknown, and all sessions may be of one execution.
    """
    alone: dict[tuple[Any, ...], set[int | None]] = {}
    workers: dict[tuple[Any, ...], set[int | None]] = {}
    for row in rows:
        known = alone if row["coordinator"] is None else workers
        known.setdefault(_served(row), set()).add(row["instance"])
    for row in rows:
        row["owner"] = (None, None)
        if "coordinator" not in exported:
            continue
        if row["coordinator"] is None:
            row["owner"] = (row["instance"], row["session"])
            continue
        instance = row["coordinator_instance"]
        if instance is None:
            # The coordinator's own samples have its instance; workers may run on any.
            instances = alone.get(_served(row)) or workers[_served(row)]
            instance = min(instances, key=lambda number: (number is None, number))
        row["owner"] = (instance, row["coordinator"])


def _served(row: AshRow) -> tuple[Any, ...]:
    """The statement, the execution, and the number of the coordinating session of a row."""
    session = row["session"] if row["coordinator"] is None else row["coordinator"]
    return row["sql_id"], row["sql_exec_id"], session


def _join(groups: dict[tuple[Any, ...], list[AshRow]], missing: str) -> None:
    """Moves groups without ``missing``, such as samples of a parse, to the only group that fits."""
    at = _OF_EXECUTION.index(missing)
    for key in [key for key in groups if key[at] is None]:
        # Keys are ordered from general to specific: all columns after ``missing`` are missing too.
        others = [
            other
            for other in groups
            if other[at] is not None and other[3] == key[3] and other[:at] == key[:at]
        ]
        if len(others) != 1:
            continue
        first, last = _ends(groups[others[0]])
        begin, end = _ends(groups[key])
        if missing != "sql_id" or (first <= begin and end <= last):
            groups[others[0]] += groups.pop(key)


def _ends(rows: Sequence[AshRow]) -> tuple[int, int]:
    return min(row["time_ns_min"] for row in rows), max(row["time_ns_max"] for row in rows)


def _execution(ash: Ash, rows: Sequence[AshRow]) -> SampledExecution:
    first, last = _ends(rows)
    head = next((row for row in rows if row["coordinator"] is None), rows[0])
    instance, session = head["owner"]
    sessions = {(row["instance"], row["session"]) for row in rows}
    if session is None and len(sessions) == 1:
        [(instance, session)] = sessions
    return SampledExecution(
        sql_id=head["sql_id"],
        exec_id=head["sql_exec_id"],
        instance=instance,
        session=session,
        began=clock(ash.began_ns + first),
        elapsed_s=(last - first) / 1e9 + ash.interval_us / 1e6,
        samples=sum(row["time_ns_count"] for row in rows),
        sessions=len(sessions),
    )


ON_CPU = "(on CPU)"
#: The number of waits that a row represents, in SQL (see ``profile_ash``).
WAITS = (
    "if(event is not null and time_waited_us > 0, weight_us * greatest("
    f"1 / least(weight_us, {MEMORY_INTERVAL_US}), 1 / time_waited_us), 0)"
)
# profile_ash explains n_est. Rows with TIME_WAITED = 0 are unfinished waits or CPU time: they
# count for time but not for n. The errors assume independent samples (a ratio of two sums).
_PROFILE = f"""
with sampled as (
    select
        sql_id,
        coalesce(event, '{ON_CPU}') as event,
        time_waited_us as waited_us,
        weight_us,
        {WAITS} as stands_for
    from samples
),
totals as (
    select *, sum(weight_us) over same as total_us, sum(stands_for) over same as n
    from sampled
    window same as (partition by sql_id, event)
)
select
    sql_id as sql,
    event,
    min(waited_us) as min_us,
    max(waited_us) as max_us,
    avg(waited_us) as mean_us,
    count(*) as count,
    sum(weight_us)::bigint as total_us,
    (sum(weight_us) / sum(sum(weight_us)) over (partition by sql_id))::double as share_of_sql,
    (sum(weight_us) / sum(sum(weight_us)) over ())::double as share,
    any_value(n)::double as n_est,
    (any_value(total_us) / nullif(any_value(n), 0))::double as latency_us,
    (latency_us * sqrt(sum((weight_us / total_us - stands_for / nullif(n, 0)) ** 2)))::double
        as latency_error_us
from totals
group by sql_id, event
order by share desc, sql, event
"""
# Instances of RAC sample at different instants, so the samples of an execution on several are
# combined by interval.
_ACTIVE = """
create temp table active as
select
    * replace (coalesce(coordinator, session) as coordinator),
    {began_ns} + time_ns as at_ns,
    if(
        {of_instances} or min(instance) over same < max(instance) over same,
        at_ns // {interval_ns},
        at_ns
    ) as instant,
    coalesce(event::varchar, '{on_cpu}') as event_name
from samples
window same as (partition by sql_id, sql_exec_id, coalesce(samples.coordinator, session))
"""
# At each instant the time of an execution is divided equally among its active sessions.
_SHARES = """
with instants as (
    select
        avg(weight_us) as weight_us,
        avg((event_name in (select name from matching))::integer) as part,
        count(*) as sessions
    from active
    group by sql_id, sql_exec_id, coordinator, instant
)
select
    sum(weight_us * part) / sum(weight_us),
    sum(weight_us) / 1e6,
    count(*),
    max(sessions)
from instants
"""


@dataclass(frozen=True)
class WallClock:
    """The share of the time that was spent in some events.

    ``share`` (0..1) is of ``active_s``, the time in which the query was active, and is based on
    ``instants`` sampled instants. ``elapsed_s`` is from the first sample to one interval after the
    last, or ``active_s`` if a clock was set back; 0 if the times have no seconds. ``sessions`` is
    the maximum number active at once: above 1, the query ran in parallel.
    """

    events: list[str]
    share: float
    active_s: float
    elapsed_s: float
    instants: int
    sessions: int


def profile_ash(ash: Ash) -> Table:
    """One row for each statement and event, the largest share first.

    ``min_us``, ``max_us``, ``mean_us`` and ``count`` are those of the rows, as a query on ASH gives
    them; the mean is too long, because samples hit long waits more often. ``total_us`` is the time
    that the rows represent; ``share_of_sql`` and ``share`` (0..1, of all) are shares of it.

    ``latency_us`` is the mean wait without that bias. If a wait of length w is shorter than the
    interval between samples, it is sampled with probability w / interval, so its row represents
    interval / w waits. Of a longer wait only the last row has its length, and represents one wait::

        n_est   = sum of weight * max(1 / interval, 1 / w)   over waiting rows with w > 0
        latency = sum of weight / n_est

    (the Horvitz-Thompson estimator). The interval is that of the sampling in memory, 1 s; DBA_HIST
    keeps one row in ten, each with ten times the weight. ``latency_error_us`` is the standard
    error of ``latency_us``. On CPU there are no waits: ``n_est`` is 0 and the latency null.
    """
    import duckdb

    with duckdb.connect() as connection:
        connection.register("samples", ash.samples)
        return Table.from_arrow(connection.sql(_PROFILE))


@contextmanager
def active_samples(ash: Ash) -> Iterator["DuckDBPyConnection"]:
    """A connection with the table ``active``: the samples, their times and their instants.

    An execution has each ``instant`` once, with its active sessions. ``at_ns`` counts from 1970.
    """
    import duckdb

    samples = ash.samples.cast([*ash.samples.fields, Field("instance", "int64")])
    given = {"began_ns": ash.began_ns, "interval_ns": 1000 * ash.interval_us}
    given["of_instances"] = _is_of_instances(ash)
    with duckdb.connect() as connection:
        connection.register("samples", samples)
        connection.execute(_ACTIVE.format(on_cpu=ON_CPU, **given))
        yield connection


def wall_clock_share(ash: Ash, pattern: str = TEMP_EVENTS) -> WallClock:
    """The share of the elapsed time in events like ``pattern``, in which ``*`` is any text.

    Each instant of an execution counts once, however many parallel workers were active: an event
    gets the share of the workers that waited for it. InputError names the events if none matches.
    """
    event = ash.samples["event"]
    names = [*event.unique(), *([ON_CPU] if event.null_count else [])]
    events = sorted(name for name in names if is_like(name, pattern))
    if not events:
        raise SelectionEmpty(
            f"no sample waits for '{pattern}'", f"the events are: {', '.join(sorted(names))}"
        )
    with active_samples(ash) as connection:
        connection.register("matching", Table({"name": events}))
        row = connection.execute(_SHARES).fetchone()
    assert row is not None
    share, active_s, instants, sessions = row
    elapsed_s = ash.samples["time_ns"][-1] / 1e9 + ash.interval_us / 1e6
    elapsed_s *= ash.has_seconds
    if _is_sampled_again(ash):
        # A clock that is set back does not make a run shorter.
        elapsed_s = max(elapsed_s, active_s)
    return WallClock(events, share, active_s, elapsed_s, instants, sessions)

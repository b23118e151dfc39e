"""Where active sessions spent their time, and how long their waits were without ASH's bias."""

from dataclasses import dataclass

from spillcast.columns import Field
from spillcast.errors import SelectionEmpty
from spillcast.evidence.oracle.ash.reader import MEMORY_INTERVAL_US, Ash
from spillcast.recording.event_names import TEMP_EVENTS, is_like
from spillcast.tables import Table

ON_CPU = "(on CPU)"
#: In SQL, the number of waits that a row stands for, as ``profile_ash`` explains.
WAITS = (
    "if(event is not null and time_waited_us > 0, weight_us * greatest("
    f"1 / least(weight_us, {MEMORY_INTERVAL_US}), 1 / time_waited_us), 0)"
)
# n_est as profile_ash tells. Rows with TIME_WAITED = 0 are of waits not over yet, or of CPU: they
# count for time and not for n. The errors are those of independent samples (a ratio of two sums).
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
    sql_id,
    event,
    min(waited_us) as min_wtime_us,
    max(waited_us) as max_wtime_us,
    avg(waited_us) as avg_wtime_us,
    count(*) as count,
    sum(weight_us)::bigint as total_us,
    (sum(weight_us) / sum(sum(weight_us)) over (partition by sql_id))::double as share_of_sql,
    (sum(weight_us) / sum(sum(weight_us)) over ())::double as share_of_all,
    any_value(n)::double as n_est,
    (any_value(total_us) / nullif(any_value(n), 0))::double as latency_us,
    (latency_us * sqrt(sum((weight_us / total_us - stands_for / nullif(n, 0)) ** 2)))::double
        as latency_error_us
from totals
group by sql_id, event
order by share_of_all desc, sql_id, event
"""
# At each instant an execution spends its time on what its active sessions do, in equal parts. RAC
# instances sample at instants of their own, so theirs are put together by interval.
_SHARES = """
with active as (
    select
        sql_id,
        sql_exec_id,
        coalesce(coordinator, session) as coordinator,
        if(?, time_ns // (1000 * ?), time_ns) as instant,
        weight_us,
        coalesce(event, '(on CPU)') in (select name from matching) as hit
    from samples
),
instants as (
    select avg(weight_us) as weight_us, avg(hit::integer) as part, count(*) as sessions
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
    """What part of the time was spent in some events.

    ``share`` (0..1) is of ``active_s``, the time in which the query was seen active; ``instants``
    is how many samples of the clock that rests on. ``elapsed_s`` is from the first sample to the
    last and one interval more. ``sessions`` is the most seen active at once: above 1, the query
    ran in parallel.
    """

    events: list[str]
    share: float
    active_s: float
    elapsed_s: float
    instants: int
    sessions: int


def profile_ash(ash: Ash) -> Table:
    """One row for each statement and event, the largest share first.

    ``min_wtime_us``, ``max_wtime_us``, ``avg_wtime_us`` and ``count`` are those of the rows, as
    a query on ASH gives them; the average is too long, as a sample hits long waits more often.
    ``total_us`` is the time that the rows stand for; ``share_of_sql`` and ``share_of_all`` (0..1)
    are shares of it.

    ``latency_us`` is the mean wait without that bias. A wait of length w is seen with probability
    w / interval if it is shorter than the interval between samples, so a row of it stands for
    interval / w waits; of a longer wait only the last row carries its length, and that row stands
    for one::

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


def wall_clock_share(ash: Ash, pattern: str = TEMP_EVENTS) -> WallClock:
    """The share of wall clock in events like ``pattern``, in which ``*`` stands for any text.

    Each instant of an execution counts once, however many parallel workers were active: an event
    gets the part of them that waited for it. InputError names the events where none is like it.
    """
    import duckdb

    event = ash.samples["event"]
    names = [*event.unique(), *([ON_CPU] if event.null_count else [])]
    events = sorted(name for name in names if is_like(name, pattern))
    if not events:
        raise SelectionEmpty(
            f"no sample waits for '{pattern}'", f"the events are: {', '.join(sorted(names))}"
        )
    instances = ash.samples.cast([Field("instance", "int64")])["instance"].to_pylist()
    with duckdb.connect() as connection:
        connection.register("samples", ash.samples)
        connection.register("matching", Table({"name": events}))
        row = connection.execute(_SHARES, [len(set(instances)) > 1, ash.interval_us]).fetchone()
    assert row is not None
    share, active_s, instants, sessions = row
    elapsed_s = ash.samples["time_ns"][-1] / 1e9 + ash.interval_us / 1e6
    return WallClock(events, share, active_s, elapsed_s, instants, sessions)

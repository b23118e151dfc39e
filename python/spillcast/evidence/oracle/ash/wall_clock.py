"""The share of a query's elapsed time that events took, serial or parallel, by wall clock."""

from dataclasses import dataclass

import pyarrow as pa

from spillcast.errors import SelectionEmpty
from spillcast.evidence.oracle.ash.profile import ON_CPU
from spillcast.evidence.oracle.ash.reader import Ash
from spillcast.recording.event_names import TEMP_EVENTS, is_like

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


def wall_clock_share(ash: Ash, pattern: str = TEMP_EVENTS) -> WallClock:
    """The share of wall clock in events like ``pattern``, in which ``*`` stands for any text.

    Each instant of an execution counts once, however many parallel workers were active: an event
    gets the part of them that waited for it. InputError names the events where none is like it.
    """
    import duckdb

    names = [ON_CPU if name is None else name for name in ash.samples["event"].unique().to_pylist()]
    events = sorted(name for name in names if is_like(name, pattern))
    if not events:
        raise SelectionEmpty(
            f"no sample waits for '{pattern}'", f"the events are: {', '.join(sorted(names))}"
        )
    instances = ash.samples["instance"].unique() if "instance" in ash.samples.schema.names else []
    with duckdb.connect() as connection:
        connection.register("samples", ash.samples)
        connection.register("matching", pa.table({"name": events}))
        row = connection.execute(_SHARES, [len(instances) > 1, ash.interval_us]).fetchone()
    assert row is not None
    share, active_s, instants, sessions = row
    elapsed_s = ash.samples["time_ns"][-1].as_py() / 1e9 + ash.interval_us / 1e6
    return WallClock(events, share, active_s, elapsed_s, instants, sessions)

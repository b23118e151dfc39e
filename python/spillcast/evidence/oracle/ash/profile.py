"""Where active sessions spent their time, and how long their waits were without ASH's bias."""

import pyarrow as pa

from spillcast.evidence.oracle.ash.reader import MEMORY_INTERVAL_US, Ash

ON_CPU = "(on CPU)"

# n_est as profile_ash tells. Rows with TIME_WAITED = 0 are of waits not over yet, or of CPU: they
# count for time and not for n. The errors are those of independent samples (a ratio of two sums).
_PROFILE = f"""
with sampled as (
    select
        sql_id,
        coalesce(event, '{ON_CPU}') as event,
        time_waited_us as waited_us,
        weight_us,
        if(
            event is not null and time_waited_us > 0,
            weight_us * greatest(
                1 / least(weight_us, {MEMORY_INTERVAL_US}), 1 / time_waited_us
            ),
            0
        ) as stands_for
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


def profile_ash(ash: Ash) -> pa.Table:
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
        return connection.sql(_PROFILE).to_arrow_table()

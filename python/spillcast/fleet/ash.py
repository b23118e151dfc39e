"""An ASH export -> facts: wall clock by statement, day and event, as a forecast counts it.

The sums are those of wall_clock.py and profile.py in evidence/oracle/ash/, for all statements and
days of an export at once.
"""

from collections.abc import Iterator
from datetime import UTC
from pathlib import Path
from typing import Any

import duckdb

from spillcast.errors import EvidenceIncomplete, EvidenceMixed
from spillcast.evidence.oracle.ash import ON_CPU, Ash
from spillcast.evidence.oracle.ash.reader import MEMORY_INTERVAL_US
from spillcast.evidence.oracle.spooled import read_spooled
from spillcast.fleet.identity import Identity
from spillcast.fleet.schema import ACTIVE, UNKNOWN, WAIT
from spillcast.gate import any_table_of

#: Kinds by where the rows come from: DBA_HIST repeats one in ten of those in memory.
KINDS = {"V$": "ash", "DBA_HIST": "ash history"}
#: Columns that may name the database, the best first.
_NAMES = ("database", "db_name", "dbname", "instance_name", "dbid", "con_dbid")

_ACTIVE = f"""
create temp table active as
select
    strftime(make_timestamp(({{began_us}} + time_ns // 1000)::bigint), '%Y-%m-%d') as day,
    coalesce(sql_id::varchar, '') as sql_id,
    coalesce(sql_exec_id, -1) as sql_exec_id,
    coalesce(coordinator, session) as coordinator,
    if({{several}}, time_ns // (1000 * {{interval_us}}), time_ns) as instant,
    weight_us,
    coalesce(event::varchar, '{ON_CPU}') as event,
    if(
        event is not null and time_waited_us > 0,
        weight_us * greatest(1 / least(weight_us, {MEMORY_INTERVAL_US}), 1 / time_waited_us),
        0
    ) as stands_for
from samples
"""
_FACTS = f"""
with instants as (
    select day, sql_id, sql_exec_id, coordinator, instant,
        avg(weight_us) as weight_us, count(*) as sessions
    from active group by all
),
hits as (
    select day, sql_id, sql_exec_id, coordinator, instant, event,
        count(*) as sessions, sum(weight_us) as sampled_us, sum(stands_for) as waits
    from active group by all
)
select
    day, sql_id, '{WAIT}' as measure, event,
    sum(hits.sessions)::bigint as count,
    round(sum(instants.weight_us * hits.sessions / instants.sessions))::bigint as total_us,
    sum(sampled_us)::bigint as sampled_us,
    round(sum(waits) * 1e6)::bigint as waits_e6
from hits join instants using (day, sql_id, sql_exec_id, coordinator, instant)
group by all
union all
select day, sql_id, '{ACTIVE}', '', count(*), round(sum(weight_us))::bigint, 0, 0
from instants group by all
order by day, sql_id, measure, event
"""


def database_of_export(path: Path) -> str:
    """The only database that a column names. InputError for none or several."""
    names: set[str] = set()
    for column in _columns(path):
        names = {str(value) for value in column if value not in (None, "")}
        if names:
            break
    if len(names) == 1:
        return names.pop()
    if names:
        raise EvidenceMixed(
            f"{path}: rows of {len(names)} databases", "export each database into its own file"
        )
    raise EvidenceIncomplete(f"{path}: names no database", "say which it is with: --database NAME")


def _columns(path: Path) -> Iterator[list[Any]]:
    """The columns that may name the database, as far as the export has them, the best first."""
    if path.suffix.lower() == ".parquet":
        table = any_table_of(path)
        by_name = {name.lower(): at for at, name in enumerate(table.column_names)}
        for name in _NAMES:
            if name in by_name:
                yield table.column(by_name[name]).unique().to_pylist()
        return
    spooled = read_spooled(path, {name: name for name in _NAMES})
    for name in _NAMES:
        if name in spooled.columns:
            yield list(set(spooled.columns[name]))


def facts_of_ash(ash: Ash, source: str, who: Identity) -> dict[str, list[dict[str, Any]]]:
    """Rows of FACTS by day."""
    known = "instance" in ash.samples.schema.names
    several = known and len(ash.samples["instance"].unique()) > 1
    began_us = round(ash.began.replace(tzinfo=UTC).timestamp() * 1e6)
    with duckdb.connect() as connection:
        connection.register("samples", ash.samples)
        connection.execute(
            _ACTIVE.format(began_us=began_us, several=several, interval_us=ash.interval_us)
        )
        records = connection.sql(_FACTS).to_arrow_table().to_pylist()
    by_day: dict[str, list[dict[str, Any]]] = {}
    for row in records:
        day = row.pop("day") or UNKNOWN
        more: dict[str, Any] = {
            "source": source,
            "kind": KINDS[ash.source],
            "host": who.host,
            "instance": who.instance,
            "op": None,
            "idle": False,
            "blocks": 0,
            "blocks_count": 0,
            "latency_ns": [],
            "latency_count": [],
        }
        by_day.setdefault(day, []).append(row | more)
    return by_day

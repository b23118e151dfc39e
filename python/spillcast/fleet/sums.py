"""Sums over the facts of a dataset, by DuckDB on one machine.

One machine is enough for a fleet. Two cores ingest 230 MB of traces per second and the time is
linear (docs/guides/fleet.md), so 16 cores read 5 TB in half an hour if the network delivers them.
Their facts take about 14 GB, which DuckDB reads from local files or, through fsspec, from an object
store. A cluster needed five times the CPU time for the same, byte for byte.

All sums are of integers, so they do not depend on the order of addition. Rows are sorted, so that
sums of floats which are made from them do not either.
"""

from collections.abc import Iterable, Iterator, Mapping
from typing import Any
from urllib.parse import unquote

import duckdb
import pyarrow.compute as pc

from spillcast.fleet.dataset import (
    ACTIVE,
    ANEW,
    CPU,
    FACTS,
    FACTS_FOLDER,
    RUNS,
    RUNS_FOLDER,
    WAIT,
    Dataset,
)
from spillcast.fleet.facts import ASH_KINDS, TRACE
from spillcast.fleet.place import Place
from spillcast.gate import batches_of, damaged, reading, table_of

Rows = list[dict[str, Any]]
#: The values in columns of facts.
_VALUES: dict[str, set[str | None]] = {
    "kind": {TRACE, *ASH_KINDS.values()},
    "measure": {ACTIVE, CPU, WAIT},
    "op": {"read", "write", None},
}
_TOTALS = """
select label, kind, sql_id, measure, event, max(op) as op, bool_and(idle) as idle,
    count(distinct source) as sources, sum(count)::bigint as count,
    sum(total_us)::bigint as total_us, sum(blocks)::bigint as blocks,
    sum(blocks_count)::bigint as blocks_count, sum(sampled_us)::bigint as sampled_us,
    sum(waits_e6)::bigint as waits_e6
from facts group by all order by all
"""
_OF_EVENTS = f"from facts where measure = '{WAIT}' and list_contains($events::varchar[], event)"
_DAYS = f"""
select label, sql_id, kind, day, sum(total_us)::bigint as total_us
{_OF_EVENTS} group by all order by all
"""
_LATENCIES = f"""
select label, sql_id, bucket_ns, sum(waits)::bigint as waits
from (
    select label, sql_id, unnest(latency_ns) as bucket_ns, unnest(latency_count) as waits
    {_OF_EVENTS}
)
group by all order by all
"""


class Sums:
    """Sums over the facts of a dataset, which must have some."""

    def __init__(
        self, dataset: Dataset, connection: duckdb.DuckDBPyConnection, clashes: Iterable[str]
    ) -> None:
        """``clashes`` are names that several databases have: their labels name the host, too."""
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
        with reading(self._address, ANEW):
            connection.execute(f"create view facts as select *, {label} as label from {facts}")

    def totals(self) -> Rows:
        """All sums, by database, kind of evidence, statement and event."""
        return self._rows(_TOTALS)

    def days(self, events: Iterable[str]) -> Rows:
        """The time of some events, by database, statement, kind of evidence and day."""
        return self._rows(_DAYS, events=list(events))

    def latencies(self, events: Iterable[str]) -> Rows:
        """The merged latency histogram of some events: a row per statement and bucket."""
        return self._rows(_LATENCIES, events=list(events))

    def _rows(self, sql: str, **parameters: Any) -> Rows:
        with reading(self._address, ANEW):
            records: Rows = (
                self._connection.sql(sql, params=parameters or None).to_arrow_table().to_pylist()
            )
        return records


def clashing(sources: Iterable[Mapping[str, Any]]) -> dict[str, set[str]]:
    """Names of several databases, with their hosts: one name of an instance on two hosts.

    Instances of a cluster have names of their own, so one of them on one host is no clash.
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


def read_runs(dataset: Dataset) -> Iterator[dict[str, Any]]:
    """The recordings and plans of a dataset, one after another, with database and day."""
    for part in dataset.parts(RUNS_FOLDER):
        path = f"{dataset.place.address}/{part}"
        with reading(path, ANEW):
            content = dataset.place.read(part)
        folders = (folder.partition("=") for folder in part.split("/") if "=" in folder)
        partition = {name: unquote(value) for name, _, value in folders}
        for row in batches_of(path, RUNS, ANEW, content=content, rows=1):
            yield {**row.to_pylist()[0], **partition}


def _check_facts(place: Place, part: str) -> None:
    """InputError if a part is damaged."""
    path = f"{place.address}/{part}"
    with reading(path, ANEW):
        rows = table_of(path, FACTS, ANEW, content=place.read(part))
        for name, values in _VALUES.items():
            if unknown := set(rows[name].unique().to_pylist()) - values:
                raise damaged(path, f"{name} is {unknown.pop()!r} in some row", ANEW)
        lengths = (pc.list_value_length(rows[name]) for name in ("latency_ns", "latency_count"))
        if not pc.all(pc.equal(*lengths), min_count=0).as_py():
            raise damaged(path, "a histogram has not as many counts as buckets", ANEW)
        if not pc.all(pc.greater(rows["count"], 0), min_count=0).as_py():
            raise damaged(path, "count is 0 in some row", ANEW)


def _list_sql(texts: Iterable[str]) -> str:
    """A list of texts in DuckDB's syntax."""
    quoted = ", ".join("'" + text.replace("'", "''") + "'" for text in texts)
    return f"[{quoted}]::varchar[]"

"""The queries of a fleet on its facts, in SQL that gives the same on DuckDB and Spark.

All sums are of integers, so both give the same digits in any order of addition. Rows are
unordered: the caller sorts them, because a cluster would read everything twice to do so.
"""

from collections.abc import Iterable, Mapping
from typing import Any

from spillcast.fleet.schema import WAIT

#: Each element of two lists side by side as a row: how the engines say it.
EXPLODED = {
    "local": "unnest(latency_ns) as bucket_ns, unnest(latency_count) as waits from facts {where}",
    "spark": (
        "pair.latency_ns as bucket_ns, pair.latency_count as waits from (select *, "
        "explode(arrays_zip(latency_ns, latency_count)) as pair from facts {where})"
    ),
}


def label_sql(clashes: Iterable[str]) -> str:
    """The name of a row's database: with the host where two databases share a name."""
    names = ", ".join(map(literal, sorted(clashes)))
    if not names:
        return "database"
    return f"case when database in ({names}) then concat(database, '@', host) else database end"


def totals_sql(label: str) -> str:
    """One row for each database, kind of evidence, statement and event, with all of its sums."""
    sums = ("count", "total_us", "blocks", "blocks_count", "sampled_us", "waits_e6")
    columns = ", ".join(f"cast(sum({name}) as bigint) as {name}" for name in sums)
    return (
        f"select {label} as label, kind, sql_id, measure, event, max(op) as op, "
        f"bool_and(idle) as idle, cast(count(distinct source) as bigint) as sources, {columns} "
        "from facts group by 1, 2, 3, 4, 5"
    )


def days_sql(label: str, events: Iterable[str]) -> str:
    """The time of some events by day."""
    return (
        f"select {label} as label, kind, sql_id, day, cast(sum(total_us) as bigint) as total_us "
        f"from facts {_waits_for(events)} group by 1, 2, 3, 4"
    )


def latencies_sql(label: str, events: Iterable[str], engine: str) -> str:
    """The merged latency histogram of some events: a row a bucket."""
    rows = EXPLODED[engine].format(where=_waits_for(events))
    return (
        "select label, sql_id, bucket_ns, cast(sum(waits) as bigint) as waits "
        f"from (select {label} as label, sql_id, {rows}) as buckets "
        "group by 1, 2, 3"
    )


def literal(text: str) -> str:
    """A text literal for both engines: Spark reads a backslash within quotes as an escape."""
    parts = [f"""'{part.replace("'", "''")}'""" for part in text.split("\\")]
    return parts[0] if len(parts) == 1 else f"concat({', chr(92), '.join(parts)})"


def clashing(sources: Iterable[Mapping[str, Any]]) -> dict[str, set[str]]:
    """Names that stand for several databases, with their hosts: one instance name on two hosts.

    Instances of a cluster have names of their own, so that one of them on one host is no clash.
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


def _waits_for(events: Iterable[str]) -> str:
    names = ", ".join(map(literal, sorted(events))) or "''"
    return f"where measure = '{WAIT}' and event in ({names})"


def quoted_list(texts: Iterable[str]) -> str:
    """A list of texts in DuckDB's syntax."""
    return f"[{', '.join(map(literal, texts))}]"

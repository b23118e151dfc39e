"""Queries on the facts of a dataset, in SQL."""

from collections.abc import Iterable, Iterator, Mapping
from contextlib import AbstractContextManager, contextmanager
from typing import Any, Protocol
from urllib.parse import unquote

import duckdb
import pyarrow as pa
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
from spillcast.fleet.forecasts import of_runs
from spillcast.fleet.place import Place
from spillcast.gate import batches_of, damaged, reading, table_of

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


Rows = list[dict[str, Any]]
#: The types in columns of facts.
_KNOWN: dict[str, set[str | None]] = {
    "kind": {TRACE, *ASH_KINDS.values()},
    "measure": {ACTIVE, CPU, WAIT},
    "op": {"read", "write", None},
}


class Engine(Protocol):
    """Queries the view ``facts`` of a dataset, and forecasts its recordings and plans."""

    #: Its name in ``EXPLODED``.
    dialect: str

    def rows(self, sql: str) -> Rows:
        """The rows of a query of ``query``, unordered."""

    def runs(self, to: str, confidence: float) -> Rows:
        """The forecasts of all recordings and plans (``forecasts.of_runs``), by source."""


class Local:
    """Queries with DuckDB, within the memory and threads of this machine."""

    dialect = "local"

    def __init__(self, dataset: Dataset, connection: duckdb.DuckDBPyConnection) -> None:
        self._dataset, self._connection = dataset, connection
        where = dataset.place
        if where.filesystem is not None:
            connection.register_filesystem(where.filesystem)
        names = dataset.parts(FACTS_FOLDER)
        for name in names:
            read_facts(where, name)
        parts = [where.url(name) for name in names]
        if parts:
            source = (
                f"read_parquet({quoted_list(parts)}, hive_partitioning = true, "
                "hive_types_autocast = false)"
            )
            with reading(where.address, ANEW):
                connection.execute(f"create view facts as from {source}")
        else:
            connection.register("no_facts", FACTS.empty_table())
            connection.execute(
                "create view facts as select *, '' as database, '' as day from no_facts"
            )

    def rows(self, sql: str) -> Rows:
        """The rows of a query."""
        with reading(self._dataset.place.address, ANEW):
            records: Rows = self._connection.sql(sql).to_arrow_table().to_pylist()
        return records

    def runs(self, to: str, confidence: float) -> Rows:
        """Forecast one recording at a time, so that only one is in memory."""
        return sorted(of_runs(self._evidence(), to, confidence), key=lambda row: row["source"])

    def _evidence(self) -> Iterator[dict[str, Any]]:
        for part in self._dataset.parts(RUNS_FOLDER):
            yield from read_runs(self._dataset.place, part)


def read_facts(where: Place, part: str) -> pa.Table:
    """The rows of a part, without the columns of its path. InputError if it is damaged."""
    path = f"{where.address}/{part}"
    with reading(path, ANEW):
        rows = table_of(path, FACTS, ANEW, content=where.read(part))
        for name, known in _KNOWN.items():
            if unknown := set(rows[name].unique().to_pylist()) - known:
                raise damaged(path, f"{name} is {unknown.pop()!r} in some row", ANEW)
        lengths = (pc.list_value_length(rows[name]) for name in ("latency_ns", "latency_count"))
        if not pc.all(pc.equal(*lengths), min_count=0).as_py():
            raise damaged(path, "a histogram has not as many counts as buckets", ANEW)
        if not pc.all(pc.greater(rows["count"], 0), min_count=0).as_py():
            raise damaged(path, "count is 0 in some row", ANEW)
    return rows.replace_schema_metadata(None)


def read_runs(where: Place, part: str) -> Iterator[dict[str, Any]]:
    """The recordings and plans of a part, one after another, with database and day."""
    path = f"{where.address}/{part}"
    with reading(path, ANEW):
        content = where.read(part)
    for row in batches_of(path, RUNS, ANEW, content=content, rows=1):
        yield {**row.to_pylist()[0], **partition_of(part)}


def partition_of(part: str) -> dict[str, str]:
    """The columns that are in the path of a part."""
    pairs = (folder.partition("=") for folder in part.split("/") if "=" in folder)
    return {name: unquote(value) for name, _, value in pairs}


def local(dataset: Dataset) -> AbstractContextManager[Engine]:
    """The engine of this machine."""

    @contextmanager
    def opened() -> Iterator[Engine]:
        with duckdb.connect() as connection:
            yield Local(dataset, connection)

    return opened()

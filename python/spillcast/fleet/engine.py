"""The engine of a fleet's queries: DuckDB on this machine, or a cluster."""

from collections.abc import Iterator
from contextlib import AbstractContextManager, contextmanager
from typing import Any, Protocol
from urllib.parse import unquote

import duckdb
import pyarrow as pa
import pyarrow.compute as pc

from spillcast.fleet.ash import KINDS as ASH_KINDS
from spillcast.fleet.dataset import ANEW, FACTS_FOLDER, RUNS_FOLDER, Dataset
from spillcast.fleet.forecasts import of_runs
from spillcast.fleet.place import Place
from spillcast.fleet.query import quoted_list
from spillcast.fleet.schema import ACTIVE, CPU, FACTS, RUNS, WAIT
from spillcast.fleet.traces import KIND as TRACE
from spillcast.gate import batches_of, damaged, reading, table_of

Rows = list[dict[str, Any]]
#: The types in columns of facts.
_KNOWN: dict[str, set[str | None]] = {
    "kind": {TRACE, *ASH_KINDS.values()},
    "measure": {ACTIVE, CPU, WAIT},
    "op": {"read", "write", None},
}


class Engine(Protocol):
    """Queries the view ``facts`` of a dataset, and forecasts its recordings and plans."""

    #: Its name in ``query.EXPLODED``.
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

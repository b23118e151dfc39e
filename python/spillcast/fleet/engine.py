"""Who answers the questions of a fleet: DuckDB on this machine, or a cluster."""

import io
from collections.abc import Iterator
from contextlib import AbstractContextManager, contextmanager
from typing import Any, Protocol
from urllib.parse import unquote

import duckdb
import pyarrow as pa
import pyarrow.parquet as pq

from spillcast.fleet.dataset import FACTS_FOLDER, RUNS_FOLDER, Dataset
from spillcast.fleet.forecasts import of_runs
from spillcast.fleet.place import Place
from spillcast.fleet.query import quoted_list
from spillcast.fleet.schema import FACTS

Rows = list[dict[str, Any]]


class Engine(Protocol):
    """The view ``facts`` of a dataset, and its recordings and plans."""

    #: Its name in ``query.EXPLODED``.
    dialect: str

    def rows(self, sql: str) -> Rows:
        """What a query of ``query`` gives, in no order."""

    def runs(self, to: str, confidence: float) -> Rows:
        """The forecasts of all recordings and plans (``forecasts.of_runs``), by source."""


class Local:
    """DuckDB, with memory and threads of this machine."""

    dialect = "local"

    def __init__(self, dataset: Dataset, connection: duckdb.DuckDBPyConnection) -> None:
        self._dataset, self._connection = dataset, connection
        where = dataset.place
        if where.filesystem is not None:
            connection.register_filesystem(where.filesystem)
        parts = [where.url(part) for part in dataset.parts(FACTS_FOLDER)]
        if parts:
            source = (
                f"read_parquet({quoted_list(parts)}, hive_partitioning = true, "
                "hive_types_autocast = false)"
            )
            connection.execute(f"create view facts as from {source}")
        else:
            connection.register("no_facts", FACTS.empty_table())
            connection.execute(
                "create view facts as select *, '' as database, '' as day from no_facts"
            )

    def rows(self, sql: str) -> Rows:
        """What a query gives."""
        found: Rows = self._connection.sql(sql).to_arrow_table().to_pylist()
        return found

    def runs(self, to: str, confidence: float) -> Rows:
        """One recording at a time, so that one is in memory."""
        return sorted(of_runs(self._evidence(), to, confidence), key=lambda row: row["source"])

    def _evidence(self) -> Iterator[dict[str, Any]]:
        for part in self._dataset.parts(RUNS_FOLDER):
            yield from read_runs(self._dataset.place, part)


def read_facts(where: Place, part: str) -> pa.Table:
    """The rows of a part, without the columns of its path."""
    return pq.ParquetFile(io.BytesIO(where.read(part))).read()


def read_runs(where: Place, part: str) -> Iterator[dict[str, Any]]:
    """The recordings and plans of a part, one after another, with database and day."""
    file = pq.ParquetFile(io.BytesIO(where.read(part)))
    for batch in file.iter_batches(batch_size=1):
        yield {**batch.to_pylist()[0], **partition_of(part)}


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

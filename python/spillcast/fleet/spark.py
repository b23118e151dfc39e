"""A fleet on Apache Spark: workers read the files, and Spark SQL adds up.

A worker takes a whole batch of sources and writes its parts; the driver then makes the batch
visible. Batches, parts and the results of queries are the same as on one machine.
"""

import json
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

import pyarrow as pa

from spillcast.fleet.dataset import FACTS, FACTS_FOLDER, RUNS_FOLDER, Dataset
from spillcast.fleet.engine import Engine, Rows, partition_of, read_facts, read_runs
from spillcast.fleet.facts import take
from spillcast.fleet.forecasts import of_runs
from spillcast.fleet.ingest import Ingested, Progress, batches, write_batch
from spillcast.fleet.place import Source, content_hash, find_sources, place
from spillcast.fleet.session import session

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

Batches = Iterator[pa.RecordBatch]
#: Batches that each core of the cluster gets before the driver makes them visible.
_WAVE = 4
_PARTITION = [pa.field("database", pa.string()), pa.field("day", pa.string())]
_FACTS_COLUMNS = pa.schema([*FACTS, *_PARTITION])
_TEXT = pa.schema([pa.field("text", pa.string())])


def ingest(
    arguments: Sequence[str],
    address: str,
    *,
    master: str | None,
    database: str | None = None,
    on_progress: Progress | None = None,
) -> Ingested:
    """Run ``spillcast.fleet.ingest.ingest`` on a cluster whose workers see the same addresses.

    A first pass compares contents. SpillcastError if no worker answers.
    """
    sources = find_sources(arguments)
    dataset = Dataset.create(address)
    done = Ingested(dataset.place.address)
    with dataset.place.alone(), session(master) as spark:
        dataset.begin()
        known = dataset.known()
        wave = _WAVE * spark.sparkContext.defaultParallelism
        contents = dict(_texts(spark, _hashes, [[s.name, s.bytes] for s in sources]))
        planned: list[tuple[str, str | None, list[tuple[str, int]]]] = []
        for batch in batches(sources):
            new = []
            for source in batch:
                content, digest = contents[source.name]
                if content is None:
                    done.unread.append({"file": source.name, "what": digest})
                elif content in known:
                    done.seen_before += 1
                else:
                    known.add(content)
                    new.append((source.name, source.bytes))
            if new:
                planned.append((address, database, new))
        passed_files = passed_bytes = 0
        for start in range(0, len(planned), wave):
            chosen = planned[start : start + wave]
            for name, rows, unread in _texts(spark, _batches, chosen):
                if rows:
                    dataset.commit(name, rows)
                for row in rows:
                    done.add(row)
                done.unread += unread
            passed_files += sum(len(files) for _, _, files in chosen)
            passed_bytes += sum(size for _, _, files in chosen for _, size in files)
            if on_progress is not None:
                on_progress(passed_files, len(sources), passed_bytes)
    return done


@contextmanager
def engine(address: str, master: str | None) -> Iterator[Engine]:
    """The cluster as the engine of a fleet."""
    dataset = Dataset.open(address)
    with session(master) as spark:
        yield Cluster(spark, dataset, address)


class Cluster:
    """Runs Spark SQL on the parts of a dataset, which the workers read."""

    dialect = "spark"

    def __init__(self, spark: "SparkSession", dataset: Dataset, address: str) -> None:
        self._spark, self._dataset, self._address = spark, dataset, address
        parts = dataset.parts(FACTS_FOLDER)
        if parts:
            parts_frame = _spread(spark, [[address, part] for part in parts])
            facts = parts_frame.mapInArrow(_facts, _spark_schema(_FACTS_COLUMNS))
            # Each part is read once for all questions.
            facts.persist().createOrReplaceTempView("facts")

    def rows(self, sql: str) -> Rows:
        """The rows of a query."""
        records: Rows = self._spark.sql(sql).toArrow().to_pylist()
        return records

    def runs(self, to: str, confidence: float) -> Rows:
        """A worker reads and forecasts a part, one recording at a time."""
        parts = self._dataset.parts(RUNS_FOLDER)
        requests = [[self._address, part, to, confidence] for part in parts]
        answers = _texts(self._spark, _runs, requests)
        return sorted(answers, key=lambda row: str(row["source"]))


def _texts(spark: "SparkSession", work: Any, requests: Sequence[Any]) -> list[Any]:
    """The results of ``work`` for each item, in any order; both travel as JSON."""
    answers = _spread(spark, requests).mapInArrow(work, _spark_schema(_TEXT)).toArrow()
    return [json.loads(text) for text in answers["text"].to_pylist()]


def _spread(spark: "SparkSession", requests: Sequence[Any]) -> Any:
    """A row for each item, spread over all cores."""
    lines = pa.table({"text": [json.dumps(request) for request in requests]}, schema=_TEXT)
    slices = max(1, min(len(lines), _WAVE * spark.sparkContext.defaultParallelism))
    return spark.createDataFrame(lines).repartition(slices)


def _requests(batches_of_text: Batches) -> Iterator[Any]:
    for batch in batches_of_text:
        for text in batch.column(0).to_pylist():
            yield json.loads(text)


def _answer(answer: Any) -> pa.RecordBatch:
    return pa.record_batch([[json.dumps(answer)]], schema=_TEXT)


def _hashes(batches: Batches) -> Batches:
    """Name and content of sources, or the reason why one is unreadable."""
    for name, size in _requests(batches):
        try:
            with Source(name, size).local() as path:
                yield _answer([name, [content_hash(path), None]])
        except OSError as error:
            yield _answer([name, [None, error.strerror or str(error)]])


def _batches(batches: Batches) -> Batches:
    """The name of a batch, its rows of the log, and the unreadable sources."""
    for address, database, files in _requests(batches):
        taken, unread = [], []
        for name, size in files:
            try:
                taken.append(take(Source(name, size), frozenset(), {size}, database))
            except OSError as error:
                unread.append({"file": name, "what": error.strerror or str(error)})
        name, rows = write_batch(place(address), taken) if taken else ("", [])
        yield _answer([name, rows, unread])


def _facts(batches: Batches) -> Batches:
    """The rows of parts, with the columns that are in their paths."""
    for address, part in _requests(batches):
        table = read_facts(place(address), part)
        for name, value in partition_of(part).items():
            table = table.append_column(name, pa.array([value] * len(table), pa.string()))
        yield from table.select(_FACTS_COLUMNS.names).to_batches()


def _runs(batches: Batches) -> Batches:
    """Forecasts of the recordings and plans of parts."""
    for address, part, to, confidence in _requests(batches):
        for row in of_runs(read_runs(place(address), part), to, confidence):
            yield _answer(row)


def _spark_schema(schema: pa.Schema) -> Any:
    from pyspark.sql.pandas.types import from_arrow_schema

    return from_arrow_schema(schema)

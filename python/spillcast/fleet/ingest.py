"""Sources in batches, and a batch -> its parts and its rows of the log.

The arguments alone decide which sources form a batch, not the content of the dataset. So an ingest
that was killed and started again writes exactly the same parts.
"""

import hashlib
import os
from collections import deque
from collections.abc import Callable, Generator, Iterable, Iterator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import closing
from dataclasses import dataclass, field
from typing import Any
from urllib.parse import quote

from spillcast.fleet.dataset import FACTS, RUNS, RUNS_FOLDER, Dataset, parquet_bytes
from spillcast.fleet.facts import Shelf, Taken, cancel_reading, order_of, take
from spillcast.fleet.place import Place, Source, find_sources
from spillcast.tables import Table

#: Bounds the work that a kill loses; a few daily files stay below it.
BATCH_BYTES = 256 << 20
BATCH_FILES = 512


def batches(sources: Sequence[Source]) -> Iterator[list[Source]]:
    """The sources by database and day, in batches of bounded size."""
    batch: list[Source] = []
    size = 0
    for source in sorted(sources, key=order_of):
        if batch and (size + source.bytes > BATCH_BYTES or len(batch) == BATCH_FILES):
            yield batch
            batch, size = [], 0
        batch.append(source)
        size += source.bytes
    if batch:
        yield batch


def write_batch(where: Place, taken: Sequence[Taken]) -> tuple[str, list[dict[str, Any]]]:
    """Write the parts of a batch; its name, and its rows of the log, which are not written yet."""
    new = [source for source in taken if source.row is not None]
    name = hashlib.blake2b(
        "".join(source.source for source in new).encode(), digest_size=16
    ).hexdigest()
    shelves: dict[Shelf, list[dict[str, Any]]] = {}
    for source in new:
        for shelf, rows in source.shelves.items():
            shelves.setdefault(shelf, []).extend(rows)
    for shelf, rows in sorted(shelves.items()):
        is_runs = shelf[0] == RUNS_FOLDER
        table = Table.from_rows(rows, RUNS if is_runs else FACTS)
        # Each recording is a row group, so that readers take one at a time.
        where.write(_part(shelf, name), parquet_bytes(table, 1 if is_runs else None))
    log = [
        {**source.row, "parts": [_part(shelf, name) for shelf in sorted(source.shelves)]}
        for source in new
        if source.row is not None
    ]
    return name, log


def _part(shelf: Shelf, batch: str) -> str:
    folder, database, day = shelf
    return f"{folder}/database={quote(database, safe='')}/day={quote(day, safe='')}/{batch}.parquet"


#: Files read ahead for each processor, while a batch is written.
_AHEAD = 16
INGEST_SCHEMA = "spillcast.ingest/1"
#: Files done, files in all, bytes done.
Progress = Callable[[int, int, int], None]
#: The result for a source when its batch is done: its row of the log, None if it was a duplicate.
Row = dict[str, Any] | None


@dataclass
class Ingested:
    """The outcome of one ingest."""

    dataset: str
    files: int = 0
    bytes: int = 0
    #: Files whose content was in the dataset already.
    seen_before: int = 0
    damaged_lines: int = 0
    #: ``file`` and ``what`` of each file that holds no usable evidence.
    set_aside: list[dict[str, str]] = field(default_factory=list)
    #: The same for unreadable files; the next ingest tries them again.
    unread: list[dict[str, str]] = field(default_factory=list)
    #: ``file``, ``line`` and ``what`` of the first damaged lines of each file.
    damaged: list[dict[str, Any]] = field(default_factory=list)

    def add(self, row: dict[str, Any]) -> None:
        """Count a source that is now in the log."""
        if row["set_aside"] is not None:
            self.set_aside.append({"file": row["name"], "what": row["set_aside"]})
            return
        self.files += 1
        self.bytes += row["bytes"]
        self.damaged_lines += row["damaged"]
        self.damaged += [{"file": row["name"], **damage} for damage in row["damage"]]

    def to_json(self) -> dict[str, Any]:
        """The document of docs/schema.md."""
        return {"schema": INGEST_SCHEMA, **vars(self)}


def ingest(
    arguments: Sequence[str],
    address: str,
    *,
    database: str | None = None,
    on_progress: Progress | None = None,
) -> Ingested:
    """Take all evidence that ``arguments`` name into the dataset at ``address``.

    ``database`` names the database of all of it, where the evidence does not. What was taken
    before, under whatever name, is skipped. Started again after it was killed, it goes on.
    InputError for sources or a dataset that cannot be used, SpillcastError where the dataset cannot
    be written to.
    """
    sources = find_sources(arguments)
    dataset = Dataset.create(address)
    done = Ingested(dataset.place.address)
    known: set[str] = set()
    sizes: set[int] = set()
    planned = list(batches(sources))
    with dataset.place.alone(), closing(_taken(planned, known, sizes, database)) as results:
        dataset.begin()
        known |= dataset.known()
        sizes |= dataset.sizes()
        passed_files = passed_bytes = 0
        for batch in planned:
            taken = []
            for source, outcome in zip(batch, results, strict=False):
                passed_files, passed_bytes = passed_files + 1, passed_bytes + source.bytes
                if on_progress is not None:
                    on_progress(passed_files, len(sources), passed_bytes)
                if isinstance(outcome, OSError):
                    reason = outcome.strerror or str(outcome)
                    done.unread.append({"file": source.name, "what": reason})
                elif outcome.source in known or outcome.row is None:
                    done.seen_before += 1
                else:
                    known.add(outcome.source)
                    taken.append(outcome)
            if taken:
                name, rows = write_batch(dataset.place, taken)
                dataset.commit(name, rows)
                for row in rows:
                    done.add(row)
    return done


def _taken(
    planned: Iterable[Sequence[Source]], known: set[str], sizes: set[int], database: str | None
) -> Generator[Taken | OSError]:
    """The content of each source, in order; a few are read ahead."""

    def take_source(source: Source) -> Taken | OSError:
        try:
            return take(source, known, sizes, database)
        except OSError as error:
            return error

    workers = os.cpu_count() or 1
    waiting: deque[Future[Taken | OSError]] = deque()
    with ThreadPoolExecutor(workers) as pool:
        try:
            for batch in planned:
                for source in batch:
                    waiting.append(pool.submit(take_source, source))
                    if len(waiting) > _AHEAD * workers:
                        yield waiting.popleft().result()
            while waiting:
                yield waiting.popleft().result()
        finally:
            pool.shutdown(wait=False, cancel_futures=True)
            cancel_reading()

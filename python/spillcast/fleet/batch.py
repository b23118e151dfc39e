"""Sources in batches, and a batch -> its parts and its rows of the log.

The arguments alone decide which sources form a batch, not the content of the dataset. So an ingest
that was killed and started again writes exactly the same parts.
"""

import hashlib
from collections.abc import Iterator, Sequence
from typing import Any
from urllib.parse import quote

import pyarrow as pa

from spillcast.fleet.dataset import RUNS_FOLDER, parquet_bytes
from spillcast.fleet.place import Place
from spillcast.fleet.schema import FACTS, RUNS
from spillcast.fleet.sources import Source
from spillcast.fleet.take import Shelf, Taken, order_of

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
        table = pa.Table.from_pylist(rows, schema=RUNS if is_runs else FACTS)
        where.write(_part(shelf, name), parquet_bytes(table, **_row_groups(is_runs)))
    log = [
        {**source.row, "parts": [_part(shelf, name) for shelf in sorted(source.shelves)]}
        for source in new
        if source.row is not None
    ]
    return name, log


def _part(shelf: Shelf, batch: str) -> str:
    folder, database, day = shelf
    return f"{folder}/database={quote(database, safe='')}/day={quote(day, safe='')}/{batch}.parquet"


def _row_groups(is_runs: bool) -> dict[str, Any]:
    """Write each recording as its own row group, so that readers take one at a time."""
    return {"row_group_size": 1} if is_runs else {}

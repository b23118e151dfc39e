"""The tables of a dataset. Counts and times are integers, times in microseconds.

Integers add up to the same in any order. Floats begin in the forecast, which is made from sorted
sums.
"""

import io
import json
import re
from collections.abc import Sequence
from functools import cached_property
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

from spillcast.errors import PathMissing, SchemaUnsupported
from spillcast.fleet.place import Place, place
from spillcast.gate import bounded, damaged, object_of, reading, table_of

DATASET_SCHEMA = "spillcast.dataset/1"

_BUCKETS = pa.list_(pa.int64())

#: The day or database of evidence that does not contain it.
UNKNOWN = "unknown"
#: Kinds of facts: a wait event, CPU time, or the time in which ASH saw the statement.
WAIT, CPU, ACTIVE = "wait", "cpu", "active"

#: Which run a row is of.
_OF_RUN = [
    pa.field(name, pa.string(), False) for name in ("source", "kind", "host", "instance", "sql_id")
]

#: A row for each source, statement and event. ``database`` and ``day`` are in the path.
FACTS = pa.schema(
    [
        *_OF_RUN,
        pa.field("measure", pa.string(), False),
        pa.field("event", pa.string(), False),
        pa.field("op", pa.string()),
        pa.field("idle", pa.bool_(), False),
        pa.field("count", pa.int64(), False),
        pa.field("total_us", pa.int64(), False),
        #: Blocks moved by the waits that contain a count, and the number of these waits.
        pa.field("blocks", pa.int64(), False),
        pa.field("blocks_count", pa.int64(), False),
        #: ASH: time that rows represent, and millionths of the waits that they represent.
        pa.field("sampled_us", pa.int64(), False),
        pa.field("waits_e6", pa.int64(), False),
        pa.field("latency_ns", _BUCKETS, False),
        pa.field("latency_count", _BUCKETS, False),
    ]
)

#: A row for each recording or plan, with the evidence itself. ``database``, ``day``: in the path.
RUNS = pa.schema(
    [
        *_OF_RUN,
        pa.field("name", pa.string(), False),
        pa.field("evidence", pa.large_binary(), False),
    ]
)

#: A row for each source, ingested or rejected.
SOURCES = pa.schema(
    [
        pa.field("source", pa.string(), False),
        pa.field("name", pa.string(), False),
        pa.field("bytes", pa.int64(), False),
        pa.field("kind", pa.string()),
        pa.field("database", pa.string()),
        pa.field("host", pa.string()),
        pa.field("instance", pa.string()),
        #: Why it was rejected; null if it is in the dataset.
        pa.field("set_aside", pa.string()),
        pa.field("damaged", pa.int64(), False),
        #: The first damaged lines.
        pa.field(
            "damage", pa.list_(pa.struct([("line", pa.int64()), ("what", pa.string())])), False
        ),
        #: Files of the dataset that its rows are in.
        pa.field("parts", pa.list_(pa.string()), False),
    ]
)


_HEAD = "dataset.json"
_LOG = "log"
#: Folders of parts: facts of traces and ASH, and recordings and plans as they are.
FACTS_FOLDER, RUNS_FOLDER = "facts", "runs"
#: As ``batch`` names them.
_PART = re.compile(r"(facts|runs)/database=(?!\.+/)[^/]*/day=(?!\.+/)[^/]*/[0-9a-f]{32}\.parquet")
ANEW = "ingest into a new dataset"


class Dataset:
    """Ingested evidence at a place."""

    def __init__(self, where: Place) -> None:
        self.place = where

    @classmethod
    def open(cls, address: str) -> "Dataset":
        """The dataset at an address. InputError if it is missing or has another version."""
        where = place(address)
        _check_version(where, missing_is_fine=False)
        return cls(where)

    @classmethod
    def create(cls, address: str) -> "Dataset":
        """The dataset at an address, or a new one. InputError as for ``open``."""
        where = place(address)
        _check_version(where, missing_is_fine=True)
        return cls(where)

    def begin(self) -> None:
        """Write the version if it is missing; remove parts that a killed ingest left."""
        content = json.dumps({"schema": DATASET_SCHEMA}) + "\n"
        try:
            self.place.read(_HEAD)
        except FileNotFoundError:
            self.place.write(_HEAD, content.encode())
        parts = {*self.parts(FACTS_FOLDER), *self.parts(RUNS_FOLDER)}
        for folder in (FACTS_FOLDER, RUNS_FOLDER):
            for name in self.place.names(folder):
                if name not in parts:
                    self.place.remove(name)

    @cached_property
    def sources(self) -> pa.Table:
        """All sources, ingested or rejected, with the columns of SOURCES."""
        files = [name for name in self.place.names(_LOG) if name.endswith(".parquet")]
        tables = [_log(self.place, name) for name in files]
        return pa.concat_tables([SOURCES.empty_table(), *tables])

    def known(self) -> set[str]:
        """The content hashes of all sources."""
        return set(self.sources["source"].to_pylist())

    def sizes(self) -> set[int]:
        """The sizes of all sources (bytes)."""
        return set(self.sources["bytes"].to_pylist())

    def parts(self, folder: str) -> list[str]:
        """The parts that count, sorted."""
        named = {part for parts in self.sources["parts"].to_pylist() for part in parts}
        return sorted(part for part in named if part.startswith(f"{folder}/"))

    def commit(self, batch: str, rows: Sequence[dict[str, Any]]) -> None:
        """Make a batch visible: all its sources, with their parts, or none of them."""
        table = pa.Table.from_pylist(list(rows), schema=SOURCES)
        self.place.write(f"{_LOG}/{batch}.parquet", parquet_bytes(table))


def _log(where: Place, name: str) -> pa.Table:
    """A file of the log. InputError if it is damaged, or names a file that is not a part."""
    path = f"{where.address}/{name}"
    with reading(path, ANEW):
        rows = table_of(path, SOURCES, ANEW, content=where.read(name))
        for part in (part for parts in rows["parts"].to_pylist() for part in parts):
            if not _PART.fullmatch(part):
                raise damaged(path, f"{part!r} is not part of a dataset", ANEW)
    return rows.replace_schema_metadata(None)


def parquet_bytes(table: pa.Table, **options: Any) -> bytes:
    """A table as a Parquet file, the same bytes for the same rows."""
    buffer = io.BytesIO()
    pq.write_table(table, buffer, compression="zstd", **options)
    return buffer.getvalue()


def _check_version(where: Place, *, missing_is_fine: bool) -> None:
    """InputError if the place holds something else."""
    path = f"{where.address}/{_HEAD}"
    try:
        head = object_of(bounded(where.read(_HEAD), path).decode(errors="replace"), path, ANEW)
    except (FileNotFoundError, NotADirectoryError):
        if missing_is_fine and not [n for n in where.names("") if n != ".lock"]:
            return
        raise PathMissing(
            f"{where.address}: there is no dataset",
            "make one with: spillcast ingest SOURCE... -o DATASET",
        ) from None
    version = head.get("schema")
    if version != DATASET_SCHEMA:
        raise SchemaUnsupported(
            f"{where.address}: schema is {version!r}, this spillcast reads {DATASET_SCHEMA!r}",
            "use the spillcast that made it, or ingest into a new dataset",
        )

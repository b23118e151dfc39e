"""A dataset: its tables, and the place where they are stored, a folder or an address of fsspec.

Counts and times (us) are integers, whose sums do not depend on the order of addition.
"""

import json
import os
import re
import time
from collections.abc import Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager, nullcontext, suppress
from functools import cached_property
from pathlib import Path
from typing import Any

from spillcast.columns import BYTES, TEXT, Field
from spillcast.errors import (
    InputError,
    LockTaken,
    PathMissing,
    PathUnusable,
    SchemaUnsupported,
    SpillcastError,
    WriteFailed,
)
from spillcast.evidence.spark import open_filesystem
from spillcast.gate import bounded, damaged, object_of, reading
from spillcast.tables import ParquetTable, Table, write_parquet
from spillcast.text import exact_name, is_utf8

DATASET_SCHEMA = "spillcast.dataset/2"

_BUCKETS = "list of int64"

_STALE_S = 3600.0
#: The day or database of evidence that does not name one.
UNKNOWN = "unknown"
#: Kinds of facts: a wait event, CPU time, or the time in which a statement was active in ASH.
WAIT, CPU, ACTIVE = "wait", "cpu", "active"

#: The columns that identify a run.
_OF_RUN = [Field(name, TEXT, False) for name in ("source", "kind", "host", "instance", "sql_id")]

#: The sums of an instant.
ASH_SUMS = ("count", "total_ns", "sampled_us", "waits_e6")
#: A row for each source, statement and event. ``database`` and ``day`` are in the path.
FACTS = [
    *_OF_RUN,
    Field("measure", TEXT, False),
    Field("event", TEXT, False),
    Field("op", TEXT),
    Field("idle", "bool", False),
    #: Whether it belongs to a server of a parallel query, for which other sessions wait.
    Field("server", "bool", False),
    Field("count", "int64", False),
    Field("total_us", "int64", False),
    #: Blocks moved by the waits that have a number of blocks, and the number of these waits.
    Field("blocks", "int64", False),
    Field("blocks_count", "int64", False),
    #: ASH: the time that rows represent, and millionths of the waits that they represent.
    Field("sampled_us", "int64", False),
    Field("waits_e6", "int64", False),
    #: ASH: each instant, in which an execution may have several sessions, with its part of the
    #: sums. Several exports may contain the same instant.
    Field("instant", "list of string", False),
    *(Field(f"instant_{name}", _BUCKETS, False) for name in ASH_SUMS),
    Field("latency_ns", _BUCKETS, False),
    Field("latency_count", _BUCKETS, False),
]

#: A row for each recording, plan or application, with the evidence itself. ``database`` and
#: ``day`` are in the path.
RUNS = [
    *_OF_RUN,
    Field("name", TEXT, False),
    Field("evidence", BYTES, False),
]

#: A row for each source, ingested or rejected.
SOURCES = [
    Field("source", TEXT, False),
    Field("name", TEXT, False),
    Field("bytes", "int64", False),
    Field("kind", TEXT),
    Field("database", TEXT),
    Field("host", TEXT),
    Field("instance", TEXT),
    #: Why it was rejected; null if it is in the dataset.
    Field("set_aside", TEXT),
    Field("damaged", "int64", False),
    #: The first damaged lines.
    Field("damage", "list of struct of line int64, what string", False),
    #: Whether it is a trace that ends before its statements; null in earlier datasets.
    Field("is_part", "bool"),
    #: Files of the dataset with rows of this source.
    Field("parts", "list of string", False),
]

_HEAD = "dataset.json"
_LOG = "log"
#: Folders of parts: facts of traces and ASH; recordings, plans and event logs.
FACTS_FOLDER, RUNS_FOLDER = "facts", "runs"
#: The folder of snapshots of PostgreSQL servers (snapshots.py), each complete in itself.
SNAPSHOTS_FOLDER = "looks"
#: Names of parts, as ``ingest.write_batch`` creates them.
_PART = re.compile(r"(facts|runs)/database=(?!\.+/)[^/]*/day=(?!\.+/)[^/]*/[0-9a-f]{32}\.parquet")
INGEST_AGAIN_HINT = "ingest into a new dataset"

#: Names of unfinished files, which a killed ingest may leave behind.
_PARTIAL = re.compile(r".+\.(json|parquet)\.\d+\.partial")


def place(address: str) -> "Store":
    """The store at an address: a path, file:///..., memory://..., s3://..."""
    path = local_path(address)
    if path is None:
        return RemoteStore(address)
    local = LocalStore(Path(path))
    if not is_utf8(str(local.root)):
        # DuckDB cannot open such files.
        raise PathUnusable("the path of a dataset must be UTF-8", "name another folder", address)
    return local


def local_path(address: str) -> str | None:
    """The path at an address; None for an object store."""
    scheme, separator, rest = address.partition("://")
    if not separator:
        return address
    return rest if scheme in ("file", "local") else None


class LocalStore:
    """A directory on this machine; files are written under another name and renamed."""

    #: DuckDB reads local files itself.
    filesystem = None

    def __init__(self, root: Path) -> None:
        self.root = root.absolute()
        self.address = str(root)

    def names(self, folder: str) -> list[str]:
        """Finished files in a folder and below, sorted; empty if the folder does not exist.

        OSError if it cannot be listed: files that the log does not name are removed.
        """

        def failed(error: OSError) -> None:
            # The root may contain unrelated folders, such as lost+found.
            if folder and not isinstance(error, FileNotFoundError):
                raise error

        walk = os.walk(self.root / folder, onerror=failed)
        paths = (Path(parent, name) for parent, _, names in walk for name in names)
        finished = (path for path in paths if not _PARTIAL.fullmatch(path.name))
        return sorted(str(path.relative_to(self.root)) for path in finished)

    def read(self, name: str) -> bytes:
        """The content of a file. FileNotFoundError if it does not exist."""
        return (self.root / name).read_bytes()

    def write(self, name: str, content: bytes) -> None:
        """Writes, flushes to the disk and renames. OutputUnwritable if there is no space."""
        path = self.root / name
        partial = path.with_name(f"{path.name}.{os.getpid()}.partial")
        try:
            path.parent.mkdir(parents=True, exist_ok=True)
            with partial.open("wb") as file:
                file.write(content)
                file.flush()
                os.fsync(file.fileno())
            partial.replace(path)
            _flush_folder(path.parent)
        except OSError as error:
            partial.unlink(missing_ok=True)
            raise _not_written(self.address, error) from error

    def remove(self, name: str) -> None:
        """Removes a file, and its folder if that becomes empty."""
        path = self.root / name
        path.unlink(missing_ok=True)
        if path.parent != self.root and not any(path.parent.iterdir()):
            path.parent.rmdir()

    def remove_stale(self, folder: str) -> None:
        """Removes unfinished files of writers of packed files that were killed over an hour ago."""
        for path in (self.root / folder).rglob("*.json.gz.*.partial"):
            with suppress(OSError):
                if path.stat().st_mtime < time.time() - _STALE_S:
                    path.unlink()

    def url(self, name: str) -> str:
        """The absolute path, with wildcards escaped."""
        return exact_name(self.root / name)

    @contextmanager
    def locked(self) -> Iterator[None]:
        """Holds a lock, which the kernel releases however this process ends."""
        import fcntl

        try:
            self.root.mkdir(parents=True, exist_ok=True)
            lock = (self.root / ".lock").open("w")
        except OSError as error:
            raise _not_written(self.address, error) from error
        with lock:
            try:
                fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except BlockingIOError as error:
                raise LockTaken(
                    "another ingest writes to it", "wait until it has ended", self.address
                ) from error
            except OSError as error:
                raise _not_written(self.address, error) from error
            for path in self.root.rglob("*.partial"):
                if _PARTIAL.fullmatch(path.name):
                    path.unlink(missing_ok=True)
            yield


class RemoteStore:
    """Stores objects through fsspec; an object becomes visible when it is complete."""

    def __init__(self, address: str) -> None:
        self.address = address
        #: DuckDB reads the objects through it.
        self.filesystem, self._root = open_filesystem(address)
        self._scheme = address.partition("://")[0]

    def names(self, folder: str) -> list[str]:
        """Objects in a folder and below. OSError if they cannot be listed."""
        self.filesystem.invalidate_cache()
        try:
            # find skips folders that cannot be listed; exists is false for any error.
            self.filesystem.ls(f"{self._root}/{folder}")
            names = self.filesystem.find(f"{self._root}/{folder}")
        except FileNotFoundError:
            return []
        return sorted(name[len(self._root) :].lstrip("/") for name in names)

    def read(self, name: str) -> bytes:
        """The content of an object."""
        return bytes(self.filesystem.cat_file(f"{self._root}/{name}"))

    def write(self, name: str, content: bytes) -> None:
        """Writes an object."""
        try:
            path = f"{self._root}/{name}"
            self.filesystem.makedirs(path.rpartition("/")[0], exist_ok=True)
            self.filesystem.pipe_file(path, content)
        except OSError as error:
            raise _not_written(self.address, error) from error

    def remove(self, name: str) -> None:
        """Removes an object."""
        self.filesystem.rm_file(f"{self._root}/{name}")

    def remove_stale(self, folder: str) -> None:
        """Does nothing: unfinished objects are never visible."""

    def url(self, name: str) -> str:
        """The complete address of the object."""
        return f"{self._scheme}://{self._root.lstrip('/')}/{name}"

    def locked(self) -> AbstractContextManager[None]:
        """Does nothing: other writers cannot be excluded."""
        return nullcontext()


#: Stores files by name, with / between folders. A file exists completely or not at all.
Store = LocalStore | RemoteStore


def _flush_folder(folder: Path) -> None:
    descriptor = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def _not_written(address: str, error: OSError) -> SpillcastError:
    return WriteFailed(
        f"cannot be written to: {error.strerror or error}",
        "the dataset is intact; run the same command again when that is fixed",
        address,
    )


class Dataset:
    """Ingested evidence: parts with rows, and a log of sources that names the valid parts."""

    def __init__(self, where: Store) -> None:
        self.place = where

    @classmethod
    def open(cls, address: str, *, create: bool = False) -> "Dataset":
        """The dataset at an address. InputError for another version, or if there is none.

        With ``create``, an empty place is accepted, too.
        """
        where = place(address)
        _check_version(where, allow_missing=create)
        return cls(where)

    def write_head(self) -> None:
        """Writes the version if it is missing."""
        try:
            self.place.read(_HEAD)
        except FileNotFoundError:
            self.place.write(_HEAD, (json.dumps({"schema": DATASET_SCHEMA}) + "\n").encode())

    def begin(self) -> None:
        """Writes the version if it is missing; removes parts that a killed ingest left behind."""
        self.write_head()
        for folder in (FACTS_FOLDER, RUNS_FOLDER):
            for name in {*self.place.names(folder)} - {*self.parts(folder)}:
                self.place.remove(name)

    @cached_property
    def sources(self) -> Table:
        """All sources, ingested or rejected, with the columns of SOURCES."""
        files = [name for name in self.place.names(_LOG) if name.endswith(".parquet")]
        tables = [_log(self.place, name) for name in files]
        return Table.concat([Table.empty(SOURCES), *tables])

    def parts(self, folder: str) -> list[str]:
        """The valid parts in a folder, sorted: those that the log names."""
        named = {part for parts in self.sources["parts"].to_pylist() for part in parts}
        return sorted(part for part in named if part.startswith(f"{folder}/"))

    def commit(self, batch: str, rows: Sequence[dict[str, Any]]) -> None:
        """Makes a batch visible, with all its sources and parts, by writing one file of the log."""
        table = Table.from_rows(list(rows), SOURCES)
        self.place.write(f"{_LOG}/{batch}.parquet", parquet_bytes(table))


def is_dataset(address: str) -> bool:
    """Whether there is a dataset at a path or at an address of an object store."""
    if (path := local_path(address)) is not None:
        return os.path.isfile(os.path.join(path, _HEAD))
    try:
        place(address).read(_HEAD)
    except (OSError, InputError):
        return False
    return True


def _log(where: Store, name: str) -> Table:
    """Reads a file of the log. InputError if it is damaged, or names a file that is not a part."""
    path = f"{where.address}/{name}"
    with reading(path, INGEST_AGAIN_HINT):
        rows = ParquetTable(path, SOURCES, INGEST_AGAIN_HINT, content=where.read(name)).read()
        for part in (part for parts in rows["parts"].to_pylist() for part in parts):
            if not _PART.fullmatch(part):
                raise damaged(f"{part!r} is not part of a dataset")
    return rows


def parquet_bytes(table: Table, group_rows: int | None = None) -> bytes:
    """A table as a Parquet file; the same rows give the same bytes."""
    with os.fdopen(os.memfd_create("spillcast"), "rb") as file:
        write_parquet(Path(f"/proc/self/fd/{file.fileno()}"), table, group_rows=group_rows)
        return file.read()


def _check_version(where: Store, *, allow_missing: bool) -> None:
    """InputError if the place holds something else."""
    path = f"{where.address}/{_HEAD}"
    try:
        content = where.read(_HEAD)
    except (FileNotFoundError, NotADirectoryError):
        if allow_missing and not [n for n in where.names("") if n != ".lock"]:
            return
        raise PathMissing(
            "there is no dataset",
            "make one with: spillcast ingest SOURCE... -o DATASET",
            where.address,
        ) from None
    with reading(path, INGEST_AGAIN_HINT):
        head = object_of(bounded(content).decode(errors="replace"))
    version = head.get("schema")
    if version != DATASET_SCHEMA:
        raise SchemaUnsupported(
            f"schema is {version!r}, this spillcast reads {DATASET_SCHEMA!r}",
            "use the spillcast that made it, or ingest into a new dataset",
            where.address,
        )

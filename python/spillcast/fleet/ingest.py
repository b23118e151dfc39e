"""Ingests evidence: finds sources, reads them in batches, writes parts of a dataset and its log.

Batches depend only on the arguments, not on the content of the dataset. Therefore, an ingest that
was killed and started again writes exactly the same parts.
"""

import glob
import hashlib
import os
from collections import deque
from collections.abc import Callable, Container, Generator, Iterable, Iterator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import AbstractContextManager, closing, contextmanager, nullcontext
from dataclasses import dataclass, field
from datetime import UTC, datetime
from fnmatch import fnmatch
from itertools import chain
from pathlib import Path
from typing import Any
from urllib.parse import quote

from spillcast import _core
from spillcast.errors import (
    EvidenceIncomplete,
    EvidenceMissing,
    EvidenceUnsuited,
    FileTooLarge,
    FileUnreadable,
    InputError,
    PathMissing,
    Refusal,
)
from spillcast.evidence.open import TRACES, find_evidence
from spillcast.evidence.oracle.ash import NO_SECONDS, WITH_SECONDS, read_ash
from spillcast.evidence.spark import open_filesystem, parts_of, read_application
from spillcast.fleet import Ingested
from spillcast.fleet.dataset import (
    FACTS,
    FACTS_FOLDER,
    RUNS,
    RUNS_FOLDER,
    UNKNOWN,
    Dataset,
    Store,
    local_path,
    parquet_bytes,
)
from spillcast.fleet.facts import (
    APPLICATION,
    ASH_KINDS,
    PLAN,
    RECORDING,
    TRACE,
    Identity,
    cancel_reading,
    check_facts,
    content_hash,
    database_of_export,
    facts_of_ash,
    facts_of_trace,
    identity_of_recording,
    identity_of_trace,
    pack,
    read_trace,
)
from spillcast.gate import check_kind, reading
from spillcast.recording import Recording
from spillcast.recording.meta import META_FILE
from spillcast.tables import Table
from spillcast.text import visible
from spillcast.workspace import workspace

#: Names of event logs: applications (``app-20261126010203-0001``), and suffixes of codecs.
_LOGS = ("app-*", "application_*", "local-*", "*.zstd", "*.lz4", "*.snappy", "*.inprogress")
#: Names of files that may be evidence.
_PATTERNS = (*TRACES, "*.csv", "*.parquet", "*.json", "*.plan", *_LOGS)


@dataclass(frozen=True)
class EvidenceSource:
    """A file, or the folder of a recording or of a rolled event log."""

    #: A path, or an address with its scheme.
    name: str
    bytes: int

    @property
    def is_remote(self) -> bool:
        """Whether it must be downloaded before reading."""
        return "://" in self.name

    def local(self) -> AbstractContextManager[Path]:
        """A local path to read from, valid within the context."""
        if not self.is_remote:
            return nullcontext(Path(self.name))
        return _downloaded(*open_filesystem(self.name))


def find_sources(arguments: Sequence[str]) -> list[EvidenceSource]:
    """All files, folders and patterns as sources by name. InputError for missing ones."""
    by_name: dict[str, EvidenceSource] = {}
    for argument in arguments:
        path = local_path(argument)
        sources = _remote(argument) if path is None else _local(path)
        by_name.update({source.name: source for source in sources})
    return [by_name[name] for name in sorted(by_name)]


def _local(argument: str) -> Iterable[EvidenceSource]:
    paths = [argument] if os.path.exists(argument) else sorted(glob.glob(argument, recursive=True))
    if not paths:
        raise PathMissing("there is no such file or folder", where=argument)
    for path in paths:
        check_kind(Path(path))
    sources = [source for path in paths for source in _walk(path)]
    if not sources:
        raise EvidenceMissing(
            "the folder holds no evidence",
            f"looked for {', '.join(_PATTERNS)}, *.spill",
            argument,
        )
    return sources


def _walk(path: str) -> Iterator[EvidenceSource]:
    if not os.path.isdir(path):
        yield EvidenceSource(path, _size(path))
        return
    closed: list[OSError] = []
    for folder, folders, files in os.walk(path, onerror=closed.append):
        if META_FILE in files or parts_of(files):
            sizes = [_size(os.path.join(folder, name)) for name in files]
            yield EvidenceSource(folder, sum(sizes))
            folders.clear()
            continue
        folders[:] = [name for name in folders if not _core.is_partial(name)]
        for name in files:
            file = os.path.join(folder, name)
            # Reading a pipe would wait for its writer. Inaccessible files are reported later.
            if _is_evidence(name) and (os.path.isfile(file) or not os.path.exists(file)):
                yield EvidenceSource(file, _size(file))
    for error in closed:
        yield EvidenceSource(error.filename, 0)


def _size(path: str) -> int:
    """Bytes of a file; 0 if it is inaccessible, which reading it will report."""
    try:
        return os.path.getsize(path)
    except OSError:
        return 0


def _remote(argument: str) -> Iterator[EvidenceSource]:
    filesystem, path = open_filesystem(argument)
    scheme = argument.partition("://")[0]
    try:
        listed = filesystem.glob(path) if "*" in path else [path]
        files = {}
        for listed_path in listed:
            files.update(filesystem.find(listed_path, detail=True))
    except (OSError, ValueError) as error:
        raise FileUnreadable(f"cannot be listed: {error}", where=argument) from error
    children: dict[str, list[str]] = {}
    for name in files:
        folder, _, child = name.rpartition("/")
        children.setdefault(folder, []).append(child)
    units = {folder for folder, names in children.items() if META_FILE in names or parts_of(names)}
    sizes: dict[str, int] = {}
    for name, facts in files.items():
        # The outermost folder, as in ``_walk``.
        folders = (name[:end] for end, letter in enumerate(name) if letter == "/")
        folder = next((folder for folder in folders if folder in units), None)
        if folder is not None or name == path or _is_evidence(name.rpartition("/")[2]):
            unit = folder or name
            sizes[unit] = sizes.get(unit, 0) + int(facts["size"] or 0)
    if not sizes:
        raise EvidenceMissing("there is no evidence", where=argument)
    for name, size in sizes.items():
        yield EvidenceSource(f"{scheme}://{name.lstrip('/')}", size)


def _is_evidence(name: str) -> bool:
    return any(fnmatch(name.lower(), pattern) for pattern in _PATTERNS)


@contextmanager
def _downloaded(filesystem: Any, name: str) -> Iterator[Path]:
    """A local copy of a remote file or folder, under its own name."""
    with workspace(private=True) as folder:
        local = folder / Path(name).name
        filesystem.get(name, str(local), recursive=bool(filesystem.isdir(name)))
        yield local


#: The maximum number of damaged lines in the row of a source.
_DAMAGE_KEPT = 20
#: A CSV export is read as a whole, which takes about ten times its size in memory.
_ASH_BYTES_MAX = 64 << 20
#: The folder of parts, the database and the day.
Partition = tuple[str, str, str]


@dataclass(frozen=True)
class SourceRows:
    """The rows of a source."""

    #: The hash of its content.
    source: str
    #: Its row of SOURCES, without parts; empty if its content is already in the dataset.
    row: dict[str, Any] = field(default_factory=dict)
    partitions: dict[Partition, list[dict[str, Any]]] = field(default_factory=dict)


def read_source(source: EvidenceSource, known: Container[str], database: str | None) -> SourceRows:
    """Reads one source, unless its content is ``known``. OSError if it cannot be read.

    Its row of SOURCES shows what is damaged, or why it is set aside.
    """
    with source.local() as path:
        content = content_hash(path)
        if content in known:
            return SourceRows(content)
        row: dict[str, Any] = {"source": content, "name": visible(source.name)}
        row |= {"bytes": source.bytes, "set_aside": None, "damaged": 0, "damage": []}
        row["is_part"] = False
        try:
            with reading(path):
                return SourceRows(content, row, _partitions(path, content, database, row))
        except (InputError, Refusal) as error:
            # The row has the source's name; that of a downloaded copy is meaningless.
            reason = error.message.removeprefix(f"{path}: ").replace(str(path), source.name)
            hint = f"; {error.hint}" if error.hint else ""
            row["set_aside"] = visible(reason + hint)
        return SourceRows(content, row)


def _partitions(
    path: Path, content: str, database: str | None, row: dict[str, Any]
) -> dict[Partition, list[dict[str, Any]]]:
    """The rows of a source by partition. Sets kind, identity and damage in ``row``."""
    kind = find_evidence([path]).only_kind()
    row["kind"] = kind
    if kind == "traces":
        who = identity_of_trace(path).named(database)
        _identify(row, TRACE, who)
        read = read_trace(path)
        row["damaged"], row["is_part"] = read.total("damaged"), read.is_part
        row["damage"] = [
            {"line": d["line"], "what": d["what"]} for d in read.damaged()[:_DAMAGE_KEPT]
        ]
        rows = facts_of_trace(read, content, who)
        check_facts(rows)
        return {(FACTS_FOLDER, who.database, who.day): rows}
    if kind == "ash":
        if path.stat().st_size > _ASH_BYTES_MAX and path.suffix.lower() == ".csv":
            raise FileTooLarge(
                f"an export of more than {_ASH_BYTES_MAX >> 20} MiB", "export each day by itself"
            )
        ash = read_ash(path)
        if not ash.has_seconds:
            raise EvidenceIncomplete(NO_SECONDS, WITH_SECONDS)
        who = Identity(database or database_of_export(path))
        _identify(row, ASH_KINDS[ash.source], who)
        row["damaged"] = len(ash.damaged)
        row["damage"] = [{"line": d.line, "what": d.problem} for d in ash.damaged[:_DAMAGE_KEPT]]
        by_day = facts_of_ash(ash, content, who)
        check_facts(chain.from_iterable(by_day.values()))
        return {(FACTS_FOLDER, who.database, day): rows for day, rows in by_day.items()}
    if kind == "recordings":
        recording = Recording.open(path)
        who = identity_of_recording(recording.meta).named(database)
        # A damaged table is detected now, not by a later forecast.
        _ = recording.seconds, recording.waits, recording.samples
        _identify(row, RECORDING, who)
    elif kind == "plans":
        who = Identity().named(database)
        _identify(row, PLAN, who)
    elif kind == "spark":
        begun = datetime.fromtimestamp(read_application(path).begin_ms / 1e3, UTC)
        who = Identity("spark", day=begun.date().isoformat()).named(database)
        _identify(row, APPLICATION, who)
    elif kind == "figures":
        problem = "totals, which a dataset does not hold: give them to spillcast forecast"
        raise EvidenceUnsuited(problem)
    else:
        raise EvidenceUnsuited("sums over many queries: no single query can be forecast")
    return {(RUNS_FOLDER, who.database, who.day): [pack(path, row["kind"], content, who)]}


def _identify(row: dict[str, Any], kind: str, who: Identity) -> None:
    row.update(kind=kind, database=who.database, host=who.host, instance=who.instance)


def order_of(source: EvidenceSource) -> tuple[str, str, str]:
    """The sort key of sources: traces of the same database and day share parts."""
    if source.is_remote or ".trc" not in source.name.lower():
        return UNKNOWN, UNKNOWN, source.name
    who = identity_of_trace(Path(source.name))
    return who.database, who.day, source.name


#: The largest batch; a killed ingest loses at most this.
BATCH_BYTES = 256 << 20
BATCH_FILES = 512


def batches(sources: Sequence[EvidenceSource]) -> Iterator[list[EvidenceSource]]:
    """The sources by database and day, in batches of bounded size."""
    batch: list[EvidenceSource] = []
    size = 0
    for source in sorted(sources, key=order_of):
        if batch and (size + source.bytes > BATCH_BYTES or len(batch) == BATCH_FILES):
            yield batch
            batch, size = [], 0
        batch.append(source)
        size += source.bytes
    if batch:
        yield batch


def write_batch(where: Store, new: Sequence[SourceRows]) -> tuple[str, list[dict[str, Any]]]:
    """Writes the parts of a batch. Returns its name and its rows of the log, not yet written."""
    contents = "".join(source.source for source in new)
    name = hashlib.blake2b(contents.encode(), digest_size=16).hexdigest()
    partitions: dict[Partition, list[dict[str, Any]]] = {}
    for source in new:
        for partition, rows in source.partitions.items():
            partitions.setdefault(partition, []).extend(rows)
    for partition, rows in sorted(partitions.items()):
        is_runs = partition[0] == RUNS_FOLDER
        table = Table.from_rows(rows, RUNS if is_runs else FACTS)
        # Each recording is a row group, so readers hold only one in memory.
        where.write(_part(partition, name), parquet_bytes(table, 1 if is_runs else None))
    return name, [
        {**source.row, "parts": [_part(partition, name) for partition in sorted(source.partitions)]}
        for source in new
    ]


def _part(partition: Partition, batch: str) -> str:
    folder, database, day = partition
    return f"{folder}/database={quote(database, safe='')}/day={quote(day, safe='')}/{batch}.parquet"


#: Files that are read ahead per processor while a batch is written.
_AHEAD = 16
#: Receives the files done, all files, and the bytes done.
Progress = Callable[[int, int, int], None]


def ingest(
    arguments: Sequence[str],
    address: str,
    *,
    database: str | None = None,
    on_progress: Progress | None = None,
) -> Ingested:
    """Adds the evidence at all ``arguments`` to the dataset at ``address``.

    ``database`` replaces the name of the database in the evidence. Content that the dataset has,
    under any name, is skipped: a second ingest continues a killed one. InputError for sources or a
    dataset that cannot be used, SpillcastError if the dataset cannot be written to.
    """
    sources = find_sources(arguments)
    dataset = Dataset.open(address, create=True)
    done = Ingested(dataset.place.address)
    #: Why a content was set aside; None if it was not.
    known = dict[str, str | None]()
    planned = list(batches(sources))
    with dataset.place.locked(), closing(_read_ahead(planned, known, database)) as results:
        dataset.begin()
        columns = (dataset.sources[name].to_pylist() for name in ("source", "set_aside"))
        known.update(zip(*columns, strict=True))
        passed_files = passed_bytes = 0
        for batch in planned:
            new = []
            for source, outcome in zip(batch, results, strict=False):
                passed_files, passed_bytes = passed_files + 1, passed_bytes + source.bytes
                if on_progress is not None:
                    on_progress(passed_files, len(sources), passed_bytes)
                if isinstance(outcome, OSError):
                    reason = outcome.strerror or str(outcome)
                    done.unread.append({"file": source.name, "what": reason})
                elif outcome.source in known:
                    done.add_again(source.name, known[outcome.source])
                else:
                    known[outcome.source] = outcome.row["set_aside"]
                    new.append(outcome)
            if new:
                name, rows = write_batch(dataset.place, new)
                dataset.commit(name, rows)
                for row in rows:
                    done.add(row)
    return done


def _read_ahead(
    planned: Iterable[Sequence[EvidenceSource]], known: Container[str], database: str | None
) -> Generator[SourceRows | OSError]:
    """Reads the sources in order, in threads, slightly ahead of the caller."""

    def try_source(source: EvidenceSource) -> SourceRows | OSError:
        try:
            return read_source(source, known, database)
        except OSError as error:
            return error

    workers = os.cpu_count() or 1
    waiting: deque[Future[SourceRows | OSError]] = deque()
    with ThreadPoolExecutor(workers) as pool:
        try:
            for source in chain.from_iterable(planned):
                waiting.append(pool.submit(try_source, source))
                if len(waiting) > _AHEAD * workers:
                    yield waiting.popleft().result()
            while waiting:
                yield waiting.popleft().result()
        finally:
            pool.shutdown(wait=False, cancel_futures=True)
            cancel_reading()

"""Files at any address of fsspec: where a dataset lies, and the sources to ingest."""

import glob
import hashlib
import os
import re
import tempfile
from collections.abc import Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager, nullcontext
from dataclasses import dataclass
from fnmatch import fnmatch
from pathlib import Path
from typing import Any

from spillcast import _core
from spillcast.errors import (
    EvidenceMissing,
    FileUnreadable,
    LockTaken,
    PathMissing,
    PathUnusable,
    SpillcastError,
    WriteFailed,
)
from spillcast.evidence.open import TRACES
from spillcast.evidence.spark import open_filesystem, parts_of
from spillcast.gate import check_kind
from spillcast.recording.meta import META_FILE
from spillcast.text import exact_name, is_utf8

#: Names of unfinished files, which a killed ingest may leave; no other file is named so.
_PARTIAL = re.compile(r".+\.(json|parquet)\.\d+\.partial")


def place(address: str) -> "Place":
    """The place at an address: a path, file:///..., memory://..., s3://..."""
    scheme, separator, rest = address.partition("://")
    if separator and scheme not in {"file", "local"}:
        return RemotePlace(address)
    local = LocalPlace(Path(rest if separator else address))
    if not is_utf8(str(local.root)):
        # No database opens such files.
        problem = f"{address}: the path of a dataset must be UTF-8"
        raise PathUnusable(problem, "name another folder")
    return local


class LocalPlace:
    """A directory of this machine; files are written under another name and renamed."""

    #: Engines read local files themselves.
    filesystem = None

    def __init__(self, root: Path) -> None:
        self.root = root.absolute()
        self.address = str(root)

    def names(self, folder: str) -> list[str]:
        """Finished files in a folder and below, sorted; empty if the folder does not exist."""
        paths = (path for path in (self.root / folder).rglob("*") if path.is_file())
        finished = (path for path in paths if not _PARTIAL.fullmatch(path.name))
        return sorted(str(path.relative_to(self.root)) for path in finished)

    def read(self, name: str) -> bytes:
        """The content of a file. FileNotFoundError if it does not exist."""
        return (self.root / name).read_bytes()

    def write(self, name: str, content: bytes) -> None:
        """Write, flush to the disk and rename. OutputUnwritable if there is no room."""
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
        """Remove a file, and its folder if that becomes empty."""
        path = self.root / name
        path.unlink(missing_ok=True)
        if path.parent != self.root and not any(path.parent.iterdir()):
            path.parent.rmdir()

    def url(self, name: str) -> str:
        """The absolute path, without wildcards."""
        return exact_name(self.root / name)

    @contextmanager
    def alone(self) -> Iterator[None]:
        """Hold a lock, which the kernel releases however this process ends."""
        import fcntl

        try:
            self.root.mkdir(parents=True, exist_ok=True)
            lock = (self.root / ".lock").open("w")
        except OSError as error:
            raise _not_written(self.address, error) from error
        with lock:
            try:
                fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except OSError as error:
                raise LockTaken(
                    f"{self.address}: another ingest writes to it", "wait until it has ended"
                ) from error
            for path in self.root.rglob("*.partial"):
                if _PARTIAL.fullmatch(path.name):
                    path.unlink(missing_ok=True)
            yield


class RemotePlace:
    """Stores objects through fsspec; an object appears when it is complete."""

    def __init__(self, address: str) -> None:
        self.address = address
        self._fs, self._root = open_filesystem(address)
        self._scheme = address.partition("://")[0]

    def names(self, folder: str) -> list[str]:
        """Objects in a folder and below."""
        start = f"{self._root}/{folder}"
        self._fs.invalidate_cache()
        names = self._fs.find(start) if self._fs.exists(start) else []
        return sorted(name[len(self._root) :].lstrip("/") for name in names)

    def read(self, name: str) -> bytes:
        """The content of an object."""
        return bytes(self._fs.cat_file(f"{self._root}/{name}"))

    def write(self, name: str, content: bytes) -> None:
        """Write an object."""
        try:
            path = f"{self._root}/{name}"
            self._fs.makedirs(path.rpartition("/")[0], exist_ok=True)
            self._fs.pipe_file(path, content)
        except OSError as error:
            raise _not_written(self.address, error) from error

    def remove(self, name: str) -> None:
        """Remove an object."""
        self._fs.rm_file(f"{self._root}/{name}")

    def url(self, name: str) -> str:
        """The complete address of the object."""
        return f"{self._scheme}://{self._root.lstrip('/')}/{name}"

    @property
    def filesystem(self) -> Any:
        """The file system with which DuckDB reads the objects."""
        return self._fs

    def alone(self) -> AbstractContextManager[None]:
        """Other writers cannot be excluded."""
        return nullcontext()


#: Stores files by name, with / between folders. A file exists completely or not at all.
Place = LocalPlace | RemotePlace


@contextmanager
def fetched(filesystem: Any, name: str) -> Iterator[Path]:
    """A local copy of a remote file or folder, under its own name."""
    with tempfile.TemporaryDirectory(prefix="spillcast-") as folder:
        local = Path(folder) / Path(name).name
        filesystem.get(name, str(local), recursive=bool(filesystem.isdir(name)))
        yield local


def _flush_folder(folder: Path) -> None:
    descriptor = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def _not_written(address: str, error: OSError) -> SpillcastError:
    return WriteFailed(
        f"{address}: cannot be written to: {error.strerror or error}",
        "the dataset is intact; run the same command again when that is fixed",
    )


#: Threads take turns at each read and each update, so the reads are large.
_CHUNK_BYTES = 16 << 20
#: Names of event logs, which have those of applications (``app-20261126010203-0001``), and their
#: codecs.
_LOGS = ("app-*", "application_*", "local-*", "*.zstd", "*.lz4", "*.snappy", "*.inprogress")
#: Files of a folder that may be evidence.
_PATTERNS = (*TRACES, "*.csv", "*.parquet", "*.json", "*.plan", *_LOGS)


@dataclass(frozen=True)
class Source:
    """One file, or the folder of one recording or rolled event log."""

    #: A path, or an address with its scheme.
    name: str
    bytes: int

    @property
    def is_remote(self) -> bool:
        """Whether it must be downloaded before reading."""
        return "://" in self.name

    def local(self) -> AbstractContextManager[Path]:
        """A readable local path, while the context lasts."""
        if not self.is_remote:
            return nullcontext(Path(self.name))
        filesystem, path = open_filesystem(self.name)
        return fetched(filesystem, path)


def find_sources(arguments: Sequence[str]) -> list[Source]:
    """All files, folders and patterns as sources by name. InputError for missing ones."""
    by_name: dict[str, Source] = {}
    for argument in arguments:
        scheme, separator, rest = argument.partition("://")
        if separator and scheme not in {"file", "local"}:
            sources = _remote(argument)
        else:
            sources = _local(rest if separator else argument)
        by_name.update({source.name: source for source in sources})
    return [by_name[name] for name in sorted(by_name)]


def content_hash(path: Path) -> str:
    """SHA-256, cut to 128 bits, of the bytes of a file; of a folder, of its files and names."""
    digest = hashlib.sha256()
    files = sorted(f for f in path.rglob("*") if f.is_file()) if path.is_dir() else [path]
    for file in files:
        if file != path:
            digest.update(os.fsencode(file.relative_to(path)) + b"\0")
        with file.open("rb", buffering=0) as stream:
            while chunk := stream.read(_CHUNK_BYTES):
                digest.update(chunk)
    return digest.hexdigest()[:32]


def _local(argument: str) -> Iterator[Source]:
    paths = [argument] if os.path.exists(argument) else sorted(glob.glob(argument, recursive=True))
    if not paths:
        raise PathMissing(f"{argument}: there is no such file or folder")
    before = None
    for path in paths:
        check_kind(Path(path))
        for source in _walk(path):
            before = source
            yield source
    if before is None:
        raise EvidenceMissing(
            f"{argument}: the folder holds no evidence",
            f"looked for {', '.join(_PATTERNS)}, *.spill",
        )


def _walk(path: str) -> Iterator[Source]:
    if not os.path.isdir(path):
        yield Source(path, _size(path))
        return
    for folder, folders, files in os.walk(path):
        if META_FILE in files or parts_of(files):
            sizes = [_size(os.path.join(folder, name)) for name in files]
            yield Source(folder, sum(sizes))
            folders.clear()
            continue
        folders[:] = [name for name in folders if not _core.is_partial(name)]
        for name in files:
            file = os.path.join(folder, name)
            # Reading a pipe would wait for its writer. Inaccessible files are reported later.
            if _is_evidence(name) and (os.path.isfile(file) or not os.path.exists(file)):
                yield Source(file, _size(file))


def _size(path: str) -> int:
    """Bytes of a file; 0 if it is inaccessible, which reading it will report."""
    try:
        return os.path.getsize(path)
    except OSError:
        return 0


def _remote(argument: str) -> Iterator[Source]:
    filesystem, path = open_filesystem(argument)
    scheme = argument.partition("://")[0]
    try:
        listed = filesystem.glob(path) if "*" in path else [path]
        files = {}
        for recording in listed:
            files.update(filesystem.find(recording, detail=True))
    except (OSError, ValueError) as error:
        raise FileUnreadable(f"{argument}: cannot be listed: {error}") from error
    children: dict[str, list[str]] = {}
    for name in files:
        folder, _, child = name.rpartition("/")
        children.setdefault(folder, []).append(child)
    recordings = {
        folder for folder, names in children.items() if META_FILE in names or parts_of(names)
    }
    sizes: dict[str, int] = {}
    for name, facts in files.items():
        folder = next(
            (recording for recording in recordings if name.startswith(f"{recording}/")), None
        )
        if folder is not None or name == path or _is_evidence(name.rpartition("/")[2]):
            key = folder or name
            sizes[key] = sizes.get(key, 0) + int(facts["size"] or 0)
    if not sizes:
        raise EvidenceMissing(f"{argument}: there is no evidence")
    for name, size in sizes.items():
        yield Source(f"{scheme}://{name.lstrip('/')}", size)


def _is_evidence(name: str) -> bool:
    return any(fnmatch(name.lower(), pattern) for pattern in _PATTERNS)

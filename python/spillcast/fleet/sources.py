"""The files to ingest: found in folders and patterns, here or at any address of fsspec."""

import glob
import hashlib
import os
from collections.abc import Iterator, Sequence
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass
from fnmatch import fnmatch
from pathlib import Path

from spillcast.errors import EvidenceMissing, FileUnreadable, PathMissing
from spillcast.evidence.find import TRACES
from spillcast.fleet.place import fetched, open_filesystem
from spillcast.gate import check_kind
from spillcast.recording.meta_file import META_FILE
from spillcast.recording.partial import PARTIAL

#: Threads take turns at each read and each update, so the reads are large.
_CHUNK_BYTES = 16 << 20
#: Files of a folder that may be evidence.
_PATTERNS = (*TRACES, "*.csv", "*.parquet", "*.json", "*.plan")


@dataclass(frozen=True)
class Source:
    """One file, or the folder of one recording."""

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
        if META_FILE in files:
            sizes = [_size(os.path.join(folder, name)) for name in files]
            yield Source(folder, sum(sizes))
            folders.clear()
            continue
        folders[:] = [name for name in folders if not PARTIAL.search(name)]
        for name in files:
            whole = os.path.join(folder, name)
            # Reading a pipe would wait for its writer. Inaccessible files are reported later.
            if _is_evidence(name) and (os.path.isfile(whole) or not os.path.exists(whole)):
                yield Source(whole, _size(whole))


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
    recordings = {name.rpartition("/")[0] for name in files if name.endswith(f"/{META_FILE}")}
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

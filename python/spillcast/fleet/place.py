"""Where a dataset lies: a local directory, or any address that fsspec knows. Whole files only."""

import os
import re
import tempfile
from abc import ABC, abstractmethod
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from spillcast.errors import (
    LockTaken,
    OptionInvalid,
    PackageMissing,
    PathUnusable,
    SpillcastError,
    WriteFailed,
    first_line,
)
from spillcast.exact_name import exact_name
from spillcast.visible import is_utf8

#: Names of unfinished files, which a killed ingest may leave; no other file is named so.
_PARTIAL = re.compile(r".+\.(json|parquet)\.\d+\.partial")


class Place(ABC):
    """Stores files by name, with / between folders. A file exists whole or not at all."""

    #: Its address for messages.
    address: str

    @abstractmethod
    def names(self, folder: str) -> list[str]:
        """Files in a folder and below, sorted; empty if the folder does not exist."""

    @abstractmethod
    def read(self, name: str) -> bytes:
        """The content of a file. FileNotFoundError if it does not exist."""

    @abstractmethod
    def write(self, name: str, content: bytes) -> None:
        """Write a file. SpillcastError if there is no room; nothing is left then."""

    @abstractmethod
    def remove(self, name: str) -> None:
        """Remove a file."""

    @abstractmethod
    def url(self, name: str) -> str:
        """The address of a file, for engines that read it themselves."""

    @property
    def filesystem(self) -> Any:
        """The fsspec file system with which engines read addresses; None for local files."""
        return None

    @contextmanager
    def alone(self) -> Iterator[None]:
        """Exclude other writers, if the place can."""
        yield


def place(address: str) -> Place:
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


class LocalPlace(Place):
    """A directory of this machine; files are written under another name and renamed."""

    def __init__(self, root: Path) -> None:
        self.root = root.absolute()
        self.address = str(root)

    def names(self, folder: str) -> list[str]:
        """Files in a folder and below, without unfinished ones."""
        paths = (path for path in (self.root / folder).rglob("*") if path.is_file())
        whole = (path for path in paths if not _PARTIAL.fullmatch(path.name))
        return sorted(str(path.relative_to(self.root)) for path in whole)

    def read(self, name: str) -> bytes:
        """The content of a file."""
        return (self.root / name).read_bytes()

    def write(self, name: str, content: bytes) -> None:
        """Write, flush to the disk and rename."""
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


class RemotePlace(Place):
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


def open_filesystem(address: str) -> tuple[Any, str]:
    """The fsspec file system of an address, and the path within it. InputError if there is none."""
    try:
        import fsspec
    except ImportError as error:
        raise PackageMissing(
            f"{address}: addresses need fsspec", "pip install 'spillcast[fleet]'"
        ) from error
    try:
        filesystem, path = fsspec.core.url_to_fs(address)
    except (ValueError, ImportError) as error:
        raise OptionInvalid(f"{address}: {first_line(error)}") from error
    return filesystem, str(path).rstrip("/")


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

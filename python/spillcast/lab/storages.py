"""Storages for experiments: plain directories, and slow ones emulated on top of them."""

from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, replace
from pathlib import Path

from spillcast.errors import SpillcastError
from spillcast.recording.target import PRELOAD_LIBRARY
from spillcast.storage.emulation import Model, emulate, fixed_model
from spillcast.storage.limit import bytes_limit
from spillcast.workspace import free_bytes

SHARED_MEMORY = Path("/dev/shm")


@dataclass(frozen=True)
class Emulated:
    """A storage that takes so long for each operation, and moves so much in a second."""

    name: str
    read_s: float
    write_s: float
    bytes_per_s: float | None = None

    @property
    def folder(self) -> str:
        """Its name as that of a folder."""
        return self.name.replace("/", " per ")

    @property
    def model(self) -> Model:
        """What a mount is to behave like."""
        model = fixed_model(self.read_s, self.write_s)
        if self.bytes_per_s is None:
            return model
        return replace(model, limits=[bytes_limit("bandwidth", self.bytes_per_s)])


@dataclass(frozen=True)
class Place:
    """A directory to spill to, and the environment that makes it as slow as asked."""

    name: str
    directory: Path
    environment: dict[str, str]
    #: How the delay is made: ``fuse``, ``preload``, or ``none`` for a plain directory.
    means: str


@contextmanager
def emulated(storage: Emulated, room: Path, backing: Path) -> Iterator[Place]:
    """A slow directory: a FUSE mount in ``room`` over ``backing``.

    Where FUSE is not to be had, the preload library delays the engine's own calls instead, which
    makes no bandwidth: SpillcastError where that is asked for.
    """
    mountpoint = room / f"mnt-{storage.folder}"
    mountpoint.mkdir()
    with ExitStack() as stack:
        try:
            stack.enter_context(emulate(storage.model, mountpoint, backing))
        except SpillcastError:
            if storage.bytes_per_s is not None:
                raise
            read_ns, write_ns = round(storage.read_s * 1e9), round(storage.write_s * 1e9)
            delay = f"{backing.resolve()}:{read_ns}:{write_ns}"
            environment = {"LD_PRELOAD": str(PRELOAD_LIBRARY), "SPILLCAST_DELAY": delay}
            yield Place(storage.name, backing, environment, "preload")
        else:
            yield Place(storage.name, mountpoint, {}, "fuse")


def plain(name: str, directory: Path) -> Place:
    """A directory as it is."""
    return Place(name, directory, {}, "none")


def fast_parent(need_bytes: int) -> Path | None:
    """Shared memory, where it is there and has room; None otherwise."""
    if SHARED_MEMORY.is_dir() and free_bytes(SHARED_MEMORY) > need_bytes:
        return SHARED_MEMORY
    return None

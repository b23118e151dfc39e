"""Storages for experiments: plain directories, and slow ones emulated on top of them."""

from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path

from spillcast.errors import SpillcastError
from spillcast.recording.target import PRELOAD_LIBRARY
from spillcast.storage.emulation import emulate, fixed_model
from spillcast.workspace import free_bytes

SHARED_MEMORY = Path("/dev/shm")


@dataclass(frozen=True)
class Emulated:
    """A storage that takes so long for each operation."""

    name: str
    read_s: float
    write_s: float


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

    Where FUSE is not to be had, the preload library delays the engine's own calls instead.
    """
    mountpoint = room / f"mnt-{storage.name}"
    mountpoint.mkdir()
    with ExitStack() as stack:
        try:
            model = fixed_model(storage.read_s, storage.write_s)
            stack.enter_context(emulate(model, mountpoint, backing))
        except SpillcastError:
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

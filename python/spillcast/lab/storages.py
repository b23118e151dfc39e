"""Storages for experiments: plain directories, and slow ones emulated on top of them."""

import re
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, replace
from pathlib import Path

from spillcast.errors import SpillcastError
from spillcast.recording.source import PreloadSource
from spillcast.recording.target import PRELOAD_LIBRARY
from spillcast.storage.behaviour import Behaviour, Point, fixed_behaviour
from spillcast.storage.emulation import emulate
from spillcast.units import format_duration
from spillcast.workspace import free_bytes

SHARED_MEMORY = Path("/dev/shm")
#: What an operation takes that memory answers, roughly.
MEMORY_S = 20e-6
#: A latency that grows with the size is a straight line through these sizes.
LINE_BYTES = (1 << 10, 1 << 20)


@dataclass(frozen=True)
class Emulated:
    """A storage that takes so long for each operation, and so long for each byte of it."""

    name: str
    read_s: float
    write_s: float
    s_per_byte: float = 0.0
    #: Operations served at once; None for all.
    servers: int | None = None

    @property
    def folder(self) -> str:
        """Its name as that of a folder."""
        return self.name.replace("/", " per ")

    @property
    def expected_s(self) -> float:
        """What an operation of 64 KiB takes, roughly."""
        return (self.read_s + self.write_s) / 2 + (64 << 10) * self.s_per_byte

    @property
    def words(self) -> str:
        """What it is, for people."""
        read, write = format_duration(self.read_s), format_duration(self.write_s)
        each = read if read == write else f"{read} a read, {write} a write"
        by_size = f" and {format_duration(self.s_per_byte * 1024)} a KiB" if self.s_per_byte else ""
        queue = f", {self.servers} at a time" if self.servers else ""
        return f"emulated: {each}{by_size}{queue}"

    @property
    def model(self) -> Behaviour:
        """What a mount is to behave like."""
        model = fixed_behaviour(self.read_s, self.write_s)
        if self.s_per_byte:
            points = [self._on_line(point, size) for point in model.points for size in LINE_BYTES]
            model = replace(model, points=points)
        return replace(model, servers=self.servers)

    @property
    def only_latency(self) -> bool:
        """Whether a fixed time for each call is all there is to it."""
        return not (self.s_per_byte or self.servers)

    def _on_line(self, point: Point, size_bytes: int) -> Point:
        base_s = self.read_s if point.op == "read" else self.write_s
        latency_ns = round((base_s + size_bytes * self.s_per_byte) * 1e9)
        return replace(point, size_bytes=size_bytes, latency_ns=[latency_ns])


@dataclass(frozen=True)
class Modelled:
    """A storage as somebody describes it, such as a row of the catalogue."""

    name: str
    model: Behaviour

    @property
    def folder(self) -> str:
        """Its name as that of a folder."""
        return re.sub(r"\W+", "-", self.name)


@dataclass(frozen=True)
class Plain:
    """A directory as it is: of the machine's memory, or of the disk of the workspace."""

    name: str
    in_memory: bool
    servers: int | None = None

    @property
    def expected_s(self) -> float:
        """What an operation takes, roughly."""
        return MEMORY_S

    @property
    def words(self) -> str:
        """What it is, for people."""
        where = (
            "of /dev/shm, in memory" if self.in_memory else "on the disk, through the page cache"
        )
        return f"a directory {where}"


@dataclass(frozen=True)
class Place:
    """A directory to spill to, and the environment that makes it as slow as asked."""

    name: str
    directory: Path
    environment: dict[str, str]
    #: How the delay is made: ``fuse``, ``preload``, or ``none`` for a plain directory.
    means: str
    #: Whether memory answers: its own, or a page cache that holds the spill.
    fast: bool


def direction(source: Place, target: Place) -> str:
    """From a fast or a slow place to a fast or a slow one, in words."""
    return " to ".join("fast" if place.fast else "slow" for place in (source, target))


@contextmanager
def emulated(storage: Emulated | Modelled, room: Path, backing: Path) -> Iterator[Place]:
    """A slow directory: a FUSE mount in ``room`` over ``backing``.

    Where FUSE is not to be had, the preload library delays the engine's own calls instead, which
    makes latency and nothing else: SpillcastError where more is asked for.
    """
    mountpoint = room / f"mnt-{storage.folder}"
    mountpoint.mkdir()
    with ExitStack() as stack:
        try:
            stack.enter_context(emulate(storage.model, mountpoint, backing))
        except SpillcastError:
            if not isinstance(storage, Emulated) or not storage.only_latency:
                raise
            read_ns, write_ns = round(storage.read_s * 1e9), round(storage.write_s * 1e9)
            delay = f"{backing.resolve()}:{read_ns}:{write_ns}"
            environment = {"LD_PRELOAD": str(PRELOAD_LIBRARY), "SPILLCAST_DELAY": delay}
            yield Place(storage.name, backing, environment, PreloadSource.name, fast=False)
        else:
            yield Place(storage.name, mountpoint, {}, "fuse", fast=False)


def plain(name: str, directory: Path) -> Place:
    """A directory as it is."""
    return Place(name, directory, {}, "none", fast=True)


def fast_parent(need_bytes: int) -> Path | None:
    """Shared memory, where it is there and has room; None otherwise."""
    if SHARED_MEMORY.is_dir() and free_bytes(SHARED_MEMORY) > need_bytes:
        return SHARED_MEMORY
    return None

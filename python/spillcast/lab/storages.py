"""Storages for experiments: plain directories, and emulated slow ones."""

import os
import re
from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager, ExitStack, contextmanager, nullcontext
from dataclasses import dataclass, replace
from math import exp
from pathlib import Path
from statistics import NormalDist, fmean

from spillcast.errors import OptionConflict, OutputUnwritable, SpaceInsufficient, SpillcastError
from spillcast.recording.capture import PRELOAD
from spillcast.recording.observed import preload_path
from spillcast.storage.emulation import emulate
from spillcast.storage.model import Behaviour, LatencyResampler, behaviour_of, fixed_behaviour
from spillcast.storage.target import can_probe, parse_assumed, resolve_storage
from spillcast.units import format_duration
from spillcast.workspace import free_bytes, workspace

SHARED_MEMORY = Path("/dev/shm")
#: Sizes of the two points of a latency that grows with the size.
LINE_BYTES = (1 << 10, 1 << 20)
#: Number of equally likely latencies that approximate a distribution.
SPREAD = 32


@dataclass(frozen=True)
class Emulated:
    """An emulated storage: a latency for reads and writes, and a time per byte."""

    name: str
    read_s: float
    write_s: float
    s_per_byte: float = 0.0
    #: Operations served concurrently; None for all.
    servers: int | None = None
    #: Standard deviation of the logarithm of latencies; ``read_s`` and ``write_s`` are means.
    sigma: float = 0.0

    @property
    def expected_s(self) -> float:
        """Approximate time of an operation of 64 KiB."""
        return (self.read_s + self.write_s) / 2 + (64 << 10) * self.s_per_byte

    @property
    def description(self) -> str:
        """The description for the user."""
        read, write = format_duration(self.read_s), format_duration(self.write_s)
        each = read if read == write else f"{read} a read, {write} a write"
        by_size = f" and {format_duration(self.s_per_byte * 1024)} a KiB" if self.s_per_byte else ""
        queue = f", {self.servers} at a time" if self.servers else ""
        spread = f", spread by e^{self.sigma:.1f}" if self.sigma else ""
        return f"emulated: {each}{by_size}{queue}{spread}"

    @property
    def model(self) -> Behaviour:
        """The behaviour of the mount."""
        model = replace(fixed_behaviour(self.read_s, self.write_s), servers=self.servers)
        points = model.points
        if self.s_per_byte:
            points = [self._on_line(point, size) for point in points for size in LINE_BYTES]
        return replace(model, points=[self._spread(point) for point in points])

    def _on_line(self, point: LatencyResampler, size_bytes: int) -> LatencyResampler:
        base_s = self.read_s if point.op == "read" else self.write_s
        latency_ns = round((base_s + size_bytes * self.s_per_byte) * 1e9)
        return replace(point, size_bytes=size_bytes, latency_ns=[latency_ns])

    def _spread(self, point: LatencyResampler) -> LatencyResampler:
        """The point with log-normal latencies of the same mean."""
        if not self.sigma:
            return point
        factors = [
            exp(self.sigma * NormalDist().inv_cdf((i + 0.5) / SPREAD)) for i in range(SPREAD)
        ]
        [mean_ns] = point.latency_ns
        latency_ns = [round(mean_ns * factor / fmean(factors)) for factor in factors]
        return replace(point, latency_ns=latency_ns, latency_count=[1] * SPREAD)


@dataclass(frozen=True)
class SpillDirectory:
    """A directory to spill to, and the means that make it slow."""

    name: str
    directory: Path
    environment: dict[str, str]
    #: ``fuse``, ``preload``, ``kernel``, or ``none`` for a plain directory.
    means: str
    #: Whether memory serves it: the directory is in memory, or the page cache holds the spill.
    fast: bool
    #: The context for the start of an engine, if it is slow only for processes started there.
    inside: Callable[[], AbstractContextManager[None]] = nullcontext


def file_name(name: str) -> str:
    """The name of a storage in characters that names of files may have."""
    return re.sub(r"\W+", "-", name)


def direction(source: SpillDirectory, target: SpillDirectory) -> str:
    """The direction of a forecast, such as ``slow to fast``."""
    return " to ".join("fast" if place.fast else "slow" for place in (source, target))


@contextmanager
def emulated(storage: Emulated | Behaviour, workdir: Path, below: Path) -> Iterator[SpillDirectory]:
    """A slow directory: a FUSE mount in ``workdir``, over a directory made in ``below``.

    Without FUSE the preload library delays the engine's calls by a fixed latency. SpillcastError if
    the storage has more than a fixed latency.
    """
    folder = file_name(storage.name)
    mountpoint, backing = workdir / f"mnt-{folder}", below / f"backing-{folder}"
    mountpoint.mkdir()
    backing.mkdir()
    with ExitStack() as stack:
        try:
            model = storage if isinstance(storage, Behaviour) else storage.model
            stack.enter_context(emulate(model, mountpoint, backing))
        except SpillcastError:
            if isinstance(storage, Behaviour):
                raise
            if storage.s_per_byte or storage.servers or storage.sigma:
                raise
            read_ns, write_ns = round(storage.read_s * 1e9), round(storage.write_s * 1e9)
            delay = f"{backing.resolve()}:{read_ns}:{write_ns}"
            environment = {"LD_PRELOAD": preload_path(), "SPILLCAST_DELAY": delay}
            yield SpillDirectory(storage.name, backing, environment, PRELOAD, fast=False)
        else:
            yield SpillDirectory(storage.name, mountpoint, {}, "fuse", fast=False)


def plain(name: str, directory: Path) -> SpillDirectory:
    """A plain directory, which is created if it does not exist."""
    directory.mkdir(exist_ok=True)
    return SpillDirectory(name, directory, {}, "none", fast=True)


def fast_parent(need_bytes: int) -> Path | None:
    """The directory of shared memory if it has room for ``need_bytes``; else None."""
    if SHARED_MEMORY.is_dir() and free_bytes(SHARED_MEMORY) > need_bytes:
        return SHARED_MEMORY
    return None


#: Memory that the spill of an experiment may take.
SPILL_BYTES = 1 << 30
FORMS = "a directory, tmpfs, latency:1ms, a storage.json, a recording or catalogue:NAME"


@contextmanager
def named_places(words: Sequence[str], workdir: Path) -> Iterator[list[SpillDirectory]]:
    """A place for each word of ``--on``, in their order; their contents are removed at the end.

    InputError for a word that is not a storage, before any place is created.
    """
    if len(set(words)) < len(words):
        raise OptionConflict("--on: a storage is named twice")
    requested = list(map(_requested, words))
    with ExitStack() as stack:
        memory = fast_parent(SPILL_BYTES)
        fast = stack.enter_context(workspace(memory)) if memory is not None else workdir
        places = []
        for word, storage in zip(words, requested, strict=True):
            if isinstance(storage, Path):
                if not storage.parts and memory is None:
                    raise SpaceInsufficient(f"--on {word}: there is no room in shared memory")
                parent = storage if storage.parts else fast
                places.append(plain(word, stack.enter_context(workspace(parent))))
            else:
                places.append(stack.enter_context(emulated(storage, workdir, fast)))
        yield places


def _requested(word: str) -> Path | Emulated | Behaviour:
    """The storage of a word; a path with the empty name is shared memory."""
    match parse_assumed(word, "--on"):
        case "latency", seconds:
            return Emulated(word, seconds, seconds)
    if word == "tmpfs":
        return Path()
    path = Path(word)
    if can_probe(path):
        if not os.access(path, os.W_OK | os.X_OK):
            raise OutputUnwritable(f"--on {word}: nothing can be written there")
        return path.absolute()
    return replace(behaviour_of(resolve_storage(word, f"--on {word}", FORMS)), name=word)

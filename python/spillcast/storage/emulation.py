"""A mount that behaves like a storage: what it is asked for, its life, and what it achieved."""

import math
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from spillcast import _core, histogram
from spillcast.document import written
from spillcast.errors import InputError, SpillcastError
from spillcast.storage.limit import Limit
from spillcast.storage.model import Model as Latencies
from spillcast.storage.storage import Group, Storage
from spillcast.units import format_bytes, format_duration

EMULATION_SCHEMA = "spillcast.emulation/1"
OPS = ("read", "write")
#: Share of operations that came more than a tenth later than asked from which on it warns.
LATE = 0.05
#: The size at which a latency that holds for all sizes is compared with what the mount takes.
ANY_SIZE_BYTES = 8192
#: What a measured bandwidth lets go at once: about one large operation of a slow disk.
BURST_NS = 5e6


@dataclass(frozen=True)
class Point:
    """Latencies of one op, pattern and size: a histogram that is resampled."""

    op: str
    sequential: bool
    size_bytes: int
    latency_ns: Sequence[int]
    latency_count: Sequence[int]


@dataclass(frozen=True)
class Model:
    """What a mount is to behave like. An op without points is as fast as the mount."""

    name: str
    points: Sequence[Point]
    #: Operations served at once; the others queue. None for all.
    servers: int | None = None
    limits: Sequence[Limit] = ()

    def median_s(self, point: Point) -> float:
        """Median time of an operation of a point that finds no other, with what limits take."""
        costs_ns = (
            limit.cost_ns(point.op, point.size_bytes, sequential=point.sequential)
            for limit in self.limits
            if not limit.burst_ns
        )
        latency_s = histogram.quantile(point.latency_ns, point.latency_count, 0.5) / 1e9
        return latency_s + max(costs_ns, default=0.0) / 1e9


def model_of(storage: Storage) -> Model:
    """The model of a storage: its latencies where it has nothing else to do, servers and limits.

    Figures of the device itself come before those of the page cache, which is not emulated.
    """
    points = [point for op in OPS for point in _points(storage.of(op))]
    if storage.limits or storage.servers is not None:
        return Model(storage.name, points, storage.servers, storage.limits)
    return Model(storage.name, points, *_shown(storage))


def _shown(storage: Storage) -> tuple[int | None, list[Limit]]:
    """Servers, and bytes per second as a limit, where measured depths show them."""
    model = Latencies(storage, access="direct")
    ops = [op for op in OPS if any(group.count for group in storage.of(op))]
    servers = [found for op in ops for found in [model.servers(op)] if found is not None]
    ns_per_byte = {op: 1e9 / (model.bandwidth_bytes_per_s(op) or math.inf) for op in ops}
    # Latencies as measured hold the transfer of one operation already: only a queue of them waits.
    bandwidth = Limit(
        "bandwidth",
        read_ns_per_byte=ns_per_byte.get("read", 0.0),
        write_ns_per_byte=ns_per_byte.get("write", 0.0),
        burst_ns=BURST_NS,
    )
    limits = [bandwidth] if any(ns_per_byte.values()) else []
    return (max(1, round(max(servers))) if servers else None), limits


def fixed_model(read_s: float | None, write_s: float | None) -> Model:
    """Every read and write takes the same, whatever its size; None for as fast as the mount."""
    points = [
        Point(op, sequential, ANY_SIZE_BYTES, [round(seconds * 1e9)], [1])
        for op, seconds in zip(OPS, (read_s, write_s), strict=True)
        if seconds is not None
        for sequential in (True, False)
    ]
    words = ("as fast as can be" if s is None else format_duration(s) for s in (read_s, write_s))
    return Model(", ".join(f"{op}s {word}" for op, word in zip(OPS, words, strict=True)), points)


def _points(groups: Sequence[Group]) -> Iterator[Point]:
    """One op's points, for both patterns: of each size the group of the smallest depth."""
    held = [group for group in groups if group.count]
    held = [group for group in held if group.access == "direct"] or held
    for pattern in ("sequential", "random"):
        of_pattern = [group for group in held if group.pattern == pattern] or held
        by_size: dict[int, Group] = {}
        for group in sorted(of_pattern, key=lambda g: g.depth):
            by_size.setdefault(group.size_class_bytes, group)
        for group in by_size.values():
            size_bytes = round(group.bytes / group.count)
            latencies = list(group.latency_ns), list(group.latency_count)
            yield Point(group.op, pattern == "sequential", size_bytes, *latencies)


class Mount:
    """A mount while it is there."""

    def __init__(
        self,
        mounted: _core.Emulation,
        model: Model,
        mountpoint: Path,
        backing: Path,
        *,
        page_cache: bool,
    ) -> None:
        self.model = model
        self.mountpoint = mountpoint.absolute()
        self.backing = backing.absolute()
        self.page_cache = page_cache
        #: What the mount itself adds: op, size in bytes, ns.
        self.floor = mounted.floor()
        self._mounted = mounted
        self._since = time.monotonic()

    def is_there(self) -> bool:
        """Whether nobody has unmounted it."""
        return self._mounted.is_mounted()

    def result(self) -> "Emulated":
        """What was done so far."""
        elapsed_s = time.monotonic() - self._since
        return Emulated(self, elapsed_s, self._mounted.stats())

    def too_fast(self) -> dict[str, str]:
        """By op, what is asked for that the mount cannot do, in words: the farthest off."""
        words = {}
        for op in OPS:
            asked = [point for point in self.model.points if point.op == op]
            worst = max(asked, key=self._excess_s, default=None)
            if worst is not None and self._excess_s(worst) > 0:
                median_s = self.model.median_s(worst)
                words[op] = (
                    f"{op}s of {format_bytes(worst.size_bytes)} are to take "
                    f"{format_duration(median_s)}, and the mount alone takes "
                    f"{format_duration(median_s + self._excess_s(worst))}"
                )
        return words

    def _excess_s(self, point: Point) -> float:
        """How much longer the mount alone takes than a point asks for."""
        of_op = [(size, ns) for op, size, ns in self.floor if op == point.op]
        _, floor_ns = min(of_op, key=lambda known: abs(known[0] - point.size_bytes))
        return floor_ns / 1e9 - self.model.median_s(point)


@dataclass(frozen=True)
class Emulated:
    """What was done on a mount and how well it kept to its model."""

    mount: Mount
    elapsed_s: float
    #: One mapping for reads and one for writes, with the keys of docs/schema.md.
    operations: Sequence[Mapping[str, Any]]

    def warnings(self) -> list[dict[str, str]]:
        """What a reader should know: ``code`` and ``message``."""
        too_fast = self.mount.too_fast()
        found = [{"code": "floor", "message": words} for words in too_fast.values()]
        slow = f"the machine, or {self.mount.backing}, is too slow or too busy"
        for done in self.operations:
            share = done["late"] / done["count"] if done["count"] else 0.0
            if share > LATE:
                cause = "so does the mount alone" if done["op"] in too_fast else slow
                message = (
                    f"{share:.0%} of the {done['op']}s took more than a tenth longer than asked: "
                    f"{cause}"
                )
                found.append({"code": "late", "message": message})
        return found

    def to_json(self) -> dict[str, Any]:
        """The document of docs/schema.md."""
        model = self.mount.model
        return {
            "schema": EMULATION_SCHEMA,
            "name": model.name,
            "mountpoint": str(self.mount.mountpoint),
            "backing": str(self.mount.backing),
            "page_cache": self.mount.page_cache,
            "elapsed_s": self.elapsed_s,
            "servers": model.servers,
            "limits": written(model.limits),
            "floor": [
                {"op": op, "size_bytes": size_bytes, "added_ns": added_ns}
                for op, size_bytes, added_ns in self.mount.floor
            ],
            "operations": [dict(done) for done in self.operations],
            "warnings": self.warnings(),
        }


@contextmanager
def emulate(
    model: Model, mountpoint: Path, backing: Path, *, page_cache: bool = False
) -> Iterator[Mount]:
    """Show the directory ``backing`` at ``mountpoint``, an empty one, at the pace of ``model``.

    Opening, naming and removing files takes no time. It ends with the block; where this process is
    killed, at once. This process must not use the mount itself: killed meanwhile, it would hang.
    InputError where a directory cannot be used, SpillcastError where there is no FUSE.
    """
    try:
        mounted = _core.Emulation(
            backing,
            mountpoint,
            model.points,
            servers=model.servers,
            limits=model.limits,
            page_cache=page_cache,
        )
    except ValueError as error:
        raise InputError(*str(error).split("; ", 1)) from error
    except OSError as error:
        raise SpillcastError(*str(error.strerror or error).split("; ", 1)) from error
    try:
        yield Mount(mounted, model, mountpoint, backing, page_cache=page_cache)
    finally:
        mounted.unmount()

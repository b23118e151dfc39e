"""A mount that behaves like a storage: its model, its life, and its accuracy."""

import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from spillcast import _core
from spillcast.document import written
from spillcast.errors import OptionInvalid, SystemFailed
from spillcast.recording.event_names import OPS
from spillcast.storage.behaviour import Behaviour, Point
from spillcast.units import format_bytes, format_duration

EMULATION_SCHEMA = "spillcast.emulation/1"
#: Share of operations that came more than a tenth later than asked from which on it warns.
LATE = 0.05


class Mount:
    """A running mount."""

    def __init__(
        self,
        mounted: _core.Emulation,
        behaviour: Behaviour,
        mountpoint: Path,
        backing: Path,
        *,
        page_cache: bool,
    ) -> None:
        self.behaviour = behaviour
        self.mountpoint = mountpoint.absolute()
        self.backing = backing.absolute()
        self.page_cache = page_cache
        #: What the mount itself adds: op, size in bytes, ns.
        self.floor = mounted.floor()
        self._mounted = mounted
        self._since = time.monotonic()

    def is_mounted(self) -> bool:
        """Whether it is still mounted."""
        return self._mounted.is_mounted()

    def result(self) -> "Emulated":
        """The operations so far."""
        elapsed_s = time.monotonic() - self._since
        return Emulated(self, elapsed_s, self._mounted.stats())

    def too_fast(self) -> dict[str, str]:
        """By op, a sentence about the requested latency that the mount misses most."""
        words = {}
        for op in OPS:
            wanted = [point for point in self.behaviour.idle_points if point.op == op]
            worst = max(wanted, key=self._excess_s, default=None)
            if worst is not None and self._excess_s(worst) > 0:
                median_s = self.behaviour.median_s(worst)
                words[op] = (
                    f"{op}s of {format_bytes(worst.size_bytes)} should take "
                    f"{format_duration(median_s)}, but the mount alone takes "
                    f"{format_duration(median_s + self._excess_s(worst))}"
                )
        return words

    def _excess_s(self, point: Point) -> float:
        """The excess of the mount's own time over the latency of a point."""
        of_op = [(size, ns) for op, size, ns in self.floor if op == point.op]
        _, floor_ns = min(of_op, key=lambda known: abs(known[0] - point.size_bytes))
        return floor_ns / 1e9 - self.behaviour.median_s(point)


@dataclass(frozen=True)
class Emulated:
    """Reports the operations on a mount and how closely it kept their latencies."""

    mount: Mount
    elapsed_s: float
    #: One mapping for reads and one for writes, with the keys of docs/schema.md.
    operations: Sequence[Mapping[str, Any]]

    def warnings(self) -> list[dict[str, str]]:
        """Warnings, as ``code`` and ``message``."""
        too_fast = self.mount.too_fast()
        warnings = [{"code": "floor", "message": words} for words in too_fast.values()]
        slow = f"the machine, or {self.mount.backing}, is too slow or too busy"
        for done in self.operations:
            share = done["late"] / done["count"] if done["count"] else 0.0
            if share > LATE:
                cause = "the mount alone takes longer" if done["op"] in too_fast else slow
                message = (
                    f"{share:.0%} of the {done['op']}s took over 10 % longer than requested: "
                    f"{cause}"
                )
                warnings.append({"code": "late", "message": message})
        return warnings

    def to_json(self) -> dict[str, Any]:
        """The document of docs/schema.md."""
        behaviour = self.mount.behaviour
        return {
            "schema": EMULATION_SCHEMA,
            "name": behaviour.name,
            "mountpoint": str(self.mount.mountpoint),
            "backing": str(self.mount.backing),
            "page_cache": self.mount.page_cache,
            "elapsed_s": self.elapsed_s,
            "servers": behaviour.servers,
            "limits": written(behaviour.limits),
            "floor": [
                {"op": op, "size_bytes": size_bytes, "added_ns": added_ns}
                for op, size_bytes, added_ns in self.mount.floor
            ],
            "operations": [dict(done) for done in self.operations],
            "warnings": self.warnings(),
        }


@contextmanager
def emulate(
    behaviour: Behaviour, mountpoint: Path, backing: Path, *, page_cache: bool = False
) -> Iterator[Mount]:
    """Show the directory ``backing`` at ``mountpoint``, an empty one, at the pace of ``behaviour``.

    Opening, naming and removing files takes no time. It ends with the block; where this process is
    killed, at once. This process must not use the mount itself: killed meanwhile, it would hang.
    InputError where a directory cannot be used, SpillcastError where there is no FUSE.
    """
    try:
        mounted = _core.Emulation(backing, mountpoint, behaviour, page_cache=page_cache)
    except ValueError as error:
        raise OptionInvalid(*str(error).split("; ", 1)) from error
    except OSError as error:
        raise SystemFailed(*str(error.strerror or error).split("; ", 1)) from error
    try:
        yield Mount(mounted, behaviour, mountpoint, backing, page_cache=page_cache)
    finally:
        mounted.unmount()

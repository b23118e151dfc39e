"""What is to come of a query that was seen in part, and so the whole of it."""

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from spillcast.forecast.load import Load
from spillcast.forecast.result import Remaining, RemainingQuantity

Array = NDArray[np.float64]
#: Operations of the whole take no more than so many times what those recorded took, or less.
SLOWER_MOST = 2.0


@dataclass(frozen=True)
class ToCome:
    """Draws of the whole on the storage of the recording; their medians are its figures."""

    #: Elapsed time of the query by the recording's end.
    done_s: float
    elapsed_s: Array
    #: The time outside temp I/O.
    rest_s: Array
    #: By op: bytes of the whole, those of it that are to come, and what a byte takes; of an op that
    #: was not seen it is a guess.
    bytes: Mapping[str, Array]
    coming: Mapping[str, Array]
    io_s_per_byte: Mapping[str, float]
    #: Ops that were seen.
    seen: Collection[str]
    #: Where each figure is from: ``written``, ``read`` and ``elapsed``.
    sources: Mapping[str, str]
    #: By op bytes that the recording holds.
    recorded: Mapping[str, float]
    #: Seconds of latency, of all threads together, for one of elapsed time.
    overlap: float = 1.0
    #: What was given and is not used, and why.
    unused: Sequence[str] = ()
    #: Whether no previous run gave the time outside temp I/O.
    guessed: bool = False
    #: Whether its time was told: operations that were not recorded take what then is left of it.
    timed: bool = False

    def whole_s(self, loads: Sequence[Load]) -> float:
        """Elapsed time of the whole query: what lies outside temp I/O, and its ``loads``."""
        return max(float(np.median(self.rest_s)) + self._io_s(loads), self.done_s)

    def _io_s(self, loads: Sequence[Load]) -> float:
        """Elapsed time that loads take."""
        return sum(load.total_s for load in loads) / self.overlap

    def whole_bytes(self, op: str) -> float:
        """Bytes that it moves."""
        return float(np.median(self.bytes[op]))

    def done_bytes(self, op: str) -> float:
        """Bytes that it has moved by the recording's end."""
        return float(np.median(self.bytes[op] - self.coming[op]))

    def loads(self, recorded: Sequence[Load]) -> list[Load]:
        """Those of the whole, from those recorded; an op that was not seen is like the other."""
        results = []
        for op in sorted(self.bytes):
            was_seen = op in self.seen
            alike = [load for load in recorded if (load.op == op) == was_seen]
            moved = sum(similar.bytes for similar in alike)
            times = self.whole_bytes(op) / max(moved, 1)
            for load in alike:
                count, size = round(times * load.count), round(times * load.bytes)
                if count:
                    elapsed_s = size * self.io_s_per_byte[op]
                    took_s = times * load.total_s if was_seen else self.overlap * elapsed_s
                    results.append(replace(load, op=op, count=count, bytes=size, total_s=took_s))
        slower = self._slower(self._io_s(results))
        results = [replace(load, total_s=slower * load.total_s) for load in results]
        return sorted(results, key=lambda load: (load.op, load.size_class_bytes))

    def _slower(self, io_s: float) -> float:
        """How much longer operations of the whole take than those recorded, which take ``io_s``."""
        if not self.timed or io_s <= 0:
            return 1.0
        left_s = float(np.median(self.elapsed_s)) - float(np.median(self.rest_s))
        return min(max(left_s / io_s, 1 / SLOWER_MOST), SLOWER_MOST)

    def factors(self) -> Mapping[str, Array]:
        """By op draws of its bytes over their median."""
        return {op: drawn / max(self.whole_bytes(op), 1.0) for op, drawn in self.bytes.items()}

    def rest_off_s(self) -> Array:
        """Draws of the time outside temp I/O, less their median."""
        return self.rest_s - float(np.median(self.rest_s))

    def summary(self) -> Remaining:
        """What a forecast tells of it."""
        left_s = np.maximum(self.elapsed_s - self.done_s, 0)
        return Remaining(
            done_s=self.done_s,
            reads_bytes=self._left_bytes("read", self.sources["read"]),
            writes_bytes=self._left_bytes("write", self.sources["written"]),
            elapsed_s=_quantity(left_s, self.sources["elapsed"]),
            unused=list(self.unused),
        )

    def _left_bytes(self, op: str, source: str) -> RemainingQuantity:
        left = _quantity(self.coming[op], source)
        return replace(left, done=self.done_bytes(op), recorded=self.recorded[op])


def _quantity(drawn: Array, source: str) -> RemainingQuantity:
    low, centre, high = (float(q) for q in np.quantile(drawn, [0.05, 0.5, 0.95]))
    return RemainingQuantity(low=low, centre=centre, high=high, source=source)

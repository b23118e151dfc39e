"""Made-up storages for tests, whose latencies follow a formula."""

import math
from dataclasses import dataclass

import numpy as np

from spillcast.storage import Group, Storage
from spillcast.storage.source import GRID

SIZES = [4096 << step for step in range(9)]
DEPTHS = [1, 2, 4, 8, 16, 32]


@dataclass(frozen=True)
class Law:
    """Latency with q operations of s bytes in flight, max(l, q * l / k, q * s / B).

    l = base + s / bandwidth is the latency when idle, k the number of servers, B the bus bandwidth.
    """

    base_s: float
    bandwidth: float
    servers: float = math.inf
    bus: float = math.inf

    def __call__(self, size, depth):
        idle_s = self.base_s + size / self.bandwidth
        return max(idle_s, depth * idle_s / self.servers, depth * size / self.bus)


def group(op, size, depth, mean_s, *, pattern="random", access="direct", count=1000, blocks=4):
    """A group of operations that all take the same time."""
    ns = round(mean_s * 1e9)
    share = count // blocks
    return Group(
        op=op, size_class_bytes=size, depth=depth, count=count, bytes=size * count,
        total_ns=ns * count, latency_ns=[ns], latency_count=[count],
        block_count=[share] * (blocks - 1) + [count - share * (blocks - 1)],
        block_mean_ns=[ns] * blocks, pattern=pattern, access=access,
    )  # fmt: skip


def spread(op, size, samples_s, **others):
    """A group with these latencies."""
    ns, count = np.unique(np.round(np.asarray(samples_s) * 1e9).astype(int), return_counts=True)
    total_ns = int((ns * count).sum())
    fields = {
        "op": op, "size_class_bytes": size, "depth": 1, "count": len(samples_s),
        "bytes": size * len(samples_s), "total_ns": total_ns,
        "latency_ns": ns.tolist(), "latency_count": count.tolist(),
        "block_count": [len(samples_s)], "block_mean_ns": [total_ns // len(samples_s)],
    }  # fmt: skip
    return Group(**(fields | others))


def grid(law, *, op="read", sizes=SIZES, depths=DEPTHS, without=(), noise=lambda: 0.0, **others):
    """A storage of this law, measured at all sizes and depths except those in ``without``."""
    cells = [(size, depth) for size in sizes for depth in depths if (size, depth) not in without]
    groups = [group(op, s, q, law(s, q) * (1 + noise()), **others) for s, q in cells]
    return Storage("made up", GRID, groups)

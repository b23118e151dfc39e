"""The figures by which rows of the catalogue are told apart."""

from dataclasses import dataclass

from spillcast.storage.ceilings import CREDIT_S
from spillcast.storage.storage import Storage

READ_BYTES, WRITE_BYTES = 8 << 10, 256 << 10


@dataclass(frozen=True)
class Figures:
    """A random read of 8 KiB and a sequential write of 256 KiB: alone, and as many as go."""

    read_s: float
    write_s: float
    reads_per_s: float
    write_bytes_per_s: float


def figures(storage: Storage) -> Figures:
    """Holds the figures of a storage with limits. Rates are those with full credits."""
    return Figures(
        _alone_s(storage, "read", READ_BYTES, sequential=False),
        _alone_s(storage, "write", WRITE_BYTES, sequential=True),
        _per_s(storage, "read", READ_BYTES, sequential=False),
        _per_s(storage, "write", WRITE_BYTES, sequential=True) * WRITE_BYTES,
    )


def _alone_s(storage: Storage, op: str, size_bytes: int, *, sequential: bool) -> float:
    """One operation that finds the storage idle."""
    pattern = "sequential" if sequential else "random"
    group = next(
        g for g in storage.of(op) if g.size_class_bytes == size_bytes and g.pattern == pattern
    )
    costs_ns = [
        limit.cost_ns(op, size_bytes, sequential=sequential)
        for limit in storage.limits
        if limit.burst_ns == 0
    ]
    return group.mean_s + max(costs_ns, default=0.0) / 1e9


def _per_s(storage: Storage, op: str, size_bytes: int, *, sequential: bool) -> float:
    """Operations a second when there are always more to do."""
    costs_ns = [
        limit.cost_ns(op, size_bytes, sequential=sequential)
        for limit in storage.limits
        if limit.burst_ns <= CREDIT_S * 1e9
    ]
    return 1e9 / max(costs_ns)

"""Rate limits of a storage, whatever the latency of a single operation."""

from dataclasses import dataclass

from spillcast.document import key


@dataclass(frozen=True)
class Limit:
    """A bucket of device time that fills at one second a second, and that operations draw from.

    An operation of n bytes costs ``base + n * ns_per_byte``; where ``operation_bytes`` is set, one
    that is larger counts as several. It begins once the bucket is not below zero after it. With
    ``burst_ns`` 0 every operation first waits for its own cost, as on a bus or a disk; with more,
    operations go at once until the burst is used up, as on a rented volume.
    """

    name: str = key("its name", example="iops")
    read_random_ns: float = key(
        "device time of an operation", unit="ns", example=333333.3, default=0.0, later=True
    )
    read_sequential_ns: float = key("the same", unit="ns", default=0.0, later=True)
    write_random_ns: float = key("the same", unit="ns", default=0.0, later=True)
    write_sequential_ns: float = key("the same", unit="ns", default=0.0, later=True)
    read_ns_per_byte: float = key(
        "device time of a byte", unit="ns", example=7.63, default=0.0, later=True
    )
    write_ns_per_byte: float = key("the same", unit="ns", default=0.0, later=True)
    operation_bytes: int | None = key(
        "larger operations count as several; null: never",
        unit="bytes",
        example=262144,
        default=None,
        later=True,
    )
    burst_ns: float = key("capacity of the bucket", unit="ns", default=0.0, later=True)

    def cost_ns(self, op: str, size_bytes: int, *, sequential: bool) -> float:
        """Device time of one operation."""
        read, pattern = op == "read", "sequential" if sequential else "random"
        base_ns: float = getattr(self, f"{op}_{pattern}_ns")
        if self.operation_bytes is not None:
            base_ns *= -(-size_bytes // self.operation_bytes)
        return base_ns + size_bytes * (self.read_ns_per_byte if read else self.write_ns_per_byte)


def operations_limit(
    name: str, per_s: float, *, operation_bytes: int | None = None, burst: float = 0.0
) -> Limit:
    """So many operations a second, reads and writes together; ``burst`` operations go at once."""
    ns = 1e9 / per_s
    return Limit(name, ns, ns, ns, ns, operation_bytes=operation_bytes, burst_ns=burst * ns)


def bytes_limit(name: str, per_s: float, *, burst: float = 0.0) -> Limit:
    """So many bytes a second, reads and writes together; ``burst`` bytes go at once."""
    ns = 1e9 / per_s
    return Limit(name, read_ns_per_byte=ns, write_ns_per_byte=ns, burst_ns=burst * ns)


def write_cache_limit(cache_bytes: float, bytes_per_s: float) -> Limit:
    """A write cache that saturates: so many bytes go at once, and leave it at this rate."""
    ns = 1e9 / bytes_per_s
    return Limit("write cache", write_ns_per_byte=ns, burst_ns=cache_bytes * ns)

"""What the limits of rented volumes have in common: rates, small bursts, and credits."""

from spillcast.storage.catalogue.tables import Entry, number
from spillcast.storage.limit import Limit, bytes_limit, operations_limit

MIB = 1 << 20
MB = 10**6
UNIT_BYTES = {"MiB": MIB, "MB": MB}
#: Time's worth of a rate that a volume serves at once, so that single operations are not delayed.
#: Products do not document it; no run is short enough to feel it.
_BURST_S = 0.1


def burst_s(bytes_per_s: float) -> float:
    """Time's worth that a bucket of a rate holds: at least one operation of 1 MiB."""
    return max(_BURST_S, MIB / bytes_per_s)


def operation_bytes(entry: Entry) -> int | None:
    """The size above which an operation counts as several; None where none is documented."""
    kib = number(entry, "operation_kib")
    return None if kib is None else round(kib) * 1024


def rate_limits(iops: float, bytes_per_s: float, largest_bytes: int | None) -> list[Limit]:
    """So many operations and so many bytes a second, from the first moment on."""
    held_s = burst_s(bytes_per_s)
    return [
        operations_limit("iops", iops, operation_bytes=largest_bytes, burst=iops * held_s),
        bytes_limit("throughput", bytes_per_s, burst=bytes_per_s * held_s),
    ]

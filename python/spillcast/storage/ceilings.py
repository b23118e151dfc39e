"""Concurrency and throughput limits of a storage: from measured depths, or as stated."""

import math

import numpy as np

from spillcast.storage.cells import Cells
from spillcast.storage.limit import Limit
from spillcast.storage.storage import Storage

#: Throughput has stopped to grow where twice the depth or size brings less than this more.
STILL = 1.1
#: A bucket that holds more than this is credit for a burst, not a rate.
CREDIT_S = 60.0


def measured_operations(cells: Cells) -> float | None:
    """Operations per second of the smallest size where depth stops to raise them."""
    return _plateau(cells, cells.sizes[0])


def measured_servers(cells: Cells) -> float | None:
    """Operations per second at depth over those at depth 1, of the smallest size.

    It need not be a whole number: operations may share a part of their way.
    """
    most = _plateau(cells, cells.sizes[0])
    depths, mean_s = cells.row(cells.sizes[0])
    return None if most is None or depths[0] != 1 else max(1.0, most * float(mean_s[0]))


def measured_bandwidth(cells: Cells) -> float | None:
    """Bytes per second of the largest size, where neither depth nor size raises them any more."""
    if len(cells.sizes) < 2:
        return None
    smaller, largest = cells.sizes[-2:]
    rates = [_plateau(cells, size) for size in (smaller, largest)]
    if rates[0] is None or rates[1] is None:
        return None
    before, last = rates[0] * smaller, rates[1] * largest
    return last if _still(smaller, largest, before, last) else None


def _plateau(cells: Cells, size_bytes: int) -> float | None:
    """Operations per second of a size at its largest depths, where these do not differ."""
    depths, mean_s = cells.row(size_bytes)
    if len(depths) < 2 or depths[0] == 0 or not np.all(mean_s > 0):
        return None
    per_s = depths / mean_s
    if not _still(depths[-2], depths[-1], per_s[-2], per_s[-1]):
        return None
    # All depths from which on it does not grow; the first of them may be on its way there.
    at = len(depths) - 2
    while at > 0 and _still(depths[at - 1], depths[at], per_s[at - 1], per_s[at]):
        at -= 1
    return float(np.median(per_s[at:]))


def _still(x: float, x_next: float, rate: float, rate_next: float) -> bool:
    return bool(rate_next / rate < STILL ** math.log2(x_next / x))


def queued_s(
    storage: Storage,
    op: str,
    size_bytes: int,
    idle_s: float,
    depth: float,
    *,
    sequential: bool,
    lasting: bool,
) -> float:
    """Latency with ``depth`` operations always under way, from the latency of an idle storage.

    With q under way, k servers and c the device time that the tightest limit without burst takes of
    an operation, which comes before L: max(c + L, q * L / k, q * c). A burst goes at once; where it
    is ``lasting``, limits with a burst of less than a minute count among q * c.
    """
    costs_ns = [
        (limit.burst_ns, limit.cost_ns(op, size_bytes, sequential=sequential))
        for limit in storage.limits
    ]
    before_s = max((cost for burst, cost in costs_ns if not burst), default=0.0) / 1e9
    burst_max_ns = CREDIT_S * 1e9 if lasting else 0.0
    cost_s = max((cost for burst, cost in costs_ns if burst <= burst_max_ns), default=0.0) / 1e9
    served_s = depth * idle_s / storage.servers if storage.servers else 0.0
    return max(before_s + idle_s, served_s, depth * cost_s)


def stated_operations(storage: Storage, op: str, size_bytes: int, idle_s: float) -> float | None:
    """Operations of a size per second that servers and limits allow; None if unlimited."""
    costs_s = [limit.cost_ns(op, size_bytes, sequential=False) / 1e9 for limit in storage.limits]
    if storage.servers:
        costs_s.append(idle_s / storage.servers)
    slowest_s = max(costs_s, default=0.0)
    return 1 / slowest_s if slowest_s else None


def stated_bandwidth(storage: Storage, op: str) -> float | None:
    """Bytes per second that limits allow to large operations; None if unlimited."""
    slowest_ns = max((_ns_per_byte(limit, op) for limit in storage.limits), default=0.0)
    return 1e9 / slowest_ns if slowest_ns else None


def _ns_per_byte(limit: Limit, op: str) -> float:
    """Device time for a byte of an operation that is as large as can be."""
    per_byte: float = getattr(limit, f"{op}_ns_per_byte")
    if limit.operation_bytes is not None:
        base_ns: float = getattr(limit, f"{op}_sequential_ns")
        per_byte += base_ns / limit.operation_bytes
    return per_byte

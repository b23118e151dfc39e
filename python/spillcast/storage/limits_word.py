"""A storage given by its limits alone: ``limits:iops=12000,throughput=500MiB/s,latency=0.5ms``."""

from spillcast.errors import TargetInvalid
from spillcast.recording.event_names import OPS
from spillcast.storage.limit import Limit, bytes_limit, operations_limit
from spillcast.storage.source import ASSUMED
from spillcast.storage.storage import Group, Storage
from spillcast.units import parse_bytes_per_s, parse_latency_s, parse_rate

_EXAMPLE = "for example limits:iops=12000,throughput=500MiB/s,latency=0.5ms"
#: 4 KiB to 1 MiB, all of one latency: what larger operations cost follows from the throughput.
_SIZES_BYTES = tuple(4096 << doubling for doubling in range(9))
#: Time's worth of a rate that goes at once, so that single operations are not delayed.
_BURST_S = 0.1


def limits_storage(text: str, value: str) -> Storage:
    """The storage of ``value``, what follows ``limits:``. InputError names what is wrong."""
    given: dict[str, str] = {}
    for part in value.split(","):
        key, equals, of_key = (each.strip() for each in part.partition("="))
        if not equals or key not in ("iops", "throughput", "latency") or key in given:
            known = "iops, throughput and latency, each once"
            raise TargetInvalid(
                f"{text}: '{part.strip()}' is no limit; known are {known}", _EXAMPLE
            )
        given[key] = of_key
    if "latency" not in given:
        raise TargetInvalid(f"{text}: the latency of one operation is missing", _EXAMPLE)
    latency_s = parse_latency_s(given["latency"], f"{text}: latency")
    limits: list[Limit] = []
    if "iops" in given:
        iops = parse_rate(given["iops"], f"{text}: iops")
        limits.append(operations_limit("iops", _positive(text, iops), burst=iops * _BURST_S))
    if "throughput" in given:
        bytes_per_s = parse_bytes_per_s(given["throughput"], f"{text}: throughput")
        burst = _positive(text, bytes_per_s) * _BURST_S
        limits.append(bytes_limit("throughput", bytes_per_s, burst=burst))
    ns = round(latency_s * 1e9)
    groups = [
        Group(op, size, 1, 1, size, ns, [ns], [1], [1], [ns], pattern, "direct")
        for op in OPS
        for pattern in ("sequential", "random")
        for size in _SIZES_BYTES
    ]
    return Storage(text, ASSUMED, groups, limits=limits)


def _positive(text: str, rate: float) -> float:
    if rate <= 0:
        raise TargetInvalid(f"{text}: a limit of 0", _EXAMPLE)
    return rate

"""Rented volumes whose size sets operations and bytes a second, some with bursts on credit."""

from dataclasses import dataclass
from functools import partial

from spillcast.recording.event_names import OPS
from spillcast.storage.catalogue.row import GIB, Parameter, Row, Values
from spillcast.storage.catalogue.tables import Entry, number, table
from spillcast.storage.catalogue.volumes import MIB, burst_s, operation_bytes
from spillcast.storage.limit import Limit


def sized_rows() -> list[Row]:
    """Products, in the order of the table."""
    return [
        Row(
            entry["name"],
            entry["what"],
            entry["description"],
            entry["source"],
            entry["latency"],
            1.0,
            partial(_limits, entry),
            [_size(entry)],
        )
        for entry in table("sized")
    ]


def _size(entry: Entry) -> Parameter:
    default, low, high = (float(entry[f"size_gib{end}"]) * GIB for end in ("", "_min", "_max"))
    return Parameter("size", default, low, high, "bytes")


@dataclass(frozen=True)
class _Rates:
    """Operations (None: as many as the bytes allow) and bytes a second."""

    read_iops: float | None
    write_iops: float | None
    read_bytes_per_s: float
    write_bytes_per_s: float


def _limits(entry: Entry, values: Values) -> list[Limit]:
    gib = values["size"] / GIB
    base, burst = _base(entry, gib), _burst(entry, gib)
    largest, merged = operation_bytes(entry), entry["merged"] == "yes"
    if burst is None:
        return _buckets("", base, burst_s(base.write_bytes_per_s), largest, merged=merged)
    operations = number(entry, "burst_operations")
    # Credits are operations (gp2), or bytes: as many as the volume holds (st1, sc1).
    full_s = (
        values["size"] / base.read_bytes_per_s
        if operations is None
        else operations / (base.read_iops or 1.0)
    )
    return [
        *_buckets("", burst, burst_s(burst.write_bytes_per_s), largest, merged=merged),
        *_buckets(" credits", base, full_s, largest, merged=merged, bytes_too=operations is None),
    ]


def _base(entry: Entry, gib: float) -> _Rates:
    """What the volume sustains."""
    iops: dict[str, float | None] = {}
    bytes_per_s: dict[str, float] = {}
    for op in OPS:
        per_gib = number(entry, f"{op}_iops_per_gib")
        least = number(entry, "iops_min") or 0.0
        iops[op] = (
            None
            if per_gib is None
            else min(max(per_gib * gib, least), float(entry[f"{op}_iops_max"]))
        )
        mib = max(float(entry["throughput_per_gib"]) * gib, number(entry, "throughput_min") or 0.0)
        bytes_per_s[op] = min(mib, float(entry[f"{op}_throughput_max"])) * MIB
    return _Rates(iops["read"], iops["write"], bytes_per_s["read"], bytes_per_s["write"])


def _burst(entry: Entry, gib: float) -> _Rates | None:
    """What it does while it has credits; None where that is no more than it sustains."""
    base = _base(entry, gib)
    iops = number(entry, "burst_iops")
    if iops is not None and base.read_iops is not None and iops > base.read_iops:
        return _Rates(iops, iops, base.read_bytes_per_s, base.write_bytes_per_s)
    per_gib = number(entry, "burst_throughput_per_gib")
    if per_gib is not None:
        bytes_per_s = min(per_gib * gib, float(entry["burst_throughput_max"])) * MIB
        if bytes_per_s > base.read_bytes_per_s:
            return _Rates(None, None, bytes_per_s, bytes_per_s)
    return None


def _buckets(
    suffix: str,
    rates: _Rates,
    held_s: float,
    largest_bytes: int | None,
    *,
    merged: bool,
    bytes_too: bool = True,
) -> list[Limit]:
    """A bucket of operations where they are limited, and one of bytes."""
    limits = []
    if rates.read_iops is not None and rates.write_iops is not None:
        read_ns, write_ns = 1e9 / rates.read_iops, 1e9 / rates.write_iops
        limits.append(
            Limit(
                f"iops{suffix}",
                read_ns,
                read_ns,
                write_ns,
                write_ns,
                operation_bytes=largest_bytes,
                burst_ns=held_s * 1e9,
            )
        )
    if merged and largest_bytes is not None:
        # Random operations count whole; sequential ones are merged and count by their bytes, in the
        # bucket below. What mixes both is let through a little too fast.
        whole_ns = largest_bytes / rates.read_bytes_per_s * 1e9
        limits.append(
            Limit(
                f"random operations{suffix}",
                read_random_ns=whole_ns,
                write_random_ns=whole_ns,
                operation_bytes=largest_bytes,
                burst_ns=held_s * 1e9,
            )
        )
    if bytes_too:
        limits.append(
            Limit(
                f"throughput{suffix}",
                read_ns_per_byte=1e9 / rates.read_bytes_per_s,
                write_ns_per_byte=1e9 / rates.write_bytes_per_s,
                burst_ns=held_s * 1e9,
            )
        )
    return limits

"""From a line of a table to rate limits: devices, provisioned and sized volumes, tiers."""

from dataclasses import dataclass
from functools import partial
from math import ceil

from spillcast.errors import TargetInvalid
from spillcast.recording.event_names import OPS
from spillcast.storage.catalogue.row import (
    GIB,
    MB,
    MIB,
    UNIT_BYTES,
    Entry,
    Parameter,
    Row,
    Values,
    burst_s,
    number,
    operation_bytes,
    rate_limits,
    table,
)
from spillcast.storage.storage import Limit, bytes_limit, operations_limit
from spillcast.units import format_bytes

PAGE_BYTES = 4096


def device_rows() -> list[Row]:
    """The kernel's defaults, SSD models, and the local disks of rented machines."""
    return [_device_row(entry) for name in ("devices", "local_disks") for entry in table(name)]


def _device_row(entry: Entry) -> Row:
    return Row(
        entry["name"],
        entry["what"],
        entry["description"],
        entry["source"],
        entry["latency"],
        float(entry["spread"]),
        partial(_device_limits, entry),
    )


def _device_limits(entry: Entry, _: Values) -> list[Limit]:
    read_page_ns, read_random_ns, read_sequential_ns = _costs(entry, "read")
    write_page_ns, write_random_ns, write_sequential_ns = _costs(entry, "write")
    limit = Limit(
        "device time",
        read_random_ns=read_random_ns,
        read_sequential_ns=read_sequential_ns,
        write_random_ns=write_random_ns,
        write_sequential_ns=write_sequential_ns,
        read_ns_per_byte=read_page_ns / PAGE_BYTES,
        write_ns_per_byte=write_page_ns / PAGE_BYTES,
    )
    return [limit]


def _costs(entry: Entry, op: str) -> tuple[float, float, float]:
    """Device time of a page, and the base of a random and of a sequential operation."""
    page_ns = PAGE_BYTES / float(entry[f"{op}_bytes_per_s"]) * 1e9
    random_ns = max(1e9 / float(entry[f"{op}_random_per_s"]) - page_ns, 0.0)
    sequential_per_s = entry.get(f"{op}_sequential_per_s")
    if sequential_per_s is None:
        return page_ns, random_ns, random_ns
    sequential_ns = max(1e9 / float(sequential_per_s) - page_ns, 0.0)
    # Some devices were measured faster at random: what spills does not get that.
    return page_ns, max(random_ns, sequential_ns), sequential_ns


#: io1 above its plateau: operations of 16 KiB.
_HELD_OPERATION_MIB = 1 / 64


def provisioned_rows() -> list[Row]:
    """Products, in the order of the table."""
    return [
        Row(
            entry["name"],
            entry["what"],
            entry["description"],
            entry["source"],
            entry["latency"],
            1.0,
            partial(_provisioned_limits, entry),
            _parameters(entry),
            partial(_settle, entry),
        )
        for entry in table("provisioned")
    ]


def _parameters(entry: Entry) -> list[Parameter]:
    units = {"iops": "IOPS", "throughput": f"{entry['unit']}/s", "size": "bytes"}
    columns = {"iops": "iops", "throughput": "throughput", "size": "size_gib"}
    parameters = []
    for key, column in columns.items():
        if entry[column]:
            scale = GIB if key == "size" else 1
            default, low, high = (
                float(entry[column + end]) * scale for end in ("", "_min", "_max")
            )
            parameters.append(Parameter(key, default, low, high, units[key]))
    return parameters


def _settle(entry: Entry, settings: Values) -> Values:
    """What is asked, and the defaults as far as it allows them. InputError for what does not go."""
    values = {parameter.key: parameter.default for parameter in _parameters(entry)} | dict(settings)
    if "iops" in values:
        most = _most_iops(entry, values)
        if "iops" in settings and settings["iops"] > most:
            raise TargetInvalid(
                f"catalogue:{entry['name']}: iops={settings['iops']:,.10g}: "
                f"{format_bytes(values['size'])} of {entry['name']} has up to {most:,.10g} IOPS",
                f"ask for size={ceil(settings['iops'] / float(entry['iops_per_gib']))}G or more",
            )
        values["iops"] = min(values["iops"], most)
    if "throughput" in values:
        most = _most_throughput(entry, values)
        if "throughput" in settings and settings["throughput"] > most:
            iops = ceil(settings["throughput"] / float(entry["throughput_per_iops"]))
            raise TargetInvalid(
                f"catalogue:{entry['name']}: throughput={settings['throughput']:,.10g}: "
                f"{values['iops']:,.10g} IOPS of {entry['name']} move up to {most:,.10g} "
                f"{entry['unit']}/s",
                f"ask for iops={iops}",
            )
        values["throughput"] = min(values["throughput"], most)
    return values


def _most_iops(entry: Entry, values: Values) -> float:
    per_gib = number(entry, "iops_per_gib")
    if per_gib is None:
        return float(entry["iops_max"])
    return max(float(entry["iops_min"]), per_gib * values["size"] / GIB)


def _most_throughput(entry: Entry, values: Values) -> float:
    """In the unit of the product."""
    most = float(entry["throughput_max"])
    per_iops, held = number(entry, "throughput_per_iops"), number(entry, "throughput_held")
    if per_iops is not None:
        most = min(most, per_iops * values["iops"])
    if held is not None:
        most = min(most, max(held, _HELD_OPERATION_MIB * values["iops"]))
    return most


def _provisioned_limits(entry: Entry, values: Values) -> list[Limit]:
    throughput = values.get("throughput") or _most_throughput(entry, values)
    iops = values.get("iops") or float(entry["iops_per_throughput"]) * throughput
    return rate_limits(iops, throughput * UNIT_BYTES[entry["unit"]], operation_bytes(entry))


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
            partial(_sized_limits, entry),
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


def _sized_limits(entry: Entry, values: Values) -> list[Limit]:
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


def tier_rows() -> list[Row]:
    """Tiers, in the order of the table."""
    return [
        Row(
            entry["name"],
            entry["what"],
            entry["description"],
            entry["source"],
            entry["latency"],
            1.0,
            partial(_tier_limits, entry),
        )
        for entry in table("tiers")
    ]


def _tier_limits(entry: Entry, _: Values) -> list[Limit]:
    iops, bytes_per_s = float(entry["iops"]), float(entry["throughput_mb"]) * MB
    largest = operation_bytes(entry)
    minutes = number(entry, "burst_min")
    if minutes is None:
        return rate_limits(iops, bytes_per_s, largest)
    burst_iops = float(entry["burst_iops"])
    burst_bytes_per_s = float(entry["burst_throughput_mb"]) * MB
    # A full bucket lasts for the documented minutes at the burst rate.
    more, more_bytes = (
        (burst - base) * minutes * 60
        for base, burst in ((iops, burst_iops), (bytes_per_s, burst_bytes_per_s))
    )
    return [
        *rate_limits(burst_iops, burst_bytes_per_s, largest),
        operations_limit("iops credits", iops, operation_bytes=largest, burst=more),
        bytes_limit("throughput credits", bytes_per_s, burst=more_bytes),
    ]

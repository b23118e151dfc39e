"""Rented volumes whose size fixes all: Azure's P and E tiers."""

from functools import partial

from spillcast.storage.catalogue.row import Row, Values
from spillcast.storage.catalogue.tables import Entry, number, table
from spillcast.storage.catalogue.volumes import MB, operation_bytes, rate_limits
from spillcast.storage.limit import Limit, bytes_limit, operations_limit


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
            partial(_limits, entry),
        )
        for entry in table("tiers")
    ]


def _limits(entry: Entry, _: Values) -> list[Limit]:
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

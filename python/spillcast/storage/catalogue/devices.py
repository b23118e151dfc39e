"""Disks and SSDs by Linux's cost model: device time per operation and per byte, as measured.

block/blk-iocost.c: page = 4096 / bps; base = max(1 / iops - page, 0), for sequential and for random
operations; cost = base + pages * page.
"""

from functools import partial

from spillcast.storage.catalogue.row import Row, Values
from spillcast.storage.catalogue.tables import Entry, table
from spillcast.storage.limit import Limit

PAGE_BYTES = 4096


def device_rows() -> list[Row]:
    """The kernel's defaults, SSD models, and the local disks of rented machines."""
    return [_row(entry) for name in ("devices", "local_disks") for entry in table(name)]


def _row(entry: Entry) -> Row:
    return Row(
        entry["name"],
        entry["what"],
        entry["description"],
        entry["source"],
        entry["latency"],
        float(entry["spread"]),
        partial(_limits, entry),
    )


def _limits(entry: Entry, _: Values) -> list[Limit]:
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

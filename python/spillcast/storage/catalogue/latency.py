"""What an operation takes on an idle storage of a class, beside what its limits cost."""

from dataclasses import dataclass
from functools import cache

from spillcast.recording.event_names import OPS
from spillcast.storage.catalogue.tables import table
from spillcast.storage.storage import Group
from spillcast.units import format_duration

#: 4 KiB to 1 MiB.
SIZES_BYTES = tuple(4096 << doubling for doubling in range(9))


@dataclass(frozen=True)
class LatencyClass:
    """Latencies that no row measured, so that they are assumed for a whole class of storages."""

    name: str
    #: By op and pattern, of no bytes.
    base_ns: dict[tuple[str, str], int]
    ns_per_byte: float
    #: The factor, either way, within which the latencies are held likely.
    spread: float
    assumption: str
    source: str

    def groups(self) -> list[Group]:
        """One operation of every op, size and pattern, with the latency of this class."""
        return [
            self._group(op, pattern, size)
            for op in OPS
            for pattern in ("sequential", "random")
            for size in SIZES_BYTES
        ]

    def _group(self, op: str, pattern: str, size_bytes: int) -> Group:
        ns = round(self.base_ns[op, pattern] + size_bytes * self.ns_per_byte)
        return Group(op, size_bytes, 1, 1, size_bytes, ns, [ns], [1], [1], [ns], pattern, "direct")

    def sentence(self) -> str:
        """What is assumed, and why."""
        of = {kind: format_duration(ns / 1e9) for kind, ns in self.base_ns.items()}
        if len(set(of.values())) == 1:
            times = of["read", "random"]
        elif of["read", "random"] == of["read", "sequential"]:
            times = f"reads {of['read', 'random']}, writes {of['write', 'random']}"
        else:
            times = f"random {of['read', 'random']}, sequential {of['read', 'sequential']}"
        moves = f" and {1000 / self.ns_per_byte:,.0f} MB/s" if self.ns_per_byte else ""
        return f"latency {times}{moves}: {self.assumption}; {self.source}"


@cache
def latency_class(name: str) -> LatencyClass:
    """A class of ``data/latencies.csv``. KeyError where there is none of this name."""
    entry = {entry["latency"]: entry for entry in table("latencies")}[name]
    base_ns = {
        (op, pattern): round(float(entry[f"{op}_{pattern}_us"]) * 1000)
        for op in OPS
        for pattern in ("random", "sequential")
    }
    return LatencyClass(
        name,
        base_ns,
        float(entry["ns_per_byte"]),
        float(entry["spread"]),
        entry["assumption"],
        entry["source"],
    )

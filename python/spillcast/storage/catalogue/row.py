"""The tables of the catalogue: CSV files of the package, read once."""

import csv
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from importlib.resources import files

from spillcast.errors import InputError, TargetInvalid
from spillcast.recording.event_names import OPS
from spillcast.storage.source import catalogue
from spillcast.storage.storage import Group, Limit, Storage, bytes_limit, operations_limit
from spillcast.units import (
    format_bytes,
    format_duration,
    parse_bytes,
    parse_bytes_per_s,
    parse_rate,
)

Entry = Mapping[str, str]


@cache
def table(name: str) -> tuple[Entry, ...]:
    """The entries of ``data/NAME.csv``, by column."""
    text = files(__package__).joinpath("data", f"{name}.csv").read_text()
    return tuple(csv.DictReader(text.splitlines()))


def number(entry: Entry, column: str) -> float | None:
    """A figure, or None where the table has none."""
    return float(entry[column]) if entry[column] else None


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


GIB = 1 << 30


@dataclass(frozen=True)
class Parameter:
    """What can be chosen of a storage: ``NAME?key=value``. Sizes are bytes."""

    key: str
    default: float
    low: float
    high: float
    unit: str

    @property
    def allowed(self) -> str:
        """The range, with its unit."""
        if self.unit == "bytes":
            return f"{format_bytes(self.low)} to {format_bytes(self.high)}"
        return f"{self.low:,.10g} to {self.high:,.10g} {self.unit}"

    def value(self, name: str, text: str) -> float:
        """The number that ``text`` says. InputError where it is none, or outside the range."""
        try:
            value = self._parsed(text)
        except InputError:
            value = float("nan")
        if not self.low <= value <= self.high:
            raise TargetInvalid(f"catalogue:{name}: {self.key}={text}: {name} takes {self.allowed}")
        return value

    def _parsed(self, text: str) -> float:
        if self.unit == "bytes":
            return parse_bytes(text)
        unit_bytes = UNIT_BYTES.get(self.unit.removesuffix("/s"))
        if unit_bytes is None:
            return parse_rate(text)
        try:
            return float(text)
        except ValueError:
            return parse_bytes_per_s(text) / unit_bytes


Values = Mapping[str, float]


@dataclass(frozen=True)
class Row:
    """A storage of the catalogue. ``title`` is a few words, ``description`` a sentence."""

    name: str
    title: str
    description: str
    #: Where the figures come from, with an address and what it says.
    source: str
    #: Name of the class in ``data/latencies.csv``.
    latency: str
    #: The factor up or down within which the true figures probably are.
    spread: float
    limits: Callable[[Values], Sequence[Limit]]
    parameters: Sequence[Parameter] = ()
    #: From what is asked to a value for every parameter; None where the defaults fill the gaps.
    settle: Callable[[Values], Values] | None = None

    def storage(self, settings: Mapping[str, str] | None = None) -> Storage:
        """The storage with what is asked of it. InputError says what can be asked."""
        settings = settings or {}
        known = {parameter.key: parameter for parameter in self.parameters}
        for key in settings:
            if key not in known:
                raise TargetInvalid(
                    f"catalogue:{self.name}: '{key}' cannot be chosen", self._choices()
                )
        given = {key: known[key].value(self.name, text) for key, text in settings.items()}
        if self.settle is not None:
            values = self.settle(given)
        else:
            values = {parameter.key: parameter.default for parameter in self.parameters} | given
        latencies = latency_class(self.latency)
        spread = max(self.spread, latencies.spread)
        tail = "&".join(f"{key}={text}" for key, text in settings.items())
        return Storage(
            f"catalogue:{self.name}" + (f"?{tail}" if tail else ""),
            catalogue(spread, self.source),
            latencies.groups(),
            {
                "description": self.description,
                "source": self.source,
                "assumed": [latencies.sentence()],
                "spread": spread,
                "parameters": {k: int(v) if v == int(v) else v for k, v in values.items()},
            },
            list(self.limits(values)),
        )

    def _choices(self) -> str:
        if not self.parameters:
            return "its figures are fixed"
        return "choose " + ", ".join(f"{p.key} ({p.allowed})" for p in self.parameters)

"""Rate limits from the figures of a row: devices by Linux's cost model, rented volumes by rates.

A device's figures are those of block/blk-iocost.c: page = 4096 / bytes_per_s; base = max(1 /
operations_per_s - page, 0), for sequential and for random operations; cost = base + pages * page.

A volume's rates are fixed, chosen within limits of the product, or follow from its size. Burst
credits are a second pair of limits, which fill at the volume's sustained rates.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from math import ceil
from typing import Any, NamedTuple

from spillcast.errors import InputError, TargetInvalid
from spillcast.recording import OPS
from spillcast.storage.storage import BURST_S, Limit
from spillcast.units import format_bytes, parse_bytes, parse_bytes_per_s, parse_rate

PAGE_BYTES = 4096
MIB, GIB = 1 << 20, 1 << 30
UNIT_BYTES = {"MiB": MIB, "MB": 10**6}
#: io1 above its plateau: operations of 16 KiB.
_PLATEAU_OPERATION_MIB = 1 / 64

#: Figures of a row by name, and values of its parameters by key (sizes in bytes).
EntryFigures = Mapping[str, float]
Values = Mapping[str, float]


@dataclass(frozen=True)
class Parameter:
    """A parameter that users can choose: ``NAME?key=value``. Sizes are bytes."""

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
        """The number of ``text``. InputError if it is invalid or outside the range."""
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


def parameters_of(figures: EntryFigures) -> list[Parameter]:
    """The parameters of a row: figures with a default, a minimum and a maximum."""
    columns = {
        "iops": ("iops", 1, "IOPS"),
        "throughput": ("throughput", 1, f"{_unit(figures)}/s"),
        "size": ("size_gib", GIB, "bytes"),
    }
    parameters = []
    for key, (column, scale, unit) in columns.items():
        if f"{column}_min" in figures:
            default, low, high = (figures[column + end] * scale for end in ("", "_min", "_max"))
            parameters.append(Parameter(key, default, low, high, unit))
    return parameters


def with_defaults(name: str, figures: EntryFigures, given: Values) -> Values:
    """A value for every parameter: ``given`` or its default.

    InputError for a combination of values that the product does not offer.
    """
    values = {**{p.key: p.default for p in parameters_of(figures)}, **given}
    if "iops" in values:
        iops_max = _iops_max(figures, values)
        if given.get("iops", 0.0) > iops_max:
            raise TargetInvalid(
                f"catalogue:{name}: iops={given['iops']:,.10g}: "
                f"{format_bytes(values['size'])} of {name} has up to {iops_max:,.10g} IOPS",
                f"ask for size={ceil(given['iops'] / figures['iops_max_per_gib'])}G or more",
            )
        values["iops"] = min(values["iops"], iops_max)
    if "throughput" in values:
        throughput_max = _throughput_max(figures, values)
        if given.get("throughput", 0.0) > throughput_max:
            raise TargetInvalid(
                f"catalogue:{name}: throughput={given['throughput']:,.10g}: "
                f"{values['iops']:,.10g} IOPS of {name} move up to {throughput_max:,.10g} "
                f"{_unit(figures)}/s",
                f"ask for iops={ceil(given['throughput'] / figures['throughput_max_per_iops'])}",
            )
        values["throughput"] = min(values["throughput"], throughput_max)
    return values


def device_limits(figures: EntryFigures, _values: Values) -> list[Limit]:
    """The device time of operations, for reads and writes."""
    costs: dict[str, Any] = {}
    for op in OPS:
        page_ns = PAGE_BYTES / figures[f"{op}_bytes_per_s"] * 1e9
        base_ns = {
            pattern: max(1e9 / per_s - page_ns, 0.0)
            for pattern in ("random", "sequential")
            if (per_s := figures.get(f"{op}_{pattern}_per_s")) is not None
        }
        sequential_ns = base_ns.get("sequential", base_ns["random"])
        costs[f"{op}_sequential_ns"] = sequential_ns
        # Some devices measure faster with random operations, which temp I/O does not achieve.
        costs[f"{op}_random_ns"] = max(base_ns["random"], sequential_ns)
        costs[f"{op}_ns_per_byte"] = page_ns / PAGE_BYTES
    return [Limit("device time", **costs)]


def volume_limits(figures: EntryFigures, values: Values) -> list[Limit]:
    """The limits of a volume: its rates, or the rates of its burst and of its credits."""
    base = _base(figures, values)
    burst = _burst(figures, values, base)
    if burst is None:
        return _buckets(figures, base)
    credit_s = _credit_s(figures, values, base, burst)
    return [*_buckets(figures, burst), *_buckets(figures, base, credit_s, " credits")]


@dataclass(frozen=True)
class _Rates:
    """Operations (None if only bytes are limited) and bytes per second, by op."""

    iops: Mapping[str, float | None]
    bytes_per_s: Mapping[str, float]


class _CreditSeconds(NamedTuple):
    """Time in which the sustained rate fills the credits; None without credits."""

    operations_s: float | None
    bytes_s: float | None


def _base(figures: EntryFigures, values: Values) -> _Rates:
    """The sustained rates of a volume."""
    gib = values.get("size", 0.0) / GIB
    iops: dict[str, float | None] = {}
    bytes_per_s: dict[str, float] = {}
    for op in OPS:
        if "throughput_per_gib" in figures:
            throughput = figures.get("throughput_base", 0.0) + figures["throughput_per_gib"] * gib
            if gib <= figures.get("throughput_lower_gib", 0.0):
                throughput = figures["throughput_lower"]
            throughput = min(throughput, figures[f"{op}_throughput_max"])
            per_gib = figures.get(f"{op}_iops_per_gib")
            iops[op] = per_gib and min(
                max(figures.get("iops_base", 0.0) + per_gib * gib, figures.get("iops_lower", 0.0)),
                figures[f"{op}_iops_max"],
            )
        else:
            throughput = values.get("throughput") or figures.get("throughput") or 0.0
            throughput = throughput or _throughput_max(figures, values)
            iops[op] = values.get("iops") or figures.get("iops")
            iops[op] = iops[op] or figures["iops_per_throughput"] * throughput
        bytes_per_s[op] = throughput * figures["unit_bytes"]
    return _Rates(iops, bytes_per_s)


def _burst(figures: EntryFigures, values: Values, base: _Rates) -> _Rates | None:
    """The rates of a volume with credits; None if they do not exceed the sustained rates."""
    iops, throughput = figures.get("burst_iops"), figures.get("burst_throughput")
    if "burst_throughput_per_gib" in figures:
        per_gib = figures["burst_throughput_per_gib"]
        throughput = min(per_gib * values["size"] / GIB, figures["burst_throughput_max"])
    bytes_per_s = throughput and throughput * figures["unit_bytes"]
    more_iops = iops is not None and iops > (base.iops["read"] or 0.0)
    more_bytes = bytes_per_s is not None and bytes_per_s > base.bytes_per_s["read"]
    if not more_iops and not more_bytes:
        return None
    return _Rates(
        dict.fromkeys(OPS, iops) if more_iops else base.iops,
        base.bytes_per_s if bytes_per_s is None else dict.fromkeys(OPS, bytes_per_s),
    )


def _credit_s(figures: EntryFigures, values: Values, base: _Rates, burst: _Rates) -> _CreditSeconds:
    """Credits are operations (gp2), bytes of the volume's size (st1, sc1), or minutes."""
    base_iops, burst_iops = base.iops["read"], burst.iops["read"]
    base_bytes, burst_bytes = base.bytes_per_s["read"], burst.bytes_per_s["read"]
    if "burst_operations" in figures:
        return _CreditSeconds(figures["burst_operations"] / (base_iops or 1.0), None)
    if "burst_minutes" in figures and base_iops and burst_iops:
        burst_s = figures["burst_minutes"] * 60
        iops_s = (burst_iops - base_iops) * burst_s / base_iops
        bytes_s = (burst_bytes - base_bytes) * burst_s / base_bytes
        return _CreditSeconds(iops_s, bytes_s)
    return _CreditSeconds(None, values["size"] / base_bytes)


def _buckets(
    figures: EntryFigures, rates: _Rates, credit_s: _CreditSeconds | None = None, suffix: str = ""
) -> list[Limit]:
    """A bucket of operations if they are limited, and a bucket of bytes."""
    if credit_s is None:
        # At least one operation of 1 MiB.
        at_once_s = max(BURST_S, MIB / rates.bytes_per_s["write"])
        credit_s = _CreditSeconds(at_once_s, at_once_s)
    operations_s, bytes_s = credit_s
    operation_kib = figures.get("operation_kib")
    operation_bytes = None if operation_kib is None else round(operation_kib) * 1024
    limits = []
    read_iops, write_iops = rates.iops["read"], rates.iops["write"]
    if read_iops is not None and write_iops is not None and operations_s is not None:
        read_ns, write_ns = 1e9 / read_iops, 1e9 / write_iops
        limits.append(
            Limit(
                f"iops{suffix}", read_ns, read_ns, write_ns, write_ns,
                operation_bytes=operation_bytes, burst_ns=operations_s * 1e9,
            )
        )  # fmt: skip
    if bytes_s is None:
        return limits
    if "merged" in figures and operation_bytes is not None:
        # Random operations count as whole operations. Sequential ones are merged, and count by
        # bytes in the bucket below. The limit for a mixture of both is slightly too high.
        whole_ns = operation_bytes / rates.bytes_per_s["read"] * 1e9
        limits.append(
            Limit(
                f"random operations{suffix}", read_random_ns=whole_ns, write_random_ns=whole_ns,
                operation_bytes=operation_bytes, burst_ns=bytes_s * 1e9,
            )
        )  # fmt: skip
    limits.append(
        Limit(
            f"throughput{suffix}",
            read_ns_per_byte=1e9 / rates.bytes_per_s["read"],
            write_ns_per_byte=1e9 / rates.bytes_per_s["write"],
            burst_ns=bytes_s * 1e9,
        )
    )
    return limits


def _iops_max(figures: EntryFigures, values: Values) -> float:
    per_gib = figures.get("iops_max_per_gib")
    if per_gib is None:
        return figures["iops_max"]
    return max(figures["iops_min"], per_gib * values["size"] / GIB)


def _throughput_max(figures: EntryFigures, values: Values) -> float:
    """The largest throughput, in the unit of the product."""
    bounds = [figures["throughput_max"]]
    if "throughput_max_per_iops" in figures:
        bounds.append(figures["throughput_max_per_iops"] * values["iops"])
    if "throughput_max_lower" in figures:
        lower = figures["throughput_max_lower"]
        bounds.append(max(lower, _PLATEAU_OPERATION_MIB * values["iops"]))
    return min(bounds)


def _unit(figures: EntryFigures) -> str:
    return next((u for u, size in UNIT_BYTES.items() if size == figures.get("unit_bytes")), "MiB")

"""Rented volumes whose operations and bytes a second are chosen, within limits of the product."""

from functools import partial

from spillcast.errors import InputError
from spillcast.storage.catalogue.row import GIB, Parameter, Row, Values
from spillcast.storage.catalogue.tables import Entry, number, table
from spillcast.storage.catalogue.volumes import UNIT_BYTES, operation_bytes, rate_limits
from spillcast.storage.limit import Limit
from spillcast.units import format_bytes

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
            partial(_limits, entry),
            _parameters(entry),
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


def _limits(entry: Entry, values: Values) -> list[Limit]:
    iops = _iops(entry, values)
    throughput = _throughput(entry, values, iops)
    bytes_per_s = throughput * UNIT_BYTES[entry["unit"]]
    return rate_limits(iops, bytes_per_s, operation_bytes(entry))


def _iops(entry: Entry, values: Values) -> float:
    if "iops" not in values:
        return float(entry["iops_per_throughput"]) * values["throughput"]
    per_gib = number(entry, "iops_per_gib")
    if per_gib is not None:
        most = max(float(entry["iops_min"]), per_gib * values["size"] / GIB)
        if values["iops"] > most:
            raise InputError(
                f"catalogue:{entry['name']}: iops={values['iops']:,.10g}: "
                f"{format_bytes(values['size'])} of {entry['name']} has up to {most:,.10g} IOPS",
                f"ask for size={values['iops'] / per_gib:.0f}G or more",
            )
    return values["iops"]


def _throughput(entry: Entry, values: Values, iops: float) -> float:
    """In the unit of the product."""
    per_iops = number(entry, "throughput_per_iops")
    most = float(entry["throughput_max"])
    if per_iops is not None:
        most = min(most, per_iops * iops)
    held = number(entry, "throughput_held")
    if held is not None:
        most = min(most, max(held, _HELD_OPERATION_MIB * iops))
    if "throughput" not in values:
        return most
    if values["throughput"] > most:
        unit = f"{entry['unit']}/s"
        raise InputError(
            f"catalogue:{entry['name']}: throughput={values['throughput']:,.10g}: "
            f"{iops:,.10g} IOPS of {entry['name']} move up to {most:,.10g} {unit}",
            None if per_iops is None else f"ask for iops={values['throughput'] / per_iops:.0f}",
        )
    return values["throughput"]

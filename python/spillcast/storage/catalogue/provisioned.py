"""Rented volumes whose operations and bytes a second are chosen, within limits of the product."""

from functools import partial
from math import ceil

from spillcast.errors import TargetInvalid
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


def _limits(entry: Entry, values: Values) -> list[Limit]:
    throughput = values.get("throughput") or _most_throughput(entry, values)
    iops = values.get("iops") or float(entry["iops_per_throughput"]) * throughput
    return rate_limits(iops, throughput * UNIT_BYTES[entry["unit"]], operation_bytes(entry))

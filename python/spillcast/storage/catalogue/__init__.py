"""Storages that are looked up, not measured: known devices and rented storage.

``data/storages.csv`` has all rows in one format. Its column ``figures`` holds ``name=value`` pairs,
which ``formulas`` converts to rate limits. ``data/latencies.csv`` has latencies, which products do
not document. Further tables, such as those of prices and of managed databases, refer to rows by
their names. The user's notation is ``NAME?key=value&key=value``.
"""

import csv
import re
from collections.abc import Mapping
from dataclasses import dataclass
from difflib import SequenceMatcher
from fnmatch import fnmatchcase
from functools import cache, partial
from importlib.resources import files
from typing import Any

from spillcast.errors import TargetInvalid, TargetUnknown
from spillcast.recording import OPS
from spillcast.storage.catalogue.formulas import (
    EntryFigures,
    Parameter,
    device_limits,
    parameters_of,
    volume_limits,
    with_defaults,
)
from spillcast.storage.model import Model
from spillcast.storage.source import catalogue
from spillcast.storage.storage import Storage, unloaded_groups
from spillcast.units import format_duration

#: Functions that make limits, by the column ``kind``.
_LIMITS = {"device": device_limits, "volume": volume_limits}


@cache
def table(name: str) -> tuple[Mapping[str, str], ...]:
    """The entries of ``data/NAME.csv``, by column."""
    text = files(__package__).joinpath("data", f"{name}.csv").read_text()
    return tuple(csv.DictReader(text.splitlines()))


@dataclass(frozen=True)
class LatencyClass:
    """Latencies that are assumed for a class of storages, because no row has measured latencies."""

    name: str
    #: Latency of an operation of 0 bytes, by op and pattern.
    base_ns: dict[tuple[str, str], int]
    ns_per_byte: float
    #: Latencies are probably right within this factor.
    spread: float
    assumption: str
    source: str

    def sentence(self) -> str:
        """The assumption and its reason."""
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
    """A class of ``data/latencies.csv``. KeyError for an unknown name."""
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


@dataclass(frozen=True)
class CatalogueEntry:
    """A storage of the catalogue. ``title`` is a few words, ``description`` a sentence."""

    name: str
    #: The kind of the figures: ``device`` or ``volume``.
    kind: str
    title: str
    description: str
    #: Name of the class in ``data/latencies.csv``.
    latency: str
    #: Figures are probably right within this factor.
    spread: float
    figures: EntryFigures
    #: The source of the figures, with its address.
    source: str

    @property
    def parameters(self) -> list[Parameter]:
        """The parameters that users can choose."""
        return parameters_of(self.figures)

    def storage(self, settings: Mapping[str, str] | None = None) -> Storage:
        """The storage with these settings. InputError for an unknown or invalid setting."""
        settings = settings or {}
        parameters = {parameter.key: parameter for parameter in self.parameters}
        for key in settings:
            if key not in parameters:
                raise TargetInvalid(
                    f"catalogue:{self.name}: '{key}' cannot be chosen", self._choices()
                )
        given = {key: parameters[key].value(self.name, text) for key, text in settings.items()}
        values = with_defaults(self.name, self.figures, given)
        latencies = latency_class(self.latency)
        spread = max(self.spread, latencies.spread)
        tail = "&".join(f"{key}={text}" for key, text in settings.items())
        return Storage(
            f"catalogue:{self.name}" + (f"?{tail}" if tail else ""),
            catalogue(spread, self.source),
            unloaded_groups(latencies.base_ns, latencies.ns_per_byte),
            {
                "description": self.description,
                "source": self.source,
                "assumed": [latencies.sentence()],
                "spread": spread,
                "parameters": {k: int(v) if v == int(v) else v for k, v in values.items()},
            },
            _LIMITS[self.kind](self.figures, values),
        )

    def _choices(self) -> str:
        if not self.parameters:
            return "its figures are fixed"
        return "choose " + ", ".join(f"{p.key} ({p.allowed})" for p in self.parameters)


@cache
def rows_by_name() -> Mapping[str, CatalogueEntry]:
    """All rows: Linux's assumptions, SSD models, local disks of rented machines, rented volumes."""
    return {entry["name"]: _row(entry) for entry in table("storages")}


def _row(entry: Mapping[str, Any]) -> CatalogueEntry:
    pairs = (pair.partition("=") for pair in entry["figures"].split())
    figures = {name: float(value) for name, _, value in pairs}
    return CatalogueEntry(**{**entry, "spread": float(entry["spread"]), "figures": figures})


#: Texts for the values of the column ``movable``.
MOVABLE = {
    "yes": "yes, by a setting",
    "class": "only with another instance class",
    "no": "no",
    "unknown": "not documented",
}


@dataclass(frozen=True)
class Managed:
    """A managed database, as its provider documents it."""

    name: str
    service: str
    #: The provider's name and limits of its storage.
    storage: str
    limits: str
    #: Location of the temp files; empty if not documented.
    temp_files: str
    #: A key of MOVABLE.
    movable: str
    how: str
    #: Rows of the catalogue with the limits of its storage, separated by blanks.
    rows: str
    source: str
    #: The date on which the source was read.
    read: str


@cache
def managed_databases() -> tuple[Managed, ...]:
    """The databases of ``data/managed.csv``."""
    return tuple(Managed(**record) for record in table("managed"))


_LIST = "spillcast storage list"
#: Least similarity of a suggested name; equal names have 1.
_SIMILARITY_MIN = 0.6


def lookup(text: str) -> Storage:
    """The storage of ``text``, the part after ``catalogue:``. InputError for an unknown name."""
    name, question, tail = text.partition("?")
    row = rows_by_name().get(_slug(name))
    if row is None:
        near = " or ".join(nearest(name))
        hint = f"do you mean {near}? All are listed by: {_LIST}" if near else f"see: {_LIST}"
        raise TargetUnknown(f"catalogue:{name}: there is no such storage", hint)
    settings: dict[str, str] = {}
    for pair in tail.split("&") if question else ():
        key, equals, value = (part.strip() for part in pair.partition("="))
        key = key.lower()
        if not (key and equals and value) or key in settings:
            problem = "is given twice" if key in settings else "is not key=value"
            raise TargetInvalid(
                f"catalogue:{text}: '{pair}' {problem}", "for example ?iops=6000&size=1T"
            )
        settings[key] = value
    return row.storage(settings)


def matching(pattern: str) -> list[CatalogueEntry]:
    """Rows whose name, title or description contains ``pattern``, which may contain ``*``.

    An empty pattern matches all rows.
    """
    wanted = f"*{pattern.lower()}*"
    matches = [
        row
        for row in rows_by_name().values()
        if any(fnmatchcase(text.lower(), wanted) for text in (row.name, row.title, row.description))
    ]
    if not matches:
        near = " or ".join(nearest(pattern.strip("*?")))
        hint = f"do you mean {near}?" if near else f"without a pattern all are listed: {_LIST}"
        raise TargetUnknown(f"no storage of the catalogue fits '{pattern}'", hint)
    return matches


def nearest(name: str) -> list[str]:
    """The names that are most similar to an unknown name, as a whole or in a part."""
    slug = _slug(name)

    def likeness(known: str) -> float:
        return max(SequenceMatcher(None, slug, of).ratio() for of in (known, *known.split("-")))

    best = sorted(rows_by_name(), key=likeness, reverse=True)[:3]
    return [known for known in best if likeness(known) >= _SIMILARITY_MIN]


def _slug(name: str) -> str:
    return re.sub(r"[^a-z0-9]+", "-", name.lower()).strip("-")


READ_BYTES, WRITE_BYTES = 8 << 10, 256 << 10
#: A queue depth that saturates any storage.
_DEPTH = float(1 << 24)


def figures(storage: Storage) -> dict[str, float]:
    """Latencies (s) and rates of random reads and sequential writes, with short bursts used up.

    The keys are those of ``spillcast.catalogue/1``.
    """
    model = Model(storage)
    read = partial(model.latency, "read", READ_BYTES, sequential=False)
    write = partial(model.latency, "write", WRITE_BYTES, sequential=True)
    return {
        "read_8k_s": read().mean_s,
        "write_256k_s": write().mean_s,
        "write_bytes_per_s": _DEPTH / write(depth=_DEPTH, lasting=True).mean_s * WRITE_BYTES,
        "reads_per_s": _DEPTH / read(depth=_DEPTH, lasting=True).mean_s,
    }

"""From what a person types to a row: ``NAME?key=value&key=value``."""

import re
from dataclasses import dataclass
from difflib import SequenceMatcher
from fnmatch import fnmatchcase
from functools import partial

from spillcast.errors import TargetInvalid, TargetUnknown
from spillcast.storage.catalogue.row import Row, rows_by_name
from spillcast.storage.model import Model
from spillcast.storage.storage import Storage

_LIST = "spillcast storage list"
#: From here on a name is offered for one that is not there: 1 is the same, 0 has nothing of it.
_ALIKE = 0.6


def rows() -> list[Row]:
    """All rows: what Linux assumes, SSD models, local disks of rented machines, rented volumes."""
    return list(rows_by_name().values())


def lookup(text: str) -> Storage:
    """The storage that ``text`` names, what follows ``catalogue:``; else an InputError."""
    name, question, tail = text.partition("?")
    row = rows_by_name().get(_slug(name))
    if row is None:
        near = " or ".join(nearest(name))
        hint = f"do you mean {near}? All are listed by: {_LIST}" if near else f"see: {_LIST}"
        raise TargetUnknown(f"catalogue:{name}: there is no such storage", hint)
    settings: dict[str, str] = {}
    for pair in tail.split("&") if question else ():
        key, equals, value = (part.strip() for part in pair.partition("="))
        if not (key and equals and value) or key in settings:
            problem = "is given twice" if key in settings else "is not key=value"
            raise TargetInvalid(
                f"catalogue:{text}: '{pair}' {problem}", "for example ?iops=6000&size=1T"
            )
        settings[key.lower()] = value
    return row.storage(settings)


def matching(pattern: str) -> list[Row]:
    """Rows whose name or description holds ``pattern``, which may hold ``*``."""
    wanted = f"*{pattern.lower()}*"
    matches = [
        row
        for row in rows()
        if any(fnmatchcase(text.lower(), wanted) for text in (row.name, row.title, row.description))
    ]
    if not matches:
        near = " or ".join(nearest(pattern.strip("*?")))
        hint = f"do you mean {near}?" if near else f"without a pattern all are listed: {_LIST}"
        raise TargetUnknown(f"no storage of the catalogue fits '{pattern}'", hint)
    return matches


def nearest(name: str) -> list[str]:
    """The names that are most like one that is not there, as a whole or in a part."""
    slug = _slug(name)

    def likeness(known: str) -> float:
        return max(SequenceMatcher(None, slug, of).ratio() for of in (known, *known.split("-")))

    best = sorted(rows_by_name(), key=likeness, reverse=True)[:3]
    return [known for known in best if likeness(known) >= _ALIKE]


def _slug(name: str) -> str:
    return re.sub(r"[^a-z0-9]+", "-", name.lower()).strip("-")


READ_BYTES, WRITE_BYTES = 8 << 10, 256 << 10
#: So many operations at once keep any storage busy.
_MANY = float(1 << 24)


@dataclass(frozen=True)
class Figures:
    """A random read of 8 KiB and a sequential write of 256 KiB: alone, and as many as go."""

    read_s: float
    write_s: float
    reads_per_s: float
    write_bytes_per_s: float


def figures(storage: Storage) -> Figures:
    """Holds the figures of a storage with limits. Rates are those with full credits."""
    model = Model(storage)
    read = partial(model.latency, "read", READ_BYTES, sequential=False)
    write = partial(model.latency, "write", WRITE_BYTES, sequential=True)
    return Figures(
        read().mean_s,
        write().mean_s,
        _MANY / read(depth=_MANY, lasting=True).mean_s,
        _MANY / write(depth=_MANY, lasting=True).mean_s * WRITE_BYTES,
    )

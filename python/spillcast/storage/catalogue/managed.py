"""Managed databases: their storage, where temp files are, and whether these can move."""

from dataclasses import dataclass
from functools import cache

from spillcast.storage.catalogue.row import table

#: Of the column ``movable``, in words.
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
    #: What the provider calls its storage, and what it allows.
    storage: str
    limits: str
    #: Where temp files are; empty where no document says it.
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
    """All lines of ``data/managed.csv``."""
    return tuple(Managed(**record) for record in table("managed"))

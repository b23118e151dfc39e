"""I/O at offsets of files, as the core takes it: columns of numbers, in the order of time."""

from collections.abc import Sequence
from dataclasses import dataclass, field

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from spillcast import _core
from spillcast.errors import EvidenceDamaged

Integers = NDArray[np.int64]
SCAN, READ, WRITE, TEMP_READ, TEMP_WRITE = range(5)
TEMP_OBJECT = "temp"


@dataclass(frozen=True)
class Rows:
    """Reads and writes of ranges of files, in the order of time; columns of the same length."""

    time_s: Integers
    file: Integers
    offset: Integers
    bytes: Integers
    object: Integers
    query: Integers
    cls: Integers
    #: Names by number in ``object``.
    objects: Sequence[str]
    #: Notes for the user: skipped rows, assumptions.
    notes: Sequence[str] = field(default_factory=list)

    def ends_query(self) -> NDArray[np.bool_]:
        """Whether a row is the last temp I/O of its query."""
        temp = np.flatnonzero(self.cls >= TEMP_READ)
        _, last = np.unique(self.query[temp][::-1], return_index=True)
        ends = np.zeros(len(self.cls), dtype=bool)
        ends[temp[::-1][last]] = True
        return ends

    def requests(self, line_bytes: int) -> _core.CacheRequests:
        """The rows as requests for lines. InputError for offsets out of bounds."""
        columns = {
            "time_s": self.time_s - min(self.time_s, default=0),
            "file": self.file,
            "offset": self.offset,
            "bytes": self.bytes,
            "object": self.object,
            "query": self.query,
            "class": self.cls,
            "ends_query": self.ends_query().astype(np.int64),
        }
        batch = pa.record_batch({name: pa.array(of, pa.int64()) for name, of in columns.items()})
        try:
            return _core.CacheRequests.rows(batch, line_bytes)
        except ValueError as error:
            raise EvidenceDamaged(f"the I/O cannot be cut into lines: {error}") from error


def coded(names: Sequence[str | None]) -> tuple[Integers, list[str]]:
    """Each name as its number, and the names by number, in the order they come in."""
    encoded = pa.array(names, pa.string()).fill_null("?").dictionary_encode()
    return encoded.indices.to_numpy().astype(np.int64), encoded.dictionary.to_pylist()


def is_sequential(file: Integers, offset: Integers, size: Integers) -> NDArray[np.bool_]:
    """Whether each row begins where the row before it on its file ended."""
    order = np.argsort(file, kind="stable")
    end, at = (offset + size)[order], file[order]
    follows = np.zeros(len(file), dtype=bool)
    follows[order[1:]] = (at[1:] == at[:-1]) & (offset[order][1:] == end[:-1])
    return follows

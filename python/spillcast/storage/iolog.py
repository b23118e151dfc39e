"""The temp I/O of a recording as a log that fio replays: its iolog, version 3."""

from collections.abc import Iterator
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from spillcast.errors import EvidenceUnsuited
from spillcast.recording import Recording
from spillcast.storage.plan import moved_waits, plan
from spillcast.workspace import whole_file

IOLOG_SCHEMA = "spillcast.iolog/1"


@dataclass(frozen=True)
class Iolog:
    """A log that was written."""

    path: str
    reads: int
    writes: int
    read_bytes: int
    write_bytes: int
    #: Names in the log, relative to where fio runs, and how long each file gets.
    files: dict[str, int]
    #: Files of which more is read than was written before: fio wants them to be there.
    laid_before: list[str]

    def to_json(self) -> dict[str, Any]:
        """The document of docs/schema.md."""
        return {"schema": IOLOG_SCHEMA, **asdict(self)}


def write_iolog(recording: Recording, path: Path) -> Iolog:
    """Write the log, whole or not at all.

    fio replays it in the directory it runs in, in one thread: order, offsets, sizes and start
    times (us) are kept, operations that overlapped follow each other.
    """
    if recording.meta.only_counts:
        raise EvidenceUnsuited(f"{recording.path}: has only counts, no single operations to export")
    steps = plan(recording)
    start_ns = moved_waits(recording)["start_ns"].to_numpy()
    start_us = (start_ns - start_ns[0]) // 1000
    file, offset, size = (steps[name].to_numpy() for name in ("file", "offset", "bytes"))
    write = steps["write"].to_numpy(zero_copy_only=False)
    names = [f"spill-{number}" for number in range(int(file.max()) + 1)]
    ends = offset + size
    with whole_file(path) as partial, partial.open("w") as log:
        log.write("fio version 3 iolog\n")
        log.writelines(f"0 {name} {action}\n" for action in ("add", "open") for name in names)
        rows = zip(start_us, file, write, offset, size, strict=True)
        log.writelines(_lines(rows, names))
        log.writelines(f"{start_us[-1]} {name} close\n" for name in names)
    return Iolog(
        str(path),
        reads=int((~write).sum()),
        writes=int(write.sum()),
        read_bytes=int(size[~write].sum()),
        write_bytes=int(size[write].sum()),
        laid_before=[
            name
            for number, name in enumerate(names)
            if _reads_beyond(write[file == number], ends[file == number])
        ],
        files={name: int(np.max(ends[file == number])) for number, name in enumerate(names)},
    )


def _reads_beyond(write: NDArray[np.bool_], ends: NDArray[np.uint64]) -> bool:
    """Whether one file's operations read beyond what they have written so far."""
    written = np.maximum.accumulate(np.where(write, ends, 0))
    return bool(np.any(~write & (ends > written)))


def _lines(rows: Iterator[Any], names: list[str]) -> Iterator[str]:
    for start_us, file, write, offset, size in rows:
        op = "write" if write else "read"
        yield f"{start_us} {names[file]} {op} {offset} {size}\n"

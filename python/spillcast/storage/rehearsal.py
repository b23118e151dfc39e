"""Rehearsals: the first part of a query as it ran on other storage, kept with its recording."""

import shutil
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from urllib.parse import quote

from spillcast.recording import Recording
from spillcast.recording.thread_trace import TempOperations
from spillcast.storage.observed import observed
from spillcast.storage.storage import Group

#: The subfolder of a recording with its rehearsals, each named after its directory.
KEPT = "rehearsals"


@dataclass(frozen=True, eq=False, kw_only=True)
class Rehearsal:
    """The first part of a query, run with its temp files on a storage."""

    elapsed_s: float
    #: Whether the query completed on the storage.
    ended: bool
    #: CPU time outside I/O calls; None if not measured.
    cpu_s: float | None
    #: Cost of recording in elapsed time, shared by the threads.
    overhead_s: float
    #: The number of its temp operations, and those that were kept, in their order.
    operations: int
    temp_operations: TempOperations
    #: Its temp operations and their latencies, by op and size class.
    groups: Mapping[tuple[str, int], Group]

    @classmethod
    def of(cls, recording: Recording) -> "Rehearsal":
        """The rehearsal that a recording contains. InputError if it is damaged."""
        meta, kept = recording.meta, TempOperations.of(recording.waits, recording.slices_s)
        return cls(
            elapsed_s=recording.elapsed_s,
            ended=meta.ended_by == "end",
            cpu_s=meta.cpu_s,
            overhead_s=(meta.capture.overhead_s or 0.0) / kept.threads,
            operations=meta.temp.operations,
            temp_operations=kept,
            groups={group.kind: group for group in observed(recording).groups},
        )

    @property
    def run_s(self) -> float:
        """The elapsed time of a query that ended, less the cost of recording."""
        return max(self.elapsed_s - self.overhead_s, self.elapsed_s / 2)


def keep_rehearsal(like: Recording, rehearsed: Recording, directory: Path) -> Path:
    """Keep the rehearsal on a directory with the recording, replacing an older one."""
    path = _kept_path(like, directory)
    path.parent.mkdir(exist_ok=True)
    if path.exists():
        shutil.rmtree(path)
    shutil.move(rehearsed.path, path)
    return path


def kept_rehearsal(like: Recording, directory: Path) -> Recording | None:
    """The kept rehearsal of a directory; None if missing. InputError if it is damaged."""
    path = _kept_path(like, directory)
    return Recording.open(path) if path.is_dir() else None


def _kept_path(like: Recording, directory: Path) -> Path:
    return like.path / KEPT / f"{quote(bytes(directory.resolve()), safe='')}.spill"

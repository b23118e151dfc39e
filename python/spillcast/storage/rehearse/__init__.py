"""A rehearsal: the recorded first part of a query on another storage."""

import shutil
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from urllib.parse import quote

from spillcast.errors import SpillTooLarge
from spillcast.recording import Recording
from spillcast.recording.thread_trace import TempOperations
from spillcast.storage.free_space import is_tmpfs, quota_of, tmpfs_advice
from spillcast.storage.observed import observed
from spillcast.storage.storage import Group
from spillcast.units import format_bytes
from spillcast.workspace import free_bytes

#: The remedy for a rehearsal without temp I/O.
LONGER = "rehearse longer, or leave out --rehearse"
#: The folder of a recording with its rehearsals, each named after its directory.
KEPT = "rehearsals"


@dataclass(frozen=True)
class Rehearsal:
    """A recorded run of the first part of a query with its temp files on a storage."""

    recording: Recording

    @property
    def ended(self) -> bool:
        """Whether the query ended on the storage."""
        return self.recording.meta.ended_by == "end"

    def read(self) -> "Rehearsal":
        """Read the operations and latencies now instead of at their first use."""
        _ = self.temp_operations, self.groups
        return self

    @property
    def overhead_s(self) -> float:
        """Cost of recording in elapsed time, shared by the threads."""
        total_s = self.recording.meta.capture.overhead_s or 0.0
        return total_s / self.temp_operations.threads

    @cached_property
    def temp_operations(self) -> TempOperations:
        """Its temp operations in their order."""
        return TempOperations.of(self.recording.waits, self.recording.slices_s)

    @cached_property
    def groups(self) -> dict[tuple[str, int], Group]:
        """Its temp operations and their latencies, by op and size class."""
        groups = observed(self.recording).groups
        return {group.kind: group for group in groups}


def check_free_space(recording: Recording, directory: Path) -> None:
    """Refusal if the writes of the query could fill a directory's storage, or memory."""
    if is_tmpfs(directory):
        tmpfs_advice(recording, directory)
    wrote, free, limit = recording.written_bytes.temp, free_bytes(directory), ""
    quota = quota_of(directory)
    if quota is not None and quota.free_bytes < free:
        free, limit = quota.free_bytes, f" by the quota of {quota.owner}"
    if wrote > free:
        raise SpillTooLarge(
            f"{directory} has {format_bytes(free)} free{limit}, the query wrote "
            f"{format_bytes(wrote)}: a rehearsal could fill it"
        )


def keep_rehearsal(like: Recording, rehearsal: Rehearsal, directory: Path) -> Path:
    """Keep the rehearsal on a directory with the recording, in place of an older one."""
    path = _kept_path(like, directory)
    path.parent.mkdir(exist_ok=True)
    if path.exists():
        shutil.rmtree(path)
    shutil.move(rehearsal.recording.path, path)
    return path


def kept_rehearsal(like: Recording, directory: Path) -> Rehearsal | None:
    """The kept rehearsal of a directory; None if missing. InputError if it is damaged."""
    path = _kept_path(like, directory)
    return Rehearsal(Recording.open(path)) if path.is_dir() else None


def _kept_path(like: Recording, directory: Path) -> Path:
    return like.path / KEPT / f"{quote(bytes(directory.resolve()), safe='')}.spill"

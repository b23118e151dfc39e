"""What a rehearsal tells of CPU time: that of the query's first operations there and here."""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from spillcast.forecast.load import Load, sessions
from spillcast.forecast.rest.change import CpuChange, counts
from spillcast.recording import Recording
from spillcast.recording.event_names import OPS
from spillcast.storage.rehearsal import Rehearsal

Array = NDArray[np.float64]
#: Fewer operations of a kind tell nothing of it.
ENOUGH = 100
#: The prefix is cut into so many stretches, whose differences tell how sure their mean is.
STRETCHES = 10
#: Two runs on the same storage differ by this share of their CPU time.
REPEATED = 0.02
#: Later operations of the same kind may be off by this share of what the first ones differ by,
#: those of a kind that was not rehearsed by more, and by a share of the CPU time between two.
LATER, OTHER_KIND, OTHER_KIND_CPU = 0.3, 0.6, 0.1


def rehearsed_change(
    recording: Recording,
    loads: Sequence[Load],
    rehearsal: Rehearsal,
    compressing_s: float = 0.0,
) -> CpuChange | None:
    """CPU time that operations take more there, by the first of them; None where it is not told.

    ``compressing_s`` is what the target is taken to add for compressing of what is written, which
    the rehearsal's CPU time holds and this estimate does not.
    """
    by_gaps = None in (recording.meta.cpu_s, rehearsal.cpu_s)
    if by_gaps and max(sessions(recording), sessions(rehearsal.recording)) > 1:
        return None
    target_operations = _Operations.of(rehearsal.recording, by_gaps=by_gaps)
    source_operations, same = _Operations.of(recording, by_gaps=by_gaps).prefix(
        recording, target_operations
    )
    many = min(len(target_operations), len(source_operations)) if same else len(source_operations)
    target_operations, source_operations = (
        target_operations.first(many) if same else target_operations,
        source_operations.first(many),
    )
    seen = [
        op for op in OPS if min(source_operations.count(op), target_operations.count(op)) >= ENOUGH
    ]
    if not seen:
        return None
    change_s = {op: target_operations.mean_s(op) - source_operations.mean_s(op) for op in seen}
    known = [source_operations.count(op) for op in seen]
    usual_s = float(np.average(list(change_s.values()), weights=known))
    each_s = np.array([change_s.get(load.op, usual_s) for load in loads])
    count = counts(loads)
    error_s = _error_s(loads, each_s, source_operations, target_operations, set(seen), same=same)
    writes = np.array([load.op == "write" for load in loads])
    if compressing_s and (written := float(count[writes].sum())):
        each_s = each_s - np.where(writes, compressing_s / written, 0.0)
    return CpuChange("rehearsal", each_s, count, error_s)


def _error_s(
    loads: Sequence[Load],
    each_s: Array,
    source_operations: "_Operations",
    target_operations: "_Operations",
    seen: set[str],
    *,
    same: bool,
) -> float:
    """Of the whole: the prefix's own, what runs differ by, and what was not rehearsed."""
    count = counts(loads)
    mean_s = float(source_operations.cpu_s.mean())
    source_s, other = source_operations.stretches_s(), target_operations.stretches_s()
    varied = (
        np.std(other - source_s, ddof=1)
        if same
        else np.hypot(source_s.std(ddof=1), other.std(ddof=1))
    )
    prefix_s = float(varied) / STRETCHES**0.5 * count.sum()
    later_s = 0.0
    for load, change_s in zip(loads, each_s, strict=True):
        if load.op not in seen:
            later_s += load.count * float(np.hypot(OTHER_KIND * change_s, OTHER_KIND_CPU * mean_s))
            continue
        of_op = sum(source_s.count for source_s in loads if source_s.op == load.op)
        left = max(1 - target_operations.count(load.op) / of_op, 0.0)
        later_s += load.count * left * LATER * abs(change_s)
    return float(np.linalg.norm([prefix_s, later_s, REPEATED * mean_s * count.sum()]))


@dataclass(frozen=True)
class _Operations:
    """Temp operations in the order of their start, of all threads together."""

    start_ns: NDArray[np.int64]
    read: NDArray[np.bool_]
    #: CPU time of its thread from each until the thread's next.
    cpu_s: Array

    @classmethod
    def of(cls, recording: Recording, *, by_gaps: bool) -> "_Operations":
        """Of the waits kept; ``by_gaps`` takes all time between two calls for CPU time."""
        rows = recording.waits.sort_by([("session", "ascending"), ("start_ns", "ascending")])
        session, start = rows["session"].to_numpy(), rows["start_ns"].to_numpy()
        if by_gaps:
            end = start + rows["elapsed_ns"].to_numpy()
            cpu_ns = np.maximum(start - np.concatenate([start[:1], end[:-1]]), 0)
        else:
            cpu_ns = rows["cpu_before_ns"].fill_null(0).to_numpy()
        moved = rows["bytes"].fill_null(0).to_numpy() > 0
        temp = rows["temp"].to_numpy() & rows["op"].is_valid().to_numpy() & moved
        # A row's CPU time belongs to the thread's last temp operation before it.
        at = np.arange(len(start))
        last = np.maximum.accumulate(np.where(temp, at, -1)) if len(at) else at
        before = np.concatenate([[-1], last[:-1]])
        ours = (before >= 0) & (session[before] == session)
        after_ns = np.bincount(before[ours], cpu_ns[ours], minlength=len(at))
        order = np.flatnonzero(temp)
        order = order[np.argsort(start[order], kind="stable")]
        read = np.asarray(rows["op"].cast("string").fill_null("").to_numpy() == OPS[0])
        return cls(start[order], read[order], after_ns[order] / 1e9)

    def __len__(self) -> int:
        return len(self.start_ns)

    def prefix(
        self, recording: Recording, target_operations: "_Operations"
    ) -> "tuple[_Operations, bool]":
        """Those from the run's start on that were kept without a gap, and True; else all kept.

        That is where too few were kept from its start on to set them beside those ``there``.
        """
        slices = recording.slices_s
        if slices is None:
            return self, True
        begin_s, end_s = slices[0] if slices else (0.0, 0.0)
        before = int(np.searchsorted(self.start_ns, end_s * 1e9))
        # Nothing was done before the first slice where that begins with the run.
        if begin_s * 1e9 > 1e6 or before < min(ENOUGH, len(target_operations)):
            return self, False
        return self.first(before), True

    def first(self, many: int) -> "_Operations":
        """The first of them."""
        return _Operations(self.start_ns[:many], self.read[:many], self.cpu_s[:many])

    def _of(self, op: str) -> NDArray[np.bool_]:
        return self.read if op == OPS[0] else ~self.read

    def count(self, op: str) -> int:
        """How many of a kind."""
        return int(self._of(op).sum())

    def mean_s(self, op: str) -> float:
        """CPU time after one of a kind."""
        return float(self.cpu_s[self._of(op)].mean())

    def stretches_s(self) -> Array:
        """Mean CPU time after one, in consecutive stretches of equal count."""
        parts = np.array_split(self.cpu_s, STRETCHES)
        return np.array([part.mean() if len(part) else 0.0 for part in parts])

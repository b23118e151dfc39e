"""What longer waits did to the CPU time of a query, from the delayed windows of its recording."""

from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property

import numpy as np
import pyarrow.compute as pc
from numpy.typing import NDArray

from spillcast import _core
from spillcast.recording.delayed import windows_of
from spillcast.recording.recording import Recording

Array = NDArray[np.float64]
Whole = NDArray[np.int64]

#: Below so many operations in a delay's windows nothing is said of it.
OPERATIONS_MIN = 100
#: Share of the operations, those before the longest stretches of CPU, that is left out of a mean. A
#: cold cache costs a bounded time, and a few stretches of many milliseconds would drown it.
TRIMMED = 0.2
#: The first operations of a group of either kind meet caches as the group before left them.
SETTLING = 16
#: How far the delayed operations may differ from those recorded in the windows.
MISCOUNT_MAX = 0.1
#: Undisturbed operations that a delayed window is compared with, at least, half on either side.
PEERS = 96
#: Windows are drawn anew so many times for the standard error.
DRAWS = 400


@dataclass(frozen=True)
class Response:
    """CPU time that a delay added to each operation."""

    delay_s: float
    operations: int
    extra_cpu_s: float
    #: Standard error.
    error_s: float


def responses(baseline: Recording) -> list[Response] | str:
    """The response to each delay; or why nothing can be said."""
    perturbation = baseline.meta.get("perturbation")
    if perturbation is None:
        return "the run was not perturbed"
    if not perturbation["windows_s"]:
        return "no operation was delayed"
    operations = _operations(baseline, perturbation["windows_s"])
    counted = sum(delay["operations"] for delay in perturbation["delays"])
    seen = int((operations.window >= 0).sum())
    complete = baseline.meta["raw"]["slices_s"] is None
    if complete and abs(counted - seen) > MISCOUNT_MAX * max(counted, 1):
        return f"{counted:,} operations were delayed and {seen:,} recorded in their windows"
    found = []
    for number, delay in enumerate(perturbation["delays"]):
        pairs = list(_pairs(operations, number))
        count = sum(len(delayed) for delayed, _ in pairs)
        if count >= OPERATIONS_MIN and len(pairs) > 1:
            # Where the kernel times CPU, falling asleep and waking is in it.
            own_s = delay["cpu_s"] / delay["operations"]
            own_s *= baseline.meta["capture"]["method"] == "perf"
            extra_s, error_s = _difference(pairs)
            found.append(Response(delay["delay_s"], count, extra_s - own_s, error_s))
    return found or f"fewer than {OPERATIONS_MIN} operations were delayed"


def _since(changes: Whole, count: int) -> Whole:
    at = np.arange(count)
    last = np.searchsorted(changes, at, side="right") - 1
    return np.where(last >= 0, at - changes[last], count) if len(changes) else at + count


@dataclass(frozen=True)
class _Operations:
    """The temp operations of a run, by their start: those of all threads."""

    #: CPU time from the end of one to the next of its thread.
    cpu_s: Array
    #: What is compared with each other: op and size class, as a number.
    kind: Whole
    #: Which window each began in, -1 for none; and which delay holds in a window.
    window: Whole
    delay: Whole

    @cached_property
    def place(self) -> Whole:
        """How many operations lie between each and the last change from a window or to one."""
        changes = np.flatnonzero(np.diff(self.window, prepend=self.window[:1]))
        return _since(changes, len(self.window))


def _operations(baseline: Recording, windows_s: list[list[float]]) -> _Operations:
    waits = baseline.waits.sort_by("start_ns")
    session = waits["session"].to_numpy()
    cpu_s = pc.fill_null(waits["cpu_before_ns"], 0).to_numpy() / 1e9
    temp = waits["temp"].to_numpy(zero_copy_only=False)
    writes = pc.fill_null(pc.equal(waits["op"].cast("string"), "write"), False)
    size = pc.fill_null(waits["bytes"], 0).to_numpy()
    sizes, which = np.unique(size, return_inverse=True)
    classes = np.array([_core.size_class_bytes(int(n)) for n in sizes])[which]
    kind = classes * 2 + writes.to_numpy(zero_copy_only=False)
    rows, after_s = [], []
    for one in np.unique(session):
        own = np.flatnonzero(session == one)
        # Other rows of the thread in between hold a part of its CPU time each.
        spent_s = np.cumsum(cpu_s[own])
        at = np.flatnonzero(temp[own] & (size[own] > 0))
        rows.append(own[at[:-1]])
        after_s.append(np.diff(spent_s[at]))
    row = np.concatenate(rows)
    order = np.argsort(row)
    row = row[order]
    window = windows_of(windows_s, waits["start_ns"].to_numpy()[row])
    delays_s = np.array(windows_s)[:, 2]
    delay = np.searchsorted(np.unique(delays_s), delays_s)
    return _Operations(np.concatenate(after_s)[order], kind[row], window, delay)


def _pairs(operations: _Operations, number: int) -> Iterator[tuple[Array, Array]]:
    """For each window of a delay and kind of operation: CPU times in it, and around it."""
    settled = operations.place >= SETTLING
    undisturbed = (operations.window < 0) & settled
    for window in np.flatnonzero(operations.delay == number):
        inside = np.flatnonzero((operations.window == window) & settled)
        for kind in np.unique(operations.kind[inside]):
            rows = inside[operations.kind[inside] == kind]
            peers = np.flatnonzero(undisturbed & (operations.kind == kind))
            half = max(PEERS // 2, len(rows))
            before = peers[peers < rows[0]][-half:]
            after = peers[peers > rows[-1]][:half]
            near = np.concatenate([before, after])
            if len(before) and len(after):
                yield operations.cpu_s[rows], operations.cpu_s[near]


def _difference(pairs: list[tuple[Array, Array]]) -> tuple[float, float]:
    """By how much the trimmed mean is larger in windows than around them, and its standard error.

    Peers weigh so much that every window has as many of them as of its own operations.
    """
    draws = np.random.default_rng(0)
    sums = [_trimmed(pairs, range(len(pairs)))]
    sums += [_trimmed(pairs, draws.integers(0, len(pairs), len(pairs))) for _ in range(DRAWS)]
    return sums[0], float(np.std(sums[1:]))


def _trimmed(pairs: list[tuple[Array, Array]], chosen: range | NDArray[np.int64]) -> float:
    delayed = np.concatenate([pairs[at][0] for at in chosen])
    peers = np.concatenate([pairs[at][1] for at in chosen])
    weights = np.concatenate(
        [np.full(len(pairs[at][1]), len(pairs[at][0]) / len(pairs[at][1])) for at in chosen]
    )
    return _lower_mean(delayed, np.ones(len(delayed))) - _lower_mean(peers, weights)


def _lower_mean(values: Array, weights: Array) -> float:
    """Weighted mean of all but the largest values, a share of TRIMMED by weight."""
    order = np.argsort(values)
    values, weights = values[order], weights[order]
    room = np.cumsum(weights) - (1 - TRIMMED) * weights.sum()
    kept = np.clip(weights - np.maximum(room, 0.0), 0.0, None)
    return float(np.dot(values, kept) / kept.sum())

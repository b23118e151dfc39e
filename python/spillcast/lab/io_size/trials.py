"""The time of a spill with each I/O size, by a storage's model or measured on a directory."""

import math
import random
import time
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from statistics import fmean, stdev
from typing import Any

import numpy as np
from numpy.typing import NDArray

from spillcast import _core
from spillcast.document import Note, key
from spillcast.recording import OPS, Recording
from spillcast.recording.observed import IN_MEMORY
from spillcast.stats import NORMAL_95
from spillcast.storage import Storage
from spillcast.storage.free_space import Budget
from spillcast.storage.model import Model, behaviour_of
from spillcast.storage.probe import ProbeProgress, bounded_run, failures_as_errors
from spillcast.storage.storage import write_cache_limit
from spillcast.tables import Table, arrays_of, distinct
from spillcast.units import format_bytes


@dataclass(frozen=True, kw_only=True)
class Operations:
    """The reads or the writes of a spill."""

    count: int = key("how many", example=4096)
    bytes: int = key("moved", unit="bytes")
    mean_us: float | None = key("mean latency; null without any", unit="us")
    total_s: float = key("sum of their latencies", unit="s")

    @classmethod
    def of(cls, count: float, bytes: float, total_s: float) -> "Operations":
        """Operations with a rounded ``count``, which is a fraction for a part of a level."""
        mean_us = 1e6 * total_s / count if count else None
        return cls(count=round(count), bytes=round(bytes), mean_us=mean_us, total_s=total_s)

    def times(self, factor: float) -> "Operations":
        """The operations scaled by ``factor``."""
        return Operations.of(self.count * factor, self.bytes * factor, self.total_s * factor)


@dataclass(frozen=True)
class Trial:
    """One spill with one size, on a model or on a directory."""

    reads: Operations
    writes: Operations
    #: 90 % interval of the total time; None if unknown.
    interval_s: tuple[float, float] | None

    @property
    def total_s(self) -> float:
        """Time of all operations, summed."""
        return self.reads.total_s + self.writes.total_s

    def times(self, factor: float) -> "Trial":
        """The trial scaled by ``factor``."""
        bounds = self.interval_s
        scaled = None if bounds is None else (bounds[0] * factor, bounds[1] * factor)
        return Trial(self.reads.times(factor), self.writes.times(factor), scaled)


@dataclass(frozen=True)
class Trials:
    """One trial for each plan, in order, and warnings."""

    of: Sequence[Trial]
    warnings: Sequence[Note]


def modelled(storage: Storage, plans: Sequence[Table]) -> Trials:
    """Simulate each plan on the storage, which starts idle and with an empty write cache.

    Latencies are drawn, and limits and servers make operations wait, as on an emulated storage.
    Refusal if the storage has no figures for an op of a plan.
    """
    storage = _with_write_cache(storage)
    behaviour, known = behaviour_of(storage), Model(storage, access="direct")
    trials, beyond = [], set()
    for plan in plans:
        _, waited = _core.simulate(_rows(plan), len(plan), behaviour)
        elapsed_s = arrays_of(waited)["io_ns"] / 1e9
        write = plan["write"].filled(False)
        size = plan["bytes"].to_numpy()
        times, error_s = {}, 0.0
        for op in OPS:
            mine = write == (op == "write")
            times[op] = Operations.of(
                int(mine.sum()), int(size[mine].sum()), float(elapsed_s[mine].sum())
            )
            error_s = math.hypot(error_s, _error_s(known, op, size[mine], elapsed_s[mine]))
            if not storage.source.unloaded:
                sizes = map(int, np.unique(size[mine]))
                beyond |= {op for at in sizes if known.latency(op, at).extrapolated}
        reads, writes = times["read"], times["write"]
        total_s, half_s = reads.total_s + writes.total_s, NORMAL_95 * error_s
        bounds = max(total_s - half_s, 0.0), total_s + half_s
        trials.append(Trial(reads, writes, bounds))
    return Trials(trials, [_beyond_note(storage, op) for op in sorted(beyond)])


def _rows(plan: Table) -> Table:
    """A plan for the simulation: each thread has a core, and pauses are CPU time."""
    nothing = np.zeros(len(plan), dtype=np.int64)
    thread, file = (distinct(plan[name].values)[1] for name in ("thread", "file"))
    return Table(
        {
            "thread": thread,
            "file": file,
            "cpu_ns": plan["delay_ns"].cast("int64"),
            "wait_ns": nothing,
            "after": np.full(len(plan), -1, dtype=np.int32),
            "after_cpu_ns": nothing,
            "on_core": np.zeros(len(plan), dtype=bool),
            "temp": np.ones(len(plan), dtype=bool),
            "write": plan["write"].filled(False),
            "offset": plan["offset"].cast("int64"),
            "bytes": plan["bytes"].cast("int64"),
        }
    )


def _with_write_cache(storage: Storage) -> Storage:
    """The storage with the write cache that a grid has measured, if it saturated."""
    sustained = storage.facts.get("sustained")
    if storage.limits or not sustained or not sustained.get("reached"):
        return storage
    cache = write_cache_limit(sustained["burst_bytes"], sustained["sustained_bytes_per_s"])
    return replace(storage, limits=[cache])


def _error_s(
    known: Model, op: str, size: NDArray[np.int64], elapsed_s: NDArray[np.float64]
) -> float:
    """Standard error of a sum of latencies, by the measurement and by interpolated sizes.

    0 for stated figures.
    """
    if not len(size):
        return 0.0
    error_s = 0.0
    for at in np.unique(size):
        estimate = known.latency(op, int(at))
        if not known.storage.source.unloaded:
            counts, means = estimate.blocks[:, 0], estimate.blocks[:, 1]
            noise = 0.0
            if len(means) > 1 and estimate.mean_s > 0:
                spread = np.average((means - estimate.mean_s) ** 2, weights=counts)
                noise = math.sqrt(spread / len(means)) / estimate.mean_s
            # Errors of neighbouring sizes are correlated, so they add up.
            error_s += math.hypot(noise, estimate.error) * float(elapsed_s[size == at].sum())
    return error_s


def _beyond_note(storage: Storage, op: str) -> Note:
    sizes = [group.size_class_bytes for group in storage.of(op) if group.count]
    message = (
        f"{op}s were measured from {format_bytes(min(sizes))} to {format_bytes(max(sizes))}: other "
        "sizes are extrapolated"
    )
    return {"code": "extrapolated", "message": message}


#: Number of rounds that share the time budget, and the maximum if time is left.
ROUNDS, ROUNDS_MAX = 3, 9
#: Student's t for a 90 % interval of the mean, by the number of rounds.
STUDENT = {2: 6.31, 3: 2.92, 4: 2.35, 5: 2.13, 6: 2.02, 7: 1.94, 8: 1.89, 9: 1.86}
#: Operations that take no longer than this are served by memory.
MEMORY_NS, MEMORY_NS_PER_BYTE = 20_000, 1 / 3
#: A replay of this share of a plan or more counts as complete.
WHOLE = 0.99


def measured(
    directory: Path,
    plans: Sequence[Table],
    like: Recording,
    *,
    budget: Budget,
    on_progress: ProbeProgress | None = None,
) -> Trials:
    """Replay each plan on ``directory``, with the memory of ``like``.

    Each round replays every plan, in a random order, so that a drift affects all. InputError for an
    unusable directory; no files are left in it in any case.
    """
    rounds: list[list[_Replay]] = [[] for _ in plans]
    each = replace(budget, time_s=budget.time_s / (ROUNDS * len(plans)))
    began, order, moved = time.monotonic(), random.Random(1), 0
    done, total = 0, ROUNDS * len(plans)
    while done < ROUNDS_MAX * len(plans):
        turns = list(range(len(plans)))
        order.shuffle(turns)
        for at in turns:
            with failures_as_errors(directory):
                replay = _replay(directory, plans[at], like, each)
            rounds[at].append(replay)
            done, moved = done + 1, moved + replay.bytes
            if on_progress is not None:
                on_progress(min(done, total), total, moved)
        spent_s, turns_done = time.monotonic() - began, done // len(plans)
        if turns_done >= ROUNDS and spent_s * (1 + 1 / turns_done) > budget.time_s:
            break
    return Trials([_trial(replays) for replays in rounds], _warnings(directory, rounds))


@dataclass(frozen=True)
class _Replay:
    """One replay of one plan."""

    reads: Operations
    writes: Operations
    bytes: int
    #: Share of the plan's operations that were issued.
    share: float
    from_memory: bool
    filesystem: str


def _replay(directory: Path, plan: Table, like: Recording, budget: Budget) -> _Replay:
    limits = budget.limits(directory)
    probe = _core.Probe(plan, str(directory), **limits)
    measured = bounded_run(like, plan, probe, directory, limits, None)
    groups = measured["groups"]
    write = plan["write"].filled(False)
    size = plan["bytes"].to_numpy()
    reads, writes = (
        _planned(size[write == (op == "write")], [g for g in groups if g["op"] == op]) for op in OPS
    )
    issued, moved = (sum(group[key] for group in groups) for key in ("count", "bytes"))
    from_memory = any(
        g["op"] == "read"
        and g["total_ns"] < g["count"] * MEMORY_NS + g["bytes"] * MEMORY_NS_PER_BYTE
        for g in groups
    )
    share = issued / len(size)
    return _Replay(reads, writes, moved, share, from_memory, measured["facts"]["filesystem"])


def _planned(size: np.ndarray[Any, Any], groups: list[dict[str, Any]]) -> Operations:
    """All operations of one op in a plan, with times extrapolated from the issued ones."""
    count = sum(group["count"] for group in groups)
    if not len(size) or not count:
        return Operations.of(0, 0, 0.0)
    by_class = {group["size_class_bytes"]: group for group in groups if group["count"]}
    ns_per_byte = sum(g["total_ns"] for g in groups) / sum(g["bytes"] for g in groups)
    total_ns = 0.0
    for at, planned in zip(*np.unique(size, return_counts=True), strict=True):
        group = by_class.get(_core.size_class_bytes(int(at)))
        mean_ns = at * ns_per_byte if group is None else group["total_ns"] / group["count"]
        total_ns += planned * mean_ns
    return Operations.of(len(size), int(size.sum()), total_ns / 1e9)


def _trial(replays: Sequence[_Replay]) -> Trial:
    """The mean of rounds, and its 90 % interval."""
    reads, writes = (
        Operations.of(times[0].count, times[0].bytes, fmean(time.total_s for time in times))
        for times in ([r.reads for r in replays], [r.writes for r in replays])
    )
    totals = [r.reads.total_s + r.writes.total_s for r in replays]
    half_s = STUDENT[len(totals)] * stdev(totals) / math.sqrt(len(totals))
    mean_s = fmean(totals)
    return Trial(reads, writes, (max(mean_s - half_s, 0.0), mean_s + half_s))


def _warnings(directory: Path, rounds: Sequence[Sequence[_Replay]]) -> list[Note]:
    """Warnings about the measurement."""
    warnings = list[Note]()
    replays = [replay for of_plan in rounds for replay in of_plan]
    least = min(replay.share for replay in replays)
    if least < WHOLE:
        message = (
            f"a replay had time or room for {least:.0%} of the spill, which represents all of it. "
            "A write cache that only the rest would fill does not show; raise --budget"
        )
        warnings.append({"code": "partial", "message": message})
    if replays[0].filesystem in IN_MEMORY:
        message = f"{directory} is {replays[0].filesystem}: this measures memory, not storage"
        warnings.append({"code": "memory", "message": message})
    elif any(replay.from_memory for replay in replays):
        message = (
            "reads were as fast as memory: the page cache held the spill, as it would for a query "
            "of this size; a spill larger than memory shows the storage"
        )
        warnings.append({"code": "spill-in-memory", "message": message})
    return warnings

"""Storages without a probe: observed in a run or a rehearsal, or with given latencies and limits.

A rehearsal is the first part of a query as it ran on other storage, kept with its recording.
"""

import shutil
from collections.abc import Mapping
from dataclasses import dataclass
from itertools import groupby
from operator import itemgetter
from pathlib import Path
from typing import Any
from urllib.parse import quote

from spillcast import _core
from spillcast.errors import TargetInvalid
from spillcast.evidence.counts import Counts, OpCounts
from spillcast.recording import OPS, Recording
from spillcast.recording.thread_trace import TempOperations
from spillcast.stats import merged, rounded
from spillcast.storage.source import ASSUMED, RECORDING, Provenance, recorded_provenance
from spillcast.storage.storage import (
    BURST_S,
    PATTERNS,
    Changes,
    Group,
    Limit,
    Storage,
    bytes_limit,
    operations_limit,
    uniform,
    unloaded_groups,
)
from spillcast.units import parse_bytes_per_s, parse_latency_s, parse_rate

#: Evidence of temp I/O: a recording, or only counts.
TempEvidence = Recording | Counts


def observed(evidence: TempEvidence) -> Storage:
    """The storage of a run, with the latencies in its evidence."""
    if isinstance(evidence, Recording):
        return _observed_in(evidence)
    groups = [_counted_group(op, counts) for op, counts in evidence.by_op]
    facts = {"like": evidence.path.name}
    return Storage(evidence.path.stem, RECORDING, groups, facts, provenance=Provenance())


def _counted_group(op: str, counts: OpCounts) -> Group:
    mean_ns = counts.total_ns // counts.count
    return Group(
        op=op,
        size_class_bytes=_core.size_class_bytes(counts.bytes // counts.count),
        depth=1,
        count=counts.count,
        bytes=counts.bytes,
        total_ns=counts.total_ns,
        **uniform(mean_ns, counts.count),
    )


def _observed_in(recording: Recording) -> Storage:
    """The storage from a recording's per-second histograms and waits that change temp files."""
    # The sort is stable, so rows stay in order of seconds within a group.
    key = itemgetter("op", "size_class_bytes")
    counted = [row for row in recording.temp_seconds.to_pylist() if row["count"]]
    rows = groupby(sorted(counted, key=key), key)
    groups = [_group(op, size, list(group)) for (op, size), group in rows if size]
    waits = recording.temp_changes.select(["event", "elapsed_ns"])
    event, elapsed_ns = waits["event"], waits["elapsed_ns"].values
    changes = []
    for name in sorted(event.unique()):
        times_ns = elapsed_ns[event.equals(name)].tolist()
        changes.append(Changes(name, len(times_ns), sum(times_ns), *rounded(times_ns)))
    name, facts = recording.path.stem, {"like": recording.path.name}
    provenance = recorded_provenance(recording.meta)
    return Storage(name, RECORDING, groups, facts, changes=changes, provenance=provenance)


def _group(op: str, size_class_bytes: int, rows: list[dict[str, Any]]) -> Group:
    latency_ns, counts = merged((row["latency_ns"], row["latency_count"]) for row in rows)
    return Group(
        op=op,
        size_class_bytes=size_class_bytes,
        depth=1,
        count=sum(row["count"] for row in rows),
        bytes=sum(row["bytes"] for row in rows),
        total_ns=sum(row["total_ns"] for row in rows),
        latency_ns=latency_ns,
        latency_count=counts,
        block_count=[row["count"] for row in rows],
        block_mean_ns=[row["total_ns"] // row["count"] for row in rows],
    )


def assumed_latency(like: Storage, latency_s: float, name: str) -> Storage:
    """A storage on which every operation takes ``latency_s``."""
    ns = round(latency_s * 1e9)
    return Storage(name, ASSUMED, [g.taking(ns) for g in like.groups])


_EXAMPLE = "for example limits:iops=12000,throughput=500MiB/s,latency=0.5ms"


def limits_storage(text: str, value: str) -> Storage:
    """The storage of ``value``, the text after ``limits:``. InputError for an invalid text."""
    given: dict[str, str] = {}
    for part in value.split(","):
        key, equals, figure = (word.strip() for word in part.partition("="))
        if not equals or key not in ("iops", "throughput", "latency") or key in given:
            known = "iops, throughput and latency, each once"
            raise TargetInvalid(
                f"{text}: '{part.strip()}' is no limit; known are {known}", _EXAMPLE
            )
        given[key] = figure
    if "latency" not in given:
        raise TargetInvalid(f"{text}: the latency of one operation is missing", _EXAMPLE)
    latency_s = parse_latency_s(given["latency"], f"{text}: latency")
    limits: list[Limit] = []
    if "iops" in given:
        iops = parse_rate(given["iops"], f"{text}: iops")
        limits.append(operations_limit(_positive(text, iops), burst=iops * BURST_S))
    if "throughput" in given:
        bytes_per_s = parse_bytes_per_s(given["throughput"], f"{text}: throughput")
        burst = _positive(text, bytes_per_s) * BURST_S
        limits.append(bytes_limit("throughput", bytes_per_s, burst=burst))
    # The time of larger operations follows from the throughput.
    base_ns = {(op, p): latency_s * 1e9 for op in OPS for p in PATTERNS}
    groups = unloaded_groups(base_ns, 0.0)
    return Storage(text, ASSUMED, groups, limits=limits)


def _positive(text: str, rate: float) -> float:
    if rate <= 0:
        raise TargetInvalid(f"{text}: a limit of 0", _EXAMPLE)
    return rate


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

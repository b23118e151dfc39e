"""Storages without a probe: as an engine saw its own, or with a given latency."""

from dataclasses import replace
from itertools import groupby
from typing import Any

import pyarrow as pa

from spillcast.histogram import merged, rounded
from spillcast.recording import Recording
from spillcast.storage.provenance import of_recording
from spillcast.storage.source import ASSUMED, RECORDING
from spillcast.storage.storage import Changes, Group, Storage


def observed(recording: Recording) -> Storage:
    """The storage a recording was made on, from the whole run's per-second histograms."""

    def key(row: dict[str, Any]) -> tuple[str, int]:
        return row["op"], row["size_class_bytes"]

    # Rows come by second and stay so within a group, for the sort is stable.
    counted = [row for row in recording.temp_seconds.to_pylist() if row["count"]]
    rows = groupby(sorted(counted, key=key), key)
    groups = [_group(op, size, list(group)) for (op, size), group in rows if size]
    changes = [
        Changes(event, len(ns), sum(ns), *rounded(ns)) for event, ns in _changes_ns(recording)
    ]
    facts = {"like": recording.path.name}
    return Storage(
        recording.path.stem, RECORDING, groups, facts, changes=changes,
        provenance=of_recording(recording.meta),
    )  # fmt: skip


def _changes_ns(recording: Recording) -> list[tuple[str, list[int]]]:
    """The calls that change temp files and their latencies, from single waits."""
    waits = recording.temp_changes.select(["event", "elapsed_ns"])
    waits = waits.set_column(0, "event", waits["event"].cast(pa.string()))
    groups = waits.group_by("event").aggregate([("elapsed_ns", "list")]).sort_by("event")
    return list(zip(*(column.to_pylist() for column in groups.columns), strict=True))


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
    groups = [
        replace(
            g,
            total_ns=ns * g.count,
            latency_ns=[ns],
            latency_count=[g.count],
            block_count=[g.count],
            block_mean_ns=[ns],
            elapsed_ns=None,
        )
        for g in like.groups
    ]
    return Storage(name, ASSUMED, groups)

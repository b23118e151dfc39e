"""Storages that were not probed: as an engine saw its own, or as somebody wishes one."""

from dataclasses import replace

import numpy as np
import pyarrow as pa

from spillcast.recording import Recording
from spillcast.storage.storage import Group, Storage


def observed(recording: Recording) -> Storage:
    """The storage a recording was made on, from the whole run's per-second histograms."""
    seconds = recording.seconds
    seconds = seconds.filter(seconds["temp"])
    by_group: dict[tuple[str, int], list[dict[str, object]]] = {}
    for row in seconds.sort_by("second").to_pylist():
        by_group.setdefault((row["op"], row["size_class_bytes"]), []).append(row)
    groups = [_group(op, size, rows) for (op, size), rows in sorted(by_group.items())]
    return Storage(recording.path.stem, "recording", groups, {"like": recording.path.name})


def _group(op: str, size_class_bytes: int, rows: list[dict[str, object]]) -> Group:
    table = pa.Table.from_pylist(rows)
    latency_ns = np.concatenate([np.asarray(r, dtype=np.int64) for r in table["latency_ns"].to_pylist()])
    counts = np.concatenate([np.asarray(r, dtype=np.int64) for r in table["latency_count"].to_pylist()])
    buckets, position = np.unique(latency_ns, return_inverse=True)
    count = table["count"].to_numpy()
    total_ns = table["total_ns"].to_numpy()
    return Group(
        op=op,
        size_class_bytes=size_class_bytes,
        depth=1,
        count=int(count.sum()),
        bytes=int(table["bytes"].to_numpy().sum()),
        total_ns=int(total_ns.sum()),
        latency_ns=buckets.tolist(),
        latency_count=np.bincount(position, weights=counts).astype(np.int64).tolist(),
        block_count=count.tolist(),
        block_mean_ns=(total_ns // count).tolist(),
    )


def asked_latency(like: Storage, latency_s: float, name: str) -> Storage:
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
        )
        for g in like.groups
    ]
    return Storage(name, "asked", groups)

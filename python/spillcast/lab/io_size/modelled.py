"""What a spill takes on a storage that is only described: its latencies, limits and write cache."""

import math
from collections.abc import Sequence
from dataclasses import replace

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from spillcast import _core
from spillcast.histogram import NORMAL_95
from spillcast.lab.io_size.trial import OpTime, Trial, Trials
from spillcast.recording.event_names import OPS
from spillcast.storage import Storage
from spillcast.storage.model import Model, behaviour_of
from spillcast.storage.storage import write_cache_limit
from spillcast.units import format_bytes


def modelled(storage: Storage, plans: Sequence[pa.RecordBatch]) -> Trials:
    """Take each plan through the storage, which is idle and whose write cache is empty at first.

    Latencies are drawn, and limits and servers make operations wait, exactly as on an emulation.
    Refusal where the storage has no figures for an op that a plan holds.
    """
    storage = _with_write_cache(storage)
    behaviour, known = behaviour_of(storage), Model(storage, access="direct")
    trials, beyond = [], set()
    for plan in plans:
        _, waited = _core.simulate(_rows(plan), len(plan), behaviour)
        elapsed_s = pa.record_batch(waited)["io_ns"].to_numpy() / 1e9
        write = plan["write"].to_numpy(zero_copy_only=False)
        size = plan["bytes"].to_numpy()
        times, error_s = {}, 0.0
        for op in OPS:
            mine = write == (op == "write")
            times[op] = OpTime(int(mine.sum()), int(size[mine].sum()), float(elapsed_s[mine].sum()))
            error_s = math.hypot(error_s, _error_s(known, op, size[mine], elapsed_s[mine]))
            beyond |= {op for at in np.unique(size[mine]) if _beyond(known, op, int(at))}
        reads, writes = times["read"], times["write"]
        total_s, half_s = reads.total_s + writes.total_s, NORMAL_95 * error_s
        bounds = max(total_s - half_s, 0.0), total_s + half_s
        trials.append(Trial(reads, writes, bounds))
    return Trials(trials, [_beyond_words(storage, op) for op in sorted(beyond)])


def _rows(plan: pa.RecordBatch) -> pa.RecordBatch:
    """A plan for the simulation, every thread on a core of its own: its pauses are CPU time."""
    nothing = pa.array(np.zeros(len(plan), dtype=np.int64))
    columns = {name: plan[name].cast(pa.int64()).fill_null(-1) for name in ("offset", "bytes")}
    threads, files = (plan[name].dictionary_encode().indices for name in ("thread", "file"))
    return pa.record_batch(
        {
            "thread": threads,
            "file": files,
            "cpu_ns": plan["delay_ns"].cast(pa.int64()),
            "wait_ns": nothing,
            "after": pa.array(np.full(len(plan), -1, dtype=np.int32)),
            "after_cpu_ns": nothing,
            "on_core": pa.array(np.zeros(len(plan), dtype=bool)),
            "temp": pa.array(np.ones(len(plan), dtype=bool)),
            "write": plan["write"].fill_null(False),
            **columns,
        }
    )


def _with_write_cache(storage: Storage) -> Storage:
    """The storage with the write cache that a grid has seen fill up, if it did."""
    seen = storage.facts.get("sustained")
    if storage.limits or not seen or not seen.get("reached"):
        return storage
    cache = write_cache_limit(seen["burst_bytes"], seen["sustained_bytes_per_s"])
    return replace(storage, limits=[cache])


def _error_s(
    known: Model, op: str, size: NDArray[np.int64], elapsed_s: NDArray[np.float64]
) -> float:
    """Standard error of a sum of latencies: of the measurement, and of taking other sizes from it.

    None of it where figures are stated and not measured.
    """
    if not len(size):
        return 0.0
    error_s = 0.0
    for at in np.unique(size):
        estimate = known.latency(op, int(at))
        if not known.storage.source.stated:
            counts, means = estimate.blocks[:, 0], estimate.blocks[:, 1]
            noise = 0.0
            if len(means) > 1 and estimate.mean_s > 0:
                spread = np.average((means - estimate.mean_s) ** 2, weights=counts)
                noise = math.sqrt(spread / len(means)) / estimate.mean_s
            # Neighbouring sizes are missed alike, so their errors add up.
            error_s += math.hypot(noise, estimate.error) * float(elapsed_s[size == at].sum())
    return error_s


def _beyond(known: Model, op: str, size_bytes: int) -> bool:
    return not known.storage.source.stated and known.latency(op, size_bytes).extrapolated


def _beyond_words(storage: Storage, op: str) -> dict[str, str]:
    sizes = [group.size_class_bytes for group in storage.of(op) if group.count]
    message = (
        f"{op}s were measured from {format_bytes(min(sizes))} to {format_bytes(max(sizes))}: other "
        "sizes are extrapolated"
    )
    return {"code": "extrapolated", "message": message}

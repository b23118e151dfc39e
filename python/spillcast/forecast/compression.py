"""DuckDB compresses what it spills where writes are slow: what that changes on other storage.

Before each write it compares, from what its last writes took, compressing and writing a block with
writing it as it is. Where the former takes twice as long or more, it compresses only one block in
two, to see whether that is still so; else all but one in two to four.
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np
import pyarrow.compute as pc
from numpy.typing import NDArray

from spillcast.forecast.latency import Latency
from spillcast.forecast.load import Load
from spillcast.recording import Recording

#: What DuckDB calls the files of its blocks.
FILES = "duckdb_temp_.*storage_"
#: A block as it is; a compressed one is at least one step of 32 KiB smaller.
BLOCK_BYTES = 262_144
#: Compressing may take so many times as long as not to.
WORTH = 2.0
#: Share of the blocks that it tries to compress where that is not worth it, and where it is: the
#: middle between one half, at the lowest level, and three quarters, at the others.
TRIED, TRIED_WORTH = 0.5, 0.625
#: Fewer blocks of a kind tell nothing.
BLOCKS_MIN = 30
#: Of the CPU times, those before the longest are averaged: blocks are also written between phases.
TRIMMED = 0.2


@dataclass(frozen=True)
class Compression:
    """What a run's blocks were: how many were compressed, and the CPU time that it took."""

    loads: Sequence[Load]
    #: Compressed blocks over all blocks.
    share: float
    #: CPU time that a compressed block takes more than another: to write it, and to read it.
    write_cpu_s: float
    read_cpu_s: float

    @property
    def pays_here(self) -> bool:
        """Whether DuckDB found it worth it during the recording."""
        return self._pays([load.mean_s for load in self.loads])

    def pays_there(self, found: Sequence[Latency]) -> bool:
        """Whether it would on a storage of these latencies."""
        return self._pays([latency.mean_s for latency in found])

    def share_there(self, found: Sequence[Latency]) -> float:
        """Compressed blocks over all blocks on a storage of these latencies."""
        tried_here, tried_there = (
            TRIED_WORTH if pays else TRIED for pays in (self.pays_here, self.pays_there(found))
        )
        return min(self.share * tried_there / tried_here, 1.0)

    def loads_there(self, found: Sequence[Latency]) -> list[Load]:
        """The loads with as many blocks of each kind as there would be."""
        there = self.share_there(found)
        fewer = there / self.share, (1 - there) / (1 - self.share)
        return [_times(load, fewer[load.size_class_bytes == BLOCK_BYTES]) for load in self.loads]

    def cpu_s(self, found: Sequence[Latency]) -> float:
        """CPU time that compressing takes more there than here; below 0 where it is less."""
        more = self.share_there(found) - self.share
        writes, reads = (
            sum(load.count for load in self.loads if load.op == op) for op in ("write", "read")
        )
        return more * (writes * self.write_cpu_s + reads * self.read_cpu_s)

    def _pays(self, mean_s: Sequence[float]) -> bool:
        block_s = _mean_write_s(self.loads, mean_s, compressed=False)
        compressed_s = self.write_cpu_s + _mean_write_s(self.loads, mean_s, compressed=True)
        return compressed_s < WORTH * block_s


def compression(baseline: Recording, loads: Sequence[Load]) -> Compression | None:
    """How a recording's blocks were compressed; None where it is not DuckDB's, or says too little.

    That is the case without single waits and their CPU times, and where hardly any block was of one
    kind: data that cannot be made smaller, or storage so slow that all of it was.
    """
    waits = baseline.waits
    cpu = waits["cpu_before_ns"]
    names = pc.unique(waits["file"]).cast("string").drop_null()
    own = names.filter(pc.match_substring_regex(names, FILES))
    if not len(own) or cpu.null_count == len(cpu):
        return None
    named = pc.is_in(waits["file"].cast("string"), own).to_numpy()
    block = named & (waits["bytes"].fill_null(0).to_numpy() > 0)
    before_ns = cpu.fill_null(0).to_numpy().astype(float)
    after_ns = _after(waits["session"].to_numpy(), before_ns)
    small = waits["bytes"].fill_null(0).to_numpy() < BLOCK_BYTES
    writes = pc.equal(waits["op"].cast("string"), "write").fill_null(False).to_numpy()
    kinds = [
        (before_ns[block & writes & small], before_ns[block & writes & ~small]),
        (after_ns[block & ~writes & small], after_ns[block & ~writes & ~small]),
    ]
    if any(len(one) < BLOCKS_MIN for kind in kinds for one in kind):
        return None
    share = len(kinds[0][0]) / (len(kinds[0][0]) + len(kinds[0][1]))
    write_ns, read_ns = (max(_mean(small) - _mean(whole), 0.0) for small, whole in kinds)
    return Compression(loads, share, write_ns / 1e9, read_ns / 1e9)


def _mean_write_s(loads: Sequence[Load], mean_s: Sequence[float], *, compressed: bool) -> float:
    which = [
        (load.count, one_s)
        for load, one_s in zip(loads, mean_s, strict=True)
        if load.op == "write" and (load.size_class_bytes < BLOCK_BYTES) == compressed
    ]
    return sum(count * one_s for count, one_s in which) / max(sum(c for c, _ in which), 1)


def _times(load: Load, factor: float) -> Load:
    count = max(round(load.count * factor), 1)
    ratio = count / load.count
    return replace(load, count=count, bytes=round(load.bytes * ratio), total_s=load.total_s * ratio)


def _after(session: NDArray[np.int64], before_ns: NDArray[np.float64]) -> NDArray[np.float64]:
    """The CPU time before the next row of the same thread; 0 after its last."""
    order = np.argsort(session, kind="stable")
    same = session[order][1:] == session[order][:-1]
    after = np.zeros(len(before_ns))
    after[order[:-1][same]] = before_ns[order[1:][same]]
    return after


def _mean(values: NDArray[np.float64]) -> float:
    kept = np.sort(values)[: int(len(values) * (1 - TRIMMED))]
    return float(kept.mean())

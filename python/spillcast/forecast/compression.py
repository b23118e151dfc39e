"""DuckDB compresses what it spills as far as writes are slow: what that changes elsewhere."""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cached_property

import numpy as np
import pyarrow.compute as pc
from numpy.typing import NDArray

from spillcast.forecast.adaptive import Adapted, adapt, lowest_level_s
from spillcast.forecast.latency import Latency
from spillcast.forecast.load import Load
from spillcast.recording import Recording

#: What DuckDB calls the files of its blocks.
FILES = "duckdb_temp_.*storage_"
#: A block as it is; a compressed one is at least one step of 32 KiB smaller.
BLOCK_BYTES = 262_144
#: Fewer blocks of a kind tell nothing.
BLOCKS_MIN = 30
#: Of the CPU times, those before the longest are averaged: blocks are also written between phases.
TRIMMED = 0.2
#: The highest level takes long, too: of what compressing takes, up to so many times the median.
LONGEST = 10.0
#: How many CPUs a thread works on, now and then, where there are so many.
CPUS_OF_A_THREAD = 2


@dataclass(frozen=True)
class Compression:
    """What a run's blocks were: how many were compressed, and the CPU time that it took."""

    loads: Sequence[Load]
    #: Compressed blocks over all blocks.
    share: float
    #: CPU time that a compressed block takes more than another: to write it, and to read it.
    write_cpu_s: float
    read_cpu_s: float
    #: On how many CPUs blocks were written: each has its own experience.
    cpus: int

    def share_there(self, found: Sequence[Latency]) -> float:
        """Compressed blocks over all blocks on a storage of these latencies."""
        # Some are no smaller when compressed, and are written as they are.
        return min(self.share * self._there(found).share / self._here.share, 1.0)

    def loads_there(self, found: Sequence[Latency]) -> list[Load]:
        """The loads with as many blocks of each kind as there would be."""
        there = self.share_there(found)
        fewer = there / self.share, (1 - there) / (1 - self.share)
        return [_times(load, fewer[load.size_class_bytes == BLOCK_BYTES]) for load in self.loads]

    def cpu_s(self, found: Sequence[Latency]) -> float:
        """CPU time that compressing takes more there than here; below 0 where it is less."""
        share = self.share_there(found)
        # The same arithmetic on both sides, so that no difference is one of rounding.
        level = self._there(found).cpu_s / self._here.cpu_s
        each_s = (share * level - self.share) * self.write_cpu_s
        reads = sum(load.count for load in self.loads if load.op == "read")
        return self._writes * each_s + reads * (share - self.share) * self.read_cpu_s

    @property
    def _writes(self) -> int:
        return sum(load.count for load in self.loads if load.op == "write")

    @cached_property
    def _lowest_s(self) -> float:
        blocks, *write_s = self._rule([load.mean_s for load in self.loads])
        return lowest_level_s(blocks, self.write_cpu_s, *write_s)

    @cached_property
    def _here(self) -> Adapted:
        return self._adapted([load.mean_s for load in self.loads])

    def _there(self, found: Sequence[Latency]) -> Adapted:
        return self._adapted([latency.mean_s for latency in found])

    def _adapted(self, mean_s: Sequence[float]) -> Adapted:
        blocks, *write_s = self._rule(mean_s)
        return adapt(blocks, self._lowest_s, *write_s)

    def _rule(self, mean_s: Sequence[float]) -> tuple[int, float, float]:
        """Blocks on a CPU, and what a write takes of a compressed one and of one as it is."""
        small, whole = (
            _mean_write_s(self.loads, mean_s, compressed=compressed) for compressed in (True, False)
        )
        return -(-self._writes // self.cpus), small, whole


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
    written, read = kinds
    share = len(written[0]) / (len(written[0]) + len(written[1]))
    most_ns = LONGEST * float(np.median(written[0]))
    write_ns = _mean_up_to(written[0], most_ns) - _mean_up_to(written[1], most_ns)
    if write_ns <= 0:
        return None
    read_ns = max(_mean(read[0]) - _mean(read[1]), 0.0)
    threads = len(np.unique(waits["session"].to_numpy()[block & writes]))
    cpus = min(CPUS_OF_A_THREAD * threads, int(baseline.meta["machine"].get("cpus") or threads))
    return Compression(loads, share, write_ns / 1e9, read_ns / 1e9, cpus)


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


def _mean_up_to(values: NDArray[np.float64], most: float) -> float:
    kept = values[values <= most]
    return float(kept.mean()) if len(kept) else 0.0


def _mean(values: NDArray[np.float64]) -> float:
    kept = np.sort(values)[: int(len(values) * (1 - TRIMMED))]
    return float(kept.mean())

"""DuckDB compresses what it spills as far as writes are slow: what that changes elsewhere."""

import random
import re
from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from math import exp, log
from typing import TYPE_CHECKING, NamedTuple

import numpy as np
from numpy.typing import NDArray

from spillcast.calibrated import calibrated
from spillcast.forecast.load import Load
from spillcast.storage.model import Estimate
from spillcast.tables import followed

if TYPE_CHECKING:
    from spillcast.recording import Recording

#: Fewer blocks of a kind tell nothing.
BLOCKS_MIN = 30
#: Of the CPU times, those before the longest are averaged: blocks are also written between phases.
TRIMMED = 0.2
#: The highest level takes long, too: of what compressing takes, up to so many times the median.
LONGEST = 10.0
#: How many CPUs a thread works on, now and then, where there are so many.
CPUS_OF_A_THREAD = 2
#: What a write is assumed to take before there was one.
ASSUMED_S = 50e-6
#: A write counts one in so many in what writes took lately.
WEIGHT = 16
#: Compressing may take so many times as long as not to.
WORTH = 2.0
#: The rule is run for so many blocks together; the more there are on a CPU, the fewer times.
DRAWN = 1500
#: After so many blocks on a CPU it goes on as in the last half of them.
SETTLED = 1500


class Adapted(NamedTuple):
    """What came of the rule."""

    #: Blocks compressed, over all.
    share: float
    #: CPU time to compress one of them, mean over the levels.
    cpu_s: float


def adapt(lowest_s: float, blocks: int, compressed_s: float, plain_s: float) -> Adapted:
    """What the rule makes of so many ``blocks``, whose lowest level takes ``lowest_s`` of CPU time.

    A write of a compressed block takes ``compressed_s``, one of a plain block ``plain_s``.
    """
    levels = calibrated().compression_levels
    took_s = [*(lowest_s * level + compressed_s for level in levels), plain_s]
    chance = random.Random(0)
    run = max(min(blocks, SETTLED), 1)
    # Those that are not run do as the last half of those that are.
    last = run - run // 2
    more = 1 + max(blocks - run, 0) / last
    counts = [0.0] * len(took_s)
    for _ in range(-(-DRAWN // run)):
        lately_s = [ASSUMED_S] * len(took_s)
        first_half = _run(run // 2, took_s, lately_s, chance)
        last_half = _run(last, took_s, lately_s, chance)
        counts = [
            count + first + more * second
            for count, first, second in zip(counts, first_half, last_half, strict=True)
        ]
    *small, _ = counts
    cpu_s = lowest_s * sum(n * level for n, level in zip(small, levels, strict=True))
    return Adapted(sum(small) / sum(counts), cpu_s / sum(small) if any(small) else 0.0)


def lowest_level_s(cpu_s: float, blocks: int, compressed_s: float, plain_s: float) -> float:
    """The CPU time of the lowest level with which compressing takes ``cpu_s`` in the mean."""
    steps, highest = 40, calibrated().compression_levels[-1]
    ways = [cpu_s * exp(-log(highest) * step / steps) for step in range(steps + 1)]
    return min(
        ways, key=lambda way: abs(adapt(way, blocks, compressed_s, plain_s).cpu_s / cpu_s - 1)
    )


def _run(
    blocks: int, took_s: list[float], lately_s: list[float], chance: random.Random
) -> list[int]:
    """How many blocks at each level, and as they are; ``lately_s`` goes on."""
    plain, highest = len(took_s) - 1, len(took_s) - 2
    counts = [0] * len(took_s)
    for _ in range(blocks):
        best = lately_s.index(min(lately_s[:plain]))
        ratio = lately_s[best] / lately_s[plain]
        deviates, to_plain = chance.random() < 0.5, chance.random() < 0.5
        if not deviates:
            level = best if ratio < WORTH else plain
        elif ratio >= WORTH:
            level = 0
        elif to_plain:
            level = plain
        elif best == highest:
            level = best - 1
        elif ratio < 1:
            level = best + 1
        else:
            level = best - 1 if best else plain
        counts[level] += 1
        lately_s[level] += (took_s[level] - lately_s[level]) / WEIGHT
    return counts


#: What DuckDB calls the files of its blocks.
FILES = "duckdb_temp_.*storage_"
#: A block as it is; a compressed one is at least one step of 32 KiB smaller.
BLOCK_BYTES = 262_144


@dataclass(frozen=True)
class Compressed:
    """What a run's blocks would be on other storage."""

    #: Compressed blocks over all blocks.
    share: float
    #: The loads with as many blocks of each kind as there would be.
    loads: Sequence[Load]
    #: CPU time that compressing takes more there than here; below 0 where it is less.
    cpu_s: float


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

    def explained(self, more: str) -> str:
        """Why ``more`` or ``less`` is compressed elsewhere, in words."""
        return f"DuckDB would compress {more}, because it chooses by how long writes take"

    def on_target(self, latencies: Sequence[Estimate]) -> Compressed:
        """On a storage of these latencies."""
        lowest_s, recorded = self._recorded
        target = adapt(lowest_s, *self._writes([latency.mean_s for latency in latencies]))
        # Some are no smaller when compressed, and are written as they are.
        share = min(self.share * target.share / recorded.share, 1.0)
        fewer = share / self.share, (1 - share) / (1 - self.share)
        return Compressed(
            share,
            [_times(load, fewer[load.size_class_bytes == BLOCK_BYTES]) for load in self.loads],
            self.cpu_of_s(share, self.write_cpu_s * target.cpu_s / recorded.cpu_s)
            - self.cpu_of_s(self.share, self.write_cpu_s),
        )

    def cpu_of_s(self, share: float, write_cpu_s: float) -> float:
        """CPU time of compressing a share of the blocks; to read one takes what it took here."""
        writes, reads = (
            sum(load.count for load in self.loads if load.op == op) for op in ("write", "read")
        )
        return share * (writes * write_cpu_s + reads * self.read_cpu_s)

    @cached_property
    def _recorded(self) -> tuple[float, Adapted]:
        """CPU time of the lowest level, and what came of the rule where it was recorded."""
        writes = self._writes([load.mean_s for load in self.loads])
        lowest_s = lowest_level_s(self.write_cpu_s, *writes)
        return lowest_s, adapt(lowest_s, *writes)

    def _writes(self, mean_s: Sequence[float]) -> tuple[int, float, float]:
        """Blocks on a CPU, and what a write takes of a compressed one and of one as it is."""
        sums = {True: [0, 0.0], False: [0, 0.0]}
        for load, write_s in zip(self.loads, mean_s, strict=True):
            if load.op == "write":
                its = sums[load.size_class_bytes < BLOCK_BYTES]
                its[0] += load.count
                its[1] += load.count * write_s
        (small, small_s), (plain, plain_s) = sums[True], sums[False]
        blocks = -(-round(small + plain) // self.cpus)
        return blocks, small_s / max(small, 1), plain_s / max(plain, 1)


def compression(recording: "Recording", loads: Sequence[Load]) -> Compression | None:
    """How a recording's blocks were compressed; None where it is not DuckDB's, or says too little.

    That is the case without single waits and their CPU times, and where hardly any block was of one
    kind: data that cannot be made smaller, or storage so slow that all of it was.
    """
    waits = recording.waits
    cpu = waits["cpu_before_ns"]
    file, size = waits["file"], waits["bytes"].filled(0)
    named = file.isin(name for name in file.names if re.search(FILES, name))
    if not named.any() or cpu.null_count == len(cpu):
        return None
    block = named & (size > 0)
    before_ns = cpu.filled(0).astype(float)
    row, following = followed(waits["session"].values)
    after_ns = np.zeros(len(before_ns))
    after_ns[row] = before_ns[following]
    small = size < BLOCK_BYTES
    writes = waits["op"].equals("write")
    kinds = [
        (before_ns[block & writes & small], before_ns[block & writes & ~small]),
        (after_ns[block & ~writes & small], after_ns[block & ~writes & ~small]),
    ]
    if any(len(blocks) < BLOCKS_MIN for kind in kinds for blocks in kind):
        return None
    written, read = kinds
    share = len(written[0]) / (len(written[0]) + len(written[1]))
    max_ns = LONGEST * float(np.median(written[0]))
    write_ns = _mean_up_to(written[0], max_ns) - _mean_up_to(written[1], max_ns)
    if write_ns <= 0:
        return None
    read_ns = max(_mean(read[0]) - _mean(read[1]), 0.0)
    threads = len(np.unique(waits["session"].values[block & writes]))
    cpus = min(CPUS_OF_A_THREAD * threads, recording.meta.machine.cpus or threads)
    return Compression(loads, share, write_ns / 1e9, read_ns / 1e9, cpus)


def _times(load: Load, factor: float) -> Load:
    count = max(round(load.count * factor), 1)
    ratio = count / load.count
    return replace(load, count=count, bytes=round(load.bytes * ratio), total_s=load.total_s * ratio)


def _mean_up_to(values: NDArray[np.float64], max_value: float) -> float:
    kept = values[values <= max_value]
    return float(kept.mean()) if len(kept) else 0.0


def _mean(values: NDArray[np.float64]) -> float:
    kept = np.sort(values)[: int(len(values) * (1 - TRIMMED))]
    return float(kept.mean())

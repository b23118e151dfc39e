"""DuckDB's adaptive compression of spilled blocks: its loads and CPU time on other storage.

For each block DuckDB picks a compression level, or none, by moving averages of recent write times
at each level (TemporaryFileCompressionAdaptivity), so it compresses more on slow storage.
"""

import random
import re
from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from math import exp, log
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from spillcast.calibrated import calibrated
from spillcast.columns import Floats
from spillcast.forecast.workload.load import Load, mean_latency_s, operations, with_means
from spillcast.storage.model import Estimate
from spillcast.tables import followed

if TYPE_CHECKING:
    from spillcast.recording import Recording

#: Fewer blocks of a kind are too few for a mean CPU time.
BLOCKS_MIN = 30
#: Share of the longest CPU times that a mean excludes: blocks are also written between phases.
TRIMMED = 0.2
#: CPU times of compressed writes count up to this multiple of the median (a slow highest level).
LONGEST = 10.0
#: Number of CPUs that a thread moves between during a run; each CPU has its own averages.
CPUS_OF_A_THREAD = 2
#: Start value of the moving averages of write times; a new write has the weight 1/WEIGHT.
INITIAL_S, WEIGHT = 50e-6, 16
#: A compressed write may take this many times as long as a plain write.
RATIO_MAX = 2.0
#: The algorithm is simulated for at least this many blocks in all.
SIMULATED_BLOCKS = 1500
#: After this many blocks on a CPU, the shares of the levels stay as in the second half of them.
SETTLED_BLOCKS = 1500


class Adaptation(NamedTuple):
    """The result of the algorithm."""

    #: Compressed blocks over all blocks.
    share: float
    #: Mean CPU time to compress a block; 0 if none is compressed.
    cpu_s: float


def adapt(lowest_s: float, blocks: int, compressed_s: float, plain_s: float) -> Adaptation:
    """Simulate the algorithm for ``blocks`` on a CPU; the lowest level takes ``lowest_s`` of CPU.

    Writing a compressed block takes ``compressed_s``, writing a plain one ``plain_s``.
    """
    levels = calibrated().compression_levels
    write_s = [*(lowest_s * level + compressed_s for level in levels), plain_s]
    generator = random.Random(0)
    simulated = max(min(blocks, SETTLED_BLOCKS), 1)
    second_half = simulated - simulated // 2
    # The blocks that are not simulated are assumed to equal those of the second half.
    weight = 1 + max(blocks - simulated, 0) / second_half
    counts = [0.0] * len(write_s)
    for _ in range(-(-SIMULATED_BLOCKS // simulated)):
        average_s = [INITIAL_S] * len(write_s)
        for half, half_weight in ((simulated // 2, 1.0), (second_half, weight)):
            for choice, count in enumerate(_choices(half, write_s, average_s, generator)):
                counts[choice] += half_weight * count
    compressed = sum(counts[:-1])
    cpu_s = lowest_s * sum(n * level for n, level in zip(counts[:-1], levels, strict=True))
    return Adaptation(compressed / sum(counts), cpu_s / compressed if compressed else 0.0)


def lowest_level_s(cpu_s: float, blocks: int, compressed_s: float, plain_s: float) -> float:
    """CPU time of the lowest level such that compressing a block takes ``cpu_s`` on average."""
    steps, highest = 40, calibrated().compression_levels[-1]

    def error(lowest_s: float) -> float:
        return abs(adapt(lowest_s, blocks, compressed_s, plain_s).cpu_s / cpu_s - 1)

    return min((cpu_s * exp(-log(highest) * step / steps) for step in range(steps + 1)), key=error)


def _choices(
    blocks: int, write_s: list[float], average_s: list[float], generator: random.Random
) -> list[int]:
    """Number of blocks written at each level, and plain (last entry); updates ``average_s``."""
    plain, highest = len(write_s) - 1, len(write_s) - 2
    counts = [0] * len(write_s)
    for _ in range(blocks):
        best = average_s.index(min(average_s[:plain]))
        ratio = average_s[best] / average_s[plain]
        deviates, to_plain = generator.random() < 0.5, generator.random() < 0.5
        if not deviates:
            choice = best if ratio < RATIO_MAX else plain
        elif ratio >= RATIO_MAX:
            choice = 0
        elif to_plain:
            choice = plain
        elif best == highest:
            choice = best - 1
        elif ratio < 1:
            choice = best + 1
        else:
            choice = best - 1 if best else plain
        counts[choice] += 1
        average_s[choice] += (write_s[choice] - average_s[choice]) / WEIGHT
    return counts


#: Names of DuckDB's files of blocks.
FILES = "duckdb_temp_.*storage_"
#: The size of a plain block; a compressed one is smaller by at least 32 KiB.
BLOCK_BYTES = 262_144


@dataclass(frozen=True)
class TargetCompression:
    """The compression of a run's blocks on other storage."""

    #: Compressed blocks over all blocks.
    share: float
    #: The loads with that share of compressed blocks.
    loads: Sequence[Load]
    #: Additional CPU time for compression on that storage; below 0 if less.
    cpu_s: float


@dataclass(frozen=True)
class Compression:
    """The compression of a run's blocks, as recorded."""

    loads: Sequence[Load]
    #: Compressed blocks over all blocks.
    share: float
    #: Additional CPU time of a compressed block over a plain one, to write and to read.
    write_cpu_s: float
    read_cpu_s: float
    #: CPUs that wrote blocks; each adapts independently.
    cpus: int

    def explained(self, more: str) -> str:
        """The reason why ``more`` or ``less`` is compressed on other storage."""
        return f"DuckDB would compress {more}, because it chooses by how long writes take"

    def on_target(self, latencies: Sequence[Estimate]) -> TargetCompression:
        """The compression on a storage with these latencies of the loads."""
        lowest_s, recorded = self._recorded
        target_loads = with_means(self.loads, (latency.mean_s for latency in latencies))
        target = adapt(lowest_s, *self._writes(target_loads))
        # Blocks that compression does not make smaller are written plain on any storage.
        share = min(self.share * target.share / recorded.share, 1.0)
        of_compressed, of_plain = share / self.share, (1 - share) / (1 - self.share)
        loads = [
            _scaled(load, of_plain if load.size_class_bytes == BLOCK_BYTES else of_compressed)
            for load in self.loads
        ]
        target_cpu_s = self.cpu_of_s(share, self.write_cpu_s * target.cpu_s / recorded.cpu_s)
        return TargetCompression(
            share, loads, target_cpu_s - self.cpu_of_s(self.share, self.write_cpu_s)
        )

    def cpu_of_s(self, share: float, write_cpu_s: float) -> float:
        """CPU time of compressing a share of the blocks, and of reading them at recorded cost."""
        writes, reads = (
            operations([load for load in self.loads if load.op == op]) for op in ("write", "read")
        )
        return share * (writes * write_cpu_s + reads * self.read_cpu_s)

    @cached_property
    def _recorded(self) -> tuple[float, Adaptation]:
        """CPU time of the lowest level, and the simulated outcome on the recorded storage."""
        writes = self._writes(self.loads)
        lowest_s = lowest_level_s(self.write_cpu_s, *writes)
        return lowest_s, adapt(lowest_s, *writes)

    def _writes(self, loads: Sequence[Load]) -> tuple[int, float, float]:
        """Blocks per CPU, and the mean time of a compressed and of a plain write."""
        writes = [load for load in loads if load.op == "write"]
        small = [load for load in writes if load.size_class_bytes < BLOCK_BYTES]
        plain = [load for load in writes if load.size_class_bytes >= BLOCK_BYTES]
        return -(-operations(writes) // self.cpus), mean_latency_s(small), mean_latency_s(plain)


def compression(recording: "Recording", loads: Sequence[Load]) -> Compression | None:
    """The compression of a recording's blocks; None if it is not DuckDB's or shows too little.

    It needs single waits with CPU times, and enough blocks of both kinds. Nearly all blocks are of
    one kind if the data does not compress, or if slow storage makes DuckDB compress all of them.
    """
    waits = recording.waits
    cpu = waits["cpu_before_ns"]
    file, size = waits["file"], waits["bytes"].filled(0)
    of_blocks = file.isin(name for name in file.names if re.search(FILES, name))
    if not of_blocks.any() or cpu.null_count == len(cpu):
        return None
    block = of_blocks & (size > 0)
    before_ns = cpu.filled(0).astype(float)
    row, following = followed(waits["session"].values)
    after_ns = np.zeros(len(before_ns))
    after_ns[row] = before_ns[following]
    small = size < BLOCK_BYTES
    writes = waits["op"].equals("write")
    # DuckDB compresses a block before it writes it, and decompresses a block after it reads it.
    written_small_ns, written_plain_ns = (
        before_ns[block & writes & kind] for kind in (small, ~small)
    )
    read_small_ns, read_plain_ns = (after_ns[block & ~writes & kind] for kind in (small, ~small))
    kinds = (written_small_ns, written_plain_ns, read_small_ns, read_plain_ns)
    if any(len(cpu_ns) < BLOCKS_MIN for cpu_ns in kinds):
        return None
    share = len(written_small_ns) / (len(written_small_ns) + len(written_plain_ns))
    max_ns = LONGEST * float(np.median(written_small_ns))
    write_ns = _mean_up_to(written_small_ns, max_ns) - _mean_up_to(written_plain_ns, max_ns)
    if write_ns <= 0:
        return None
    read_ns = max(_trimmed_mean(read_small_ns) - _trimmed_mean(read_plain_ns), 0.0)
    threads = len(np.unique(waits["session"].values[block & writes]))
    cpus = min(CPUS_OF_A_THREAD * threads, recording.meta.machine.cpus or threads)
    return Compression(loads, share, write_ns / 1e9, read_ns / 1e9, cpus)


def _scaled(load: Load, factor: float) -> Load:
    count = max(round(load.count * factor), 1)
    ratio = count / load.count
    return replace(load, count=count, bytes=round(load.bytes * ratio), total_s=load.total_s * ratio)


def _mean_up_to(values: Floats, max_value: float) -> float:
    kept = values[values <= max_value]
    return float(kept.mean()) if len(kept) else 0.0


def _trimmed_mean(values: Floats) -> float:
    kept = np.sort(values)[: int(len(values) * (1 - TRIMMED))]
    return float(kept.mean())

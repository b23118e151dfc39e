"""A Grace hash join of known fan-out, as an instrument: it does the I/O of the formulas.

Like the sort beside it, it is not an engine: it joins random keys of 8 bytes and counts the
matches.
"""

from collections.abc import Iterable, Iterator
from pathlib import Path

import numpy as np

from bench.spilling.sort import KEY_BYTES, Counts, Keys, UnitFile
from spillcast.errors import InputError
from spillcast.lab.io_size.spill import fan_in, levels
from spillcast.units import format_bytes

#: Extra partitions, so that one that is larger by chance still fits in memory.
SLACK = 1.25
#: Odd, and about 2**64 over the golden ratio: neighbouring keys are spread far apart.
_MIX = np.uint64(0x9E3779B97F4A7C15)


def hash_join(
    directory: Path,
    *,
    build_bytes: int,
    probe_bytes: int,
    memory_bytes: int,
    unit_bytes: int,
    seed: int = 1,
) -> tuple[Counts, int]:
    """Joins random keys through ``directory``; returns its reads and writes, and the matches.

    Both sides are split by a hash of the key until a part of the build side fits in memory. There
    are at most ``fan_in(memory, unit)`` parts at once, as each has a buffer of one unit. InputError
    if nothing would spill or nothing could be split.
    """
    if build_bytes <= memory_bytes:
        build, memory = format_bytes(build_bytes), format_bytes(memory_bytes)
        raise InputError(f"{build} fit into {memory} of memory: nothing would be spilled")
    depth = levels(build_bytes, memory_bytes, unit_bytes)
    most = fan_in(memory_bytes, unit_bytes)
    parts = min(most, int(np.ceil((SLACK * build_bytes / memory_bytes) ** (1 / depth))))
    random, counts = np.random.default_rng(seed), Counts()
    distinct = max(build_bytes // KEY_BYTES, 1)
    sides = [
        _random_keys(random, size // KEY_BYTES, distinct, unit_bytes // KEY_BYTES)
        for size in (build_bytes, probe_bytes)
    ]
    join = _Join(directory, memory_bytes, unit_bytes, max(parts, 2), counts)
    return counts, join.split(sides, 1)


class _Join:
    """The running join."""

    def __init__(
        self, directory: Path, memory_bytes: int, unit_bytes: int, parts: int, counts: Counts
    ) -> None:
        self._directory, self._memory_bytes = directory, memory_bytes
        self._unit_bytes, self._parts, self._counts = unit_bytes, parts, counts

    def split(self, sides: list[Iterator[Keys]], level: int) -> int:
        """Writes both sides in parts, then joins part by part; returns the matches."""
        self._counts.levels = max(self._counts.levels, level)
        files = [self._written(side, level) for side in sides]
        matches = 0
        for build, probe in zip(*files, strict=True):
            both = [build.read(0, build.end), probe.read(0, probe.end)]
            if build.end <= self._memory_bytes:
                matches += _matches(_all(both[0]), both[1])
            else:
                matches += self.split(both, level + 1)
            build.close()
            probe.close()
        return matches

    def _written(self, side: Iterable[Keys], level: int) -> list[UnitFile]:
        files = [
            UnitFile(self._directory, self._unit_bytes, self._counts) for _ in range(self._parts)
        ]
        for keys in side:
            part = _part(keys, level, self._parts)
            order = np.argsort(part, kind="stable")
            edges = np.searchsorted(part[order], np.arange(self._parts + 1))
            for file, begin, end in zip(files, edges[:-1], edges[1:], strict=True):
                if end > begin:
                    file.write(keys[order[begin:end]])
        for file in files:
            file.flush()
        return files


def _random_keys(
    random: np.random.Generator, count: int, distinct: int, at_once: int
) -> Iterator[Keys]:
    """Keys in batches, as a scan would return them."""
    for at in range(0, count, at_once):
        yield random.integers(0, distinct, min(at_once, count - at), dtype=np.uint64)


def _part(keys: Keys, level: int, parts: int) -> Keys:
    """The part of each key, by a different hash on each level."""
    mixed = (keys + np.uint64(level)) * _MIX
    mixed ^= mixed >> np.uint64(29)
    mixed *= _MIX
    return (mixed >> np.uint64(33)) % np.uint64(parts)


def _all(pieces: Iterator[Keys]) -> Keys:
    result = list(pieces)
    return np.concatenate(result) if result else np.empty(0, dtype=np.uint64)


def _matches(build: Keys, probe: Iterator[Keys]) -> int:
    """Pairs of equal keys."""
    table = np.sort(build)
    return sum(
        int((np.searchsorted(table, k, side="right") - np.searchsorted(table, k)).sum())
        for k in probe
    )

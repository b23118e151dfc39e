"""Synthetic requests for cache lines, of six kinds with different curves."""

from collections.abc import Callable
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

Ids = NDArray[np.int64]
_RECORD = np.dtype([("time", "<u4"), ("id", "<u8"), ("size", "<u4"), ("next", "<i8")])


def _zipf(rng: np.random.Generator, count: int, lines: int, exponent: float) -> Ids:
    weight = np.cumsum(1 / np.arange(1, lines + 1) ** exponent)
    return rng.permutation(lines)[np.searchsorted(weight / weight[-1], rng.random(count))]


def zipf(rng: np.random.Generator, count: int) -> Ids:
    """Popularity by a power law, a fifth of it replaced by scans of lines used once."""
    lines = count // 2
    ids = _zipf(rng, count, lines, rng.uniform(0.7, 1.1))
    scan = np.arange(count) % (count // 10) >= count * 8 // 100
    ids[scan] = np.arange(scan.sum()) + lines
    return ids


def loops(rng: np.random.Generator, count: int) -> Ids:
    """Three tables of different sizes, scanned repeatedly, one after the other."""
    sizes = (count * rng.uniform(0.01, 0.15, 3)).astype(int)
    starts = np.cumsum([0, *sizes[:-1]])
    scans: list[Ids] = []
    while sum(map(len, scans)) < count:
        table = rng.integers(3)
        scans.append(np.arange(sizes[table]) + starts[table])
    return np.concatenate(scans)[:count]


def phases(rng: np.random.Generator, count: int) -> Ids:
    """Ten phases, each with separate hot lines, and some lines that all of them use."""
    each, lines = count // 10, count // 20
    parts = [_zipf(rng, each, lines, 0.9) + phase * lines for phase in range(10)]
    ids = np.concatenate(parts)
    shared = rng.random(len(ids)) < 0.2
    ids[shared] = _zipf(rng, int(shared.sum()), lines, 0.8) + 10 * lines
    return ids


def spills(rng: np.random.Generator, count: int) -> Ids:
    """Temp files: written in runs, and each read once, as partitions or as a merge."""
    pieces: list[Ids] = []
    start = 0
    while sum(map(len, pieces)) < count:
        lines = int(count * rng.uniform(0.005, 0.05))
        file = np.arange(start, start + lines)
        merged = file[: lines // 16 * 16].reshape(16, -1).T.ravel()
        pieces += [file, merged if rng.random() < 0.5 else file]
        start += lines
    return np.concatenate(pieces)[:count]


def index(rng: np.random.Generator, count: int) -> Ids:
    """Walks through an index to rows: the root, a branch, a leaf and a block of the table."""
    walks = -(-count // 4)
    row = _zipf(rng, walks, count, rng.uniform(0.3, 0.8))
    levels = [np.zeros(walks, dtype=np.int64), row // 40_000 + 1, row // 200 + 100_000, row]
    levels[3] = rng.permutation(count)[row] + count
    return np.stack(levels, axis=1).ravel()[:count]


def mixed(rng: np.random.Generator, count: int) -> Ids:
    """Concurrent programs: a power law, loops and spills in turns, in bursts of requests."""
    parts = [zipf(rng, count), loops(rng, count) + 10 * count, spills(rng, count) + 20 * count]
    of = np.repeat(rng.integers(3, size=count // 100 + 1), 100)[:count]
    ids = np.empty(count, dtype=np.int64)
    for number, part in enumerate(parts):
        ids[of == number] = part[: int((of == number).sum())]
    return ids


KINDS: dict[str, Callable[[np.random.Generator, int], Ids]] = {
    "zipf and scans": zipf,
    "loops": loops,
    "phases": phases,
    "spills": spills,
    "an index": index,
    "mixed": mixed,
}


def write(path: Path, kind: str, count: int, seed: int) -> Path:
    """A trace of libCacheSim's format."""
    records = np.zeros(count, _RECORD)
    records["id"] = KINDS[kind](np.random.default_rng(seed), count) + 1
    records["time"], records["size"], records["next"] = np.arange(count) // 1000, 4096, -2
    records.tofile(path)
    return path

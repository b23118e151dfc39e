"""How DuckDB chooses whether to compress a block that it spills, and how much: its rule, run again.

For each CPU it keeps what a write took lately, compression included: of whole blocks and of each
level of compression. All begin with the same small assumption, so that at first every level is
tried in turn.
"""

import random
from math import exp, log
from typing import NamedTuple

from spillcast.calibrated import calibrated

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


def adapt(lowest_s: float, blocks: int, small_s: float, whole_s: float) -> Adapted:
    """For so many blocks on a CPU, where the lowest level takes ``lowest_s`` of CPU time.

    ``small_s`` and ``whole_s`` are what a write takes of a compressed block, and of one as it is.
    """
    levels = calibrated().compression_levels
    took_s = [*(lowest_s * level + small_s for level in levels), whole_s]
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


def lowest_level_s(cpu_s: float, blocks: int, small_s: float, whole_s: float) -> float:
    """The CPU time of the lowest level with which compressing takes ``cpu_s`` in the mean."""
    steps, highest = 40, calibrated().compression_levels[-1]
    ways = [cpu_s * exp(-log(highest) * step / steps) for step in range(steps + 1)]
    return min(ways, key=lambda way: abs(adapt(way, blocks, small_s, whole_s).cpu_s / cpu_s - 1))


def _run(
    blocks: int, took_s: list[float], lately_s: list[float], chance: random.Random
) -> list[int]:
    """How many blocks at each level, and as they are; ``lately_s`` goes on."""
    whole, highest = len(took_s) - 1, len(took_s) - 2
    counts = [0] * len(took_s)
    for _ in range(blocks):
        best = lately_s.index(min(lately_s[:whole]))
        ratio = lately_s[best] / lately_s[whole]
        deviates, to_whole = chance.random() < 0.5, chance.random() < 0.5
        if not deviates:
            level = best if ratio < WORTH else whole
        elif ratio >= WORTH:
            level = 0
        elif to_whole:
            level = whole
        elif best == highest:
            level = best - 1
        elif ratio < 1:
            level = best + 1
        else:
            level = best - 1 if best else whole
        counts[level] += 1
        lately_s[level] += (took_s[level] - lately_s[level]) / WEIGHT
    return counts

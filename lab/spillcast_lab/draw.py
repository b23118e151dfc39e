"""Selects the queries and storages of a verification: random by a seed, balanced, within a time.

Every query between every two storages would take hours. So storages are drawn for each query until
its time is used up: each about equally often, and half of the forecasts from a slow storage to a
fast one. The kernel itself slows a third of the slow storages (``kernel_slowed.py``), with no FUSE
server on the query's cores.
"""

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import combinations, permutations
from random import Random

from spillcast.engines.engine import Lab
from spillcast.lab.storages import Plain
from spillcast_lab.kernel_slowed import KernelSlowed
from spillcast_lab.matrix import STORAGES_MIN, Cell, Pair, Storage, cell_s, unavailable

#: Share of the time that is drawn for: tables are built in the rest, and disturbed runs repeated.
DRAWN = 0.9
#: What a cell's storages are, in the order in which it gets them.
KINDS = ("slow", "fast", "slow", "slow", "fast")
#: A cell begins with few storages, and gets more while there is time.
STORAGES_MAX = 5


@dataclass(frozen=True)
class Drawn:
    """Cells in the order in which they are to be verified, and what they will take."""

    cells: Sequence[Cell]
    #: Cells for which there is no time at all.
    without_time: Sequence[Cell]
    expected_s: float
    #: By which chance chose.
    seed: int = 0


def draw(
    cells: Sequence[Cell], storages: Sequence[Storage], *, budget_s: float, repeat: int, seed: int
) -> Drawn:
    """Give storages to cells until the time is used up, so that every one comes equally often.

    First a slow and a fast one to every cell, then a third, and so on, by KINDS. Half of a cell's
    forecasts are from slow to fast. Among equals chance decides, by ``seed``. Storages that cannot
    be made here are not drawn.
    """
    chance = Random(seed)
    cost = {storage.name: storage for storage in storages if unavailable(storage) is None}
    fast = {name for name, storage in cost.items() if isinstance(storage, Plain)}
    drawn: list[Cell] = list(cells)
    beside: Counter[frozenset[str]] = Counter()
    single: Counter[str] = Counter()
    directed: Counter[Pair] = Counter()
    spent_s, loaded = 0.0, set[type[Lab]]()
    for count in range(STORAGES_MIN, min(STORAGES_MAX, len(cost)) + 1):
        for number, cell in enumerate(drawn):
            if len(cell.storages) != (count - 1 if count > STORAGES_MIN else 0):
                continue
            grown = cell
            while len(grown.storages) < count:
                names = [name for name in cost if _suits(cost[name], grown, cost)]
                if not names:
                    break
                wanted = KINDS[len(grown.storages)]
                names = [name for name in names if (name in fast) == (wanted == "fast")] or names
                chance.shuffle(names)
                name = min(names, key=lambda n: _use(n, grown, beside, single))
                grown = replace(grown, storages=(*grown.storages, name))
            if len(grown.storages) < count:
                continue
            used = directed - Counter(cell.pairs)
            grown = replace(grown, pairs=_half_to_fast(grown.storages, cost, used, chance))
            added_s = cell_s(grown, cost, repeat) - cell_s(cell, cost, repeat)
            # Tables are made once, for the first query that is drawn on them.
            added_s += 0.0 if cell.lab in loaded else cell.workload.load_s
            if spent_s + added_s <= DRAWN * budget_s:
                spent_s += added_s
                loaded.add(cell.lab)
                drawn[number] = grown
                single.update(set(grown.storages) - set(cell.storages))
                beside.update(_together(grown) - _together(cell))
                directed = used + Counter(grown.pairs)
    chosen = [cell for cell in drawn if cell.storages]
    return Drawn(chosen, [cell for cell in drawn if not cell.storages], spent_s, seed)


def _suits(storage: Storage, cell: Cell, storages: Mapping[str, Storage]) -> bool:
    """Whether a cell may get a storage.

    What the kernel slows bounds the page cache: that of cold tables as well (warm ones are in it
    before), and a forecast from there takes it for as small elsewhere, where it is not.
    """
    if storage.name in cell.storages:
        return False
    beside = [storages[name] for name in cell.storages]
    bounded = any(isinstance(drawn, KernelSlowed) for drawn in (storage, *beside))
    cached = any(isinstance(drawn, Plain) and not drawn.in_memory for drawn in (storage, *beside))
    return not (bounded and (cell.workload.cold or cached))


def _comparable(pair: Pair, storages: Mapping[str, Storage]) -> bool:
    """Whether memory is the same on both sides, as far as the target's latency depends on it."""
    source, target = (isinstance(storages[name], KernelSlowed) for name in pair)
    return source or not target


def _half_to_fast(
    names: Sequence[str], storages: Mapping[str, Storage], used: Counter[Pair], chance: Random
) -> tuple[Pair, ...]:
    """All pairs from slow to fast, and as many of the others: half back, half between slow ones.

    Those that were ``used`` least. All pairs where there is nothing fast, or nothing else.
    """
    fast = {name for name in names if isinstance(storages[name], Plain)}
    pairs = [pair for pair in permutations(names, 2) if _comparable(pair, storages)]
    chance.shuffle(pairs)
    pairs.sort(key=used.__getitem__)
    to_fast = [(a, b) for a, b in pairs if a not in fast and b in fast]
    if not to_fast:
        return tuple(pairs)
    back = [(a, b) for a, b in pairs if a in fast and b not in fast]
    # Each fast storage is a source first: the recording there is to be for something.
    first = {source: (source, target) for source, target in reversed(back)}.values()
    back = [*first, *(pair for pair in back if pair not in first)]
    between = [(a, b) for a, b in pairs if a not in fast and b not in fast]
    slow_to_slow = between[: len(to_fast) // 2]
    return (*to_fast, *back[: len(to_fast) - len(slow_to_slow)], *slow_to_slow)


def _together(cell: Cell) -> set[frozenset[str]]:
    return {frozenset(pair) for pair in combinations(cell.storages, 2)}


def _use(
    name: str, cell: Cell, beside: Counter[frozenset[str]], single: Counter[str]
) -> tuple[int, int]:
    """How often a storage was drawn, with those of the cell and at all."""
    return sum(beside[frozenset((name, other))] for other in cell.storages), single[name]

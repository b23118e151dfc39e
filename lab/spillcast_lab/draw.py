"""Draws the queries and storages of a verification: at random, balanced, within a time.

Every query between every two storages would take hours. Storages are drawn for each query until the
time is used up, each about equally often, and half of the forecasts are from a slow storage to a
fast one. The kernel itself slows a third of the slow storages (``kernel_slowed.py``), without a
FUSE server on the query's cores.
"""

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import combinations, permutations
from math import inf
from random import Random

from spillcast.engines import Lab
from spillcast_lab.kernel_slowed import KernelSlowed
from spillcast_lab.matrix import Cell, Pair, Plain, Storage, cell_s, run_s, unavailable

#: Share of the time for which cells are drawn; the rest builds tables and repeats disturbed runs.
DRAWN = 0.9
#: Estimates of time are too high: cells are drawn for this multiple of the time, and a verification
#: ends with the last cell that fits at the pace of the cells before it.
OVERDRAFT_FACTOR = 2.5
#: Kinds of a cell's storages, in the order in which they are added.
KINDS = ("slow", "fast", "slow", "slow", "fast")
#: A cell starts with three slow storages and a fast one, and gets another if time allows.
STORAGES_FIRST, STORAGES_MAX = 4, 5
#: A query is not drawn on a storage on which a run takes more than this share of the time, or more
#: than SHORT_RUN_S if the time is short.
MAX_RUN, SHORT_RUN_S = 1 / 250, 4.0


@dataclass(frozen=True)
class Drawn:
    """Cells in the order of their verification, and their expected time."""

    cells: Sequence[Cell]
    #: Cells that do not fit into the time.
    without_time: Sequence[Cell]
    expected_s: float
    #: The seed of the draw.
    seed: int = 0


def draw(
    cells: Sequence[Cell],
    storages: Sequence[Storage],
    *,
    budget_s: float,
    repeat: int,
    seed: int,
    parts: bool = True,
    overdraft_factor: float = 1.0,
) -> Drawn:
    """Give storages to cells until the time is used up, so that each is drawn equally often.

    First three slow storages and a fast one to every cell, then a fifth, by KINDS; engines and
    thread counts take turns. Half of a cell's forecasts are from slow to fast. Ties are broken at
    random, by ``seed``. Storages that cannot be made on this machine are not drawn, nor those on
    which a run takes a large share of the time. Cells are drawn for ``overdraft_factor`` times the
    budget.
    """
    cost = {storage.name: storage for storage in storages if unavailable(storage) is None}
    limit_s = max(MAX_RUN * budget_s, SHORT_RUN_S)
    # If runs are long on all storages, long runs are drawn.
    for max_run_s in (limit_s, inf):
        drawn = _drawn(cells, cost, overdraft_factor * budget_s, repeat, seed, parts, max_run_s)
        if drawn.cells:
            break
    return drawn


def _drawn(
    cells: Sequence[Cell],
    cost: Mapping[str, Storage],
    budget_s: float,
    repeat: int,
    seed: int,
    parts: bool,
    max_run_s: float,
) -> Drawn:
    """The cells that fit into the time, on storages on which no run takes over ``max_run_s``."""
    generator = Random(seed)
    drawn: list[Cell] = []
    used = _Used()
    spent_s, loaded = 0.0, set[type[Lab]]()

    def grow(cell: Cell, count: int) -> Cell:
        """The cell with ``count`` storages, or unchanged if they do not fit into the time."""
        nonlocal spent_s
        grown = _grown(cell, count, cost, max_run_s, used, generator)
        if len(grown.storages) < count:
            return cell
        directed = used.directed - Counter(cell.pairs)
        grown = replace(grown, pairs=_half_to_fast(grown.storages, cost, directed, generator))
        added_s = cell_s(grown, cost, repeat, parts=parts) - cell_s(cell, cost, repeat, parts=parts)
        # The first drawn query of an engine builds its tables.
        added_s += 0.0 if cell.lab in loaded else cell.workload.load_s
        if spent_s + added_s > DRAWN * budget_s:
            return cell
        spent_s += added_s
        loaded.add(cell.lab)
        used.replace(cell, grown)
        return grown

    first = min(STORAGES_FIRST, len(cost))
    pending = dict[tuple[str, int], list[Cell]]()
    for cell in cells:
        pending.setdefault((cell.engine, cell.workload.threads), []).append(cell)
    counts = Counter[tuple[str, int]]()
    while pending:
        rarest = min(pending, key=counts.__getitem__)
        drawn.append(grow(pending[rarest].pop(0), first))
        counts[rarest] += bool(drawn[-1].storages)
        if not pending[rarest]:
            del pending[rarest]
    for count in range(first + 1, min(STORAGES_MAX, len(cost)) + 1):
        drawn = [grow(cell, count) if cell.storages else cell for cell in drawn]
    chosen = [cell for cell in drawn if cell.storages]
    return Drawn(chosen, [cell for cell in drawn if not cell.storages], spent_s, seed)


class _Used:
    """Counts of drawn storages: each, pairs in one cell, and pairs of source and target."""

    def __init__(self) -> None:
        self.single = Counter[str]()
        self.beside = Counter[frozenset[str]]()
        self.directed = Counter[Pair]()

    def replace(self, cell: Cell, grown: Cell) -> None:
        """Replace the counts of a cell with those of the same cell with more storages."""
        self.single.update(set(grown.storages) - set(cell.storages))
        self.beside.update(_together(grown) - _together(cell))
        self.directed -= Counter(cell.pairs)
        self.directed += Counter(grown.pairs)

    def times(self, name: str, cell: Cell) -> tuple[int, int]:
        """How often a storage was drawn together with the cell's storages, and in total."""
        together = sum(self.beside[frozenset((name, other))] for other in cell.storages)
        return together, self.single[name]


def _grown(
    cell: Cell,
    count: int,
    storages: Mapping[str, Storage],
    max_run_s: float,
    used: _Used,
    generator: Random,
) -> Cell:
    """The cell with ``count`` storages, or fewer if no others suit it within ``max_run_s``."""
    while len(cell.storages) < count:
        fast = KINDS[len(cell.storages)] == "fast"
        kind = [name for name, storage in storages.items() if isinstance(storage, Plain) == fast]
        names = [
            name
            for name in kind or storages
            if _suits(storages[name], cell, storages)
            and run_s(storages[name], cell.workload) <= max_run_s
        ]
        if not names:
            break
        generator.shuffle(names)
        name = min(names, key=lambda n: used.times(n, cell))
        cell = replace(cell, storages=(*cell.storages, name))
    return cell


def _suits(storage: Storage, cell: Cell, storages: Mapping[str, Storage]) -> bool:
    """Whether a cell may get a storage.

    A storage that the kernel slows bounds the page cache of cold tables too (warm ones are in it
    before). A forecast from such a storage assumes an equally small page cache on the target.
    """
    if storage.name in cell.storages:
        return False
    beside = [storages[name] for name in cell.storages]
    bounded = any(isinstance(drawn, KernelSlowed) for drawn in (storage, *beside))
    cached = any(isinstance(drawn, Plain) and not drawn.in_memory for drawn in (storage, *beside))
    return not (bounded and (cell.workload.cold or cached))


def _half_to_fast(
    names: Sequence[str], storages: Mapping[str, Storage], used: Counter[Pair], generator: Random
) -> tuple[Pair, ...]:
    """All pairs from slow to fast, at least one from fast to slow, and one between slow storages.

    The least ``used`` pairs come first. All pairs if all storages are fast, or all slow.
    """
    fast = {name for name in names if isinstance(storages[name], Plain)}
    bounded = {name for name in names if isinstance(storages[name], KernelSlowed)}
    # Latency on a target with a bounded page cache is known only from a source with such a cache.
    pairs = [(a, b) for a, b in permutations(names, 2) if a in bounded or b not in bounded]
    generator.shuffle(pairs)
    pairs.sort(key=used.__getitem__)
    to_fast = [(a, b) for a, b in pairs if a not in fast and b in fast]
    if not to_fast:
        return tuple(pairs)
    back = [(a, b) for a, b in pairs if a in fast and b not in fast]
    # Each fast storage is a source once before any is twice.
    first = {source: (source, target) for source, target in reversed(back)}.values()
    back = [*first, *(pair for pair in back if pair not in first)]
    between = [(a, b) for a, b in pairs if a not in fast and b not in fast]
    # A storage that is a target already needs no more measured runs.
    targets = {target for _, target in back[:1]}
    between.sort(key=lambda pair: pair[1] not in targets)
    half = max(len(to_fast) // 4, 1)
    # Each fast storage is a source.
    return (*to_fast, *back[: max(half, len(fast))], *between[:half])


def _together(cell: Cell) -> set[frozenset[str]]:
    return {frozenset(pair) for pair in combinations(cell.storages, 2)}

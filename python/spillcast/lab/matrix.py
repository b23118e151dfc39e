"""What can be verified: queries by engine and threads, and storages; what of it is drawn."""

from collections import Counter
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from itertools import chain, combinations, islice, permutations, zip_longest
from random import Random

from spillcast.engines.engine import Explains, Lab
from spillcast.engines.registry import lab_of, tpch_labs_of
from spillcast.engines.workload import Workload
from spillcast.errors import InputError
from spillcast.lab.kernel_slowed import KernelSlowed, why_not
from spillcast.lab.storages import Emulated, Plain

Storage = Emulated | Plain | KernelSlowed
#: Where a forecast is from and to, by name.
Pair = tuple[str, str]

THREADS = (1, 2, 4)
#: PostgreSQL has eight workers at most, and memory is divided among all.
THREADS_MAX = 8
STORAGES: Sequence[Storage] = (
    Emulated("0.3 ms", 0.0003, 0.0003),
    Emulated("1 ms", 0.001, 0.001),
    Emulated("5 ms", 0.005, 0.005),
    Emulated("r1.5 w0.2", 0.0015, 0.0002),
    Emulated("r0.2 w1.5", 0.0002, 0.0015),
    Emulated("10 us/KiB", 0.0001, 0.0001, s_per_byte=10e-6 / 1024),
    Emulated("one by one", 0.0003, 0.0003, servers=1),
    # The kernel writes back page by page, and all of it when a file is closed.
    Plain("disk", in_memory=False),
    Plain("tmpfs", in_memory=True),
)
#: Share of the time that is drawn for: tables are built in the rest, and disturbed runs repeated.
DRAWN = 0.9
#: A cell begins with so few storages, and gets more while there is time.
STORAGES_MIN, STORAGES_MAX = 2, 5
#: What a cell's storages are, in the order in which it gets them.
KINDS = ("slow", "fast", "slow", "slow", "fast")

#: Of TPC-H so many queries are verified after each of the others.
TPCH_AFTER_EACH = 2
#: Runs to record from that are to agree: one alone does not tell what neighbours took from it.
AGREEING = 2
#: Runs made for one that counts, where others work on the machine.
REPEATED = 1.3
#: Threads share the operations of a query, but not all of the time.
SHARED = 0.8
#: A process or a server started; a recording begun and ended. Seconds.
START_S, RECORD_S = 0.6, 2.5
#: A probe with the I/O of a whole run, or of a part of one.
REPLAY_S, PART_REPLAY_S = 3.2, 0.9


@dataclass(frozen=True)
class Cell:
    """A query of an engine, and the storages between which it is forecast, by name."""

    engine: str
    workload: Workload
    storages: tuple[str, ...] = ()
    #: The experiments that it is one of; None for those that the engine usually offers.
    other_lab: type[Lab] | None = None
    #: Those forecast, a storage's first also from a part of a recording; all where none is named.
    pairs: tuple[Pair, ...] = ()

    @property
    def lab(self) -> type[Lab]:
        """The experiments that it is one of."""
        return self.other_lab or lab_of(self.engine)

    @property
    def directed(self) -> tuple[Pair, ...]:
        """From where to where it is forecast."""
        return self.pairs or tuple(permutations(self.storages, 2))

    @property
    def words(self) -> str:
        """What it is, for people."""
        return f"{self.engine} {self.workload.name} x{self.workload.threads}"


@dataclass(frozen=True)
class Drawn:
    """Cells in the order in which they are to be verified, and what they will take."""

    cells: Sequence[Cell]
    #: Cells for which there is no time at all.
    without_time: Sequence[Cell]
    expected_s: float
    #: By which chance chose.
    seed: int = 0


def unavailable(storage: Storage) -> str | None:
    """Why a storage cannot be made on this machine; None where it can."""
    return why_not() if isinstance(storage, KernelSlowed) else None


def choose_storages(
    names: Sequence[str] | None, storages: Sequence[Storage] = STORAGES
) -> Sequence[Storage]:
    """Those that are named, all where none is. InputError for others, or for one."""
    known = {storage.name: storage for storage in storages}
    for name in names or ():
        if name not in known:
            raise InputError(f"--storage {name}: no such storage", f"there are: {', '.join(known)}")
    if names and len(set(names)) < STORAGES_MIN:
        raise InputError("--storage: a forecast is from one storage to another: name two")
    return [known[name] for name in dict.fromkeys(names or known)]


def all_cells(
    engines: Sequence[str],
    threads: Sequence[int] = THREADS,
    workloads: Sequence[str] | None = None,
) -> list[Cell]:
    """Cells without storages, in an order of which each beginning is balanced.

    Engines take turns; with each, two of TPC-H's queries come after one of the others. A workload
    is a suite, a kind, or one name. InputError for one that no engine has and for a thread count
    below 1.
    """
    for count in threads:
        if not 1 <= count <= THREADS_MAX:
            raise InputError(f"--threads {count}: 1 to {THREADS_MAX} can be verified")
    by_engine = []
    for shift, engine in enumerate(engines):
        usual = _in_turn(engine, [None], threads, shift)
        tpch = iter(_in_turn(engine, tpch_labs_of(engine), threads, shift))
        mixed = [[one, *islice(tpch, TPCH_AFTER_EACH)] for one in usual]
        by_engine.append([*chain(*mixed), *tpch])
    cells = [cell for turn in zip_longest(*by_engine) for cell in turn if cell is not None]
    known = dict.fromkeys(name for cell in cells for name in _names(cell.workload))
    for name in workloads or ():
        if name not in known:
            raise InputError(f"--workload {name}: no such query", f"there are: {', '.join(known)}")
    return [cell for cell in cells if not workloads or {*workloads} & {*_names(cell.workload)}]


def _in_turn(
    engine: str, labs: Sequence[type[Lab] | None], threads: Sequence[int], shift: int
) -> list[Cell]:
    """All cells of experiments, each query in each of its variants with each thread count.

    Every query comes once before any comes twice; variants and thread counts take turns.
    """
    variants: dict[str, list[Callable[[int], Cell]]] = {}
    for lab in labs:
        for at, workload in enumerate((lab or lab_of(engine)).verified(1)):
            variants.setdefault(workload.kind, []).append(partial(_cell, engine, lab, at))
    cells = []
    for turn in range(len(threads) * max(map(len, variants.values()), default=0)):
        for position, made in enumerate(variants.values()):
            turns, variant = divmod(turn, len(made))
            count = threads[(turns + variant + position + shift) % len(threads)]
            cells.append(made[(variant + position) % len(made)](count))
    return cells


def _cell(engine: str, lab: type[Lab] | None, at: int, threads: int) -> Cell:
    return Cell(engine, (lab or lab_of(engine)).verified(threads)[at], other_lab=lab)


def _names(workload: Workload) -> list[str]:
    """What it goes by: its suite, its kind and its name."""
    return [name for name in (workload.suite, workload.kind, workload.name) if name]


def draw(
    cells: Sequence[Cell],
    storages: Sequence[Storage],
    *,
    budget_s: float,
    repeat: int,
    seed: int,
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
                names = [name for name in cost if _suits(cost[name], grown)]
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
            grown = replace(grown, pairs=_half_to_fast(grown.storages, fast, used, chance))
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


def _suits(storage: Storage, cell: Cell) -> bool:
    """Whether a cell may get a storage.

    What the kernel slows bounds the page cache of cold tables as well, unlike the others; warm
    ones are in it before.
    """
    bounded = isinstance(storage, KernelSlowed) and cell.workload.cold
    return not bounded and storage.name not in cell.storages


def _half_to_fast(
    names: Sequence[str], fast: Collection[str], used: Counter[Pair], chance: Random
) -> tuple[Pair, ...]:
    """All pairs from slow to fast, and as many of the others: half back, half between slow ones.

    Those that were ``used`` least. All pairs where there is nothing fast, or nothing else.
    """
    pairs = list(permutations(names, 2))
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


def cell_s(cell: Cell, storages: Mapping[str, Storage], repeat: int) -> float:
    """How long a cell takes, roughly: a warm-up, recordings, probes and bare runs."""
    if not cell.storages:
        return 0.0
    runs_s = {name: run_s(storages[name], cell.workload) for name in cell.storages}
    count = len(cell.storages)
    sources = len({source for source, _ in cell.directed})
    probes_s = len(cell.directed) * REPLAY_S + 2 * sources * PART_REPLAY_S
    agreeing = min(AGREEING, repeat)
    # Where the engine explains the query, that is probed too.
    explains = issubclass(cell.lab, Explains)
    plan_s = agreeing * runs_s[cell.storages[0]] + REPLAY_S if explains else 0.0
    each_s = (repeat + agreeing) * sum(runs_s.values()) + agreeing * count * RECORD_S + plan_s
    # Runs that show what memory the engine takes.
    ahead_s = sum(runs_s[n] for n in cell.storages if isinstance(storages[n], KernelSlowed))
    return cell.workload.cpu_s + ahead_s + REPEATED * each_s + probes_s


def run_s(storage: Storage, workload: Workload) -> float:
    """How long one run on a storage takes, roughly."""
    at_once = 1 if storage.servers == 1 else workload.threads**SHARED
    return START_S + workload.cpu_s + workload.operations * storage.expected_s / at_once


def _together(cell: Cell) -> set[frozenset[str]]:
    return {frozenset(pair) for pair in combinations(cell.storages, 2)}


def _use(
    name: str, cell: Cell, beside: Counter[frozenset[str]], single: Counter[str]
) -> tuple[int, int]:
    """How often a storage was drawn, with those of the cell and at all."""
    return sum(beside[frozenset((name, other))] for other in cell.storages), single[name]

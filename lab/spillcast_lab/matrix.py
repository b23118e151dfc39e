"""The cells and storages that can be verified, and their approximate time."""

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from itertools import chain, islice, permutations, zip_longest
from math import exp, log
from random import Random
from typing import Any

from spillcast.calibrated import calibrated
from spillcast.engines import THREADS_MAX, Explains, Lab, LabQuery
from spillcast.engines.registry import lab_of
from spillcast.errors import ChoiceUnknown, OptionInvalid, OptionMissing, TargetUnknown
from spillcast.lab.storages import Emulated
from spillcast_lab.kernel_slowed import KernelSlowed, unsupported_reason
from spillcast_lab.tpc.labs import LABS


@dataclass(frozen=True)
class Plain:
    """A plain directory: in memory, or on the disk of the workspace."""

    name: str
    in_memory: bool
    servers: int | None = None

    @property
    def expected_s(self) -> float:
        """Approximate time of an operation."""
        return calibrated().memory_s

    @property
    def description(self) -> str:
        """The description for people."""
        if self.in_memory:
            return "a directory of /dev/shm, in memory"
        return "a directory on the disk, through the page cache"


Storage = Emulated | Plain | KernelSlowed
#: Source and target of a forecast, by name.
Pair = tuple[str, str]

THREADS = (1, 2, 4)
STORAGES: Sequence[Storage] = (
    Emulated("0.3 ms", 0.0003, 0.0003),
    Emulated("1 ms", 0.001, 0.001),
    Emulated("5 ms", 0.005, 0.005),
    Emulated("r1.5 w0.2", 0.0015, 0.0002),
    Emulated("r0.2 w1.5", 0.0002, 0.0015),
    Emulated("10 us/KiB", 0.0001, 0.0001, s_per_byte=10e-6 / 1024),
    Emulated("one by one", 0.0003, 0.0003, servers=1),
    # The kernel writes back page by page, and the whole file when it is closed.
    Plain("disk", in_memory=False),
    Plain("tmpfs", in_memory=True),
)
#: A forecast is from one storage to another.
STORAGES_MIN = 2

#: Queries of each suite after each of the engine's own queries.
PER_QUERY = {"tpch": 1, "tpcds": 2}
#: Recorded runs on each source, if forecasts are also made from parts with a previous run.
RECORDINGS_FOR_PARTS = 2
#: Runs per counted run, because some runs are disturbed by other work on the machine.
REPEATED = 1.15
#: Temp I/O speeds up with the number of threads to this power.
SHARED = 0.8
#: Start of a process or server; begin and end of a recording.
START_S, RECORD_S = 0.6, 2.5
#: Budget of a probe with the I/O of an entire run, which is replayed at the query's pace; budget
#: and usual time of a probe with a part.
PROBE_S, PART_PROBE_S, PART_REPLAY_S = 4.0, 2.0, 0.9
#: The usual time of a rehearsal.
REHEARSAL_S = 2.0


@dataclass(frozen=True)
class Cell:
    """A query of an engine, and the storages between which it is forecast, by name."""

    engine: str
    workload: LabQuery
    storages: tuple[str, ...] = ()
    #: The lab that runs it; None for the engine's default lab.
    other_lab: type[Lab] | None = None
    #: Pairs to forecast, the first of each source also from a part of a recording; empty for all.
    pairs: tuple[Pair, ...] = ()

    @property
    def lab(self) -> type[Lab]:
        """The lab that runs the query."""
        return self.other_lab or lab_of(self.engine)

    @property
    def directed(self) -> tuple[Pair, ...]:
        """The pairs of source and target that are forecast."""
        return self.pairs or tuple(permutations(self.storages, 2))

    @property
    def sources(self) -> list[str]:
        """The storages that are recorded on."""
        return list(dict.fromkeys(source for source, _ in self.directed))

    @property
    def targets(self) -> set[str]:
        """The storages that are forecast."""
        return {target for _, target in self.directed}

    @property
    def title(self) -> str:
        """Engine, query and threads."""
        return f"{self.engine} {self.workload.name} x{self.workload.threads}"


def unavailable(storage: Storage) -> str | None:
    """Why a storage cannot be made on this machine; None if it can."""
    return unsupported_reason() if isinstance(storage, KernelSlowed) else None


def choose_storages(names: Sequence[str] | None, storages: Sequence[Any] = STORAGES) -> list[Any]:
    """The named storages; without names all. InputError for an unknown or a single one."""
    known = {storage.name: storage for storage in storages}
    for name in names or ():
        if name not in known:
            raise TargetUnknown(
                f"--storage {name}: no such storage", f"there are: {', '.join(known)}"
            )
    if names and len(set(names)) < STORAGES_MIN:
        raise OptionMissing("--storage: a forecast is from one storage to another: name two")
    return [known[name] for name in dict.fromkeys(names or known)]


def all_cells(
    engines: Sequence[str], threads: Sequence[int] = THREADS, workloads: Sequence[str] | None = None
) -> list[Cell]:
    """Cells without storages, in an order whose every prefix is balanced.

    Engines alternate; for each, half of the queries are TPC-DS's and a quarter TPC-H's. A workload
    is a suite, a kind, or one name. InputError for an unknown workload or a thread count below 1.
    """
    for count in threads:
        if not 1 <= count <= THREADS_MAX:
            raise OptionInvalid(f"--threads {count}: 1 to {THREADS_MAX} can be verified")
    by_engine = []
    for shift, engine in enumerate(engines):
        usual = _in_turn(engine, [None], threads, shift)
        suites = {
            suite: iter(_in_turn(engine, labs, threads, shift))
            for suite, labs in LABS.get(engine, {}).items()
        }
        mixed = [
            [first, *chain(*(islice(cells, PER_QUERY[suite]) for suite, cells in suites.items()))]
            for first in usual
        ]
        by_engine.append([*chain(*mixed), *_alternating(suites.values())])
    cells = _alternating(by_engine)
    if not cells:
        raise OptionInvalid(
            f"--threads {', '.join(map(str, threads))}: {', '.join(engines)} runs no query so",
            "--threads 1 is possible with every engine",
        )
    known = dict.fromkeys(name for cell in cells for name in _names(cell.workload))
    for name in workloads or ():
        if name not in known:
            raise ChoiceUnknown(
                f"--workload {name}: no such query", f"there are: {', '.join(known)}"
            )
    return [cell for cell in cells if not workloads or {*workloads} & {*_names(cell.workload)}]


def _alternating(groups: Iterable[Iterable[Cell]]) -> list[Cell]:
    return [cell for turn in zip_longest(*groups) for cell in turn if cell is not None]


def _in_turn(
    engine: str, labs: Sequence[type[Lab] | None], threads: Sequence[int], shift: int
) -> list[Cell]:
    """All cells of ``labs``: each query in each of its variants with each thread count.

    Thread counts with which an engine runs no query are omitted. Every query occurs once before any
    occurs twice; variants and thread counts alternate.
    """
    variants: dict[str, list[Callable[[int], Cell]]] = {}
    for lab in labs:
        for at, workload in enumerate((lab or lab_of(engine)).verified(1)):
            variants.setdefault(workload.kind, []).append(partial(_cell, engine, lab, at))
    threads = [n for n in threads if all((lab or lab_of(engine)).verified(n) for lab in labs)]
    cells = []
    for turn in range(len(threads) * max(map(len, variants.values()), default=0)):
        for position, made in enumerate(variants.values()):
            turns, variant = divmod(turn, len(made))
            count = threads[(turns + variant + position + shift) % len(threads)]
            cells.append(made[(variant + position) % len(made)](count))
    return cells


def _cell(engine: str, lab: type[Lab] | None, at: int, threads: int) -> Cell:
    return Cell(engine, (lab or lab_of(engine)).verified(threads)[at], other_lab=lab)


def _names(workload: LabQuery) -> list[str]:
    """The words that select a workload: its suite, kind and name."""
    return [name for name in (workload.suite, workload.kind, workload.name) if name]


def cell_s(
    cell: Cell, storages: Mapping[str, Storage], repeat: int, *, parts: bool = True
) -> float:
    """Approximate duration of a cell: a warm-up, recordings, probes and bare runs."""
    if not cell.storages:
        return 0.0
    runs_s = {name: run_s(storages[name], cell.workload) for name in cell.storages}
    targets, sources = cell.targets, cell.sources
    bare_s = sum(s * (repeat if name in targets else 1) for name, s in runs_s.items())
    recorded_s = recordings(repeat, parts) * sum(runs_s[name] + RECORD_S for name in sources)
    probes_s = sum(min(runs_s[target], PROBE_S) for _, target in cell.directed)
    if parts:
        probes_s += 2 * len(sources) * PART_REPLAY_S
        # A plan of EXPLAIN is evidence too, with a separate probe.
        if issubclass(cell.lab, Explains):
            recorded_s += recordings(repeat, parts) * runs_s[cell.storages[0]]
            probes_s += PROBE_S
    to_fast = sum(
        isinstance(storages[target], Plain) and not isinstance(storages[source], Plain)
        for source, target in cell.directed
    )
    rehearsals_s = to_fast * REHEARSAL_S
    # Runs that measure the memory of the engine.
    ahead_s = sum(runs_s[n] for n in cell.storages if isinstance(storages[n], KernelSlowed))
    runs_s_total = REPEATED * (bare_s + recorded_s)
    return START_S + cell.workload.cpu_s + ahead_s + runs_s_total + probes_s + rehearsals_s


def recordings(repeat: int, parts: bool) -> int:
    """Recorded runs on each source: a previous run is the evidence of parts only."""
    return min(RECORDINGS_FOR_PARTS, repeat) if parts else 1


def run_s(storage: Storage, workload: LabQuery) -> float:
    """Approximate time of one run on a storage."""
    at_once = 1 if storage.servers == 1 else workload.threads**SHARED
    return START_S + workload.cpu_s + workload.operations * storage.expected_s / at_once


#: With the seven emulations of STORAGES, the kernel slows a third of the slow storages.
EMULATED, KERNEL_SLOWED = 5, 6
LATENCY_S = (0.0001, 0.003)
S_PER_BYTE = (0.5e-6 / 1024, 10e-6 / 1024)
SERVERS = (1, 8)
SIGMA = (0.1, 0.8)
READ_AHEAD_BYTES = (8 << 10, 32 << 10, 128 << 10)


def random_storages(seed: int) -> Sequence[Emulated | KernelSlowed]:
    """Emulated and kernel-slowed storages; the first has several servers and a cost per byte."""
    generator = Random(f"storages {seed}")
    emulated = [_emulated(generator, number) for number in range(EMULATED)]
    return [*emulated, *(_kernel_slowed(generator, number) for number in range(KERNEL_SLOWED))]


def _emulated(generator: Random, number: int) -> Emulated:
    """Half have a cost per byte, half a queue, half a spread; parameters are log-uniform."""
    queued, by_size, spread = (generator.random() < 0.5 for _ in range(3))
    servers = generator.randint(*SERVERS) if queued else None
    if number == 0:
        by_size, servers = True, generator.randint(2, SERVERS[1])
    return Emulated(
        f"random {number + 1}",
        read_s=_log_uniform(generator, *LATENCY_S),
        write_s=_log_uniform(generator, *LATENCY_S),
        s_per_byte=_log_uniform(generator, *S_PER_BYTE) if by_size else 0.0,
        servers=servers,
        sigma=generator.uniform(*SIGMA) if spread else 0.0,
    )


def _kernel_slowed(generator: Random, number: int) -> KernelSlowed:
    """Every second storage has synchronous writes; half also limit bytes."""
    by_size = generator.random() < 0.5
    return KernelSlowed(
        f"kernel {number + 1}",
        read_s=_log_uniform(generator, *LATENCY_S),
        write_s=_log_uniform(generator, *LATENCY_S),
        s_per_byte=_log_uniform(generator, *S_PER_BYTE) if by_size else 0.0,
        synchronous=number % 2 == 0,
        read_ahead_bytes=generator.choice(READ_AHEAD_BYTES),
    )


def _log_uniform(generator: Random, least: float, most: float) -> float:
    return exp(generator.uniform(log(least), log(most)))

"""The cost of a recording for the query: real engines in memory and on slow storage.

Each round runs the query twice bare and once recorded, in rotating order: the difference of the two
bare runs is that of the machine itself. The extra time of a recorded run is compared with the cost
stated in its recording, which a forecast subtracts.
"""

import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from pathlib import Path
from statistics import median

from bench.result import Result
from spillcast.engines import Lab, LabQuery, duckdb
from spillcast.engines.postgres import lab as postgres
from spillcast.engines.registry import lab_of
from spillcast.forecast.projection import baseline_of
from spillcast.forecast.query import workload_of_recording
from spillcast.forecast.result import RECORDING
from spillcast.lab.run import run as run_bare
from spillcast.lab.run import run_recorded
from spillcast.lab.storages import Emulated, SpillDirectory, emulated, plain
from spillcast.recording import Recording
from spillcast.workspace import workspace

ROUNDS = 9
AIM_MEDIAN = 1.03
AIM_LARGEST = 1.05
SLOW = Emulated("storage of 0.3 ms", 0.0003, 0.0003)
MEMORY = Path("/dev/shm")
#: The runs of a round: two bare and one recorded.
BARE, AGAIN, RECORDED = range(3)


#: The join keeps only a few columns, so that temp I/O is much of the work.
JOIN = """
select max(a.amount01), max(b.amount02)
from (select * from t where id < {kept}) a join (select * from t where id < {kept}) b using (id)
"""
POSTGRES_ROWS = 1_500_000
#: Rows that PostgreSQL joins, in calls of 8 KiB: few if each takes 0.3 ms.
KEPT = {True: POSTGRES_ROWS, False: 90_000}
MEMORY_KB = {True: 4096, False: 576}


def of_duckdb(threads: int, _fast: bool) -> LabQuery:
    return LabQuery("hash join", duckdb.HASH_JOIN, 4_000_000, "70MB", threads)


def of_postgres(processes: int, fast: bool) -> LabQuery:
    """A leader and its workers, which share the memory of a single process."""
    settings = {**postgres.HASHED, "max_parallel_workers_per_gather": str(processes - 1)}
    if processes > 1:
        settings |= postgres.PARALLEL
    memory = f"{MEMORY_KB[fast] // processes}kB"
    sql = JOIN.format(kept=KEPT[fast])
    return LabQuery("hash join", sql, POSTGRES_ROWS, memory, processes, settings)


#: Engine, threads or processes, and the query they run on a fast or slow storage.
CASES: tuple[tuple[str, int, Callable[[int, bool], LabQuery]], ...] = (
    ("duckdb", 1, of_duckdb),
    ("duckdb", 2, of_duckdb),
    ("postgres", 1, of_postgres),
    ("postgres", 3, of_postgres),
)


def run() -> Iterator[Result]:
    """All cases on both storages, and the largest of their medians."""
    ratios: list[float] = []
    labs: dict[str, Lab] = {}
    begin = time.monotonic()
    with workspace(MEMORY) as memory, workspace() as room, ExitStack() as stack:
        places = (
            plain("tmpfs", memory / "temp"),
            stack.enter_context(emulated(SLOW, room, memory)),
        )
        for engine, threads, workload in CASES:
            if engine not in labs:
                home = memory / engine
                home.mkdir(mode=0o711)
                labs[engine] = lab_of(engine)(home)
            for place in places:
                query = workload(threads, place.fast)
                labs[engine].build(query.rows)
                result = _compare(labs[engine], query, place, memory / "bench.spill")
                ratios.append(result.ratio)
                yield result
    yield Result(
        f"overhead: all {len(ratios)} cases, {time.monotonic() - begin:.0f} s",
        f"{max(ratios):.3f} the largest median",
        f"{median(ratios):.3f} the median of medians",
        max(ratios),
        f"largest at most {AIM_LARGEST}, median at most {AIM_MEDIAN}",
        max(ratios) <= AIM_LARGEST and median(ratios) <= AIM_MEDIAN,
    )


def _compare(lab: Lab, workload: LabQuery, place: SpillDirectory, output: Path) -> Result:
    begin, method = time.monotonic(), ""
    rounds, stated_s = [], []
    # The first run fills the caches.
    run_bare(lab, workload, place)
    for number in range(ROUNDS):
        elapsed_s = [0.0, 0.0, 0.0]
        for which in ((first + number) % 3 for first in range(3)):
            if which == RECORDED:
                ran, recording = run_recorded(lab, workload, place, output)
                method = recording.meta.capture.method
                stated_s.append(_stated_cost_s(recording))
            else:
                ran = run_bare(lab, workload, place)
            elapsed_s[which] = ran.elapsed_s
        rounds.append(elapsed_s)
    ratios = sorted(2 * item[RECORDED] / (item[BARE] + item[AGAIN]) for item in rounds)
    bare = sorted(item[AGAIN] / item[BARE] for item in rounds)
    longer_s = median(item[RECORDED] - (item[BARE] + item[AGAIN]) / 2 for item in rounds)
    return Result(
        f"overhead: {lab.label}, {workload.name}, {workload.threads} at work, {place.name}, by "
        f"{method}, {ROUNDS} rounds in {time.monotonic() - begin:.0f} s",
        f"{median(item[RECORDED] for item in rounds):.3f} s recorded, "
        f"{ratios[0]:.3f} to {ratios[-1]:.3f} times as long; {longer_s:.3f} s longer, "
        f"{median(stated_s):.3f} s by its own word",
        f"{median(item[BARE] for item in rounds):.3f} s bare, "
        f"bare against bare {bare[0]:.3f} to {bare[-1]:.3f}, median {median(bare):.3f}",
        median(ratios),
        f"median at most {AIM_MEDIAN}, none above {AIM_LARGEST}",
        median(ratios) <= AIM_MEDIAN,
    )


def _stated_cost_s(recording: Recording) -> float:
    """The cost to the elapsed time that a recording states."""
    rest = baseline_of(workload_of_recording(recording)).rest
    return sum(term.baseline_s for term in rest if term.name == RECORDING)

"""The temp I/O of engines in memory, against a replay there of a recording from slow storage.

On storage as fast as memory, latency is the copy of the bytes, and depends on how warm an engine's
buffers are and on which processes share the core. A forecast from slow storage takes it from a
replay of the slow recording. Each round records a query on slow storage and on tmpfs, and replays
the slow recording on tmpfs; a ratio is the replay's sum of latencies over the engine's on tmpfs.
With more threads than cores the engine's latencies include time without a core, which the replay's
do not: the ratio of the median latencies shows the rest. A query may spill more or less in a slow
run, so the ratio is per byte.
"""

from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from statistics import median

import numpy as np

from bench.overhead import of_duckdb, of_postgres
from bench.result import Result
from spillcast.engines import Lab, LabQuery
from spillcast.engines.registry import lab_of
from spillcast.lab.run import run as run_bare
from spillcast.lab.run import run_recorded
from spillcast.lab.storages import Emulated, SpillDirectory, emulated, plain
from spillcast.recording import Recording
from spillcast.storage.free_space import ALL_FREE
from spillcast.storage.probe import probe
from spillcast.storage.storage import Storage
from spillcast.workspace import workspace

ROUNDS = 3
THREADS = (1, 2, 4)
AIM = 0.10
MEMORY = Path("/dev/shm")
SLOW = Emulated("slow", read_s=0.0005, write_s=0.0005)


def run() -> Iterator[Result]:
    """Each engine with 1, 2 and 4 threads."""
    with workspace() as room, workspace(MEMORY) as fast, emulated(SLOW, room, fast) as slow:
        places = slow, plain("memory", fast / "spill")
        for name, workload in (("duckdb", of_duckdb), ("postgres", of_postgres)):
            engine = lab_of(name)(fast)
            for threads in THREADS:
                yield _compared(
                    engine, f"{name}, {threads} threads", workload(threads, True), places
                )


def _compared(
    engine: Lab, name: str, query: LabQuery, places: tuple[SpillDirectory, SpillDirectory]
) -> Result:
    engine.build(query.rows)
    run_bare(engine, query, places[1])
    rounds = [_round(engine, query, places, number) for number in range(ROUNDS)]
    engine_s, probe_s, ratios, medians, disturbed = zip(*rounds, strict=True)
    ratio = median(ratios)
    return Result(
        f"replay: {name}, sum of latencies on memory, replayed from a recording on storage of "
        f"500 us, {ROUNDS} rounds",
        f"{median(probe_s):.3f} s, {min(ratios):.2f} to {max(ratios):.2f} times",
        f"{median(engine_s):.3f} s (the engine's own), median latencies {median(medians):.2f}, "
        f"others had {median(disturbed):.0%} of the CPUs",
        ratio,
        f"within {AIM:.0%}",
        abs(ratio - 1) <= AIM,
    )


def _round(
    engine: Lab, query: LabQuery, places: tuple[SpillDirectory, SpillDirectory], number: int
) -> tuple[float, float, float, float, float]:
    """Seconds of engine and probe, their ratio per byte, that of medians, others' CPU share."""
    with workspace() as folder:
        from_slow, in_memory = (
            run_recorded(engine, query, place, folder / f"{place.name}-{number}.spill")[1]
            for place in places
        )
        storage = probe(places[1].directory, from_slow, budget=ALL_FREE)
        engine_s, engine_bytes = in_memory.meta.temp.total_s, in_memory.meta.temp.bytes
        probed_s = sum(group.total_ns for group in storage.groups) / 1e9
        probed_bytes = sum(group.bytes for group in storage.groups)
        ratio = (probed_s / probed_bytes) / (engine_s / engine_bytes)
        return (
            engine_s,
            probed_s,
            ratio,
            _medians(in_memory, storage),
            float(storage.facts["others_cpu_share"]),
        )


def _medians(recording: Recording, storage: Storage) -> float:
    """The replay's median latencies over the engine's, weighted by the engine's operations."""
    recorded = recording.temp_columns("op", "elapsed_ns")
    replayed_ns = recorded_ns = 0.0
    for op in ("read", "write"):
        latencies = recorded["elapsed_ns"].values[recorded["op"].equals(op)]
        if not len(latencies):
            continue
        counts: Counter[int] = Counter()
        for group in storage.of(op):
            counts.update(dict(zip(group.latency_ns, group.latency_count, strict=True)))
        middles = sorted(counts)
        replayed = np.repeat(middles, [counts[ns] for ns in middles])
        replayed_ns += len(latencies) * float(np.median(replayed))
        recorded_ns += len(latencies) * float(np.median(latencies))
    return replayed_ns / recorded_ns

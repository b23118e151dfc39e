"""The temp I/O of real engines on memory, beside the probe's replay of it there, by turns.

On storage as fast as memory, latency is the copy of the bytes, and depends on how warm an engine's
buffers are and on who else has the core. Each round records a query on tmpfs and replays the
recording there; a ratio is the replay's sum of latencies over the recording's. With more threads
than cores the recorded latencies hold time without a core, which the replay's do not: the ratio of
the median latencies says what is left.
"""

from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from statistics import median

import numpy as np
import pyarrow.compute as pc

from bench.overhead import of_duckdb, of_postgres
from bench.result import Result
from spillcast.engines.engine import Lab, Workload
from spillcast.engines.registry import lab_of
from spillcast.lab.run import run as run_bare
from spillcast.lab.run import run_recorded
from spillcast.lab.storages import plain
from spillcast.recording import Recording
from spillcast.storage.budget import OWNED
from spillcast.storage.probe import probe
from spillcast.storage.storage import Storage
from spillcast.workspace import workspace

ROUNDS = 5
THREADS = (1, 2, 4)
AIM = 0.10
MEMORY = Path("/dev/shm")


def run() -> Iterator[Result]:
    """Each engine with 1, 2 and 4 threads."""
    for name, workload in (("duckdb", of_duckdb), ("postgres", of_postgres)):
        with workspace(MEMORY) as room:
            engine = lab_of(name)(room)
            for threads in THREADS:
                yield _compared(engine, f"{name}, {threads} threads", workload(threads, True), room)


def _compared(engine: Lab, name: str, query: Workload, room: Path) -> Result:
    engine.build(query.rows)
    place = plain("memory", room)
    run_bare(engine, query, place)
    rounds = [_round(engine, query, room / f"{name} {number}.spill") for number in range(ROUNDS)]
    engine_s, probe_s, medians, disturbed = zip(*rounds, strict=True)
    ratio = median(b / a for a, b in zip(engine_s, probe_s, strict=True))
    return Result(
        f"replay: {name}, sum of latencies on memory, {ROUNDS} rounds",
        f"{median(probe_s):.3f} s",
        f"{median(engine_s):.3f} s (the engine's own), median latencies {median(medians):.2f}, "
        f"others had {median(disturbed):.0%} of the CPUs",
        ratio,
        f"within {AIM:.0%}",
        abs(ratio - 1) <= AIM,
    )


def _round(engine: Lab, query: Workload, output: Path) -> tuple[float, float, float, float]:
    """Sums of the engine's and the probe's latencies, the ratio of their medians, others' share."""
    place = plain("memory", output.parent)
    _, recording = run_recorded(engine, query, place, output)
    found = probe(output.parent, recording, budget=OWNED)
    own_s = recording.meta.temp.total_s
    probed_s = sum(group.total_ns for group in found.groups) / 1e9
    return own_s, probed_s, _medians(recording, found), float(found.facts["others_cpu_share"])


def _medians(recording: Recording, found: Storage) -> float:
    """The replay's median latencies of reads and writes over the recorded ones, by their number."""
    recorded = recording.temp_columns("op", "elapsed_ns")
    replayed_ns = recorded_ns = 0.0
    for op in ("read", "write"):
        latencies = recorded.filter(pc.equal(recorded["op"], op))["elapsed_ns"].to_numpy()
        if not len(latencies):
            continue
        counts: Counter[int] = Counter()
        for group in found.of(op):
            counts.update(dict(zip(group.latency_ns, group.latency_count, strict=True)))
        middles = sorted(counts)
        replayed = np.repeat(middles, [counts[ns] for ns in middles])
        replayed_ns += len(latencies) * float(np.median(replayed))
        recorded_ns += len(latencies) * float(np.median(latencies))
    return replayed_ns / recorded_ns

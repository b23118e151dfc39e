"""Blocks that DuckDB compresses on other storage, forecast and measured, for unverified queries.

The peer leaves them, and the CPU time of compression, as recorded. Takes two minutes. `levels`
measures the CPU time of compression at each level, in seconds.
"""

import time
from collections.abc import Iterator
from itertools import permutations
from statistics import median

import numpy as np
import pyarrow as pa

from bench.queries import QUERIES, recordings
from bench.result import Result
from spillcast.engines.registry import lab_of
from spillcast.forecast.workload.duckdb import BLOCK_BYTES, Compression, compression
from spillcast.forecast.workload.load import latencies
from spillcast.forecast.workload.recorded import recorded_loads
from spillcast.lab.storages import named_places
from spillcast.recording import Recording
from spillcast.storage.observed import observed
from spillcast.workspace import workspace

STORAGES = ("tmpfs", "latency:0.3ms", "latency:1ms", "latency:5ms")
#: The zstd levels that DuckDB chooses from.
ZSTD = (-5, -3, -1, 1, 3, 5)
#: The allowed median error, as a share of the blocks.
AIM = 0.05


def run() -> Iterator[Result]:
    """Each query on each storage, then from each storage to each other one."""
    with workspace() as room, named_places(STORAGES, room) as places:
        engine = lab_of("duckdb")(room)
        for query in QUERIES["duckdb"]:
            with recordings(engine, query, places, room, 1) as made:
                seen = [(run, compression(run, recorded_loads(run))) for [run] in made.values()]
                yield _result(query.name, [(run, result) for run, result in seen if result])


def levels() -> list[float]:
    """CPU time of each of DuckDB's zstd levels over that of the lowest, for synthetic rows."""
    # Rows like those of TABLE in spillcast.engines.duckdb: an id, a date and three amounts.
    fields = [("id", "i8"), ("date", "i4"), *((f"amount{n}", "f8") for n in range(3))]
    rows = np.zeros(BLOCK_BYTES // np.dtype(fields).itemsize, fields)
    random = np.random.default_rng(0)
    rows["id"], rows["date"] = random.permutation(len(rows)), random.integers(0, 1500, len(rows))
    for name, _ in fields[2:]:
        rows[name] = random.integers(0, 10**6, len(rows)) / 100
    block = rows.tobytes()
    took_s = [min(_compress_s(pa.Codec("zstd", level), block) for _ in range(20)) for level in ZSTD]
    return [level_s / took_s[0] for level_s in took_s]


def _compress_s(codec: pa.Codec, block: bytes) -> float:
    start_s = time.thread_time()
    codec.compress(block)
    return time.thread_time() - start_s


def _result(name: str, seen: list[tuple[Recording, Compression]]) -> Result:
    if len(seen) < 2:
        return Result(f"compression: {name}", "hardly any block compressed", "-", 0.0, "-", True)
    shares, cpu_s = list[tuple[float, float]](), list[tuple[float, float]]()
    for (_, source), (target, adapted) in permutations(seen, 2):
        result = source.on_target(latencies(observed(target), source.loads, 1.0))
        shares.append((abs(result.share - adapted.share), abs(source.share - adapted.share)))
        moved_s = source.cpu_of_s(adapted.share, adapted.write_cpu_s) - source.cpu_of_s(
            source.share, source.write_cpu_s
        )
        cpu_s.append((abs(result.cpu_s - moved_s), abs(moved_s)))
    (share_off, share_left), (off_s, left_s) = (
        tuple(median(item) for item in zip(*pairs, strict=True)) for pairs in (shares, cpu_s)
    )
    return Result(
        f"compression: {name}",
        f"{share_off:.1%} of the blocks and {off_s:.3f} s of CPU off, median of {len(shares)}",
        f"{share_left:.1%} and {left_s:.3f} s, left as they are",
        off_s / left_s,
        f"{AIM:.0%} of the blocks",
        share_off <= AIM,
    )

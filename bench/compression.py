"""Blocks that DuckDB compresses elsewhere, as forecast and as they were: queries not verified.

The peer is to leave them, and the CPU time of compressing, as they were here. Takes two minutes.
"""

from collections.abc import Iterator
from itertools import permutations
from statistics import median

from bench.queries import QUERIES, recordings
from bench.result import Result
from spillcast.engines.registry import lab_of
from spillcast.forecast.duckdb.compression import Compression, compression
from spillcast.forecast.latency import latencies
from spillcast.forecast.load import temp_load
from spillcast.lab.named_places import named_places
from spillcast.recording import Recording
from spillcast.storage.observed import observed
from spillcast.workspace import workspace

STORAGES = ("tmpfs", "latency:0.3ms", "latency:1ms", "latency:5ms")
#: Of the blocks, by how many a forecast may be off in the median.
AIM = 0.05


def run() -> Iterator[Result]:
    """Each query on each storage, then from each storage to each other one."""
    with workspace() as room, named_places(STORAGES, room) as places:
        engine = lab_of("duckdb")(room)
        for query in QUERIES["duckdb"]:
            with recordings(engine, query, places, room, 1) as made:
                seen = [(run, compression(run, temp_load(run))) for [run] in made.values()]
                yield _result(query.name, [(run, found) for run, found in seen if found])


def _result(name: str, seen: list[tuple[Recording, Compression]]) -> Result:
    if len(seen) < 2:
        return Result(f"compression: {name}", "hardly any block compressed", "-", 0.0, "-", True)
    shares, cpu_s = list[tuple[float, float]](), list[tuple[float, float]]()
    for (_, here), (there, adapted) in permutations(seen, 2):
        found = here.project(latencies(observed(there), here.loads, 1.0))
        shares.append((abs(found.share - adapted.share), abs(here.share - adapted.share)))
        moved_s = here.cpu_of_s(adapted.share, adapted.write_cpu_s) - here.cpu_of_s(
            here.share, here.write_cpu_s
        )
        cpu_s.append((abs(found.cpu_s - moved_s), abs(moved_s)))
    (share_off, share_left), (off_s, left_s) = (
        tuple(median(one) for one in zip(*pairs, strict=True)) for pairs in (shares, cpu_s)
    )
    return Result(
        f"compression: {name}",
        f"{share_off:.1%} of the blocks and {off_s:.3f} s of CPU off, median of {len(shares)}",
        f"{share_left:.1%} and {left_s:.3f} s, left as they are",
        off_s / left_s,
        f"{AIM:.0%} of the blocks",
        share_off <= AIM,
    )

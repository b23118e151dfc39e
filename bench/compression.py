"""Blocks that DuckDB compresses elsewhere, as forecast and as they were: queries not verified.

The peer is to leave them, and the CPU time of compressing, as they were here. Takes two minutes.
"""

from collections.abc import Iterator
from itertools import permutations
from pathlib import Path
from statistics import median

from bench.cold_caches import QUERIES
from bench.result import Result
from spillcast.forecast.compression import Compression, compression
from spillcast.forecast.latency import latencies
from spillcast.forecast.load import temp_load
from spillcast.lab.engine import Engine, open_engine
from spillcast.lab.named_places import named_places
from spillcast.lab.run import run as run_bare
from spillcast.lab.run import run_recorded
from spillcast.lab.storages import Place
from spillcast.lab.workload import Workload
from spillcast.recording import Recording
from spillcast.storage.observed import observed
from spillcast.workspace import workspace

STORAGES = ("tmpfs", "latency:0.3ms", "latency:1ms", "latency:5ms")
#: Of the blocks, by how many a forecast may be off in the median.
AIM = 0.05


def run() -> Iterator[Result]:
    """Each query on each storage, then from each storage to each other one."""
    with workspace() as room, named_places(STORAGES, room) as places:
        engine = open_engine("duckdb", room)
        for query in QUERIES["duckdb"]:
            yield _result(query.name, list(_recordings(engine, query, places, room)))


def _recordings(
    engine: Engine, query: Workload, places: list[Place], room: Path
) -> Iterator[tuple[Recording, Compression]]:
    """Those that tell how their blocks were compressed."""
    engine.build(query.rows)
    run_bare(engine, query, places[0])
    with workspace(room) as folder:
        for at, place in enumerate(places):
            _, recording = run_recorded(engine, query, place, folder / f"{at}.spill")
            if found := compression(recording, temp_load(recording)):
                yield recording, found


def _result(name: str, seen: list[tuple[Recording, Compression]]) -> Result:
    if len(seen) < 2:
        return Result(f"compression: {name}", "hardly any block compressed", "-", 0.0, "-", True)
    shares, cpu_s = list[tuple[float, float]](), list[tuple[float, float]]()
    for (_, here), (there, adapted) in permutations(seen, 2):
        found = latencies(observed(there), here.loads, 1.0)
        share = here.share_there(found)
        shares.append((abs(share - adapted.share), abs(here.share - adapted.share)))
        moved_s = _cpu_s(adapted, here) - _cpu_s(here, here)
        cpu_s.append((abs(here.cpu_s(found) - moved_s), abs(moved_s)))
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


def _cpu_s(adapted: Compression, here: Compression) -> float:
    """CPU time of compressing as many blocks as ``here``; a block is read at the same cost."""
    writes, reads = (
        sum(load.count for load in here.loads if load.op == op) for op in ("write", "read")
    )
    return adapted.share * (writes * adapted.write_cpu_s + reads * here.read_cpu_s)

"""What a recording costs the query: the demo's join with and without, in pairs."""

from collections.abc import Iterator
from pathlib import Path
from statistics import median

from bench.result import Result
from spillcast.engines.duckdb.queries import DEMO
from spillcast.engines.registry import lab_of
from spillcast.lab.run import run as run_bare
from spillcast.lab.run import run_recorded
from spillcast.lab.storages import plain
from spillcast.workspace import workspace

PAIRS = 5
AIM = 1.05


def run() -> Iterator[Result]:
    """Paired runs in alternating order on shared memory, where a call's cost weighs most."""
    with workspace(Path("/dev/shm")) as room:
        engine = lab_of("duckdb")(room)
        engine.build(DEMO.rows)
        place = plain("tmpfs", room / "temp")
        pairs = []
        for number in range(PAIRS):
            order = (True, False) if number % 2 else (False, True)
            elapsed_s = {
                observed: (
                    run_recorded(engine, DEMO, place, room / "bench.spill")[0]
                    if observed
                    else run_bare(engine, DEMO, place)
                ).elapsed_s
                for observed in order
            }
            pairs.append((elapsed_s[True], elapsed_s[False]))
    ratio = median(ours / bare for ours, bare in pairs)
    yield Result(
        f"overhead: the demo's join, {PAIRS} pairs",
        f"{median(ours for ours, _ in pairs):.2f} s recorded",
        f"{median(bare for _, bare in pairs):.2f} s not observed",
        ratio,
        f"median ratio at most {AIM}",
        ratio <= AIM,
    )

"""How far the spill of one query differs from run to run: bytes written at several memory limits.

`python -m bench.spill_spread RUNS.csv` runs DuckDB's queries of the lab by turns on memory and on
slow storage, and appends a row a run. Load does not matter: bytes are compared, not times.
"""

import csv
import re
import sys
from collections.abc import Iterator, Sequence
from pathlib import Path

from spillcast.engines.engine import Lab, Workload
from spillcast.engines.registry import lab_of
from spillcast.lab.storages import Place, named_places
from spillcast.units import parse_bytes
from spillcast.workspace import workspace

THREADS, REPEAT = (1, 2, 4), 4
#: Memory limits, over that under which a query spills well.
MEMORY_FACTORS = (0.8, 1.0, 1.3, 1.6)
STORAGES = ("tmpfs", "latency:2ms")
QUERIES = ("hash join", "sort", "group by", "window")
LOOK_S = 0.02
COLUMNS = ("query", "threads", "memory_bytes", "storage", "written_bytes", "peak_rss_bytes")


def runs() -> Iterator[Sequence[object]]:
    """A row of COLUMNS for each run."""
    with workspace() as room, named_places(STORAGES, room) as places:
        engine = lab_of("duckdb")(room)
        for workload in _workloads(engine):
            engine.build(workload.rows)
            for _ in range(REPEAT):
                for place in places:
                    yield (
                        *(workload.name, workload.threads, parse_bytes(workload.memory, "memory")),
                        *(place.name, *_bytes(engine, workload, place)),
                    )


def _workloads(engine: Lab) -> Iterator[Workload]:
    for threads in THREADS:
        for query in engine.verified(threads):
            if query.name not in QUERIES:
                continue
            for factor in MEMORY_FACTORS:
                megabytes = round(factor * float(query.memory.removesuffix("MB")))
                yield Workload(query.name, query.sql, query.rows, f"{megabytes}MB", threads)


def _bytes(engine: Lab, workload: Workload, place: Place) -> tuple[int, int]:
    """Bytes that a run writes, and its peak resident memory."""
    with place.inside(), engine.hold(workload, place.directory, place.environment) as held:
        process = Path(f"/proc/{held.pid}")
        before, peak_kib = _figure(process / "io", "wchar"), 0
        held.start()
        # A process that has ended has no resident memory.
        while not held.wait(LOOK_S):
            peak_kib = max(peak_kib, _figure(process / "status", "VmHWM"))
        written = _figure(process / "io", "wchar") - before
        held.result()
    return written, 1024 * peak_kib


def _figure(path: Path, name: str) -> int:
    match = re.search(rf"^{name}:\s*(\d+)", path.read_text(), re.MULTILINE)
    return int(match[1]) if match else 0


if __name__ == "__main__":
    with Path(sys.argv[1]).open("a", newline="") as file:
        table = csv.writer(file)
        table.writerow(COLUMNS)
        for row in runs():
            table.writerow(row)
            file.flush()

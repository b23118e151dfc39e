"""How much the spill of a query varies from run to run: bytes written at several memory limits.

`python -m bench.spill_spread RUNS.csv` runs DuckDB's queries of the lab in turns in memory and on
slow storage, and appends a row per run. Load does not matter: bytes are compared, not times.
"""

import csv
import re
import sys
from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path

import numpy as np

from spillcast.engines import Lab, LabQuery
from spillcast.engines.registry import lab_of
from spillcast.lab.storages import SpillDirectory, named_places
from spillcast.units import parse_bytes
from spillcast.workspace import workspace

THREADS, REPEAT = (1, 2, 4), 4
#: Memory limits by query, in MB: from one with a full spill to one that is hardly exceeded.
LIMITS_MB: Mapping[str, Sequence[int]] = {
    "hash join": (104, 130, 169, 208),
    "sort": (56, 70, 91, 112, 140),
    "group by": (80, 100, 130, 160, 185),
    "window": (40, 50, 65, 80, 93),
}
STORAGES = ("tmpfs", "latency:2ms")
LOOK_S = 0.02
COLUMNS = ("query", "threads", "memory_bytes", "storage", "written_bytes", "peak_rss_bytes")
#: Runs that write less did not spill.
SPILLED_BYTES = 1 << 20
#: Candidate spreads: far from the limit, and per memory over spill.
FAR, SHARE = np.linspace(0.002, 0.12, 119), np.linspace(0.0, 0.02, 101)


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


def fitted(rows: Iterable[Sequence[object]]) -> list[list[float]]:
    """``far`` and ``share`` of one thread and of several, by maximum likelihood."""
    cells: dict[tuple[object, ...], list[tuple[float, float]]] = {}
    for query, threads, memory, storage, written, peak_rss in rows:
        run = float(str(written)), float(str(peak_rss))
        if run[0] >= SPILLED_BYTES:
            cells.setdefault((str(threads) != "1", query, threads, memory, storage), []).append(run)
    fits = []
    for several in (False, True):
        alike = [np.array(cell) for key, cell in cells.items() if key[0] == several]
        spreads = [
            (len(cell) - 1, np.log(cell[:, 0]).var(ddof=1), cell[:, 1].mean() / cell[:, 0].mean())
            for cell in alike
            if len(cell) > 1
        ]
        fits.append(_most_likely(np.array(spreads)))
    return fits


def _most_likely(cells: np.ndarray) -> list[float]:
    degrees, variance, times = cells.T
    far, share = np.meshgrid(FAR, SHARE, indexing="ij")
    expected = far[..., None] ** 2 + (share[..., None] * times) ** 2
    unlikely = (degrees * (np.log(expected) + variance / expected)).sum(axis=-1)
    at = np.unravel_index(unlikely.argmin(), unlikely.shape)
    return [float(far[at]), float(share[at])]


def _workloads(engine: Lab) -> Iterator[LabQuery]:
    for threads in THREADS:
        for query in engine.verified(threads):
            for megabytes in LIMITS_MB.get(query.name, ()):
                yield LabQuery(query.name, query.sql, query.rows, f"{megabytes}MB", threads)


def _bytes(engine: Lab, workload: LabQuery, place: SpillDirectory) -> tuple[int, int]:
    """The bytes that a run writes, and its peak resident memory."""
    with place.inside(), engine.hold(workload, place.directory, place.environment) as held:
        process = Path(f"/proc/{held.pid}")
        before, peak_kib = _figure(process / "io", "wchar"), 0
        held.start()
        # An ended process has no resident memory.
        while not held.wait(LOOK_S):
            peak_kib = max(peak_kib, _figure(process / "status", "VmHWM"))
        written = _figure(process / "io", "wchar") - before
        held.result()
    return written, 1024 * peak_kib


def _figure(path: Path, name: str) -> int:
    match = re.search(rf"^{name}:\s*(\d+)", path.read_text(), re.MULTILINE)
    return int(match[1]) if match else 0


def main(path: Path) -> None:
    """Appends the runs to a file, and prints the fit of all of its rows."""
    with path.open("a", newline="") as file:
        for row in runs():
            csv.writer(file).writerow(row)
            file.flush()
    with path.open(newline="") as file:
        print(fitted(list(csv.reader(file))))


if __name__ == "__main__":
    main(Path(sys.argv[1]))

"""The speed of ingesting a fleet of traces, and whether 1, 5 and 20 GB cost the same per GB."""

import os
import tempfile
from collections.abc import Iterator
from pathlib import Path

from bench.fleet_traces import make_fleet
from bench.result import SPILLCAST, Result, used, wall_s

FILES, DATABASES, GIGABYTES = 5_000, 40, 20
#: The first databases, by number, that are 1, 5 and 20 GB.
PARTS = (2, 10, 40)
AIM_MB_PER_S = 200
AIM_PEAK_MB = 1_000
AIM_LINEAR = 1.15


def run() -> Iterator[Result]:
    """``spillcast ingest`` on generated traces, whole processes; the peer is ``sha256sum``.

    Uses 22 GB of disk space, and frees them.
    """
    with tempfile.TemporaryDirectory(prefix="spillcast-bench-") as name:
        folder = Path(name)
        for _ in make_fleet(folder / "in", FILES, GIGABYTES * 10**9, DATABASES):
            pass
        measured = [_ingest(folder, databases) for databases in PARTS]
        traces = sorted(map(str, (folder / "in").glob("*/*.trc")))
        peer_s = wall_s(["sha256sum", *traces])
        fleet_s = wall_s([*SPILLCAST, "fleet", str(folder / "40"), "--to", "latency:150us"])
        kept = sum(path.stat().st_size for path in (folder / "40").rglob("*") if path.is_file())
    size, wall, peak_mb = measured[-1]
    rate = size / 1e6 / wall
    yield Result(
        f"fleet: ingest of {FILES:,} traces, {GIGABYTES} GB",
        f"{wall:.0f} s, {rate:.0f} MB/s, peak {peak_mb:.0f} MB; ranked in {fleet_s:.1f} s, "
        f"from {kept / 1e6:.0f} MB",
        f"{peer_s:.0f} s (sha256sum, which reads and does no more)",
        wall / peer_s,
        f"{AIM_MB_PER_S} MB/s in {AIM_PEAK_MB} MB",
        rate >= AIM_MB_PER_S and peak_mb <= AIM_PEAK_MB,
    )
    each = [wall / size * 1e9 for size, wall, _ in measured]
    yield Result(
        "fleet: seconds a GB, of 1, 5 and 20 GB",
        ", ".join(f"{s:.2f} s" for s in each),
        f"load {os.getloadavg()[0]:.1f} at the end",
        max(each) / min(each),
        f"at most {AIM_LINEAR} between them",
        max(each) / min(each) <= AIM_LINEAR,
    )


def _ingest(folder: Path, databases: int) -> tuple[int, float, float]:
    """Bytes, wall time (s) and peak resident memory (MB) of an ingest."""
    sources = [folder / "in" / f"erp{number:02}" for number in range(databases)]
    size = sum(path.stat().st_size for source in sources for path in source.iterdir())
    took = used([*SPILLCAST, "ingest", *map(str, sources), "-o", str(folder / str(databases))])
    return size, took.wall_s, took.mb

"""The cache simulator against libCacheSim, with which tests/cache also compares ratios."""

import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path

import numpy as np

from bench.result import Result
from spillcast import _core

REQUESTS, ZIPF_LINES, CACHE_LINES = 20_000_000, 10_000_000, 100_000
POLICIES = {"lru": "LRU", "fifo": "FIFO", "sieve": "Sieve", "s3fifo": "S3FIFO", "arc": "ARC"}
AIM = 2
SAMPLE = 0.01
AIM_MEMORY_MB = 1000
_RECORD = np.dtype([("time", "<u4"), ("id", "<u8"), ("size", "<u4"), ("next", "<i8")])


def run() -> Iterator[Result]:
    """Zipf 0.9, with a fifth of scans over lines used once; single-threaded, in sequence."""
    with tempfile.TemporaryDirectory(prefix="spillcast-bench-", dir="/dev/shm") as folder:
        path = Path(folder) / "zipf.oracleGeneral"
        _generate(path)
        for policy in POLICIES:
            yield _policy(path, policy)
        yield _memory(path)


def _policy(path: Path, policy: str) -> Result:
    # A peer, needed only here.
    import libcachesim as lcs

    requests = _core.CacheRequests.oracle_general(path)
    start = time.process_time()
    [account] = requests.simulate(policy, CACHE_LINES)["runs"][0]["accounts"]
    ours_s = time.process_time() - start
    unsized = lcs.ReaderInitParam(ignore_obj_size=True)
    reader = lcs.TraceReader(str(path), lcs.TraceType.ORACLE_GENERAL_TRACE, unsized)
    cache = getattr(lcs, POLICIES[policy])(CACHE_LINES)
    start = time.process_time()
    ratio, _ = cache.process_trace(reader)
    theirs_s = time.process_time() - start
    missed = 1 - account["hits"] / account["requests"]
    return Result(
        f"cache: {policy}, {REQUESTS // 10**6} million requests, {CACHE_LINES:,} lines",
        f"{REQUESTS / ours_s / 1e6:.1f} million a second, {missed:.4f} missed",
        f"{REQUESTS / theirs_s / 1e6:.1f} million a second, {ratio:.4f} missed (libCacheSim)",
        theirs_s / ours_s,
        f"at least {AIM} times as fast",
        theirs_s / ours_s >= AIM,
    )


def _memory(path: Path) -> Result:
    """A hundred million requests: one trace repeated five times."""
    code = (
        "import sys\nfrom pathlib import Path\nfrom spillcast import _core\n"
        "requests = _core.CacheRequests.oracle_general(sys.argv[1])\n"
        f"requests.curve(rate={SAMPLE}, runs=5)\n"
        "status = Path('/proc/self/status').read_text()\n"
        "print(int(status.split('VmHWM:')[1].split()[0]) * 1024 / 1e6)\n"
    )
    ran = subprocess.run(
        [sys.executable, "-c", code, str(path)], check=True, capture_output=True, text=True
    )
    peak_mb = float(ran.stdout)
    return Result(
        "cache: peak memory of a hundred million requests, sampled",
        f"{peak_mb:.0f} MB",
        f"{AIM_MEMORY_MB} MB (the aim)",
        peak_mb / AIM_MEMORY_MB,
        "at most 1",
        peak_mb <= AIM_MEMORY_MB,
    )


def _generate(path: Path) -> None:
    rng = np.random.default_rng(2)
    weight = np.cumsum(1 / np.arange(1, ZIPF_LINES + 1) ** 0.9)
    ids = np.searchsorted(weight / weight[-1], rng.random(REQUESTS)).astype(np.uint64)
    scan = np.arange(REQUESTS) % (REQUESTS // 10) >= REQUESTS * 8 // 100
    ids[scan] = np.arange(scan.sum(), dtype=np.uint64) + ZIPF_LINES
    records = np.zeros(REQUESTS, _RECORD)
    records["time"], records["id"] = np.arange(REQUESTS) // 1000, ids + 1
    records["size"], records["next"] = 4096, -2
    records.tofile(path)

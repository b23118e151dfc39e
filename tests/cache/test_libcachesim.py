"""Miss ratios against libCacheSim, where it is installed."""

import time

import numpy as np
import pytest

from cases import cases, nightly
from io_made_up import LINE, oracle_general, zipf_with_scans
from spillcast import _core
from spillcast.cache.rows import of_recording
from spillcast.recording import Recording

lcs = pytest.importorskip("libcachesim", reason="the package libcachesim is not installed")
#: The allowed difference of our miss ratio: rounding where the rules are exactly the same.
POLICIES = {
    "lru": ("LRU", 5e-5),
    "fifo": ("FIFO", 5e-5),
    "sieve": ("Sieve", 5e-5),
    "s3fifo": ("S3FIFO", 5e-5),
    "arc": ("ARC", 2e-3),
}
LINES = 5_000


def theirs(path, policy, lines):
    reader = lcs.TraceReader(
        str(path), lcs.TraceType.ORACLE_GENERAL_TRACE, lcs.ReaderInitParam(ignore_obj_size=True)
    )
    cache = getattr(lcs, POLICIES[policy][0])(lines)
    start = time.thread_time()
    ratio, _ = cache.process_trace(reader)
    return ratio, time.thread_time() - start


def ours(path, policy, lines):
    requests = _core.CacheRequests.oracle_general(path)
    start = time.thread_time()
    [account] = requests.simulate(policy, lines)["runs"][0]["accounts"]
    return 1 - account["hits"] / account["requests"], time.thread_time() - start


@pytest.fixture(scope="module")
def zipf(tmp_path_factory):
    path = tmp_path_factory.mktemp("zipf") / "zipf.oracleGeneral"
    return oracle_general(path, zipf_with_scans(250_000, 50_000, seed=1))


@pytest.fixture(scope="module")
def recorded(spilled, tmp_path_factory):
    """A real recording's I/O in lines, as a trace of libCacheSim."""
    io = of_recording(Recording.open(spilled.path)).io
    columns = (io[name].values for name in ("file", "offset", "bytes"))
    ids = [
        (int(file) << 40 | line) + 1
        for file, offset, size in zip(*columns, strict=True)
        for line in range(offset // LINE, -(-(offset + size) // LINE))
    ]
    path = tmp_path_factory.mktemp("recorded") / "run.oracleGeneral"
    return oracle_general(path, np.array(ids, dtype=np.uint64)), len(set(ids))


@pytest.mark.parametrize("policy", POLICIES)
@pytest.mark.parametrize("lines", [500, *nightly(LINES)])
def test_miss_ratios_on_zipf_with_scans(zipf, policy, lines):
    assert abs(ours(zipf, policy, lines)[0] - theirs(zipf, policy, lines)[0]) < POLICIES[policy][1]


@cases("policy", POLICIES)
@cases("share", [0.1, 0.5])
def test_miss_ratios_on_a_real_recording(recorded, policy, share):
    path, distinct = recorded
    lines = max(round(share * distinct), 20)
    assert abs(ours(path, policy, lines)[0] - theirs(path, policy, lines)[0]) < POLICIES[policy][1]

"""A sample of the lines gives the curve of all of them, in little time and memory."""

import subprocess
import sys

import numpy as np
import pytest

from io_made_up import oracle_general, zipf_with_scans
from spillcast import _core

#: Of a hundred million requests, by the process that reads them.
MEMORY_MAX_BYTES = 1 << 30


@pytest.mark.parametrize("seed", [1, 2, 3])
def test_a_tenth_of_the_lines(tmp_path, seed):
    path = oracle_general(
        tmp_path / "t.oracleGeneral", zipf_with_scans(500_000, 200_000, seed=seed)
    )
    requests = _core.CacheRequests.oracle_general(path)
    exact, sampled = requests.curve(), requests.curve(rate=0.1)
    sizes = np.linspace(exact.lines / 50, exact.lines, 50)
    off = np.abs(np.subtract(exact.miss_ratios(sizes), sampled.miss_ratios(sizes)))
    # A tenth of them: some 20,000 lines, whose share of the requests is off by a percent or so.
    assert off.mean() < 0.02
    assert sampled.lines == pytest.approx(exact.lines, rel=0.03)
    assert sampled.references == exact.references == 500_000


def test_a_hundred_million_requests_take_little_memory(tmp_path):
    """Ten million lines, each used ten times."""
    code = f"""
from pathlib import Path
from spillcast import _core
requests = _core.CacheRequests.oracle_general({str(tmp_path / "t.oracleGeneral")!r})
curve = requests.curve(rate=0.01, runs=10)
assert requests.requests() == 100_000_000, requests.requests()
status = Path('/proc/self/status').read_text()
print(int(status.split('VmHWM:')[1].split()[0]) * 1024)
"""
    ids = np.random.default_rng(1).integers(1, 1 << 62, 10_000_000, dtype=np.uint64)
    oracle_general(tmp_path / "t.oracleGeneral", ids)
    ran = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True)
    assert ran.returncode == 0, ran.stderr
    assert int(ran.stdout) < MEMORY_MAX_BYTES

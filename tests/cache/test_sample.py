"""A sample of the lines gives the curve of all lines, in little time and memory."""

import subprocess
import sys

import numpy as np
import pytest
from bench.cache_traces import KINDS, write

from cases import cases
from io_made_up import oracle_general, zipf_with_scans
from spillcast import _core

#: The peak memory of a process that reads ten million lines.
MEMORY_MAX_BYTES = 1 << 30


@cases("seed", [1, 2, 3])
def test_a_tenth_of_the_lines_gives_the_curve(tmp_path, seed):
    path = oracle_general(
        tmp_path / "t.oracleGeneral", zipf_with_scans(500_000, 200_000, seed=seed)
    )
    requests = _core.CacheRequests.oracle_general(path)
    exact, sampled = requests.curve(), requests.curve(rate=0.1)
    sizes = np.linspace(exact.lines / 50, exact.lines, 50)
    off = np.abs(np.subtract(exact.miss_ratios(sizes), sampled.miss_ratios(sizes)))
    # A tenth: some 20,000 lines, whose share of the requests has an error of about a percent.
    assert off.mean() < 0.02
    assert sampled.lines == pytest.approx(exact.lines, rel=0.03)
    assert sampled.references == exact.references == 500_000


def off(exact, sampled):
    """The mean difference over all sizes."""
    sizes = np.linspace(exact.lines / 1000, exact.lines, 1000)
    return np.abs(np.subtract(exact.miss_ratios(sizes), sampled.miss_ratios(sizes))).mean()


@pytest.mark.nightly
def test_the_bound_holds_in_19_of_20_traces_of_six_kinds(tmp_path):
    """Over 36 traces; each sample takes different lines."""
    bounds = {0.02: [], 0.1: []}
    for kind in KINDS:
        for seed in range(10, 16):
            path = write(tmp_path / "t.oracleGeneral", kind, 200_000, seed)
            requests = _core.CacheRequests.oracle_general(path)
            exact = requests.curve()
            assert exact.error_max == 0
            for rate, of_rate in bounds.items():
                sampled = requests.curve(rate=rate)
                of_rate.append(sampled.error_max / off(exact, sampled))
    for of_rate in bounds.values():
        assert sum(bound >= 1 for bound in of_rate) >= 0.9 * len(of_rate)
        # A bound that holds only because it is far too wide is useless.
        assert np.median(of_rate) < 6


def test_hot_lines_of_a_pattern_are_sampled(tmp_path):
    """The levels of an index in turn: every fourth request is the root, and the next a branch."""
    path = write(tmp_path / "t.oracleGeneral", "an index", 500_000, seed=0)
    requests = _core.CacheRequests.oracle_general(path)
    assert off(requests.curve(), requests.curve(rate=0.01)) < 0.01


@pytest.mark.nightly
@pytest.mark.parametrize("requested", ["rate=0.01", "error=0.002"])
def test_a_very_large_number_of_lines_takes_little_memory(tmp_path, requested):
    """Ten million lines, each used three times."""
    code = f"""
from pathlib import Path
from spillcast import _core
requests = _core.CacheRequests.oracle_general({str(tmp_path / "t.oracleGeneral")!r})
curve = requests.curve({requested}, runs=3)
assert requests.requests() == 30_000_000, requests.requests()
status = Path('/proc/self/status').read_text()
print(int(status.split('VmHWM:')[1].split()[0]) * 1024)
"""
    ids = np.random.default_rng(1).integers(1, 1 << 62, 10_000_000, dtype=np.uint64)
    oracle_general(tmp_path / "t.oracleGeneral", ids)
    ran = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True)
    assert ran.returncode == 0, ran.stderr
    assert int(ran.stdout) < MEMORY_MAX_BYTES

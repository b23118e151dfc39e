"""Miss-ratio curves of samples against those of all lines: their error and its bound."""

import tempfile
import time
from collections.abc import Iterator
from pathlib import Path

import numpy as np

from bench.cache_traces import KINDS, write
from bench.result import Result
from spillcast.cache.curve import Curve, curve
from spillcast.cache.evidence import read_requests

#: One large trace of each kind, and more of them that are smaller, for how often the bound holds.
REQUESTS, SEEDS, SMALL_REQUESTS = 20_000_000, range(100, 104), 2_000_000
ERROR_POINTS, SAMPLE = 0.2, 0.01
AIM_TIMES, AIM_HELD = 5, 0.95


def run() -> Iterator[Result]:
    """Each kind with ``--error 0.2``; then 24 traces of 1 % of the lines and as exact as asked."""
    with tempfile.TemporaryDirectory(prefix="spillcast-bench-", dir="/dev/shm") as folder:
        for kind in KINDS:
            yield _asked(write(Path(folder) / "t.oracleGeneral", kind, REQUESTS, seed=100), kind)
        for share in (SAMPLE, None):
            yield _held(Path(folder) / "t.oracleGeneral", share)


def _asked(path: Path, kind: str) -> Result:
    exact, exact_s = _timed(path)
    sampled, sampled_s = _timed(path, error_points=ERROR_POINTS)
    off = 100 * _off(exact, sampled)
    return Result(
        f"cache curve: {kind}, {REQUESTS // 10**6} million requests, --error {ERROR_POINTS}",
        f"{sampled_s:.2f} s from {sampled.rate:.2g} of the lines, {off:.3f} points off, "
        f"bound {100 * sampled.error_max:.3f}",
        f"{exact_s:.2f} s (all lines)",
        exact_s / sampled_s,
        f"at least {AIM_TIMES} times as fast, within the bound",
        exact_s / sampled_s >= AIM_TIMES and off <= 100 * sampled.error_max,
    )


def _held(path: Path, share: float | None) -> Result:
    traces = [(kind, seed) for kind in KINDS for seed in SEEDS]
    off, held = [], 0
    for kind, seed in traces:
        write(path, kind, SMALL_REQUESTS, seed)
        exact, _ = _timed(path)
        asked = {"rate": share} if share else {"error_points": ERROR_POINTS}
        sampled, _ = _timed(path, **asked)
        off.append(100 * _off(exact, sampled))
        held += off[-1] <= 100 * sampled.error_max
    how = f"{share:.0%} of the lines" if share else f"--error {ERROR_POINTS}"
    return Result(
        f"cache curve: bound of {len(traces)} traces of {SMALL_REQUESTS // 10**6} million, {how}",
        f"{held} held; {np.median(off):.3f} points off in the median, {max(off):.3f} at most",
        "0 points (all lines)",
        held / len(traces),
        f"at least {AIM_HELD:.0%} hold",
        held / len(traces) >= AIM_HELD,
    )


def _timed(path: Path, **asked: float) -> tuple[Curve, float]:
    requests = read_requests([str(path)])
    start = time.process_time()
    found = curve(requests, **asked)
    return found, time.process_time() - start


def _off(exact: Curve, sampled: Curve) -> float:
    """The mean of all sizes."""
    sizes = np.linspace(exact.data_bytes / 1000, exact.data_bytes, 1000).tolist()
    return float(np.abs(np.subtract(exact.miss_ratios(sizes), sampled.miss_ratios(sizes))).mean())

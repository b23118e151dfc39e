"""Rounded and sampled miss-ratio curves against exact ones: their error and its bound."""

import tempfile
import time
from collections.abc import Iterator
from pathlib import Path

import numpy as np

from bench.cache_traces import KINDS, write
from bench.result import Result
from spillcast.cache.evidence import read_requests
from spillcast.cache.simulation import Curve, curve

#: One large trace of each kind, and more small ones to measure how often the bound holds.
REQUESTS, SEEDS, SMALL_REQUESTS = 20_000_000, range(100, 104), 2_000_000
ERROR_POINTS, SAMPLE = 0.2, 0.01
AIM_TIMES, AIM_HELD, SIZES = 5, 0.95, 20_000


def run() -> Iterator[Result]:
    """Each kind with ``--error 0.2``; then 24 traces of 1 % of the lines and with --error."""
    with tempfile.TemporaryDirectory(prefix="spillcast-bench-", dir="/dev/shm") as folder:
        for kind in KINDS:
            yield _curve(write(Path(folder) / "t.oracleGeneral", kind, REQUESTS, seed=100), kind)
        for share in (SAMPLE, None):
            yield _held(Path(folder) / "t.oracleGeneral", share)


def _curve(path: Path, kind: str) -> Result:
    exact, exact_s = _timed(path)
    rounded, rounded_s = _timed(path, error_points=ERROR_POINTS)
    off = 100 * _off(exact, rounded)
    return Result(
        f"cache curve: {kind}, {REQUESTS // 10**6} million requests, --error {ERROR_POINTS}",
        f"{rounded_s:.2f} s, {off:.3f} points off, bound {100 * rounded.error_max:.3f}",
        f"{exact_s:.2f} s (exact)",
        exact_s / rounded_s,
        f"at least {AIM_TIMES} times as fast, within the bound",
        exact_s / rounded_s >= AIM_TIMES and off <= 100 * rounded.error_max <= ERROR_POINTS,
    )


def _held(path: Path, share: float | None) -> Result:
    traces = [(kind, seed) for kind in KINDS for seed in SEEDS]
    off, held = [], 0
    for kind, seed in traces:
        write(path, kind, SMALL_REQUESTS, seed)
        exact, _ = _timed(path)
        result, _ = _timed(path, rate=share, error_points=None if share else ERROR_POINTS)
        off.append(100 * _off(exact, result))
        held += off[-1] <= 100 * result.error_max
    how = f"{share:.0%} of the lines" if share else f"--error {ERROR_POINTS}"
    return Result(
        f"cache curve: bound of {len(traces)} traces of {SMALL_REQUESTS // 10**6} million, {how}",
        f"{held} held; {np.median(off):.3f} points off in the median, {max(off):.3f} at most",
        "0 points (exact)",
        held / len(traces),
        f"at least {AIM_HELD:.0%} hold",
        held / len(traces) >= AIM_HELD,
    )


def _timed(
    path: Path, *, rate: float | None = None, error_points: float | None = None
) -> tuple[Curve, float]:
    requests = read_requests([str(path)])
    start = time.process_time()
    result = curve(requests, rate=rate, error_points=error_points)
    return result, time.process_time() - start


def _off(exact: Curve, result: Curve) -> float:
    """The mean over so many sizes that the distance of a shifted step is visible."""
    sizes = np.linspace(exact.data_bytes / SIZES, exact.data_bytes, SIZES).tolist()
    return float(np.abs(np.subtract(exact.miss_ratios(sizes), result.miss_ratios(sizes))).mean())

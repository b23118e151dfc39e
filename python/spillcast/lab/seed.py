"""The formula that started this: a ratio of mean read latencies applied to a sampled share.

    T_new = T - p*T + p*T / g        p: share of 1 Hz samples in temp waits, g = L_old / L_new

It stands beside every verified forecast as the one to beat; docs/method.md tells what it
leaves out.
"""

import numpy as np

from spillcast.recording import Recording
from spillcast.storage import Group, Storage
from spillcast.storage.observed import observed

SAMPLE_NS = 1_000_000_000


def seed_formula_s(baseline: Recording, target: Storage) -> float:
    """Elapsed time on ``target`` by the formula, from the same evidence as a forecast."""
    elapsed_s = baseline.elapsed_s
    temp_s = sampled_share(baseline) * elapsed_s
    gain = _read_latency_s(observed(baseline)) / _read_latency_s(target)
    return elapsed_s - temp_s + temp_s / gain


def sampled_share(baseline: Recording) -> float:
    """Share of instants one second apart at which a temp operation was under way."""
    waits = baseline.temp_waits
    start = waits["start_ns"].to_numpy()
    end = np.maximum.accumulate(start + waits["elapsed_ns"].to_numpy())
    instants = np.arange(SAMPLE_NS // 2, round(baseline.elapsed_s * 1e9), SAMPLE_NS)
    before = np.searchsorted(start, instants, side="right") - 1
    under_way = (before >= 0) & (end[before] > instants)
    return float(under_way.mean()) if len(instants) else 0.0


def _read_latency_s(storage: Storage) -> float:
    groups: list[Group] = storage.of("read") or storage.of("write")
    return sum(group.total_ns for group in groups) / sum(group.count for group in groups) / 1e9

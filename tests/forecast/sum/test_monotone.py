"""Storage that is faster at everything never has the slower forecast."""

import tempfile
from pathlib import Path

from hypothesis import given, settings
from hypothesis import strategies as st

from evidence import recording, storage
from spillcast.forecast import forecast

SIZES = [8192, 49152, 262144]
KEYS = [(op, size) for op in ("read", "write") for size in SIZES]
LATENCY_NS = st.integers(100, 20_000_000)
LOADS = st.dictionaries(
    st.sampled_from(KEYS), st.tuples(st.integers(1, 50), LATENCY_NS), min_size=1
)


def make(loads, sessions):
    """A recording with one second beside its temp I/O."""
    parts = [(op, size, times, ns) for (op, size), (times, ns) in loads.items()]
    io_s = sum(times * ns for _, _, times, ns in parts) / 1e9
    with tempfile.TemporaryDirectory() as name:
        made = recording(
            Path(name) / "run.spill", parts, elapsed_s=1.0 + 2 * io_s, sessions=sessions
        )
        assert made.seconds.num_rows == len(parts)
        assert made.waits.num_rows > 0
        return made


def too_vague(*answer):
    """Whether a forecast was refused, which must be because its interval is too wide.

    That happens far from the measured sizes, or if the overlap of threads is not known.
    """
    refused = [item.refused for item in answer if item.refused]
    assert all("shows only that it takes" in reason for reason in refused)
    return bool(refused)


@given(
    LOADS,
    st.integers(1, 2),
    st.dictionaries(st.sampled_from(KEYS), LATENCY_NS, min_size=len(KEYS)),
    st.dictionaries(st.sampled_from(KEYS), st.integers(0, 5_000_000), min_size=len(KEYS)),
)
@settings(max_examples=30)
def test_storage_that_is_slower_at_every_size_is_forecast_slower(loads, sessions, faster, added):
    run = make(loads, sessions)
    slower = {key: ns + added[key] for key, ns in faster.items()}
    fast, slow = forecast(run, storage(faster)), forecast(run, storage(slower))
    if too_vague(fast, slow):
        return
    assert fast.forecast_s <= slow.forecast_s * (1 + 1e-12)
    assert fast.ceiling_s == slow.ceiling_s <= fast.forecast_s * (1 + 1e-12)


@given(
    LOADS,
    st.dictionaries(st.sampled_from(KEYS), LATENCY_NS, min_size=1),
    st.floats(1.01, 100.0),
)
@settings(max_examples=30)
def test_storage_scaled_by_a_factor_is_forecast_slower(loads, measured, factor):
    run = make(loads, 1)
    destination = storage(measured)
    fast, slow = forecast(run, destination), forecast(run, destination.scaled(factor, "slower"))
    if {op for op, _ in loads} <= {op for op, _ in measured}:
        if too_vague(fast, slow):
            return
        # Latencies are whole nanoseconds.
        rounding_s = 1e-9 * sum(times for times, _ in loads.values())
        assert fast.forecast_s <= slow.forecast_s + rounding_s
    else:
        assert fast.refused
        assert slow.refused == fast.refused.replace("target", "slower")

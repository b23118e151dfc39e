"""The interval contains the forecast and widens with confidence and uncertainty."""

import tracemalloc
from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from cases import cases
from evidence import recording, storage
from spillcast.errors import OptionInvalid
from spillcast.forecast import forecast
from spillcast.forecast.interval import DRAWS, Uncertainty
from spillcast.forecast.question import Question
from spillcast.stats import resampled_means
from spillcast.storage import Storage
from spillcast.storage.source import PROBE

BIG = 256 * 1024
TARGET = {("read", BIG): 300_000}


@pytest.fixture(scope="module")
def run(tmp_path_factory):
    path = tmp_path_factory.mktemp("interval") / "run.spill"
    return recording(path, [("read", BIG, 1000, 2_000_000)], elapsed_s=4.0)


@given(st.floats(0.5, 0.98), st.floats(0.005, 0.019))
@settings(max_examples=25)
def test_the_interval_widens_with_confidence(run, confidence, more):
    low, high = forecast(run, storage(TARGET), confidence=confidence).interval_s
    wider_low, wider_high = forecast(run, storage(TARGET), confidence=confidence + more).interval_s
    assert wider_low <= low <= high <= wider_high


@given(st.integers(0, 100_000_000), st.sampled_from(["probe", "asked"]), st.floats(0.5, 0.999))
@settings(max_examples=50)
def test_the_interval_contains_the_forecast(run, latency_ns, source, confidence):
    target = storage({("read", BIG): latency_ns}, source=source)
    answer = forecast(run, target, confidence=confidence)
    low, high = answer.interval_s
    assert low <= answer.forecast_s <= high
    assert answer.confidence == confidence


@cases("option", [{"confidence": 1.0}, {"confidence": 90.0}, {"elapsed_s": -1.0}])
def test_an_impossible_option_is_refused_by_its_name(run, option):
    with pytest.raises(OptionInvalid, match=next(iter(option)).removesuffix("_s")):
        forecast(run, storage(TARGET), **option)
    impossible = dict.fromkeys(option, float("nan"))
    with pytest.raises(OptionInvalid):
        forecast(run, storage(TARGET), **impossible)


def test_an_invalid_value_is_refused_by_the_name_of_its_option():
    impossible = {"executors": 0, "cores": -1, "memory_bytes": 0, "method": "guess"}
    for name, value in [*impossible.items(), ("cpus", 10**30), ("memory_bytes", 1 << 63)]:
        with pytest.raises(OptionInvalid, match=f"--{name.removesuffix('_bytes')} "):
            Question(**{name: value})


def test_an_assumed_latency_is_less_certain_than_a_measured_one(run):
    def width(source):
        low, high = forecast(run, storage(TARGET, source=source)).interval_s
        return high - low

    assert width("asked") > width("probe")


def test_an_unsteady_storage_is_less_certain_than_a_steady_one(run):
    steady = storage(TARGET)
    blocks = {"block_count": [100] * 10, "block_mean_ns": [100_000, 500_000] * 5}
    unsteady = Storage("target", PROBE, [replace(steady.groups[0], **blocks)])
    narrow, wide = (forecast(run, destination).interval_s for destination in (steady, unsteady))
    assert wide[1] - wide[0] > narrow[1] - narrow[0]


def test_a_measurement_of_a_day_is_resampled_in_little_memory():
    """A storage that was observed for a long time has one block per second."""
    latency_s = np.random.default_rng(1).gamma(4, 0.001, 20_000)
    blocks = np.column_stack([np.full(len(latency_s), 10.0), latency_s])
    tracemalloc.start()
    means = resampled_means(blocks, np.random.default_rng(0), DRAWS)
    _, peak_bytes = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert peak_bytes < 200 << 20
    error = latency_s.std() / latency_s.mean() / len(latency_s) ** 0.5
    assert means.mean() == pytest.approx(1, abs=error)
    assert means.std() == pytest.approx(error, rel=0.1)


def test_a_small_number_of_operations_varies_between_runs(tmp_path):
    """60 operations whose standard deviation equals their mean vary by 13 % between runs."""
    made = recording(tmp_path / "r.spill", [("read", BIG, 60, 2_000_000)], elapsed_s=0.121)
    draws = np.random.default_rng(7)
    took_ns = draws.exponential(5_000_000, (1000, 50)).mean(axis=1).astype(int).tolist()
    blocks = {"block_count": [50] * 1000, "block_mean_ns": took_ns}
    group = replace(storage({("read", BIG): 5_000_000}).groups[0], **blocks)
    low, high = forecast(made, Storage("target", PROBE, [group])).interval_s
    runs = 0.001 + draws.exponential(0.005, (10_000, 60)).sum(axis=1)
    assert np.mean((low <= runs) & (runs <= high)) > 0.88


def test_a_single_operation_of_its_size_does_not_prevent_a_forecast(tmp_path):
    """On a busy storage it may take long, but it is one of a thousand."""
    loads = [("read", BIG, 1000, 1_000_000), ("read", 4096, 1, 1_000_000)]
    made = recording(tmp_path / "r.spill", loads, elapsed_s=2.0)
    steady = storage({("read", BIG): 1_000_000, ("read", 4096): 1_000_000})
    stalls = {"block_count": [100] * 10, "block_mean_ns": [100_000] * 9 + [30_000_000]}
    groups = [replace(item, **stalls) if item.bytes == 4096 * item.count else item
              for item in steady.groups]  # fmt: skip
    answer = forecast(made, Storage("target", PROBE, groups))
    assert answer.refused is None
    assert answer.interval_s[1] < 2 * answer.forecast_s


def test_a_bound_without_information_is_not_shown(run):
    """4 s of an hour were seen: temp I/O may be all of it, or hardly any."""
    answer = forecast(run, storage({("read", BIG): 1_000_000}), elapsed_s=3600)
    assert answer.ceiling_interval_s[0] == 0.0
    assert "none can bring it under" not in answer.sentence()
    assert answer.ceiling_interval_s[1] > answer.ceiling_s > 0


def test_the_same_evidence_gives_the_same_interval(run):
    first, second = (forecast(run, storage(TARGET)).interval_s for _ in range(2))
    assert first == second


def test_an_estimate_is_drawn_with_its_spread_below_and_above():
    """Totals with a normal logarithm, twice as wide above the forecast as below."""
    logs = np.random.default_rng(0).normal(0, 0.1, DRAWS)
    drawn_s = 10 * np.exp(np.where(logs > 0, 2 * logs, logs))
    answer = Uncertainty.of(10.0, 4.0, drawn_s, "recording", "slow to fast")
    assert answer.rest_share == pytest.approx(0.4)
    assert (answer.below, answer.above) == (
        pytest.approx(0.1, rel=0.1),
        pytest.approx(0.2, rel=0.1),
    )


@cases(("target_ns", "direction"), [(300_000, "slow to slow"), (30_000, "slow to fast")])
def test_a_forecast_names_the_sources_of_its_interval(run, target_ns, direction):
    """2 s of temp I/O in 4 s; copying 256 KiB from memory takes 30 us."""
    answer = forecast(run, storage({("read", BIG): target_ns}))
    result = answer.uncertainty
    assert (result.kind, result.direction) == ("recording", direction)
    assert result.forecast_s == answer.forecast_s
    assert result.rest_share == pytest.approx(2 / answer.forecast_s)
    assert result.bounds_s(answer.confidence) == answer.interval_s

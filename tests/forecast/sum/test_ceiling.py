"""The ceiling is a forecast for storage that takes no time, and has an interval of its own."""

import json
from math import exp

import pytest

from evidence import change, recording, storage
from harness import spillcast
from spillcast.calibrated import calibrated
from spillcast.forecast import forecast
from spillcast.recording.meta import CpuCache, Machine

US, MS = 1_000, 1_000_000
#: 1,000 reads of 1 ms in 11 s.
LOADS = [("read", 8192, 1000, MS)]
#: The wait in one of the reads: the rest of its latency copies 8 KiB from memory.
WAIT_NS = MS - round(1e9 * (calibrated().memory_s + 8192 / calibrated().memory_bytes_per_s))
#: After such a wait the whole cache is cold, which costs 1 ms.
CACHE = CpuCache(8 << 20, 100 * US, [(WAIT_NS, 1 * MS), (5 * MS, 3 * MS)])


@pytest.fixture
def run(tmp_path):
    return recording(tmp_path / "run.spill", LOADS, elapsed_s=11.0, cpu_s=9.0)


@pytest.fixture
def cold(run):
    """The same run on a machine whose cache goes cold."""
    change(run, machine=Machine(caches=[CACHE]))
    return run


def reads(latency_ns):
    return storage({("read", 8192): latency_ns})


def test_caches_stay_warm_where_nothing_waits(cold):
    """1 ms less after each read, whatever the target, even one slower than the source."""
    for latency_ns in (0, 100 * US, MS, 5 * MS):
        answer = forecast(cold, reads(latency_ns))
        assert answer.ceiling_s == pytest.approx(10.0 - 1.0)
        assert answer.ceiling_s <= answer.forecast_s
    assert forecast(cold, reads(0)).forecast_s == pytest.approx(9.0)


def test_the_interval_of_the_ceiling_is_that_of_a_forecast_without_temp_io(run):
    """Nothing is drawn here: only the error of verified forecasts remains."""
    residuals = calibrated().residuals
    category = residuals.category("recording", "slow to fast")
    for confidence in (0.8, 0.9):
        off = category.quantile(confidence, residuals.levels) * category.factor
        off *= residuals.rest_spread
        answer = forecast(run, reads(0), confidence=confidence)
        bounds_s = (10 * exp(-off), 10 * exp(off))
        assert answer.ceiling_interval_s == pytest.approx(bounds_s)


def test_uncertain_cpu_time_widens_the_interval_of_the_ceiling(run):
    plain = forecast(run, reads(100 * US))
    change(run, machine=Machine(caches=[CACHE]))
    cold = forecast(run, reads(100 * US))
    low, high = (end / cold.ceiling_s for end in cold.ceiling_interval_s)
    plain_low, plain_high = (end / plain.ceiling_s for end in plain.ceiling_interval_s)
    assert low < plain_low < 1 < plain_high < high


def test_the_sentence_names_the_lower_end_of_the_ceiling(run):
    answer = forecast(run, reads(100 * US))
    low_s, _ = answer.ceiling_interval_s
    assert low_s < answer.ceiling_s
    assert f"about 10 s, and none can bring it under {low_s:.3g} s." in answer.sentence()
    assert answer.to_json()["ceiling_interval_s"] == list(answer.ceiling_interval_s)


def test_without_a_target_the_document_is_that_of_the_ceiling(spilled):
    document = json.loads(spillcast("forecast", spilled.path, "--json").stdout)
    for limit, forecast_of_it in (
        ("ceiling_s", "forecast_s"),
        ("ceiling_interval_s", "interval_s"),
    ):
        assert document[limit] == document[forecast_of_it]
    assert sum(t["forecast_s"] for t in document["terms"]) == pytest.approx(document["ceiling_s"])
    named = spillcast("forecast", spilled.path, "--to", "limits:latency=0ms", "--json")
    assert json.loads(named.stdout)["target"] == "limits:latency=0ms"


def test_no_interval_starts_below_the_ceiling(run):
    for latency_ns in (0, 10 * US, 100 * US, MS, 5 * MS):
        answer = forecast(run, reads(latency_ns))
        assert answer.ceiling_interval_s[0] <= answer.interval_s[0]


def test_a_target_without_figures_has_a_ceiling(cold):
    answer = forecast(cold, storage({("write", 8192): MS}))
    assert answer.refused
    assert answer.ceiling_s == pytest.approx(9.0)
    assert answer.ceiling_interval_s[0] < 9.0 < answer.ceiling_interval_s[1]


def test_a_refused_recording_has_no_interval_of_the_ceiling(run):
    change(run, capture=run.meta.capture.__class__("perf", io_uring=True))
    answer = forecast(run, reads(100 * US))
    assert answer.refused
    assert answer.ceiling_interval_s is None


def test_a_small_gain_is_judged_by_the_ceiling(tmp_path):
    """Temp I/O is 5 % of the time; with the caches that it makes cold it accounts for a quarter."""
    run = recording(tmp_path / "little.spill", LOADS, elapsed_s=20.0, cpu_s=19.0)
    assert "little-io" in {item.code for item in forecast(run, reads(100 * US)).warnings}
    change(run, machine=Machine(caches=[CpuCache(8 << 20, 100 * US, [(WAIT_NS, 4 * MS)])]))
    answer = forecast(run, reads(100 * US))
    assert answer.ceiling_s == pytest.approx(19.0 - 4.0)
    assert "little-io" not in {item.code for item in answer.warnings}

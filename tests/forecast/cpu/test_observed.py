"""The cost of recording is subtracted, within and outside temp operations; checked by hand."""

from math import hypot

import pytest

from cases import cases
from evidence import recording, storage
from spillcast.forecast import forecast
from spillcast.forecast.result import RECORDING
from spillcast.forecast.workload.recorded import capture_overhead, recorded_loads

#: 1.9 s of temp I/O in a run of 10 s: 700 of the 1,700 observed calls.
LOADS = [("read", 8192, 500, 2_000_000), ("write", 8192, 200, 4_500_000)]
TARGET = {("read", 8192): 100_000, ("write", 8192): 500_000}
#: 500 * 0.1 ms + 200 * 0.5 ms
TARGET_S = 0.05 + 0.1
#: 1 ms per call and 2 ms per context switch: 1.7 s and 0.2 s.
COST = {
    "calls": 1700, "switches": 100, "call_cost_s": 1e-3, "switch_cost_s": 2e-3,
    "overhead_s": 1.9, "overhead_low_s": 1.9, "overhead_high_s": 1.9,
}  # fmt: skip
#: Half of a temp call's cost lies inside its measured time: 700 * 0.5 ms. The rest lies outside.
INSIDE_S, OUTSIDE_S = 0.35, 1.55


@pytest.fixture
def run(tmp_path):
    return recording(tmp_path / "run.spill", LOADS, elapsed_s=10.0, cpu_s=7.0, **COST)


def test_the_cost_of_recording_is_not_in_the_forecast(run):
    answer = forecast(run, storage(TARGET))
    assert answer.baseline_s == 10.0
    assert answer.forecast_s == pytest.approx(8.1 - OUTSIDE_S + TARGET_S)
    assert answer.ceiling_s == pytest.approx(8.1 - OUTSIDE_S)


def test_the_cost_of_recording_is_a_term_and_the_terms_add_up(run):
    answer = forecast(run, storage(TARGET))
    by = {term.name: term for term in answer.terms}
    assert (by[RECORDING].baseline_s, by[RECORDING].forecast_s) == (pytest.approx(1.9), 0.0)
    assert by["CPU"].baseline_s == by["CPU"].forecast_s == pytest.approx(7.0 - OUTSIDE_S)
    assert by["other waits"].forecast_s == pytest.approx(1.1)
    assert by["temp read"].baseline_s == pytest.approx(1.0 - 500 * 0.5e-3)
    assert sum(term.baseline_s for term in answer.terms) == pytest.approx(10.0)
    assert sum(term.forecast_s for term in answer.terms) == pytest.approx(answer.forecast_s)


def test_without_the_cost_estimator_nothing_is_subtracted(run):
    answer = forecast(run, storage(TARGET), without=["cost"])
    assert answer.forecast_s == pytest.approx(8.1 + TARGET_S)
    assert RECORDING not in {term.name for term in answer.terms}


def test_the_cost_in_a_part_is_scaled_to_the_whole(run):
    answer = forecast(run, storage(TARGET), elapsed_s=30.0)
    assert answer.forecast_s == pytest.approx(3 * (8.1 - OUTSIDE_S + TARGET_S))


def test_the_cost_of_a_switch_inside_a_temp_call_is_subtracted_there(run):
    """Half of the temp calls were scheduled out: 700 * (0.5 ms + 2 ms / 2) of the 1.9 s."""
    waits = run.waits
    blocked = [number % 2 == 0 for number in range(waits.num_rows)]
    run.waits = waits.with_column("blocked", blocked)
    overhead = capture_overhead(run, recorded_loads(run))
    assert overhead.operation_s == pytest.approx(1.5e-3)
    assert overhead.outside_s == pytest.approx(1.9 - 700 * 1.5e-3)


def test_the_error_of_the_cost_combines_measurement_and_attribution(tmp_path):
    """Quartiles 1.349 s apart are a standard deviation of 1 s, of which 1.55 / 1.9 is outside."""
    spread = COST | {"overhead_low_s": 1.5, "overhead_high_s": 2.849}
    run = recording(tmp_path / "spread.spill", LOADS, elapsed_s=10.0, cpu_s=7.0, **spread)
    overhead = capture_overhead(run, recorded_loads(run))
    off_s = hypot(OUTSIDE_S / 1.9, 0.5 * OUTSIDE_S, 0.25 * 700 * 1e-3)
    assert overhead.error_s == pytest.approx(off_s)


def test_the_error_of_the_cost_widens_the_interval(run, tmp_path):
    """0.8 s in 6.7 s is more than a tenth; the interval widens with the cost."""
    bare = recording(tmp_path / "bare.spill", LOADS, elapsed_s=10.0, cpu_s=7.0)
    widths = []
    for item in (bare, run):
        answer = forecast(item, storage(TARGET))
        low_s, high_s = answer.interval_s
        widths.append((high_s - low_s) / answer.forecast_s)
    assert widths[1] > widths[0] + 0.1


def test_the_cost_is_divided_among_parallel_threads(tmp_path):
    """Both did all of the I/O at the same time, so the run lost half of what they lost together."""
    twice = {key: value * 2 for key, value in COST.items() if "cost" not in key}
    run = recording(
        tmp_path / "two.spill", LOADS, elapsed_s=10.0, cpu_s=12.0, sessions=2, **COST | twice
    )
    answer = forecast(run, storage(TARGET))
    assert answer.ceiling_s == pytest.approx(8.1 - OUTSIDE_S, rel=0.01)


def test_the_subtracted_cost_is_limited(tmp_path):
    """At most half of the 8.1 s outside, and at most the duration of each operation."""
    much = COST | {"call_cost_s": 1.0, "overhead_s": 1700.0}
    answer = forecast(
        recording(tmp_path / "much.spill", LOADS, elapsed_s=10.0, **much), storage(TARGET)
    )
    assert answer.ceiling_s == pytest.approx(8.1 / 2)
    assert all(term.baseline_s >= 0 for term in answer.terms)
    assert sum(term.baseline_s for term in answer.terms) == pytest.approx(10.0)


@cases("missing", ["call_cost_s", "calls", "overhead_s"])
def test_an_unmeasured_cost_is_not_subtracted(tmp_path, missing):
    """As in recordings of earlier versions, or where the measurement failed."""
    run = recording(tmp_path / "run.spill", LOADS, elapsed_s=10.0, **COST | {missing: None})
    answer = forecast(run, storage(TARGET))
    assert answer.forecast_s == pytest.approx(8.1 + TARGET_S)

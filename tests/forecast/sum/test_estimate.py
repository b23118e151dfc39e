"""Forecasts equal arithmetic done by hand."""

import pytest

from cases import cases
from evidence import recording, storage
from spillcast.errors import InputError, NotSpilled
from spillcast.forecast import forecast
from spillcast.storage.target import resolve

KIB = 1024
BIG, SMALL = 256 * KIB, 48 * KIB
#: 400 * 2 ms + 100 * 1 ms + 200 * 5 ms = 1.9 s of temp I/O in a run of 10 s.
LOADS = [
    ("read", BIG, 400, 2_000_000),
    ("read", SMALL, 100, 1_000_000),
    ("write", BIG, 200, 5_000_000),
]
THERE = {("read", BIG): 150_000, ("read", SMALL): 90_000, ("write", BIG): 1_200_000}
#: 400 * 150 us + 100 * 90 us + 200 * 1.2 ms
THERE_S = 0.06 + 0.009 + 0.24


@pytest.fixture
def run(tmp_path):
    return recording(tmp_path / "run.spill", LOADS, elapsed_s=10.0, cpu_s=7.0)


def terms(said):
    return {(term.name, term.bytes): term for term in said.terms}


def test_counts_times_latencies(run):
    said = forecast(run, storage(THERE))
    assert said.baseline_s == 10.0
    assert said.ceiling_s == pytest.approx(8.1)
    assert said.forecast_s == pytest.approx(8.1 + THERE_S)
    assert said.speedup == pytest.approx(10 / (8.1 + THERE_S))
    assert said.refused is None
    assert said.method == "counts"


def test_the_terms_are_what_the_number_is_the_sum_of(run):
    said = forecast(run, storage(THERE))
    assert sum(term.baseline_s for term in said.terms) == pytest.approx(said.baseline_s)
    assert sum(term.forecast_s for term in said.terms) == pytest.approx(said.forecast_s)
    by = terms(said)
    assert by["CPU", None].forecast_s == 7.0
    assert by["other waits", None].forecast_s == pytest.approx(1.1)
    small = by["temp read", 100 * SMALL]
    assert (small.count, small.baseline_s, small.forecast_s) == (
        100, pytest.approx(0.1), pytest.approx(0.009)
    )  # fmt: skip
    write = by["temp write", 200 * BIG]
    assert (write.count, write.baseline_s, write.forecast_s) == (
        200, pytest.approx(1.0), pytest.approx(0.24)
    )  # fmt: skip


def test_a_part_of_the_query_is_scaled_to_the_whole(run):
    said = forecast(run, storage(THERE), elapsed_s=30.0)
    assert said.baseline_s == 30.0
    assert said.ceiling_s == pytest.approx(3 * 8.1)
    assert said.forecast_s == pytest.approx(3 * (8.1 + THERE_S))


def test_storage_of_no_latency_is_the_ceiling(run):
    said = forecast(run, storage(dict.fromkeys(THERE, 0)))
    assert said.forecast_s == pytest.approx(said.ceiling_s)


def test_factor_divides_every_latency(run):
    said = forecast(run, resolve("factor:10", run))
    assert said.forecast_s == pytest.approx(8.1 + 0.19)
    assert "not-measured" in {warning.code for warning in said.warnings}


def test_latency_is_the_same_for_every_operation(run):
    said = forecast(run, resolve("latency:150us", run))
    assert said.forecast_s == pytest.approx(8.1 + 700 * 150e-6)


def test_a_recording_as_a_target_is_its_own_storage(run):
    said = forecast(run, resolve(str(run.path), run))
    assert said.forecast_s == pytest.approx(10.0)
    assert said.speedup == pytest.approx(1.0)


def test_operations_at_the_same_time_share_the_time(tmp_path):
    run = recording(tmp_path / "run.spill", LOADS, elapsed_s=10.0, cpu_s=12.0, sessions=2)
    said = forecast(run, storage(THERE))
    # Two sessions do 1.9 s each, all of it together; a microsecond lies between two operations.
    assert said.ceiling_s == pytest.approx(8.1, rel=1e-3)
    assert said.forecast_s == pytest.approx(8.1 + THERE_S, rel=1e-3)
    assert "threads" in {warning.code for warning in said.warnings}


@cases("target", ["factor:0", "factor:-1", "factor:x", "latency:soon", "nowhere"])
def test_what_is_no_target_is_bad_input(run, target):
    with pytest.raises(InputError):
        resolve(target, run)


def test_a_run_that_did_not_spill_is_refused(tmp_path):
    run = recording(tmp_path / "run.spill", [("read", 0, 3, 1000)], elapsed_s=1.0)
    with pytest.raises(NotSpilled):
        forecast(run, storage(THERE))


def test_an_unmeasured_size_lies_between_the_measured_ones(tmp_path):
    run = recording(tmp_path / "run.spill", [("read", 64 * KIB, 100, 1_000_000)], elapsed_s=1.0)
    # 100 us + 1 us a KiB, so 164 us at 64 KiB.
    there = storage({("read", 32 * KIB): 132_000, ("read", 128 * KIB): 228_000})
    said = forecast(run, there)
    assert said.forecast_s == pytest.approx(0.9 + 100 * 164e-6)
    assert "sizes" in {warning.code for warning in said.warnings}

"""Forecasts equal arithmetic done by hand."""

import pytest

from cases import cases
from evidence import recording, storage, warned
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
TARGET = {("read", BIG): 150_000, ("read", SMALL): 90_000, ("write", BIG): 1_200_000}
#: 400 * 150 us + 100 * 90 us + 200 * 1.2 ms
TARGET_S = 0.06 + 0.009 + 0.24


@pytest.fixture
def run(tmp_path):
    return recording(tmp_path / "run.spill", LOADS, elapsed_s=10.0, cpu_s=7.0)


def terms(answer):
    return {(term.name, term.bytes): term for term in answer.terms}


@cases(
    ("target", "io_s"),
    [
        (storage(TARGET), TARGET_S),
        (storage(dict.fromkeys(TARGET, 0)), 0.0),
        ("factor:10", 0.19),
        ("latency:150us", 700 * 150e-6),
        # A recording is its own storage.
        ("run.spill", 1.9),
    ],
)
def test_temp_io_is_counts_times_latencies(run, target, io_s):
    if isinstance(target, str):
        target = resolve(target.replace("run.spill", str(run.path)), run)
    answer = forecast(run, target)
    assert (answer.baseline_s, answer.refused, answer.method) == (10.0, None, "counts")
    assert answer.ceiling_s == pytest.approx(8.1)
    assert answer.forecast_s == pytest.approx(8.1 + io_s)
    assert answer.speedup == pytest.approx(10 / (8.1 + io_s))
    is_measured = "not-measured" not in warned(answer)
    assert is_measured == (target.source.name != "asked")


def test_the_terms_add_up_to_the_forecast(run):
    answer = forecast(run, storage(TARGET))
    assert sum(term.baseline_s for term in answer.terms) == pytest.approx(answer.baseline_s)
    assert sum(term.forecast_s for term in answer.terms) == pytest.approx(answer.forecast_s)
    by = terms(answer)
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
    answer = forecast(run, storage(TARGET), elapsed_s=30.0)
    assert answer.baseline_s == 30.0
    assert answer.ceiling_s == pytest.approx(3 * 8.1)
    assert answer.forecast_s == pytest.approx(3 * (8.1 + TARGET_S))


def test_parallel_operations_share_the_time(tmp_path):
    run = recording(tmp_path / "run.spill", LOADS, elapsed_s=10.0, cpu_s=12.0, sessions=2)
    answer = forecast(run, storage(TARGET))
    # Two sessions do 1.9 s of I/O each, in parallel; 1 us passes between two operations.
    assert answer.ceiling_s == pytest.approx(8.1, rel=1e-3)
    assert answer.forecast_s == pytest.approx(8.1 + TARGET_S, rel=1e-3)
    assert "threads" in warned(answer)


@cases("target", ["factor:0", "factor:-1", "factor:x", "latency:soon", "nowhere"])
def test_an_invalid_target_is_refused(run, target):
    with pytest.raises(InputError):
        resolve(target, run)


def test_a_run_that_did_not_spill_is_refused(tmp_path):
    run = recording(tmp_path / "run.spill", [("read", 0, 3, 1000)], elapsed_s=1.0)
    with pytest.raises(NotSpilled):
        forecast(run, storage(TARGET))


def test_an_unmeasured_size_lies_between_the_measured_ones(tmp_path):
    run = recording(tmp_path / "run.spill", [("read", 64 * KIB, 100, 1_000_000)], elapsed_s=1.0)
    # 100 us + 1 us a KiB, so 164 us at 64 KiB.
    target = storage({("read", 32 * KIB): 132_000, ("read", 128 * KIB): 228_000})
    answer = forecast(run, target)
    assert answer.forecast_s == pytest.approx(0.9 + 100 * 164e-6)
    assert "sizes" in warned(answer)

"""Recordings of a part of a query: the less was seen the wider the interval, up to a refusal."""

from dataclasses import replace

import pytest

from evidence import change, recording, storage, warned
from spillcast.forecast import forecast
from spillcast.recording.meta import KeptWaits
from spillcast.recording.schema import SECONDS
from spillcast.storage.source import catalogue
from spillcast.tables import Table
from spillcast.units import format_bytes

MS, BIG = 1_000_000, 256 * 1024
LOADS = [("write", BIG, 200, 2 * MS), ("read", BIG, 200, 2 * MS)]
TEN_SLICES = KeptWaits(400, 400, [(n, n + 1.0) for n in range(10)], slices_of_all=True)
TARGET = {("read", BIG): MS // 2, ("write", BIG): MS // 4}


def twenty_seconds(path, loads):
    """Twenty seconds, in each of which half of the time is temp I/O."""
    made = recording(path, [(op, size, 25, ns) for op, size, _, ns in loads] * 100, elapsed_s=20.0)
    shares = [
        row | {"second": second, **{key: row[key] // 20 for key in ("count", "bytes", "total_ns")}}
        for second in range(20)
        for row in made.seconds.to_pylist()
    ]
    made.seconds = Table.from_rows(shares, SECONDS)
    return made


@pytest.fixture
def run(tmp_path):
    return twenty_seconds(tmp_path / "run.spill", LOADS)


def test_a_part_is_scaled_and_has_a_wider_interval(run):
    whole, part = forecast(run, storage(TARGET)), forecast(run, storage(TARGET), elapsed_s=200.0)
    assert part.forecast_s == pytest.approx(10 * whole.forecast_s)
    assert part.half_width > 1.5 * whole.half_width
    assert "part" in warned(part)
    assert "part" not in warned(whole)


def test_slices_of_the_whole_run_are_more_certain_than_its_first_part(run):
    stretch = forecast(run, storage(TARGET), elapsed_s=200.0)
    change(run, raw=TEN_SLICES)
    assert forecast(run, storage(TARGET), elapsed_s=200.0).half_width < stretch.half_width


def test_rare_slow_operations_average_out_in_slices(run):
    """One in four takes nine times as long as the others; the mean of a few is uncertain."""
    stalls = storage(TARGET)
    groups = [replace(g, block_count=[25] * 40, block_mean_ns=[MS // 4] * 30 + [9 * MS // 4] * 10)
              for g in stalls.groups]  # fmt: skip
    change(run, raw=TEN_SLICES)
    few = forecast(run, replace(stalls, groups=groups), elapsed_s=21.5)
    many = forecast(run, replace(stalls, groups=groups), elapsed_s=2000.0)
    assert many.uncertainty.above < few.uncertainty.above


def test_slices_of_two_phases_give_the_duration_of_both(tmp_path):
    """200 of 210 s are temp I/O; reads are four times as fast on the target, writes eight times."""
    loads = [("write", BIG, 2500, 2 * MS), ("read", BIG, 2500, 2 * MS)]
    run = recording(tmp_path / "run.spill", loads, elapsed_s=10.5)
    change(run, raw=TEN_SLICES)
    whole, part = forecast(run, storage(TARGET)), forecast(run, storage(TARGET), elapsed_s=210.0)
    assert part.forecast_s == pytest.approx(20 * whole.forecast_s)
    low_s, high_s = part.interval_s
    # Five of ten slices write. In ten other slices it could be three to seven.
    few_s, many_s = (10 + 200 * (1 - share) / 4 + 200 * share / 8 for share in (0.7, 0.3))
    assert low_s < few_s < part.forecast_s < many_s < high_s
    assert part.half_width < 0.25


def test_written_data_will_be_read(tmp_path):
    run = twenty_seconds(tmp_path / "run.spill", LOADS[:1] * 2)
    answer = forecast(run, storage(TARGET), elapsed_s=30.0)
    [warning] = [warning for warning in answer.warnings if warning.code == "unread"]
    assert format_bytes(5000 * BIG) in warning.message
    assert "unread" not in warned(forecast(run, storage(TARGET)))


def test_a_part_without_its_reads_is_less_certain(run, tmp_path):
    writes = twenty_seconds(tmp_path / "writes.spill", LOADS[:1] * 2)
    both, alone = (forecast(item, storage(TARGET), elapsed_s=30.0) for item in (run, writes))
    assert both.half_width < 0.6 * alone.half_width
    # A tenth of the query in which nothing was read allows no statement.
    assert forecast(writes, storage(TARGET), elapsed_s=200.0).refused


def test_an_interval_without_information_is_a_refusal(run):
    """A catalogue row with an error of up to 100 times, for a run of nearly only temp I/O."""
    latencies = {key: 100 * MS for key in TARGET}
    vague = replace(storage(latencies), source=catalogue(100.0, "a brochure"))
    change(run, elapsed_s=10.1)
    answer = forecast(run, vague)
    assert answer.forecast_s is None
    assert answer.interval_s is None
    assert "between" in answer.refused

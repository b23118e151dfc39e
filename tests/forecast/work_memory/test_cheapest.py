"""The cheapest cell that is fast enough, and the time of memory sizes between measured ones."""

from dataclasses import replace
from itertools import product

import pytest

import evidence
import made_up
from cases import cases
from spillcast.forecast.caveat import Caveat
from spillcast.forecast.result import Forecast, Term
from spillcast.forecast.work_memory import NOW, MemoryCell, cheapest
from spillcast.lab.memory_result import MemoryCurve, MemoryRun
from spillcast.report.work_memory import advice_text, memory_cells
from spillcast.storage.interpolation import MeasuredCell
from spillcast.units import format_duration, format_interval

M = 1 << 20
CELLS = [
    MemoryCell("disk", M, 100.0, (90.0, 110.0)),
    MemoryCell("disk", 4 * M, 58.0, (50.0, 70.0)),
    MemoryCell("disk", 16 * M, 30.0, (28.0, 33.0)),
    MemoryCell("flash", M, 40.0, (35.0, 45.0)),
    MemoryCell("flash", 4 * M, 35.0, (33.0, 38.0)),
]


@cases(
    ("within_s", "costs", "storage", "memory", "sure"),
    [
        (60, {}, "flash", M, True),
        (44, {}, "flash", M, False),
        (36, {}, "flash", 4 * M, False),
        (32, {}, "disk", 16 * M, False),
        (60, {"disk": 1, "flash": 5}, "disk", 4 * M, False),
        (40, {"disk": 1, "flash": 5}, "disk", 16 * M, True),
        (60, {"flash": 5}, "flash", M, True),
    ],
)
def test_the_cheapest_fast_enough_cell_is_chosen(within_s, costs, storage, memory, sure):
    advice = cheapest(CELLS, within_s, costs)
    assert (advice.cell.storage, advice.cell.memory_bytes) == (storage, memory)
    assert advice.sure is sure
    assert advice.by == ("price" if costs else "memory")


def test_without_a_fast_enough_cell_there_is_no_choice():
    assert cheapest(CELLS, 10, {}).cell is None
    assert cheapest(CELLS, 39, {"disk": 1}).cell == CELLS[2]


def test_without_a_plan_cells_have_the_present_memory():
    terms = [Term("CPU", None, None, None, 10, 10), Term("temp read", "read", 8192, 1, 50, 20)]
    answer = made_up.forecast(
        target="there",
        baseline_s=60.0,
        forecast_s=30.0,
        interval_s=(25.0, 36.0),
        ceiling_s=10.0,
        terms=terms,
    )
    refused = Forecast.unanswered("nowhere", 60.0, 0.9, refused="no figures")
    cells = memory_cells(["b", "a"], [refused, answer])
    assert cells == [MemoryCell(NOW, None, 60.0), MemoryCell("a", None, 30.0, (25.0, 36.0))]
    assert cheapest(cells, 30, {}).cell == cells[1]
    assert memory_cells(["b"], [refused]) == []


def test_of_bounds_the_upper_one_counts_and_their_middle_is_not_shown():
    unknown = Caveat("time-unknown", "how long temp I/O took is not known")
    answer = made_up.forecast(
        target="there",
        baseline_s=60.0,
        forecast_s=37.0,
        interval_s=(20.0, 54.0),
        ceiling_s=4.0,
        warnings=[unknown],
    )
    cells = memory_cells(["there"], [answer])
    assert cheapest(cells, 53, {}).cell is None
    advice = cheapest(cells, 55, {})
    assert advice.sure
    text = advice_text(advice)
    assert "there" in text
    assert format_interval((20.0, 54.0)) in text
    assert format_duration(37.0) not in text


@cases(
    ("now_s", "costs", "cell"),
    [
        # Without the present time as a limit, the slow disk would be the cheapest.
        (36.0, {}, CELLS[4]),
        (30.0, {"disk": 1, "flash": 5}, CELLS[2]),
        # The present time counts as fast enough, even with rounded sums.
        (58.0 * (1 - 1e-15), {"disk": 1}, CELLS[1]),
        (29.0, {}, None),
        (1000.0, {"disk": 1}, CELLS[0]),
    ],
)
def test_a_cell_slower_than_the_present_is_never_advised(now_s, costs, cell):
    advice = cheapest(CELLS, 500, costs, now_s)
    assert advice.cell == cell
    if cell is None:
        assert "29 s" in advice_text(advice)


#: Latency of reads and writes by storage, in ns.
STORAGES = {"fast": (5000, 8000), "slow": (1_000_000, 2_000_000)}

REST_S, CPU_PER_OPERATION_S = 2.0, 1e-4


def run(storage, memory_bytes, count):
    """``count`` reads and ``count`` writes, and CPU time for each."""
    latencies = STORAGES[storage]
    rest_s = REST_S + 2 * count * CPU_PER_OPERATION_S
    each_ns = zip((("read", 8192), ("write", 8192)), latencies, strict=True)
    groups = evidence.storage(dict(each_ns), times=count).groups
    ops = {group.op: MeasuredCell(0, 0, (group,)) for group in groups if count}
    return MemoryRun(storage, memory_bytes, rest_s + count * sum(latencies) / 1e9, 0.0, ops)


def hybrid(memory_bytes):
    """Data that does not fit in memory is spilled, and 64 MiB suffices."""
    return round(max(0, 64 * M - memory_bytes) / 8192)


@cases(("storage", "size"), product(STORAGES, [12 * M, 20 * M, 40 * M, 60 * M, 64 * M, 90 * M]))
def test_the_spill_is_linear_in_memory(storage, size):
    runs = [run(name, at, hybrid(at)) for name in STORAGES for at in (8 * M, 16 * M)]
    runs.append(run("fast", 128 * M, 0))
    answer = MemoryCurve(runs, enough_bytes=64 * M).at(storage, size)
    truth = run(storage, size, hybrid(size))
    assert answer.counts.get("write", 0) == pytest.approx(hybrid(size), rel=0.01)
    assert answer.spilled_bytes == pytest.approx(truth.spilled_bytes, rel=0.01)
    assert answer.elapsed_s == pytest.approx(truth.elapsed_s, rel=0.01)
    assert answer.interval_s[0] < truth.elapsed_s < answer.interval_s[1]


@cases("size", [2 * M, 3 * M, 4 * M, 8 * M, 16 * M, 32 * M])
def test_the_arithmetic_of_the_engine_places_every_step(size):
    """Three passes, two from 4 MiB, one from 16 MiB, none from 64 MiB: two runs suffice."""

    def passes(memory_bytes):
        return sum(memory_bytes < step * M for step in (4, 16, 64))

    runs = [run(name, at, 1000 * passes(at)) for name in STORAGES for at in (M, 32 * M)]
    runs.append(run("fast", 128 * M, 0))
    curve = MemoryCurve(runs, io_share=passes)
    truth = run("slow", size, 1000 * passes(size))
    assert curve.at("slow", size).counts["read"] == pytest.approx(1000 * passes(size))
    assert curve.at("slow", size).elapsed_s == pytest.approx(truth.elapsed_s, rel=0.01)
    assert not curve.spills(64 * M)
    assert curve.spills(63 * M)


def test_without_a_spill_every_storage_takes_the_same_time():
    runs = [run(name, M, 500) for name in STORAGES] + [run("fast", 4 * M, 0)]
    curve = MemoryCurve(runs)
    for size in (4 * M, 5 * M):
        assert curve.at("slow", size).elapsed_s == REST_S
        assert curve.at("slow", size).counts == {}


@cases(
    ("spilled", "fitted", "stated", "enough"),
    [
        ([8 * M, 16 * M], [], 64 * M, 64 * M),
        ([8 * M, 16 * M], [128 * M, 96 * M], None, 96 * M),
        ([8 * M, 16 * M], [96 * M], 64 * M, 64 * M),
        # It spilled with more memory than a plan calls enough.
        ([8 * M, 16 * M], [], 12 * M, 16 * M + 1),
        ([8 * M, 16 * M], [], None, None),
    ],
)
def test_enough_memory_fitted_or_is_stated_but_exceeds_what_spilled(
    spilled, fitted, stated, enough
):
    runs = [run("slow", at, hybrid(at)) for at in spilled] + [run("slow", at, 0) for at in fitted]
    curve = MemoryCurve(runs, enough_bytes=stated)
    for size in (M, 16 * M, 16 * M + 1, 64 * M - 1, 64 * M, 96 * M - 1, 96 * M, 1 << 40):
        assert curve.spills(size) == (enough is None or size < enough), size


def test_a_size_that_fits_takes_the_time_outside_temp_io_of_a_fitting_run():
    # The run that spilled did other work, so its time is no measure for one that fits.
    spilled = replace(run("slow", 8 * M, 1000), elapsed_s=50.0)
    answer = MemoryCurve([spilled, run("fast", 128 * M, 0)], enough_bytes=32 * M).at("slow", 32 * M)
    assert answer.elapsed_s == REST_S
    assert answer.interval_s[1] < 1.5 * REST_S


def test_an_unknown_count_is_in_the_interval():
    """The spill ends between the runs: right after the first, or right before the last."""
    runs = [run("slow", 8 * M, 2000), run("slow", 64 * M, 0)]
    low_s, high_s = MemoryCurve(runs).at("slow", 32 * M).interval_s
    whole_s = run("slow", 8 * M, 2000).elapsed_s
    assert low_s < REST_S + 0.35 * (whole_s - REST_S)
    assert high_s > REST_S + 0.75 * (whole_s - REST_S)

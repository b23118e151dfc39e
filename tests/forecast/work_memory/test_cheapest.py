"""The cheapest cell that is fast enough, by price or by memory."""

import made_up
from cases import cases
from spillcast.forecast.result import Forecast, Term
from spillcast.forecast.work_memory import NOW, MemoryCell, cheapest
from spillcast.report.work_memory import advice_text, memory_cells

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
def test_the_cheapest(within_s, costs, storage, memory, sure):
    advice = cheapest(CELLS, within_s, costs)
    assert (advice.cell.storage, advice.cell.memory_bytes) == (storage, memory)
    assert advice.sure is sure
    assert advice.by == ("price" if costs else "memory")


def test_nothing_is_fast_enough():
    assert cheapest(CELLS, 10, {}).cell is None
    assert cheapest(CELLS, 39, {"disk": 1}).cell == CELLS[2]


def test_without_a_plan_there_is_memory_as_it_was():
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


@cases(
    ("now_s", "costs", "cell"),
    [
        # Without a bound the slow disk would do, which needs the least memory for its price.
        (36.0, {}, CELLS[4]),
        (30.0, {"disk": 1, "flash": 5}, CELLS[2]),
        # As it is counts as fast enough, also where sums are rounded.
        (58.0 * (1 - 1e-15), {"disk": 1}, CELLS[1]),
        (29.0, {}, None),
        (1000.0, {"disk": 1}, CELLS[0]),
    ],
)
def test_nothing_slower_than_now_is_told_whatever_the_time_allows(now_s, costs, cell):
    advice = cheapest(CELLS, 500, costs, now_s)
    assert advice.cell == cell
    if cell is None:
        assert (
            advice_text(advice) == "Today it takes 29 s, and no memory and storage makes it faster."
        )

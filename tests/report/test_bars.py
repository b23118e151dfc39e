"""Ticks of charts: few and round, from nothing to longer than any run."""

from itertools import product

from cases import cases
from spillcast.report.html.axes import duration_ticks, fitting_durations


@cases(("exponent", "first"), product(range(-9, 19), [1.0, 3.1, 7.7]))
def test_few_ticks_for_any_duration(exponent, first):
    most_s = first * 10.0**exponent
    ticks = duration_ticks(most_s)
    assert ticks[0] == 0
    assert ticks[-1] <= most_s * 1.001
    assert 2 <= len(ticks) <= 8


@cases(("exponent", "first"), product(range(-9, 12), [1.0, 1.9, 3.1, 5.5, 7.7, 9.63]))
def test_ticks_of_an_axis_fit_on_a_phone_and_reach_far(exponent, first):
    """280 px, with letters of 7.2 px: labels are centred, the last one ends at its tick."""
    max_s = first * 10.0**exponent
    ticks = fitting_durations(max_s)
    assert len(ticks) >= 2
    assert ticks[-1][0] >= 0.4 * max_s
    ends = 0.0
    for number, (value, label) in enumerate(ticks):
        width, at = 7.2 * len(label), 280 * value / max_s
        left = at if number == 0 else at - width if at > 0.9 * 280 else at - width / 2
        assert left >= ends
        ends = left + width

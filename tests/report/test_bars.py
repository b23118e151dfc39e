"""Ticks of charts: few and round, from nothing to longer than any run."""

import pytest

from spillcast.report.html.charts import duration_ticks


@pytest.mark.parametrize("exponent", range(-9, 19))
@pytest.mark.parametrize("first", [1.0, 3.1, 7.7])
def test_few_ticks_for_any_duration(exponent, first):
    most_s = first * 10.0**exponent
    ticks = duration_ticks(most_s)
    assert ticks[0] == 0
    assert ticks[-1] <= most_s * 1.001
    assert 2 <= len(ticks) <= 8

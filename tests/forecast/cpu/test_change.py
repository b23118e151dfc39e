"""Combining several estimates of the same change, checked by hand."""

import numpy as np
import pytest

from spillcast.errors import OptionInvalid
from spillcast.forecast.cpu import CpuChange, blended
from spillcast.forecast.projection import ESTIMATORS, estimators_without
from spillcast.forecast.workload.load import Load


def answer(total_s, error_s):
    """The whole change is in the first of two loads."""
    return CpuChange(np.array([total_s / 100, 0.0]), total_s, error_s)


def test_a_single_estimate_is_unchanged():
    item = answer(-2.0, 0.5)
    assert blended([], [item]) is item


def test_estimates_are_weighted_by_inverse_variance():
    """Weights of 1/1 and 1/4: four fifths of -2 and one fifth of -3; the values 1/error² add."""
    result = blended([], [answer(-2.0, 1.0), answer(-3.0, 2.0)])
    assert result.total_s == pytest.approx(-2.2)
    assert result.error_s == pytest.approx(0.8**0.5)


def test_contradicting_estimates_increase_the_error():
    """10 apart with errors of 1 each: (5^2 + 5^2) / 1 = 50 times the variance of 1/2."""
    assert blended([], [answer(-10.0, 1.0), answer(0.0, 1.0)]).error_s == pytest.approx(5.0)


def test_an_estimate_with_a_large_error_hardly_counts():
    sure, wild = answer(-1.0, 0.1), answer(-50.0, 60.0)
    assert blended([], [sure, wild]).total_s == pytest.approx(-1.0, abs=0.001)
    assert blended([], [sure, wild]).error_s == pytest.approx(0.1, rel=0.01)


def test_an_estimator_is_left_out_by_its_name():
    assert set(estimators_without(["machine"])) == set(ESTIMATORS) - {"machine"}
    with pytest.raises(OptionInvalid):
        estimators_without(["a machine"])


def test_without_estimates_no_cpu_time_changes():
    load = Load("read", 8192, 100, 819200, 0.1)
    assert blended([load], [None, None]).total_s == 0

"""Distinct values and groups without sorting, against numpy, which sorts."""

import numpy as np

from cases import cases
from spillcast.tables import ascending, distinct, grouped

DRAW = np.random.default_rng(5)
COLUMNS = {
    "few": DRAW.integers(0, 9, 5_000),
    "signed": DRAW.integers(-50, 50, 5_000),
    "wide": DRAW.integers(-(1 << 62), 1 << 62, 500),
    "equal": np.full(10, 8192),
    "none": np.zeros(0, dtype=np.int64),
}


@cases("values", COLUMNS.values())
def test_distinct_values_equal_those_of_numpy(values):
    expected, which = np.unique(values, return_inverse=True)
    result, number = distinct(values)
    assert result.tolist() == expected.tolist()
    assert number.tolist() == which.tolist()


@cases("codes", [COLUMNS["few"], COLUMNS["signed"], DRAW.integers(0, 99_999, 900)])
def test_rows_of_a_group_keep_their_order(codes):
    assert grouped(codes).tolist() == sorted(range(len(codes)), key=lambda row: codes[row])


def test_ascending_accepts_equal_neighbours():
    assert ascending(np.array([]))
    assert ascending(np.array([1, 1, 2]))
    assert not ascending(np.array([1, 3, 2]))

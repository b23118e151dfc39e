"""Which sizes of memory a sweep has, and which it measures next."""

import pytest

from cases import cases
from spillcast.errors import OptionInvalid
from spillcast.lab.memory_sweep import memory_sizes, next_size

K, M = 1 << 10, 1 << 20


def test_powers_of_two_and_the_end():
    assert memory_sizes("postgres", "1M..8M") == [M, 2 * M, 4 * M, 8 * M]
    assert memory_sizes("postgres", "3M..8M") == [3 * M, 6 * M, 8 * M]
    assert memory_sizes("duckdb", "1M..256M") == [M << number for number in range(9)]


def test_so_many_points_are_evenly_apart_in_ratio():
    sizes = memory_sizes("duckdb", "1M..256M", 5)
    assert sizes == [M, 4 * M, 16 * M, 64 * M, 256 * M]
    assert all(size % K == 0 for size in memory_sizes("duckdb", "1M..7M", 7))


@cases(
    ("text", "words"),
    [
        ("1M", "not a range"),
        ("8M..1M", "from less to more"),
        ("1M..1M", "from less to more"),
        ("0..1M", "from less to more"),
        ("x..1M", "'x' is not a size"),
        ("32K..1M", "PostgreSQL's work_mem goes from 64K"),
        ("1M..4T", "PostgreSQL's work_mem goes from 64K"),
    ],
)
def test_ranges_that_are_none(text, words):
    with pytest.raises(OptionInvalid, match=words):
        memory_sizes("postgres", text)


def test_the_next_size_lies_where_times_are_furthest_apart():
    sizes = [M << number for number in range(9)]
    assert next_size(sizes, {M: 9.0, 256 * M: 1.0}, [], None) == 16 * M
    assert next_size(sizes, {M: 9.0, 16 * M: 2.0, 256 * M: 1.0}, [], None) == 4 * M
    assert next_size(sizes, {M: 9.0, 16 * M: 8.0, 256 * M: 1.0}, [], None) == 64 * M


def test_what_spills_nothing_is_not_measured():
    sizes = [M << number for number in range(9)]
    assert next_size(sizes, {M: 9.0, 256 * M: 1.0}, [256 * M], 8 * M) in (2 * M, 4 * M)
    assert next_size(sizes, {M: 9.0, 4 * M: 2.0, 8 * M: 1.0}, [8 * M], None) == 2 * M
    assert next_size([M, 2 * M], {M: 2.0, 2 * M: 1.0}, [], None) is None

"""The memory sizes of a sweep, and the order in which they are measured."""

import pytest

from cases import cases
from spillcast.errors import OptionInvalid
from spillcast.lab.memory_sweep import memory_sizes, next_size

K, M = 1 << 10, 1 << 20


def test_sizes_are_powers_of_two_and_the_end():
    assert memory_sizes("postgres", "1M..8M") == [M, 2 * M, 4 * M, 8 * M]
    assert memory_sizes("postgres", "3M..8M") == [3 * M, 6 * M, 8 * M]
    assert memory_sizes("duckdb", "1M..256M") == [M << number for number in range(9)]


def test_a_number_of_points_is_evenly_spaced_in_ratio():
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
def test_invalid_ranges_are_refused(text, words):
    with pytest.raises(OptionInvalid, match=words):
        memory_sizes("postgres", text)


def test_the_next_size_is_where_times_differ_most():
    sizes = [M << number for number in range(9)]
    assert next_size(sizes, {M: 9.0, 256 * M: 1.0}, [], None) == 16 * M
    assert next_size(sizes, {M: 9.0, 16 * M: 2.0, 256 * M: 1.0}, [], None) == 4 * M
    assert next_size(sizes, {M: 9.0, 16 * M: 8.0, 256 * M: 1.0}, [], None) == 64 * M


def test_sizes_without_a_spill_are_not_measured():
    sizes = [M << number for number in range(9)]
    assert next_size(sizes, {M: 9.0, 256 * M: 1.0}, [256 * M], 8 * M) in (2 * M, 4 * M)
    assert next_size(sizes, {M: 9.0, 4 * M: 2.0, 8 * M: 1.0}, [8 * M], None) == 2 * M
    assert next_size([M, 2 * M], {M: 2.0, 2 * M: 1.0}, [], None) is None

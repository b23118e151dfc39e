"""Recorded spill I/O in other sizes: no byte is lost, and streams are joined as buffers would."""

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st

from cases import cases
from spillcast.lab.io_size.spill import IoSizeSetting, ResizedIo
from spillcast.storage.probe import steps_of

K = 1024


def steps(operations):
    """A plan of (write, file, offset, bytes), each after a pause of 10 ns, in one thread."""
    write, file, offset, size = zip(*operations, strict=True)
    return steps_of(
        {
            "thread": [0] * len(write),
            "file": list(file),
            "write": list(write),
            "offset": list(offset),
            "bytes": list(size),
            "delay_ns": [10] * len(write),
        }
    )


def rows(batch):
    return [(r["write"], r["file"], r["offset"], r["bytes"]) for r in batch.to_pylist()]


def recut(operations, least, most):
    return rows(ResizedIo(steps(operations)).steps(IoSizeSetting(most, least)))


SEQUENTIAL = [(True, 0, 8 * K * at, 8 * K) for at in range(16)]


def test_consecutive_writes_are_joined():
    expected = [(True, 0, 32 * K * at, 32 * K) for at in range(4)]
    assert recut(SEQUENTIAL, 32 * K, 64 * K) == expected


def test_a_size_that_does_not_divide_leaves_a_rest():
    assert [row[3] // K for row in recut(SEQUENTIAL, 48 * K, 48 * K)] == [48, 48, 32]


def test_large_operations_are_split():
    expected = [(False, 3, 96 * K * at, 96 * K) for at in range(2)] + [(False, 3, 192 * K, 64 * K)]
    assert recut([(False, 3, 0, 256 * K)], 48 * K, 96 * K) == expected


def test_sizes_within_the_setting_are_unchanged():
    operations = [(True, 0, 0, 48 * K), (True, 0, 48 * K, 240 * K), (False, 0, 0, 96 * K)]
    assert recut(operations, 48 * K, 240 * K) == operations


def test_a_merge_buffers_each_run_separately():
    """Two runs are read in turns: each has its larger buffer, filled at its first read."""
    turns = [(False, 0, begin + 8 * K * at, 8 * K) for at in range(4) for begin in (0, 512 * K)]
    expected = [(False, 0, b + 16 * K * at, 16 * K) for at in range(2) for b in (0, 512 * K)]
    assert recut(turns, 16 * K, 16 * K) == expected


def test_joined_writes_come_last_and_joined_reads_first():
    operations = [(True, 0, 0, 8 * K), (False, 1, 0, 8 * K), (True, 0, 8 * K, 8 * K),
                  (False, 1, 8 * K, 8 * K)]  # fmt: skip
    assert recut(operations, 16 * K, 16 * K) == [(False, 1, 0, 16 * K), (True, 0, 0, 16 * K)]


def test_operations_that_are_not_consecutive_are_not_joined():
    apart = [(False, 0, 64 * K * at, 8 * K) for at in (3, 0, 2)]
    assert recut(apart, 64 * K, 64 * K) == apart


def test_pauses_are_kept():
    batch = ResizedIo(steps(SEQUENTIAL)).steps(IoSizeSetting(64 * K, 64 * K))
    assert batch["delay_ns"].to_pylist() == [80, 80]


UNIT = st.integers(1, 40).map(lambda n: n * 4 * K)


@settings(max_examples=150)
@given(
    operations=st.lists(
        st.tuples(st.booleans(), st.integers(0, 1), st.integers(0, 30), st.integers(1, 40)),
        min_size=1, max_size=40,
    ),
    ends=st.tuples(UNIT, UNIT),
)  # fmt: skip
def test_every_byte_is_moved_as_often_as_before(operations, ends):
    operations = [(write, file, 4 * K * at, 4 * K * n) for write, file, at, n in operations]
    result = recut(operations, min(ends), max(ends))
    assert all(row[3] <= max(ends) for row in result)
    for write in (True, False):
        for file in (0, 1):
            assert np.array_equal(*(touched(of, write, file) for of in (operations, result)))


def touched(operations, write, file):
    """How often each 4 KiB is moved."""
    times = np.zeros(200, dtype=int)
    for op, of, offset, size in operations:
        if (op, of) == (write, file):
            times[offset // (4 * K) : (offset + size) // (4 * K)] += 1
    return times


@cases("least", [4 * K, 16 * K])
def test_two_threads_keep_their_own_pauses(least):
    batch = steps(SEQUENTIAL)
    batch = batch.with_column("thread", [at % 2 for at in range(16)])
    result = ResizedIo(batch).steps(IoSizeSetting(64 * K, least))
    # Whatever is joined, no thread pauses longer than before.
    for thread in (0, 1):
        paused = [r["delay_ns"] for r in result.to_pylist() if r["thread"] == thread]
        assert sum(paused) <= 80

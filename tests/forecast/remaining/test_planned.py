"""Bytes that a plan which was not run is estimated to spill."""

import pytest

from spillcast.evidence.postgres.spills import planned_bytes


def operator(kind, *below, rows=100_000, width=80, **values):
    return {
        "Node Type": kind, "Plan Rows": rows, "Plan Width": width, "Plans": list(below), **values,
    }  # fmt: skip


SCAN = operator("Seq Scan")


@pytest.mark.parametrize(
    "spiller",
    [
        operator("Sort", SCAN),
        operator("Hash Join", SCAN, operator("Hash", SCAN)),
        operator("Aggregate", SCAN, Strategy="Hashed"),
    ],
    ids=lambda spiller: spiller["Node Type"],
)
def test_more_work_memory_never_spills_more_and_enough_spills_nothing(spiller):
    """A pass writes each row of 90 bytes once, and what an aggregate holds is not written."""
    one_pass = 90 * 100_000
    read = [
        planned_bytes({"Plan": spiller}, {"work_mem": f"{size}kB"}).read
        for size in (64, 256, 1024, 4096, 16_384, 65_536, 1 << 20)
    ]
    assert read == sorted(read, reverse=True)
    assert read[0] > 0.9 * one_pass
    assert 0 < read[3] <= 2 * one_pass
    assert read[-1] == 0

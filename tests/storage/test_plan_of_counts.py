"""Steps made up from counts: as many as counted, files written in order and read back."""

from collections import Counter

import pytest

from cases import cases
from spillcast.evidence.postgres.plan import counts_of_plan
from spillcast.storage.free_space import Budget
from spillcast.storage.probe import plan_of_counts, probe

B = 8192


def counted(reads, writes, *, workers=0, disk_kb=None, batches=None, elapsed_ms=1000.0):
    values = {"Node Type": "Sort", "Actual Rows": 9, "Actual Loops": workers + 1,
              "Temp Read Blocks": reads, "Temp Written Blocks": writes,
              "Temp I/O Read Time": 100.0, "Temp I/O Write Time": 100.0}  # fmt: skip
    if disk_kb is not None:
        values |= {"Sort Space Used": disk_kb, "Sort Space Type": "Disk"}
    if batches is not None:
        values |= {"Node Type": "Hash", "Hash Batches": batches}
    if workers:
        values = {**values, "Node Type": "Gather", "Workers Launched": workers, "Plans": [values]}
    return counts_of_plan({"Plan": values, "Execution Time": elapsed_ms})


def steps(plan):
    return list(zip(*(plan[name].to_pylist() for name in ("thread", "write", "file", "offset")),
                    strict=True))  # fmt: skip


def test_a_file_is_written_and_read_back():
    result = steps(plan_of_counts(counted(4, 4)))
    assert result == [(0, write, 0, block * B) for write in (True, False) for block in range(4)]


def test_a_sort_of_two_passes_does_it_twice():
    result = steps(plan_of_counts(counted(8, 8, disk_kb=32)))
    once = [(0, write, 0, block * B) for write in (True, False) for block in range(4)]
    assert result == once * 2


def test_batches_of_a_hash_are_written_by_turns_and_read_one_by_one():
    result = steps(plan_of_counts(counted(6, 6, batches=4)))
    written = [(file, block * B) for block in range(2) for file in range(3)]
    assert [step[2:] for step in result if step[1]] == written
    assert [step[2:] for step in result if not step[1]] == sorted(written)


def test_processes_do_it_side_by_side_on_files_of_their_own():
    plan = plan_of_counts(counted(300, 600, workers=2))
    result = steps(plan)
    assert Counter(thread for thread, *_ in result) == {0: 300, 1: 300, 2: 300}
    assert [thread for thread, *_ in result[:6]] == [0, 1, 2, 0, 1, 2]
    assert len({(thread, file) for thread, _, file, _ in result}) == 3
    # 1 s less a third of the 0.2 s of I/O, between 300 steps of each.
    assert plan["delay_ns"][0] == pytest.approx((1 - 0.2 / 3) * 1e9 / 300, rel=0.01)


@cases(("reads", "writes"), [(900, 300), (300, 900), (500, 0), (0, 500), (1, 1)])
def test_as_many_as_counted(reads, writes):
    result = steps(plan_of_counts(counted(reads, writes)))
    assert Counter(write for _, write, *_ in result) == Counter({True: writes, False: reads})
    if writes:
        held = {step[2:] for step in result if step[1]}
        assert {step[2:] for step in result if not step[1]} <= held


def test_too_many_are_thinned_out_in_proportion():
    plan = plan_of_counts(counted(30_000, 60_000), steps_max=900)
    assert Counter(write for _, write, *_ in steps(plan)) == {True: 600, False: 300}
    # The pauses are those of the part.
    assert sum(plan["delay_ns"].to_pylist()) == pytest.approx(0.8e9 / 100, rel=0.01)


def test_a_directory_is_probed_with_them(tmp_path):
    storage = probe(tmp_path, counted(200, 300, workers=1), budget=Budget(time_s=10))
    assert {group.op: group.count for group in storage.groups} == {"read": 200, "write": 300}
    assert {group.size_class_bytes for group in storage.groups} == {B}
    assert storage.facts["steps_from"] == "counts"
    assert list(tmp_path.iterdir()) == []

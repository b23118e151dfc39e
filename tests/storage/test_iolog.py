"""fio replays an exported log, with the same counts."""

import json
import shutil
import subprocess
import time
from collections import Counter

import pytest

from cases import cases
from harness import completed, json_of, spillcast
from spillcast.evidence.postgres.plan import counts_of_plan
from spillcast.storage.free_space import Budget
from spillcast.storage.probe import plan_of_counts, probe
from spills import MIB, recording, written_and_read

FIO = shutil.which("fio")


def replayed(log, where):
    """fio's operations and bytes by op, and its elapsed time (s)."""
    where.mkdir()
    command = [FIO, "--name=spill", "--ioengine=psync", f"--read_iolog={log}",
               "--output-format=json"]  # fmt: skip
    start_s = time.monotonic()
    result = subprocess.run(command, cwd=where, capture_output=True, text=True)
    # fio calibrates its clock at the start, which a busy machine disturbs.
    elapsed_s = time.monotonic() - start_s
    assert result.returncode == 0, result.stderr
    job = json.loads(result.stdout[result.stdout.index("{") :])["jobs"][0]
    assert job["error"] == 0
    done = {op: (job[op]["total_ios"], job[op]["io_bytes"]) for op in ("read", "write")}
    return done, elapsed_s


@pytest.mark.skipif(FIO is None, reason="fio is not installed")
def test_fio_does_the_recorded_operations(tmp_path):
    operations = written_and_read(4 * MIB, size=64 << 10, times=2, files=3)
    recording(tmp_path / "run.spill", operations, gap_ns=2_000_000)
    log = tmp_path / "spill.log"
    document = json_of("probe", "--like", tmp_path / "run.spill", "--iolog", log)
    assert document["files"] == {f"spill-{number}": 4 * MIB for number in range(3)}
    assert document["laid_before"] == []
    done, elapsed_s = replayed(log, tmp_path / "fio")
    assert done["read"] == (document["reads"], document["read_bytes"]) == (384, 24 * MIB)
    assert done["write"] == (document["writes"], document["write_bytes"]) == (192, 12 * MIB)
    # 576 operations start 2.05 ms apart.
    assert elapsed_s > 0.95 * 576 * 0.00205


@pytest.mark.skipif(FIO is None, reason="fio is not installed")
def test_fio_replays_a_recording_of_threads(spilled, tmp_path):
    log = tmp_path / "spill.log"
    result = spillcast("probe", "--like", spilled.path, "--iolog", log, "--json")
    document = json.loads(result.stdout)
    assert document["laid_before"] == []
    done, _ = replayed(log, tmp_path / "fio")
    assert done["read"] == (document["reads"], document["read_bytes"])
    assert done["write"] == (document["writes"], document["write_bytes"])


def test_the_log_is_in_order_and_states_preexisting_data(tmp_path):
    operations = [("write", 0, 0, 8192), ("read", 0, 4096, 8192), ("read", 1, 0, 4096)]
    recording(tmp_path / "run.spill", operations, gap_ns=1_950_000, latency_ns=50_000)
    log = tmp_path / "spill.log"
    result = completed("probe", "--like", tmp_path / "run.spill", "--iolog", log)
    assert "truncate -s 12288 spill-0" in result.stdout
    assert "truncate -s 4096 spill-1" in result.stdout
    assert log.read_text().splitlines() == [
        "fio version 3 iolog",
        "0 spill-0 add",
        "0 spill-1 add",
        "0 spill-0 open",
        "0 spill-1 open",
        "0 spill-0 write 0 8192",
        "2000 spill-0 read 4096 8192",
        "4000 spill-1 read 0 4096",
        "4000 spill-0 close",
        "4000 spill-1 close",
    ]


def test_a_named_directory_is_probed_in_addition(spilled, tmp_path):
    log, where = tmp_path / "spill.log", tmp_path / "where"
    where.mkdir()
    result = spillcast("probe", where, "--like", spilled.path, "--iolog", log, "--json")
    assert json.loads(result.stdout)["schema"] == "spillcast.storage/1"
    assert log.read_text().startswith("fio version 3 iolog\n")


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


def test_a_single_run_is_written_and_read_back():
    result = steps(plan_of_counts(counted(4, 4)))
    assert result == [(0, write, 0, block * B) for write in (True, False) for block in range(4)]


def test_a_sort_of_two_passes_writes_and_reads_twice():
    result = steps(plan_of_counts(counted(8, 8, disk_kb=32)))
    once = [(0, write, 0, block * B) for write in (True, False) for block in range(4)]
    assert result == once * 2


def test_batches_of_a_hash_are_written_in_turns_and_read_in_sequence():
    result = steps(plan_of_counts(counted(6, 6, batches=4)))
    written = [(file, block * B) for block in range(2) for file in range(3)]
    assert [step[2:] for step in result if step[1]] == written
    assert [step[2:] for step in result if not step[1]] == sorted(written)


def test_processes_run_in_parallel_on_separate_files():
    plan = plan_of_counts(counted(300, 600, workers=2))
    result = steps(plan)
    assert Counter(thread for thread, *_ in result) == {0: 300, 1: 300, 2: 300}
    assert [thread for thread, *_ in result[:6]] == [0, 1, 2, 0, 1, 2]
    assert len({(thread, file) for thread, _, file, _ in result}) == 3
    # 1 s minus a third of the 0.2 s of I/O, over 300 steps of each process.
    assert plan["delay_ns"][0] == pytest.approx((1 - 0.2 / 3) * 1e9 / 300, rel=0.01)


@cases(("reads", "writes"), [(900, 300), (300, 900), (500, 1), (0, 500), (1, 1)])
def test_the_plan_has_the_counted_operations(reads, writes):
    result = steps(plan_of_counts(counted(reads, writes)))
    assert Counter(write for _, write, *_ in result) == Counter({True: writes, False: reads})
    held = {step[2:] for step in result if step[1]}
    assert {step[2:] for step in result if not step[1]} <= held


def test_too_many_operations_are_thinned_out_proportionally():
    plan = plan_of_counts(counted(30_000, 60_000), steps_max=900)
    assert Counter(write for _, write, *_ in steps(plan)) == {True: 600, False: 300}
    # The pauses are those of the retained part.
    assert sum(plan["delay_ns"].to_pylist()) == pytest.approx(0.8e9 / 100, rel=0.01)


def test_a_directory_is_probed_with_counted_operations(tmp_path):
    storage = probe(tmp_path, counted(200, 300, workers=1), budget=Budget(time_s=10))
    assert {group.op: group.count for group in storage.groups} == {"read": 200, "write": 300}
    assert {group.size_class_bytes for group in storage.groups} == {B}
    assert storage.facts["steps_from"] == "counts"
    assert list(tmp_path.iterdir()) == []

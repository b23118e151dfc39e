"""How much of the temp files is still unread, by hand, and what a plan is estimated to spill."""

from dataclasses import astuple, replace
from random import Random

import numpy as np
import pytest
from part_recordings import BLOCK, FILE, MS, SAME, STEP_S, blocks, recorded, recorded_late

from cases import cases
from spillcast.evidence.postgres.spills import planned_bytes
from spillcast.forecast import forecast
from spillcast.forecast.query import workload_of_recording
from spillcast.forecast.remaining import RemainingWorkHints
from spillcast.forecast.remaining.progress import _of_file, progress_of
from spillcast.recording.meta import Machine
from spillcast.storage.catalogue import lookup


def test_a_file_that_is_read_in_order_is_read_to_its_end(tmp_path):
    """Of 1000 blocks written before, 300 were read before and 200 in the recording."""
    part = recorded_late(tmp_path, [("read", FILE, n) for n in range(300, 500)], 1300)
    answer = forecast(part, SAME)
    low, centre, high = blocks(answer.to_come.reads_bytes)
    assert low < 500 < high
    assert centre == pytest.approx(500, rel=0.06)
    assert answer.baseline_s == pytest.approx(2000 * STEP_S, rel=0.05)
    assert answer.forecast_s == pytest.approx(2000 * STEP_S, rel=0.08)
    assert answer.interval_s[0] < 2000 * STEP_S < answer.interval_s[1]
    assert answer.part is None


def test_unread_files_that_fit_into_memory_are_read_from_it_on_any_storage(tmp_path):
    """Only writes were recorded, each as fast as memory; the cache holds what they wrote."""
    writes = [("write", FILE, n) for n in range(400)]
    slower_s = {}
    for free_bytes in (1 << 30, 1 << 20):
        memory = Machine(memory_available_bytes=free_bytes)
        path = tmp_path / f"{free_bytes}.spill"
        part = recorded(path, writes, wait_ns=MS // 50, machine=memory)
        answer = forecast(part, lookup("aws-gp3"), known=RemainingWorkHints(progress=0.5))
        slower_s[free_bytes] = answer.forecast_s - answer.baseline_s
    assert abs(slower_s[1 << 30]) < 0.05
    # 3.9 MB of 8 KiB, at 0.5 to 1 ms.
    assert 0.2 < slower_s[1 << 20] < 0.6


def test_reading_and_rewriting_continues_until_the_file_is_read(tmp_path):
    """Of 1000 blocks written before, all are read and half as many are written again."""
    rows = [(("read", FILE, n) if n % 3 else ("write", FILE, 1000 + n // 3)) for n in range(300)]
    part = recorded_late(tmp_path, rows, 1000)
    answer = forecast(part, SAME)
    low, _, high = blocks(answer.to_come.writes_bytes)
    assert low < 400 < high
    # 1000 were written, 100 again, and 400 will be: 1500 in total, each of which is read once.
    assert answer.interval_s[0] < 3000 * STEP_S < answer.interval_s[1]
    assert answer.part is None
    assert answer.uncertainty.kind == "part"
    assert answer.interval_s[1] < 10 * answer.interval_s[0]


def test_runs_that_are_merged_advance_together(tmp_path):
    """Four runs of 250 blocks, of each of which 100 were read before and 50 seen: 400 remain."""
    merged = [("read", FILE, run * 250 + n) for n in range(100, 150) for run in range(4)]
    part = recorded_late(tmp_path, merged, 1400)
    low, centre, high = blocks(forecast(part, SAME).to_come.reads_bytes)
    assert low < 400 < high
    assert centre == pytest.approx(400, rel=0.2)


def test_reading_out_of_order_starts_with_the_last_written_blocks(tmp_path):
    """DuckDB reads this way: of 1000 blocks, the last 100 in random order. The others remain."""
    last = list(range(900, 1000))
    Random(1).shuffle(last)
    part = recorded_late(tmp_path, [("read", FILE, n) for n in last], 1000)
    low, centre, high = blocks(forecast(part, SAME).to_come.reads_bytes)
    assert low < 900 < high
    assert centre == pytest.approx(900, rel=0.2)


def test_a_single_late_write_does_not_define_the_total(tmp_path):
    """All of 1000 blocks except the last half block were written before: 1000 writes in total."""
    part = recorded_late(
        tmp_path,
        [("write", FILE, 1000, BLOCK // 2), *(("read", FILE, n) for n in range(300, 500))],
        1300,
    )
    writes = [load for load in workload_of_recording(part).loads if load.op == "write"]
    assert sum(load.count for load in writes) == pytest.approx(1000, rel=0.05)


def test_waits_without_bytes_give_no_estimate_of_remaining_work(tmp_path):
    """A long recording kept slices, in which all calls failed."""
    part = recorded(tmp_path / "part.spill", [("write", FILE, n) for n in range(400)])
    part.waits = part.waits.with_column("bytes", [0] * part.waits.num_rows)
    slices = replace(part.meta.raw, slices_s=[(0.0, part.elapsed_s)])
    part.meta = replace(part.meta, raw=slices)
    assert progress_of(part, 1.0) is None
    assert forecast(part, SAME).to_json()


@cases(
    ("read", "gone", "expected"),
    [
        # Bytes 20 to 60 of 100: 60 are left to read, of which 40 follow.
        ((20, 40), False, (36, 40, 44, 100, 80)),
        # The file is read to its end, and 20 bytes before had been read.
        ((20, 80), False, (0, 0, 0, 100, 80)),
        ((20, 40), True, (0, 0, 0, 100, 40)),
        # A scan from the first byte: no more follows than is unread.
        ((0, 60), False, (36, 40, 40, 100, 100)),
    ],
)
def test_unread_bytes_of_a_file_of_100_that_was_written_before(read, gone, expected):
    begin, size = read
    result = _of_file(100.0, np.array([False]), np.array([begin]), np.array([float(size)]), gone)
    assert astuple(result) == pytest.approx((*expected, 0))


def operator(kind, *below, rows=100_000, width=80, **values):
    return {
        "Node Type": kind, "Plan Rows": rows, "Plan Width": width, "Plans": list(below), **values,
    }  # fmt: skip


SCAN = operator("Seq Scan")


@cases(
    "spiller",
    [
        operator("Sort", SCAN),
        operator("Hash Join", SCAN, operator("Hash", SCAN)),
        operator("Aggregate", SCAN, Strategy="Hashed"),
    ],
)
def test_more_work_memory_never_spills_more_and_enough_spills_nothing(spiller):
    """A pass writes each row of 90 bytes once, except those that an aggregate holds."""
    one_pass = 90 * 100_000
    read = [
        planned_bytes({"Plan": spiller}, {"work_mem": f"{size}kB"}).read
        for size in (64, 256, 1024, 4096, 16_384, 65_536, 1 << 20)
    ]
    assert read == sorted(read, reverse=True)
    assert read[0] > 0.9 * one_pass
    assert 0 < read[3] <= 2 * one_pass
    assert read[-1] == 0

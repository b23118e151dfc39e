"""Where the number of processes that shared the temp I/O is unknown, the interval covers all."""

import json
from pathlib import Path

import pytest

from evidence import storage
from harness import completed, json_of, spillcast
from spillcast.evidence.counts import Counts, OpCounts, counts_of_figures, times_up_to
from spillcast.evidence.postgres.plan import counts_of_plan
from spillcast.evidence.postgres.statements import read_statements
from spillcast.evidence.selection import Selection
from spillcast.forecast import forecast
from spillcast.forecast.workload.counted import timed_on
from statement_files import export, row

BLOCK = 8192


def tenth():
    """A storage ten times as fast as that of the rows: 3 s for 1,200 blocks are 2.5 ms each."""
    return storage({("read", BLOCK): 250_000, ("write", BLOCK): 250_000})


def test_the_interval_covers_both_numbers_of_processes(tmp_path):
    """3 s of I/O in calls of 2 s by two to three processes: the rest of 2 s is 0.5 s or 1 s."""
    counts = read_statements(export(tmp_path / "s.csv", 15, row(other_ms=1500.0)))
    answer = forecast(counts, tenth())
    few, many = (forecast(counts.with_processes(n), tenth()) for n in (2, 3))
    assert few.forecast_s == pytest.approx(0.5 + 0.3 / 2)
    assert many.forecast_s == pytest.approx(1.0 + 0.3 / 3)
    assert answer.forecast_s == pytest.approx((few.forecast_s + many.forecast_s) / 2)
    assert sum(term.forecast_s for term in answer.terms) == pytest.approx(answer.forecast_s)
    assert answer.interval_s[0] <= few.interval_s[0]
    assert answer.interval_s[1] >= many.interval_s[1]
    assert answer.ceiling_interval_s[0] <= few.ceiling_interval_s[0]
    assert answer.ceiling_interval_s[1] >= many.ceiling_interval_s[1]
    [warning] = [item for item in answer.warnings if item.code == "processes"]
    assert "2 to 3 (max_parallel_workers_per_gather" in warning.message
    assert "EXPLAIN (ANALYZE, BUFFERS)" in warning.message
    # With a known number of processes there is no warning.
    assert "processes" not in {item.code for item in few.warnings}


def test_an_answer_that_depends_on_the_number_of_processes_is_refused(tmp_path):
    """1.2 s in calls of 1 s: 1.2 processes leave no other time, and 3 leave 0.6 s."""
    path = export(tmp_path / "s.csv", 15, row(mean_ms=1000.0, temp_ms=1200.0))
    fast, alike = json_of("forecast", path, "--to", "factor:100", "--to", "factor:1.1")["targets"]
    assert fast["forecast_s"] is None
    assert "1.2 to 3 (max_parallel_workers_per_gather" in fast["refused"]
    assert "EXPLAIN (ANALYZE, BUFFERS)" in fast["refused"]
    # On storage as slow as this the number hardly matters.
    assert alike["interval_s"][0] < 1 / 1.1
    assert alike["interval_s"][1] > 0.6 + 0.4 / 1.1
    alone = spillcast("forecast", path, "--to", "factor:100")
    assert alone.returncode == 3


def test_counts_of_a_server_without_io_timing(tmp_path):
    """1,200 blocks of 5 ms are 6 s in calls of 3 s: by two processes or three."""
    path = export(tmp_path / "s.csv", 13, row(mean_ms=3000.0))
    words = ("forecast", path, "--from", "latency:5ms", "--to", "latency:1ms", "--json")
    result = completed(*words)
    document = json.loads(result.stdout)
    # T = 3 - 6/P + 1.2/P: 0.6 s or 1.4 s.
    assert document["forecast_s"] == pytest.approx(1.0)
    low_s, high_s = document["interval_s"]
    assert low_s < 0.6 < 1.4 < high_s
    assert {"processes", "assumed"} <= {item["code"] for item in document["warnings"]}
    # Where the I/O would have taken longer than the call, the call bounds it.
    words = ("forecast", path, "--from", "latency:9ms", "--to", "latency:1ms", "--json")
    slow = json.loads(spillcast(*words).stdout)
    [unknown] = [item for item in slow["warnings"] if item["code"] == "cached-io"]
    assert "page cache" in unknown["message"]
    # The option was given.
    assert "--from" not in unknown["next_step"]
    assert slow["ceiling_interval_s"] == [pytest.approx(0.0, abs=1e-2), pytest.approx(3.0)]


def test_counts_without_times_are_bounded_by_the_call(tmp_path):
    """Calls of 0.1 s, in which 1,200 blocks took an unknown time; on the target they take 48 ms."""
    untimed = row(mean_ms=100.0, max_parallel_workers_per_gather=0)
    recording = read_statements(export(tmp_path / "s.csv", 13, untimed))
    given = forecast(recording, storage({("read", BLOCK): 40_000, ("write", BLOCK): 40_000}))
    low_s, high_s = given.interval_s
    assert 0.03 < low_s < 0.05
    assert 0.14 < high_s < 0.25
    assert given.ceiling_interval_s == (pytest.approx(0, abs=1e-3), pytest.approx(0.1))
    assert "time-unknown" in {item.code for item in given.warnings}


def test_counted_reads_without_bytes_are_not_a_load():
    """A server also counts reads at the end of a file, which have a size of 0."""
    writes = OpCounts(900, 900 * 65_536, 3 * 10**9)
    path = Path("performance_schema")
    counts = [
        Counts(path=path, elapsed_s=9.0, reads=reads, writes=writes, source="figures")
        for reads in (OpCounts(9, 0, 9000), OpCounts())
    ]
    on_disk = storage({("read", 65_536): 10**6, ("write", 65_536): 10**6})
    with_them, without = (forecast(each, on_disk).forecast_s for each in counts)
    assert with_them == pytest.approx(without)


def test_reads_without_bytes_take_no_time_on_an_assumed_storage():
    counts = Counts(
        path=Path("performance_schema"),
        elapsed_s=9.0,
        reads=OpCounts(9, 0, 0),
        writes=OpCounts(900, 900 * 65_536, 0),
        source="figures",
    )
    on_disk = storage({("read", 65_536): 10**6, ("write", 65_536): 10**6})
    assert timed_on(counts, on_disk).total_s == pytest.approx(0.9)


def test_a_too_slow_storage_keeps_the_bound_of_the_plan():
    """0.8 s of 1 s are a scan, which writes no temp files: they took at most 0.2 s."""
    scan = {"Node Type": "Seq Scan", "Parent Relationship": "Outer", "Actual Loops": 1,
            "Actual Total Time": 800.0, "Actual Rows": 50_000,
            "Temp Read Blocks": 0, "Temp Written Blocks": 0}  # fmt: skip
    sort = {"Node Type": "Sort", "Sort Method": "external merge", "Sort Space Type": "Disk",
            "Sort Space Used": 4000, "Actual Loops": 1, "Actual Total Time": 1000.0,
            "Actual Rows": 50_000, "Temp Read Blocks": 500, "Temp Written Blocks": 500,
            "Plans": [scan]}  # fmt: skip
    counts = counts_of_plan({"Plan": sort, "Execution Time": 1000.0}, timed=False)
    slow = storage({("read", BLOCK): 50_000_000, ("write", BLOCK): 50_000_000})
    assert timed_on(counts, slow).time_bounds.upper == pytest.approx(0.2, abs=0.001)


def test_a_too_slow_storage_keeps_the_bound_of_stated_figures():
    """Waits are at most 3 s in total; 1,000 reads of 50 ms would be 50 s in a run of 10 s."""
    temp = times_up_to(3.0, 1000, 0, "waits").moved({"read": (1000, 1000 * BLOCK), "write": (0, 0)})
    counts = counts_of_figures(Selection(timed=False), temp, elapsed_s=10.0)
    slow = storage({("read", BLOCK): 50_000_000, ("write", BLOCK): 50_000_000})
    assert timed_on(counts, slow).time_bounds.upper == pytest.approx(3.0)

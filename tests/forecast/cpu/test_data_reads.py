"""Reads of data files that the page cache did not answer are detected, reported and subtracted."""

import re
from dataclasses import replace
from pathlib import Path

import pytest

from emulator import skip_without_fuse
from evidence import CAPTURE, known, storage, table
from harness import EXACT, json_of, spillcast, target
from spillcast.forecast import forecast
from spillcast.forecast.query import workload_of_recording
from spillcast.recording.capture import RecordOptions
from spillcast.recording.observed import Sampling
from spillcast.recording.schema import SAMPLES, WAITS, seconds_of, totals
from spillcast.recording.writer import RecordingWriter
from spillcast.report.forecast import forecast_page
from spillcast.storage.emulation import emulate
from spillcast.storage.model import fixed_behaviour

US, MS = 1_000, 1_000_000
PAGE = 8192
TARGET = storage({("read", PAGE): 100 * US, ("write", PAGE): 100 * US})


def call(start_ns, elapsed_ns, *, temp=False, op="read", blocked=True, session=1, cpu_ns=0):
    return {
        "start_ns": start_ns, "elapsed_ns": elapsed_ns, "session": session, "event": f"p{op}64",
        "op": op, "temp": temp, "file": "/t/spill" if temp else "/data/table", "offset": 0,
        "bytes": PAGE, "blocked": blocked, "cpu_before_ns": cpu_ns,
    }  # fmt: skip


def data_reads(run):
    return workload_of_recording(run).data_reads


def in_order(count, elapsed_ns, *, begin_ns=0, cpu_ns=0, **options):
    """Calls of one thread, one after the other, and the end of the last one."""
    step_ns = elapsed_ns + cpu_ns
    starts_ns = [begin_ns + number * step_ns + cpu_ns for number in range(count)]
    rows = [call(start_ns, elapsed_ns, cpu_ns=cpu_ns, **options) for start_ns in starts_ns]
    return rows, begin_ns + count * step_ns


def made(path, rows, *, elapsed_s, cpu_s=None, **parts):
    """A recording of a run with named temp files; its per-second rows come from its calls."""
    writer = RecordingWriter(path)
    writer.add_waits(table(sorted(rows, key=lambda row: row["start_ns"]), WAITS))
    run = writer.finish(known(elapsed_s, 0, 0, cpu_s=cpu_s))
    run.seconds = seconds_of(run.waits)
    temp, other_io = totals(run.waits)
    requested = RecordOptions(temp_dirs=(Path("/t"),))
    run.meta = replace(run.meta, temp=temp, other_io=other_io, asked=requested, **parts)
    return run


def cold_scan(path):
    """4.6 s: 1 s of temp I/O, 2.7 s of reads from storage, 5 ms of cached reads, and CPU time."""
    cold, end_ns = in_order(300, 9 * MS, cpu_ns=MS)
    warm, end_ns = in_order(1000, 5 * US, begin_ns=end_ns, blocked=False)
    spill, end_ns = in_order(1000, MS, begin_ns=end_ns, temp=True)
    return made(path, [*cold, *warm, *spill], elapsed_s=4.6, cpu_s=0.895)


def test_cold_reads_are_a_separate_term_and_a_warning(tmp_path):
    answer = forecast(cold_scan(tmp_path / "run.spill"), TARGET)
    terms = {term.name: term for term in answer.terms}
    assert terms["data reads"].baseline_s == terms["data reads"].forecast_s == pytest.approx(2.7)
    assert (terms["data reads"].count, terms["data reads"].bytes) == (300, 300 * PAGE)
    assert terms["other waits"].baseline_s == pytest.approx(4.6 - 1.0 - 2.7 - 0.895)
    assert sum(term.baseline_s for term in answer.terms) == pytest.approx(answer.baseline_s)
    assert sum(term.forecast_s for term in answer.terms) == pytest.approx(answer.forecast_s)
    [reported] = [item.message for item in answer.warnings if item.code == "cold-data"]
    assert reported.startswith("2.70 s of the 4.60 s were reads of data files")
    assert "takes about 1.90 s today" in reported


def test_the_time_with_warm_data_is_reported(tmp_path):
    answer = forecast(cold_scan(tmp_path / "run.spill"), TARGET)
    assert answer.warm.baseline_s == pytest.approx(1.9)
    # The temp I/O takes a tenth of its time.
    assert answer.warm.forecast_s == pytest.approx(1.0)
    assert answer.to_json()["warm"] == {
        "baseline_s": answer.warm.baseline_s,
        "forecast_s": answer.warm.forecast_s,
    }
    page = forecast_page([answer], in_full=True).text(200)
    assert re.search(r"data in memory: 1\.90 s \w+, 1(\.00)? s ", page)
    # Of 4.6 s, 2.7 s were cold reads and 1 s temp I/O.
    assert " ".join(page.split()).startswith(
        "59 % of this query is reading table files that were not cached, 22 % is temp I/O. "
        "With those files cached it would take 1.90 s instead of 4.60 s. "
    )


def test_cold_reads_of_a_partial_recording_are_scaled_to_the_whole_query(tmp_path):
    answer = forecast(cold_scan(tmp_path / "run.spill"), TARGET, elapsed_s=46.0)
    [term] = [term for term in answer.terms if term.name == "data reads"]
    assert (term.baseline_s, term.count) == (pytest.approx(27.0), 3000)


def test_fast_reads_and_reads_that_never_blocked_are_not_cold(tmp_path):
    spill, end_ns = in_order(1000, MS, temp=True)
    quick, end_ns = in_order(1000, 15 * US, begin_ns=end_ns)
    # The call took long, but the thread never blocked.
    slow, _ = in_order(100, 5 * MS, begin_ns=end_ns, blocked=False)
    run = made(tmp_path / "run.spill", [*spill, *quick, *slow], elapsed_s=2.0)
    assert data_reads(run) is None
    answer = forecast(run, TARGET)
    assert answer.warm is None
    assert answer.to_json()["warm"] is None
    assert "cold-data" not in {item.code for item in answer.warnings}


def test_without_blocking_information_slow_reads_count_as_cold(tmp_path):
    spill, end_ns = in_order(100, MS, temp=True)
    cold, _ = in_order(100, 5 * MS, begin_ns=end_ns, blocked=None)
    run = made(tmp_path / "run.spill", [*spill, *cold], elapsed_s=1.0)
    assert data_reads(run).elapsed_s == pytest.approx(0.5)


def test_reads_of_parallel_threads_are_divided_by_their_number(tmp_path):
    rows = []
    for session in (1, 2):
        cold, end_ns = in_order(100, 10 * MS, session=session)
        spill, _ = in_order(100, MS, begin_ns=end_ns, temp=True, session=session)
        rows += [*cold, *spill]
    assert data_reads(made(tmp_path / "run.spill", rows, elapsed_s=1.1)).elapsed_s == pytest.approx(
        1.0, rel=0.05
    )


def test_reads_beside_a_working_thread_count_half(tmp_path):
    cold, _ = in_order(100, 10 * MS)
    busy, _ = in_order(100, 1000, cpu_ns=10 * MS - 1000, temp=True, session=2)
    run = made(tmp_path / "run.spill", [*cold, *busy], elapsed_s=1.0)
    assert data_reads(run).elapsed_s == pytest.approx(0.5, rel=0.05)


def test_a_sample_of_single_waits_is_scaled_to_all(tmp_path):
    run = cold_scan(tmp_path / "run.spill")
    half = run.waits.take(slice(None, None, 2))
    run.waits = half
    result = data_reads(run)
    assert result.elapsed_s == pytest.approx(2.7, rel=0.01)
    assert result.count == pytest.approx(300, rel=0.01)


def test_reads_by_other_processes_come_from_samples(tmp_path):
    spill, _ = in_order(100, MS, temp=True)
    sampling = Sampling(10, 40, 40, 0, 0.0, 0.1, 0.0, 0.0)
    run = made(tmp_path / "run.spill", spill, elapsed_s=4.0, sampling=sampling)
    rows = [
        {
            "time_ns": number * 100 * MS, "session": 1, "weight_us": 100_000,
            "event": "AioIoCompletion" if number < 10 else "BufFileRead",
        }
        for number in range(40)
    ]  # fmt: skip
    run.samples = table(rows, SAMPLES)
    result = data_reads(run)
    assert (result.elapsed_s, result.count) == (pytest.approx(1.0), None)
    assert "cold-data" in {item.code for item in forecast(run, TARGET).warnings}


def test_page_faults_that_waited_for_a_file_are_data_reads(tmp_path):
    spill, _ = in_order(100, MS, temp=True)
    capture = replace(CAPTURE, file_faults=50, file_fault_s=0.5)
    run = made(tmp_path / "run.spill", spill, elapsed_s=1.0, capture=capture)
    answer = forecast(run, TARGET)
    assert data_reads(run).elapsed_s == pytest.approx(0.5)
    codes = {item.code for item in answer.warnings}
    assert "cold-data" in codes
    assert "file-faults" not in codes


READS, READ_S = 150, 0.01


def test_a_real_program_on_slow_data_storage_has_data_reads(places):
    """Each data read takes at least 10 ms, whatever else the machine does."""
    skip_without_fuse()
    backing, mountpoint = places.root / "backing", places.root / "slow"
    for path in (backing, mountpoint):
        path.mkdir()
    (backing / "table").write_bytes(bytes(READS * PAGE))
    output = places.root / "run.spill"
    with emulate(fixed_behaviour(READ_S, READ_S), mountpoint, backing):
        command = target("scan", "--data", mountpoint / "table", "--file", places.temp / "spill")
        result = spillcast(
            "record", "--capture", EXACT, "-o", output, "--", *command, env=places.env
        )
    assert result.returncode == 0, result.stderr
    document = json_of("forecast", output, "--to", "latency:1us")
    [term] = [term for term in document["terms"] if term["name"] == "data reads"]
    assert term["count"] >= READS
    assert term["baseline_s"] >= READS * READ_S
    assert document["warm"]["baseline_s"] <= document["baseline_s"] - READS * READ_S
    assert document["warm"]["forecast_s"] <= document["forecast_s"] - READS * READ_S
    assert "cold-data" in {warning["code"] for warning in document["warnings"]}

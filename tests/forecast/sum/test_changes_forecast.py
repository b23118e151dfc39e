"""Forecasts of calls that create, resize and remove temp files equal arithmetic by hand."""

from dataclasses import replace

import pytest

from evidence import recording, storage, warned
from spillcast.forecast import forecast
from spillcast.forecast.result import CHANGES
from spillcast.recording import WRITEBACK
from spillcast.recording.schema import SECONDS, WAITS
from spillcast.storage.observed import observed
from spillcast.storage.storage import Changes, Storage
from spillcast.storage.target import resolve
from spillcast.tables import Table

KIB = 1024
#: 1 s of writes in a run of 10 s.
LOADS = [("write", 256 * KIB, 200, 5_000_000)]
TARGET = {("write", 256 * KIB): 1_000_000}
#: 0.4 s of truncating and 0.1 s of removing.
CALLS = [("ftruncate", 100, 4_000_000), ("unlink", 50, 2_000_000)]


def changed(run, calls=CALLS):
    """The recording with such calls in addition, after all of its I/O."""
    at_ns, rows, seconds = 1_001_000_000, [], []
    for event, count, elapsed_ns in calls:
        for _ in range(count):
            rows.append(
                {"start_ns": at_ns, "elapsed_ns": elapsed_ns, "session": 0, "event": event,
                 "op": None, "temp": True, "file": None if event == WRITEBACK else "/t/spill",
                 "blocked": True}
            )  # fmt: skip
            at_ns += elapsed_ns + 1000
        seconds.append(
            {"second": 1, "op": None, "temp": True, "size_class_bytes": 0, "count": count,
             "bytes": 0, "total_ns": count * elapsed_ns, "latency_ns": [elapsed_ns],
             "latency_count": [count]}
        )  # fmt: skip
    run.waits = Table.concat([run.waits, Table.from_rows(rows, WAITS)])
    run.seconds = Table.concat([run.seconds, Table.from_rows(seconds, SECONDS)])
    return run


@pytest.fixture
def run(tmp_path):
    return changed(recording(tmp_path / "run.spill", LOADS, elapsed_s=10.0, cpu_s=7.0))


def destination(*calls, groups=None):
    groups = groups or storage(TARGET)
    known = [Changes(event, 10, 10 * ns, [ns], [10]) for event, ns in calls]
    return replace(groups, changes=known)


def term(answer):
    [result] = [term for term in answer.terms if term.name == CHANGES]
    return result


def test_calls_take_their_latency_on_the_target(run):
    answer = forecast(run, destination(("ftruncate", 1_000_000), ("unlink", 4_000_000)))
    assert (term(answer).count, term(answer).baseline_s) == (150, pytest.approx(0.5))
    assert term(answer).forecast_s == pytest.approx(0.1 + 0.2)
    assert answer.ceiling_s == pytest.approx(8.5)
    assert answer.forecast_s == pytest.approx(8.5 + 0.2 + 0.3)
    assert sum(term.forecast_s for term in answer.terms) == pytest.approx(answer.forecast_s)
    assert sum(term.baseline_s for term in answer.terms) == pytest.approx(10.0)
    assert "changes-kept" not in warned(answer)


def test_calls_without_a_latency_on_the_target_keep_their_time(run):
    answer = forecast(run, destination(("ftruncate", 1_000_000)))
    assert term(answer).forecast_s == pytest.approx(0.1 + 0.1)
    assert "changes-kept" not in warned(answer)
    for target in (destination(), resolve("latency:1ms", run), resolve("factor:5", run)):
        answer = forecast(run, target)
        assert term(answer).forecast_s == pytest.approx(0.5)
        assert answer.forecast_s == pytest.approx(8.5 + 0.2 + 0.5)
        [text] = [warning.message for warning in answer.warnings if warning.code == "changes-kept"]
        assert "500 ms" in text


def test_calls_of_a_part_are_scaled_to_the_whole(run):
    answer = forecast(run, destination(("ftruncate", 1_000_000)), elapsed_s=30.0)
    assert term(answer).baseline_s == pytest.approx(1.5)
    assert term(answer).forecast_s == pytest.approx(0.6)


def test_counts_of_calls_are_those_of_the_whole_run(run):
    """Where single waits were thinned out, the kept ones only give the proportion of each call."""
    changes = run.temp_changes
    thinned = changes.take(list(range(0, changes.num_rows, 5)))
    run.waits = Table.concat([run.temp_waits, thinned])
    del run.temp_changes
    answer = forecast(run, destination(("ftruncate", 1_000_000), ("unlink", 4_000_000)))
    assert term(answer).count == 150
    assert term(answer).forecast_s == pytest.approx(0.1 + 0.2)


def test_calls_of_parallel_threads_share_the_time(tmp_path):
    """Four threads that make the same calls at the same time add the time of one."""
    run = recording(tmp_path / "four.spill", LOADS, elapsed_s=10.0, sessions=4)
    rows = changed(recording(tmp_path / "one.spill", LOADS, elapsed_s=10.0)).temp_changes
    each = [rows.with_column("session", [session] * rows.num_rows) for session in range(4)]
    changed(run, [(event, 4 * count, ns) for event, count, ns in CALLS])
    run.waits = Table.concat([run.temp_waits, *each])
    assert term(forecast(run, destination())).baseline_s == pytest.approx(0.5, rel=0.02)
    fast = destination(("ftruncate", 0), ("unlink", 0))
    assert term(forecast(run, fast)).forecast_s == 0
    slow = destination(("ftruncate", 8_000_000), ("unlink", 4_000_000))
    assert term(forecast(run, slow)).forecast_s == pytest.approx(1.0, rel=0.02)


def test_waits_for_writeback_are_scaled_like_the_writes(tmp_path):
    """Writes took 1 s and writeback 2 s; on the target 0.2 s, so a fifteenth is left."""
    calls = [*CALLS, (WRITEBACK, 20, 100_000_000)]
    run = changed(recording(tmp_path / "run.spill", LOADS, elapsed_s=10.0, cpu_s=5.0), calls)
    answer = forecast(run, destination(("ftruncate", 4_000_000), ("unlink", 2_000_000)))
    [writeback] = [term for term in answer.terms if term.name == WRITEBACK]
    assert (writeback.count, writeback.baseline_s) == (20, pytest.approx(2.0))
    assert writeback.forecast_s == pytest.approx(2 / 15)
    assert (term(answer).count, term(answer).forecast_s) == (150, pytest.approx(0.5))
    assert answer.ceiling_s == pytest.approx(6.5)
    assert answer.forecast_s == pytest.approx(6.5 + 0.2 + 0.5 + 2 / 15)
    slower = replace(storage({("write", 256 * KIB): 80_000_000}), name="slower")
    [kept] = [term for term in forecast(run, slower).terms if term.name == WRITEBACK]
    assert kept.forecast_s == pytest.approx(2.0)
    # The storage of the recording itself.
    assert forecast(run, observed(run)).forecast_s == pytest.approx(10.0)


def test_the_storage_of_a_recording_has_the_latencies_of_calls(run, tmp_path):
    seen = observed(run)
    assert [(item.event, item.count, item.mean_s) for item in seen.changes] == [
        ("ftruncate", 100, 0.004), ("unlink", 50, 0.002)
    ]  # fmt: skip
    seen.save(tmp_path / "storage.json")
    again = Storage.load(tmp_path / "storage.json")
    assert again.changes == seen.changes
    assert forecast(run, again).forecast_s == pytest.approx(10.0)

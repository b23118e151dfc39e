"""Forecasts of Spark applications whose times on a storage follow by hand."""

import json

import pytest

from harness import spillcast
from spark_logs import event, text, two_stages


@pytest.fixture
def log(tmp_path):
    path = tmp_path / "log"
    path.write_bytes(text(two_stages()))
    return path


def forecast(log, *arguments):
    done = spillcast("forecast", log, *arguments, "--json")
    assert done.returncode == 0, done.stderr
    document = json.loads(done.stdout)
    return document.get("targets", [document])


def check_sum(entry):
    terms = entry["terms"]
    for key in ("baseline_s", "forecast_s"):
        assert sum(term[key] for term in terms) == pytest.approx(entry[key], abs=1e-6)
    assert entry["interval_s"][0] <= entry["forecast_s"] <= entry["interval_s"][1]


def test_a_run_in_memory_on_a_disk_of_100_mb_a_second(log):
    """A cache of 200 MB holds as much of the shuffle, and of the spill: 300 MB are read or more."""
    disk = "limits:iops=100000,throughput=100MB/s,latency=0.1ms"
    [entry] = forecast(log, "--from", "tmpfs", "--to", disk, "--page-cache", "200M")
    assert entry["baseline_s"] == 11.0
    assert entry["ceiling_s"] == pytest.approx(11.0)
    # At most all of it passes the device twice, while no task does anything else.
    assert 13.9 <= entry["forecast_s"] <= 11.0 + 14.0
    assert [stage["id"] for stage in entry["stages"]] == [0, 1]
    check_sum(entry)


def test_from_the_disk_back_to_memory(log):
    """What the disk explains goes, and no more than what is neither CPU time nor the driver's."""
    disk = "limits:iops=100000,throughput=100MB/s,latency=0.1ms"
    [entry] = forecast(log, "--from", disk, "--to", "tmpfs", "--page-cache", "500M")
    # CPU time: 3 s and 4 s in turn, and 2 s of the driver.
    assert 9.0 <= entry["forecast_s"] < 11.0
    check_sum(entry)


def test_the_same_storage_changes_nothing(log):
    disk = "limits:iops=100000,throughput=300MB/s,latency=0.1ms"
    [entry] = forecast(log, "--from", disk, "--to", disk, "--page-cache", "500M")
    assert entry["forecast_s"] == pytest.approx(11.0, rel=1e-3)


def test_without_its_storage_there_are_bounds(log):
    entry, slow = forecast(log, "--to", "tmpfs", "--to", "limits:latency=1ms,throughput=10MB/s")
    assert {"time-unknown", "page-cache-unknown"} <= {w["code"] for w in entry["warnings"]}
    # Nothing was storage: 11 s; or what the task that spilled was not on a CPU, 1 s of 5 s: 10 s.
    assert 9.0 < entry["interval_s"][0] <= 10.0 < 11.0 <= entry["interval_s"][1] + 1e-9
    assert slow["interval_s"][1] > 11.0 + 40.0
    check_sum(slow)


def test_one_sql_execution(log):
    [entry] = forecast(log, "--sql", "7", "--from", "tmpfs", "--to", "tmpfs")
    assert entry["baseline_s"] == 10.0
    done = spillcast("forecast", log, "--sql", "8", "--to", "tmpfs", "--json")
    assert (done.returncode, json.loads(done.stdout)["code"]) == (2, "selection-empty")


@pytest.mark.parametrize("target", ["latency:1ms", "factor:2", "."])
def test_targets_that_need_single_operations_are_refused(log, target):
    done = spillcast("forecast", log, "--to", target, "--json")
    assert (done.returncode, json.loads(done.stdout)["code"]) == (2, "target-unknown")


def test_an_application_without_temp_files(tmp_path):
    path = tmp_path / "log"
    events = [
        line | {"Task Metrics": {"Executor Run Time": 10, "Executor CPU Time": 10_000_000}}
        if line["Event"] == event("TaskEnd")["Event"] else line
        for line in two_stages()
    ]  # fmt: skip
    path.write_bytes(text(events))
    done = spillcast("forecast", path, "--to", "tmpfs", "--json")
    assert (done.returncode, json.loads(done.stdout)["code"]) == (2, "no-temp-io")

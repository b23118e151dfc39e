"""Forecasts of Spark applications whose times on a storage follow by hand."""

import json
import re

import pytest

import spillcast as spillcast_python
from cases import cases
from harness import completed, json_of, spillcast
from spark_logs import BEGIN_MS, event, sql_event, stage_events, task, text, two_stages
from spillcast.forecast.spark import figures_of
from spillcast.storage import Group, Storage
from spillcast.storage.source import GRID
from spillcast.units import format_duration, format_interval

DISK = "limits:iops=100000,throughput=100MB/s,latency=0.1ms"


@pytest.fixture
def log(tmp_path):
    path = tmp_path / "log"
    path.write_bytes(text(two_stages()))
    return path


def forecast(log, *arguments):
    document = json_of("forecast", log, *arguments)
    return document.get("targets", [document])


def check_sum(entry):
    terms = entry["terms"]
    for key in ("baseline_s", "forecast_s"):
        assert sum(term[key] for term in terms) == pytest.approx(entry[key], abs=1e-6)
    assert entry["interval_s"][0] <= entry["forecast_s"] <= entry["interval_s"][1]


def test_a_run_in_memory_is_forecast_for_a_disk_of_100_mb_a_second(log):
    """A cache of 200 MB holds that much of the shuffle and of the spill: 300 MB are read."""
    [entry] = forecast(log, "--from", "tmpfs", "--to", DISK, "--page-cache", "200M")
    assert entry["baseline_s"] == 11.0
    assert entry["ceiling_s"] == pytest.approx(11.0)
    # At most all of it passes the device twice, while no task does other work.
    assert 13.9 <= entry["forecast_s"] <= 11.0 + 14.0
    assert [stage["id"] for stage in entry["stages"]] == [0, 1]
    # The shuffle and the spill are both written and read.
    assert entry["terms"][0]["bytes"] == 2 * (400_000_000 + 300_000_000)
    check_sum(entry)


def test_a_run_on_disk_is_forecast_for_memory(log):
    """The disk's time goes, at most what is neither CPU time nor the driver's."""
    [entry] = forecast(log, "--from", DISK, "--to", "tmpfs", "--page-cache", "500M")
    # CPU time: 3 s and 4 s in sequence, and 2 s of the driver.
    assert 9.0 <= entry["forecast_s"] < 11.0
    check_sum(entry)


def test_the_same_storage_changes_nothing(log):
    disk = "limits:iops=100000,throughput=300MB/s,latency=0.1ms"
    [entry] = forecast(log, "--from", disk, "--to", disk, "--page-cache", "500M")
    assert entry["forecast_s"] == pytest.approx(11.0, rel=1e-3)


def test_without_the_present_storage_there_are_bounds(log):
    entry, slow = forecast(log, "--to", "tmpfs", "--to", "limits:latency=1ms,throughput=10MB/s")
    assert {"time-unknown", "page-cache-unknown"} <= {w["code"] for w in entry["warnings"]}
    # Without storage time 11 s; if the spilling task's 1 s off-CPU of 5 s was storage, 10 s.
    assert 8.0 < entry["interval_s"][0] <= 10.0 < 11.0 <= entry["interval_s"][1] + 1e-9
    assert slow["interval_s"][1] > 11.0 + 40.0
    check_sum(slow)


def test_bounds_that_are_far_apart_are_the_answer_without_their_middle(log):
    """At 1 MB/s 1.4 GB take 23 min; a page cache that holds all of it leaves the 11 s of today."""
    slow = "limits:latency=1ms,throughput=1MB/s"
    [entry] = forecast(log, "--from", DISK, "--to", slow)
    low_s, high_s = entry["interval_s"]
    assert low_s < 11.0 < 1_400 / 2 < high_s
    for others in ((), ("--to", "tmpfs")):
        page = spillcast("forecast", log, "--from", DISK, "--to", slow, *others, "--details").stdout
        assert format_interval((low_s, high_s)) in page
        assert format_duration(entry["forecast_s"]) not in page
    for to in (slow, [slow, "tmpfs"]):
        of_notebook = repr(spillcast_python.forecast(log, to=to, origin=DISK))
        assert format_duration(entry["forecast_s"]) not in of_notebook


NO_FILES = [
    line | {"Task Metrics": {"Executor Run Time": 10, "Executor CPU Time": 10_000_000}}
    if line["Event"] == event("TaskEnd")["Event"] else line
    for line in two_stages()
]  # fmt: skip
#: The clock of the driver was set back.
NO_TIME = [
    line | {"Completion Time": BEGIN_MS} if "JobEnd" in line["Event"] else line
    for line in two_stages()
]
#: A job that ran no stage takes no time; the application did spill.
NO_STAGE = [
    *two_stages()[:-1],
    event("JobStart", **{"Job ID": 1, "Submission Time": BEGIN_MS + 10_100, "Stage IDs": []}),
    event("JobEnd", **{"Job ID": 1, "Completion Time": BEGIN_MS + 10_100}),
    two_stages()[-1],
]


@cases(
    ("events", "options", "code"),
    [
        # Targets that need single operations.
        (two_stages(), ("--to", "latency:1ms"), "target-unsuited"),
        (two_stages(), ("--to", "factor:2"), "target-unsuited"),
        (two_stages(), ("--to", "."), "target-unknown"),
        (two_stages(), ("--to", "tmpfs", "--sql", "8"), "selection-empty"),
        (two_stages(), ("--to", "tmpfs", "--job", "0", "--sql", "7"), "option-conflict"),
        (NO_FILES, ("--to", "tmpfs"), "no-temp-io"),
        (NO_TIME, ("--to", "tmpfs", "--job", "0"), "evidence-contradictory"),
        (NO_STAGE, ("--to", "tmpfs", "--job", "1"), "no-temp-io"),
    ],
)
def test_logs_without_a_forecast_are_refused(tmp_path, events, options, code):
    (path := tmp_path / "log").write_bytes(text(events))
    done = spillcast("forecast", path, *options, "--json")
    assert (done.returncode, json.loads(done.stdout)["code"]) == (2, code)


@cases(("options", "baseline_s"), [(("--sql", "7"), 10.0), (("--job", "0"), 9.0)])
def test_a_single_execution_or_job_is_selected(log, options, baseline_s):
    [entry] = forecast(log, *options, "--from", "tmpfs", "--to", "tmpfs")
    assert entry["baseline_s"] == baseline_s


def test_an_execution_has_no_stages_of_another(tmp_path):
    begun, ended = stage_events(2, 10.5, 12.5, tasks=1)
    job = {"Job ID": 1, "Submission Time": BEGIN_MS + 10_500, "Stage IDs": [2]}
    spill = {"spill": 100_000_000, "spilled_memory": 300 << 20, "peak": 100 << 20}
    *first, end = two_stages(end_s=13.0)
    (path := tmp_path / "log").write_bytes(
        text([
            *first,
            sql_event("SQLExecutionStart", executionId=8, description="", time=BEGIN_MS + 10_500),
            event("JobStart", **job, Properties={"spark.sql.execution.id": "8"}),
            begun,
            task(2, 10.5, 12.5, 1.0, number=3, **spill),
            ended,
            event("JobEnd", **{"Job ID": 1, "Completion Time": BEGIN_MS + 12_500}),
            sql_event("SQLExecutionEnd", executionId=8, time=BEGIN_MS + 12_500),
            end,
        ])
    )  # fmt: skip
    for execution, stages, baseline_s in (("7", [0, 1], 10.0), ("8", [2], 2.0)):
        [entry] = forecast(path, "--sql", execution, "--from", "tmpfs", "--to", "tmpfs")
        assert [stage["id"] for stage in entry["stages"]] == stages
        assert entry["baseline_s"] == baseline_s


def spill_bytes(entry):
    return sum(stage["spill_bytes"] for stage in entry["stages"])


def test_a_single_slot_runs_its_tasks_in_sequence(log):
    """Stage 0 then takes 4 s plus 3 s instead of 4 s; the driver takes the same time."""
    [entry] = forecast(log, "--from", "tmpfs", "--to", "tmpfs", "--cores", "1")
    assert entry["baseline_s"] == pytest.approx(14.0)
    assert entry["supposed"]["measured_s"] == 11.0
    assert [stage["baseline_s"] for stage in entry["stages"]] == pytest.approx([7.0, 5.0])
    check_sum(entry)


def test_the_baseline_is_the_same_for_each_target(log):
    """With bounds, the slowest case on one target may be the fastest on another."""
    rates = ("10MB/s", "33MB/s", "100MB/s")
    today, *others = (f"limits:latency=1ms,throughput={rate}" for rate in ("33MB/s", *rates))
    targets = [word for other in ("tmpfs", *others) for word in ("--to", other)]
    for executors in ((), ("--cores", "1")):
        entries = forecast(log, "--from", today, *targets, *executors)
        assert len({entry["baseline_s"] for entry in entries}) == 1
        for entry in entries:
            check_sum(entry)


def test_more_executors_run_on_separate_nodes(log):
    """Each of two devices gets half of the shuffle that one node had."""
    today = ("--from", "tmpfs", "--to", DISK, "--page-cache", "200M")
    [alone], [apart] = forecast(log, *today), forecast(log, *today, "--executors", "2")
    assert apart["baseline_s"] == pytest.approx(alone["baseline_s"])
    assert apart["stages"][0]["forecast_s"] < alone["stages"][0]["forecast_s"]


def test_more_memory_removes_spills(log):
    """A heap of 1 GiB has 217 MiB for each of two tasks; one had 100 MiB and lacked 900 MiB."""
    today = ("--from", DISK, "--to", DISK, "--page-cache", "8G")
    [entry] = forecast(log, *today)
    fix = entry["without_spills"]
    # Ten times 0.6 of the heap beside 300 MiB, so a heap of 7,540 MiB; in steps of 256 MiB.
    assert fix["memory_bytes"] == (30 << 28)
    assert fix["forecast_s"] <= entry["baseline_s"]
    assert fix["fits"]
    [enough] = forecast(log, *today, "--memory", "7680M")
    assert spill_bytes(enough) == 0
    [half] = forecast(log, *today, "--memory", "4G")
    assert 0 < spill_bytes(half) < 300_000_000
    [less] = forecast(log, *today, "--memory", "900M")
    assert spill_bytes(less) > 300_000_000
    done = spillcast("forecast", log, *today, "--memory", "200M", "--json")
    assert (done.returncode, json.loads(done.stdout)["code"]) == (2, "evidence-unsuited")


@cases("written", ["1073741824", "1073741824b", "1048576kb", "1024m"])
def test_off_heap_memory_without_a_unit_is_in_bytes(tmp_path, written):
    """Spark's configuration: spark.memory.offHeap.size is in bytes unless it has a unit."""

    def entry(size):
        properties = {"spark.memory.offHeap.enabled": "true", "spark.memory.offHeap.size": size}
        path = tmp_path / "log"
        path.write_bytes(text(two_stages(properties=properties)))
        return forecast(path, "--from", DISK, "--to", DISK, "--page-cache", "8G")

    assert entry(written) == entry("1g")


@cases("fraction", ["0", "-1", "nan", "inf", "much"])
def test_an_invalid_memory_fraction_is_replaced_by_the_default(tmp_path, fraction):
    path = tmp_path / "log"

    def entry(properties):
        path.write_bytes(text(two_stages(properties=properties)))
        return forecast(path, "--from", DISK, "--to", "tmpfs", "--page-cache", "8G")

    assert entry({"spark.memory.fraction": fraction}) == entry({"spark.memory.fraction": "0.6"})


@cases(
    ("changed", "bound"),
    [
        ({"cpu_s": [3.6, 3.6]}, "CPU"),
        ({"cpu_s": [0.1, 0.1]}, "other waits"),
        ({"cpu_s": [3.6, 0.1], "end_s": [5.0, 1.2]}, "stragglers"),
        ({"cpu_s": [1.0, 1.0], "gc_ms": 2500}, "GC"),
        ({"cpu_s": [1.0, 1.0], "remote": 50_000_000, "wait_ms": 2500}, "network"),
        ({"cpu_s": [3.6], "end_s": [5.0]}, "too few tasks"),
    ],
)
def test_the_binding_resource_of_a_stage_is_named(tmp_path, changed, bound):
    """A stage of two slots from 1 s to 5 s; the shuffle keeps the log from being refused."""
    path, events = tmp_path / "log", two_stages()
    first, last = events.index(next(e for e in events if "TaskEnd" in e["Event"])), 9
    ends_s = changed.get("end_s", [5.0, 5.0])
    tasks = [
        task(0, 1.0, end_s, cpu_s, written=1000)
        for cpu_s, end_s in zip(changed["cpu_s"], ends_s, strict=True)
    ]
    for event_of_task in tasks:
        metrics = event_of_task["Task Metrics"]
        metrics["JVM GC Time"] = changed.get("gc_ms", 0)
        read = metrics["Shuffle Read Metrics"]
        read["Remote Bytes Read"] = changed.get("remote", 0)
        read["Fetch Wait Time"] = changed.get("wait_ms", 0)
    path.write_bytes(text([*events[:first], *tasks, *events[last:]]))
    [entry] = forecast(path, "--from", "tmpfs", "--to", "tmpfs")
    assert entry["stages"][0]["baseline_bound_by"] == bound


def test_local_directories_in_memory_need_no_source_option(tmp_path):
    path = tmp_path / "log"
    path.write_bytes(text(two_stages(properties={"spark.kubernetes.local.dirs.tmpfs": "true"})))
    [entry] = forecast(path, "--to", "tmpfs", "--page-cache", "1G")
    assert [warning["code"] for warning in entry["warnings"]] == ["local-in-memory"]
    assert entry["forecast_s"] == pytest.approx(11.0)


def test_the_page_draws_stages_and_redacts_names(log, tmp_path):
    page = tmp_path / "page.html"
    arguments = ("--from", DISK, "--to", "tmpfs", "--page-cache", "100M", "-o", page, "--json")
    done = completed("report", log, *arguments, "--redact")
    assert any("Stages today" in title for title in json.loads(done.stdout)["charts"])
    written = page.read_text()
    bars = [line for line in written.split("<rect") if 'height="9"' in line]
    # Two stages, each before and after.
    assert len(bars) == 4
    # The terms of the baseline: temp I/O as reads, tasks as CPU time.
    terms = [line for line in written.split("<rect") if 'height="16"' in line]
    assert {"read", "cpu"} <= {re.search(r"--([\w-]+)\)", term)[1] for term in terms}
    assert not any(name in written for name in ("host-1", "app-1"))
    completed("report", log, *arguments)
    assert log.name in re.search("<title>.*</title>", page.read_text())[0]
    assert spillcast("report", log, "-o", page).returncode == 2


@cases(("mb_per_s", "refused"), [(300, None), (1, "times-contradictory")])
def test_a_run_much_faster_than_its_stated_storage_is_refused(log, mb_per_s, refused):
    """1.4 GB in 11 s, of which CPU time is 7 s: 1 MB/s would take minutes."""
    origin = f"limits:iops=100000,throughput={mb_per_s}MB/s,latency=0.1ms"
    options = ("--from", origin, "--to", "tmpfs", "--page-cache", "100M")
    entry = json.loads(spillcast("forecast", log, *options, "--json").stdout)
    assert entry["refused_code"] == refused


def test_a_cache_of_unknown_size_is_one_with_which_the_run_was_possible(log):
    """With 256 MiB a disk of 5 MB/s takes minutes; with memory for the 700 MB it takes 11 s."""
    origin = "limits:iops=100000,throughput=5MB/s,latency=0.1ms"
    [entry] = forecast(log, "--from", origin, "--to", "tmpfs")
    # The CPU time of the tasks that follow each other, and what the driver takes.
    assert 7.0 <= entry["interval_s"][0] <= entry["interval_s"][1] <= 11.0 * 1.3
    assert not any("256 MiB" in warning["message"] for warning in entry["warnings"])


def test_a_log_that_contradicts_itself_is_refused(tmp_path):
    """CPU times in a wrong unit; the rest of the 11 s would be a disk that needs hours."""
    events = two_stages()
    for ended in events:
        if ended["Event"] == "SparkListenerTaskEnd":
            ended["Task Metrics"]["Executor CPU Time"] //= 1_000_000
    (path := tmp_path / "log").write_bytes(text(events))
    slow = "limits:iops=100000,throughput=100KB/s,latency=0.1ms"
    options = ("--from", slow, "--to", DISK, "--page-cache", "0")
    entry = json.loads(spillcast("forecast", path, *options, "--json").stdout)
    assert entry["refused_code"] == "times-contradictory"


def test_writeback_is_as_fast_as_direct_writes():
    def group(op, access, ns):
        return Group(op, 1 << 20, 8, 100, 100 << 20, 100 * ns, [ns], [100], [100], [ns],
                     "sequential", access)  # fmt: skip

    # 8 MiB in 1 ms to memory, in 80 ms to the device.
    groups = [group("read", "buffered", 40_000_000), group("write", "buffered", 1_000_000),
              group("write", "direct", 80_000_000)]  # fmt: skip
    write_bytes_per_s = figures_of(Storage("disk", GRID, groups), 1 << 30)[2]
    assert write_bytes_per_s < 2 * (8 << 20) / 0.08

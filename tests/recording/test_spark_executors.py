"""Spark executors under observation: a job in local mode, with its event log."""

import json
import os
import shutil
import subprocess
import sys
from dataclasses import replace
from datetime import UTC, datetime
from importlib.util import find_spec
from pathlib import Path

import pytest

from cases import cases
from evidence import change, known, waits
from harness import completed, json_of, until
from spark_logs import BEGIN_MS, text, two_stages
from spillcast.engines.spark import local_dirs_notice
from spillcast.errors import EvidenceMixed
from spillcast.evidence.spark import read_application
from spillcast.evidence.spark.observed import observed
from spillcast.forecast.question import Question
from spillcast.forecast.spark import forecast_application
from spillcast.recording import Recording
from spillcast.recording.meta import KeptWaits
from spillcast.recording.observed import TempKind

#: A sort whose rows are shuffled and spilled.
JOB = """
import sys
from pyspark.sql import SparkSession
settings = {
    "spark.local.dir": sys.argv[1], "spark.eventLog.enabled": "true",
    "spark.eventLog.dir": sys.argv[2], "spark.eventLog.rolling.enabled": "false",
    "spark.eventLog.compress": "false", "spark.ui.enabled": "false",
    "spark.sql.shuffle.partitions": "2", "spark.driver.memory": "512m",
    "spark.shuffle.spill.numElementsForceSpillThreshold": "20000",
}
builder = SparkSession.builder.master("local[2]")
for name, value in settings.items():
    builder = builder.config(name, value)
spark = builder.getOrCreate()
rows = spark.range(0, 100_000, 1, 2).selectExpr("hash(id) as v", "repeat(string(id), 6) as t")
rows.orderBy("v").write.format("noop").mode("overwrite").save()
spark.stop()
"""


@pytest.mark.skipif(
    find_spec("pyspark") is None or shutil.which("java") is None, reason="needs pyspark and Java"
)
def test_kinds_of_files_are_those_in_the_event_log(tmp_path):
    local, logs, output = tmp_path / "local", tmp_path / "logs", tmp_path / "run.spill"
    logs.mkdir()
    done = completed("record", "-o", output, "--", sys.executable, "-c", JOB, local, logs)
    [log] = logs.iterdir()
    events = [json.loads(line) for line in log.read_text().splitlines()]
    metrics = [event["Task Metrics"] for event in events if "Task Metrics" in event]
    spilled = sum(task["Disk Bytes Spilled"] for task in metrics)
    written = sum(task["Shuffle Write Metrics"]["Shuffle Bytes Written"] for task in metrics)
    read = sum(task["Shuffle Read Metrics"]["Local Bytes Read"] for task in metrics)
    assert spilled > 1 << 20
    recording = Recording.open(output)
    kinds = {kind.kind: kind for kind in recording.meta.temp_kinds if kind.engine == "spark"}
    assert kinds["spill"].written_bytes == pytest.approx(spilled, rel=0.02)
    assert kinds["shuffle"].written_bytes == pytest.approx(written, rel=0.02)
    assert kinds["shuffle"].read_bytes == pytest.approx(read, rel=0.02)
    # At first each partition has its own file.
    assert kinds["unmerged shuffle"].written_bytes == pytest.approx(written, rel=0.02)
    assert recording.meta.capture.mapped_temp_files == []
    assert "spill: " in done.stdout
    forecast = json_of("forecast", log, output, "--to", "tmpfs")
    # On a busy machine tasks have waits that no log shows.
    assert {warning["code"] for warning in forecast["warnings"]} <= {"event-log"}
    assert forecast["forecast_s"] <= forecast["baseline_s"]


def executor(rows, *, started_s=0.0, blocked=True):
    """A recording in memory of its temp I/O: op, file, bytes, start and duration in seconds."""
    table_of_rows = waits(
        (7, op, size, round(1e9 * begin_s), round(1e9 * length_s))
        for op, _, size, begin_s, length_s in rows
    )
    files = [f"/t/blockmgr-5d/0c/{file}" for _, file, *_ in rows]
    started = datetime.fromtimestamp(BEGIN_MS / 1e3 + started_s, UTC).isoformat()
    count = len(rows)
    meta = replace(
        known(20.0, count, count),
        started_at=started,
        raw=KeptWaits(count, count, None),
        temp_kinds=[
            TempKind("spark", file.partition("_")[0], 1, op == "read" and size, 1, 0, 0.0)
            for op, file, size, *_ in rows
        ],
    )
    recording = Recording(Path("run.spill"), meta)
    recording.waits = table_of_rows.with_column("file", files).with_column(
        "blocked", [blocked] * count
    )
    return recording


@pytest.fixture
def application(tmp_path):
    """Two tasks write 200 MB each from 1 s to 5 s and to 4 s; one reads them from 5 s to 10 s."""
    path = tmp_path / "log"
    path.write_bytes(text(two_stages()))
    return read_application(path)


ROWS = [
    ("write", "shuffle_0_1_0.data.f0b1", 200_000_000, 2.0, 0.7),
    ("write", "shuffle_0_0_0.data.56ab", 200_000_000, 4.2, 0.4),
    ("read", "shuffle_0_0_0.data", 400_000_000, 6.0, 0.5),
    # No task runs at that time.
    ("read", "shuffle_0_0_0.data", 0, 10.2, 0.5),
]


def test_waits_are_assigned_to_the_running_tasks(application):
    """Two tasks share 0.7 s as 50 to 66.7 MB/s; waits outside of tasks are assigned to none."""
    recorded = observed(application, [executor(ROWS)])
    assert recorded.observed.coverage == 1.0
    assert recorded.observed.waits_s == pytest.approx([0.3 + 0.4, 0.4, 0.5])
    # By the log's times writes took nothing; the second stage takes 4.5 s of 5 s.
    [(forecast, _)] = forecast_application(recorded, ["tmpfs"], Question(page_cache_bytes=1 << 40))
    assert forecast.forecast_s == pytest.approx(11.0 - 0.5)
    assert forecast.warnings == []


def test_calls_that_never_blocked_did_not_wait_for_storage(application):
    recorded = observed(application, [executor(ROWS, blocked=False)])
    assert recorded.observed.waits_s == [0.0, 0.0, 0.0]


def test_time_that_faster_storage_would_not_save_is_not_a_wait(application):
    """Run queue time at the end of waits, and cores that other threads need at the same time."""
    recording = executor(ROWS)
    # The first three waits took 0.7 s, 0.4 s and 0.5 s.
    change(recording, capture=replace(recording.meta.capture, run_queue_delay_s=1.0, switches=10))
    recorded = observed(application, [recording])
    assert recorded.observed.waits_s == pytest.approx([0.6 * 3 / 7 + 0.3, 0.6 * 4 / 7, 0.4])
    # The last task took 5 s, in which two cores had 9.4 s of work.
    busy = executor([*ROWS, ("write", "shuffle_0_2_0.data", 0, 9.9, 0.0)])
    change(busy, machine=replace(busy.meta.machine, cpus=2))
    busy.waits = busy.waits.with_column("cpu_before_ns", [0, 0, 0, 0, 9_400_000_000])
    assert observed(application, [busy]).observed.waits_s == pytest.approx([0.7, 0.4, 0.3])


def test_threads_that_only_remove_files_are_not_tasks(application):
    recording = executor([*ROWS, (None, "shuffle_0_0_0.data", 0, 7.0, 2.0)])
    recording.waits = recording.waits.with_column("session", [7] * len(ROWS) + [8])
    assert observed(application, [recording]).observed.waits_s == pytest.approx([0.7, 0.4, 0.5])


def test_more_memory_saves_only_the_waits_for_spills(application):
    """The last task waits for 400 MB of a shuffle, and for 300 MB that it writes and reads."""
    recorded = observed(application, [executor(ROWS)])
    question = Question(page_cache_bytes=1 << 40)
    [(forecast, _)] = forecast_application(recorded, ["tmpfs"], question)
    assert forecast.without_spills.forecast_s == pytest.approx(11.0 - 0.5 * 600 / 1000)
    assert forecast.forecast_s == pytest.approx(11.0 - 0.5)


def test_the_interval_widens_with_the_subtracted_waits(application):
    def width(read_s):
        rows = [*ROWS[:2], ("read", "shuffle_0_0_0.data", 400_000_000, 5.5, read_s)]
        recorded = observed(application, [executor(rows)])
        [(answer, _)] = forecast_application(
            recorded, ["tmpfs"], Question(page_cache_bytes=1 << 40)
        )
        low_s, high_s = answer.interval_s
        return high_s / low_s

    # The task that reads is on a CPU for 4 s of its 5 s.
    assert width(0.9) > width(0.5) > width(0.1) > 1.0


def test_a_single_executor_of_two_is_scaled_to_both(application):
    half = [(op, file, size // 2, *times) for op, file, size, *times in ROWS]
    recorded = observed(application, [executor(half)])
    assert recorded.observed.coverage == 0.5
    assert recorded.observed.waits_s == pytest.approx([1.4, 0.8, 1.0])
    assert "50 %" in dict(recorded.warnings())["event-log"]


def test_a_recording_of_another_run_is_refused(application):
    for other in (executor(ROWS, started_s=100.0), executor([("read", "rdd_0_1", 1, 6.0, 0.1)])):
        with pytest.raises(EvidenceMixed):
            observed(application, [other])


@cases(
    ("variables", "argument", "used", "setting"),
    [
        (
            {"SPARK_LOCAL_DIRS": "{0},{1}"},
            "-Dspark.local.dir=/elsewhere",
            [0, 1],
            "SPARK_LOCAL_DIRS",
        ),
        ({"LOCAL_DIRS": "{0}"}, "spark.local.dir={1}", [1], "spark.local.dir"),
        ({"LOCAL_DIRS": "{0}", "CONTAINER_ID": "c"}, "spark.local.dir={1}", [0], "LOCAL_DIRS"),
        ({}, "-Djava.io.tmpdir={1}", [1], "java.io.tmpdir"),
    ],
)
def test_local_directories_of_a_running_executor(tmp_path, variables, argument, used, setting):
    places = [str(tmp_path / name) for name in "ab"]
    for place in places:
        (Path(place) / "blockmgr-5d").mkdir(parents=True)
    command = [sys.executable, "-c", "import time; time.sleep(600)", argument.format(*places)]
    variables = {name: value.format(*places) for name, value in variables.items()}
    environment = {"PATH": os.environ["PATH"], **variables}
    executor = subprocess.Popen([*command, "org.apache.spark.executor.X"], env=environment)
    other = subprocess.Popen(command, env=environment)
    try:
        # Its arguments become visible a moment after its start.
        until(lambda: local_dirs_notice(executor.pid) is not None, "the arguments")
        notice = local_dirs_notice(executor.pid)
        assert setting in notice
        assert [place in notice for place in places] == [number in used for number in (0, 1)]
        assert local_dirs_notice(other.pid) is None
    finally:
        for process in (executor, other):
            process.kill()
            process.wait()

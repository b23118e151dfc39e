"""Event logs of Spark: codecs, parts, addresses and damage; sums against the events themselves."""

import json
import zipfile
from datetime import UTC, datetime

import fsspec
import pytest

from cases import cases
from evidence import change, known, waits
from harness import spillcast
from spark_logs import BEGIN_MS, CODECS, text, two_stages, zstd
from spillcast.errors import SpillcastError
from spillcast.evidence.open import find_evidence
from spillcast.evidence.spark import read_application
from spillcast.evidence.spark.observed import observed
from spillcast.recording.observed import TempKind
from spillcast.recording.writer import RecordingWriter


def code_of(path):
    with pytest.raises(SpillcastError) as raised:
        read_application(path)
    return raised.value.code


def later_attempt():
    """A later attempt of the same application, started by YARN: ids begin at 0 again."""
    events = two_stages()
    next(e for e in events if "App ID" in e)["Timestamp"] += 60_000
    return events


def check_sums(application):
    """Checks the sums of the events of ``two_stages``."""
    first, second = application.log.stages
    assert (first.task_count, first.shuffle_write_bytes, first.cpu_ns) == (2, 400_000_000, 6e9)
    assert (second.task_ms, second.spill_bytes) == (5000, 300_000_000)
    assert (second.shuffle_read_bytes, second.parents) == (400_000_000, [0])
    assert application.elapsed_s == 11.0


@cases("suffix", CODECS)
def test_every_codec_is_recognised_and_read(tmp_path, suffix):
    path = tmp_path / f"events_1_app-1{suffix}"
    path.write_bytes(CODECS[suffix](text(two_stages())))
    [log] = find_evidence([path]).spark
    check_sums(read_application(log))


@cases("suffix", ["", ".zstd", ".lz4", ".snappy"])
def test_a_log_from_the_history_server_is_read(tmp_path, suffix):
    """It packs a download as zip."""
    with zipfile.ZipFile(path := tmp_path / "eventLogs-app-1.zip", "w") as archive:
        archive.writestr(f"app-1{suffix}", CODECS[suffix](text(two_stages())))
    [log] = find_evidence([path]).spark
    check_sums(read_application(log))


@cases(
    "names",
    [
        ["events_1_app-1.zstd", "events_2_app-1.zstd", "events_10_app-1"],
        ["eventlog-2026-01-01--09-50.gz", "eventlog-2026-01-01--10-00.gz", "eventlog"],
    ],
)
def test_parts_are_read_in_order(tmp_path, names):
    """Spark numbers its parts; Databricks dates them, except for the part that it still writes."""
    events, folder = two_stages(), tmp_path / "log"
    folder.mkdir()
    (folder / "appstatus_app-1").touch()
    for name, part in zip(names, (events[:5], events[5:8], events[8:]), strict=True):
        pack = CODECS.get(name[name.rfind(".") :] if "." in name else "", bytes)
        (folder / name).write_bytes(pack(text(part)))
    [log] = find_evidence([folder]).spark
    check_sums(read_application(log))


def test_an_address_of_fsspec(tmp_path):
    files = fsspec.filesystem("memory")
    files.pipe("/logs/eventlog_v2_app-1/events_1_app-1.zstd", zstd(text(two_stages())))
    address = "memory://logs/eventlog_v2_app-1"
    assert find_evidence([address]).spark == [address]
    check_sums(read_application(address))
    assert code_of("memory://logs/none") == "path-missing"


@cases("pack", [bytes, zstd])
def test_a_running_application_is_read_up_to_its_last_event(tmp_path, pack):
    """While a log is being written, its last line or block is cut."""
    path = tmp_path / "app-1.inprogress"
    events = two_stages()
    begin, rest = pack(text(events[:-1])), pack(text(events[-1:]))
    path.write_bytes(begin + rest[:-3])
    application = read_application(path)
    assert not application.whole
    assert "event-log" in [code for code, _ in application.warnings()]


@cases(
    ("events", "code"),
    [
        (two_stages() + two_stages(app="app-2"), "evidence-mixed"),
        (two_stages() + later_attempt(), "evidence-mixed"),
        (two_stages()[:4], "evidence-unsuited"),
        (two_stages()[:1], "evidence-damaged"),
        ([e for e in two_stages() if "TaskEnd" not in e["Event"]], "evidence-unsuited"),
        ([e for e in two_stages() if "TaskEnd" in e["Event"]], "evidence-incomplete"),
    ],
)
def test_logs_without_an_application_or_tasks_are_refused(tmp_path, events, code):
    path = tmp_path / "log"
    path.write_bytes(text(events))
    assert code_of(path) == code


@cases("rolled", [False, True])
def test_repeated_events_count_once(tmp_path, rolled):
    """A log that was pasted twice; a part beside its compressed copy."""
    (path := tmp_path / "log").mkdir()
    (path / "events_1_app-1").write_bytes(text(two_stages()) * (1 if rolled else 2))
    if rolled:
        (path / "events_1_app-1.zstd").write_bytes(zstd(text(two_stages())))
    application = read_application(path)
    check_sums(application)
    assert (len(application.log.jobs), len(application.log.executions)) == (1, 1)


def noted(path):
    return "event-log" in [code for code, _ in read_application(path).warnings()]


@cases("lost", ["StageCompleted", "TaskEnd", "JobStart", "ApplicationStart"])
def test_a_log_that_lacks_events_is_noted(tmp_path, lost):
    """Spark drops events when its queue is full."""
    events, path = two_stages(), tmp_path / "log"
    path.write_bytes(text(events))
    assert not noted(path)
    events.pop(next(at for at, e in enumerate(events) if e["Event"] == f"SparkListener{lost}"))
    path.write_bytes(text(events))
    assert noted(path)


def test_lines_out_of_order_are_noted(tmp_path):
    """The events of stages are before that of their job, so that the job seems to have none."""
    (path := tmp_path / "log").write_bytes(text(reversed(two_stages())))
    assert noted(path)


def test_a_cancelled_stage_lacks_no_tasks(tmp_path):
    events, path = two_stages(), tmp_path / "log"
    ended = next(e for e in events if e["Event"] == "SparkListenerStageCompleted")
    ended["Stage Info"] |= {"Number of Tasks": 9, "Failure Reason": "Job 0 cancelled"}
    path.write_bytes(text(events))
    assert not noted(path)


@cases(
    ("names", "whole"),
    [
        (["events_1_app-1", "events_2_app-1"], True),
        (["events_1_app-1", "events_3_app-1"], False),
        (["events_2_app-1", "events_3_app-1"], False),
        (["events_2_app-1.compact", "events_3_app-1"], False),
    ],
)
def test_missing_parts_are_noted(tmp_path, names, whole):
    """By their numbers; a compacted part lacks the jobs that had ended."""
    for name, part in zip(names, (two_stages()[:8], two_stages()[8:]), strict=True):
        (tmp_path / name).write_bytes(text(part))
    assert noted(tmp_path) != whole


def test_a_block_of_garbage_is_damage(tmp_path):
    path = tmp_path / "log.lz4"
    path.write_bytes(CODECS[".lz4"](text(two_stages()))[:21] + b"x" * 400)
    assert code_of(path) == "evidence-damaged"


@cases(
    ("properties", "word"),
    [
        ({"spark.plugins": "com.nvidia.spark.SQLPlugin"}, "RAPIDS"),
        ({"spark.plugins": "org.apache.gluten.GlutenPlugin"}, "Gluten"),
    ],
)
def test_event_logs_of_other_engines_give_a_warning(tmp_path, properties, word):
    path = tmp_path / "log"
    path.write_bytes(text(two_stages(properties=properties)))
    assert [word] == [
        word
        for code, note in read_application(path).warnings()
        if code == "other-engine" and word in note
    ]


@cases(
    "manager",
    [
        "org.apache.spark.shuffle.celeborn.SparkShuffleManager",
        "org.apache.spark.shuffle.RssShuffleManager",
    ],
)
def test_a_remote_shuffle_is_refused(tmp_path, manager):
    path = tmp_path / "log"
    path.write_bytes(text(two_stages(properties={"spark.shuffle.manager": manager})))
    done = spillcast("forecast", path, "--to", "tmpfs", "--json")
    assert (done.returncode, json.loads(done.stdout)["code"]) == (2, "evidence-unsuited")


def warned(path, events):
    path.write_bytes(text(events))
    return {code: words for code, words in read_application(path).warnings()}


def test_contradictory_and_remote_figures_are_reported(tmp_path):
    path, events = tmp_path / "log", two_stages()
    assert warned(path, events) == {}
    # An executor whose start is not logged has as many cores as it ran concurrent tasks.
    [application] = [warned(path, [e for e in events if "ExecutorAdded" not in e["Event"]])]
    assert "cores" in application["event-log"]
    assert [executor.cores for executor in read_application(path).log.executors] == [2]
    early = json.loads(json.dumps(events))
    next(e for e in early if "TaskEnd" in e["Event"])["Task Info"]["Launch Time"] -= 900
    assert "1 of 3 tasks" in warned(path, early)["event-log"]
    pushed = two_stages(properties={"spark.shuffle.push.enabled": "true"})
    assert "pushed-shuffle" in warned(path, pushed)
    for in_memory in (True, False):
        cached = json.loads(json.dumps(events))
        level = {"Use Disk": True, "Use Memory": in_memory, "Use Off Heap": False}
        stage = next(e for e in cached if "StageSubmitted" in e["Event"])["Stage Info"]
        stage["RDD Info"] = [{"RDD ID": 4, "Storage Level": level}]
        assert ("incomplete" in warned(path, cached)) is not in_memory
    planned = [
        e | {"sparkPlanInfo": {"nodeName": "GpuSort"}} if "SQLExecutionStart" in e["Event"] else e
        for e in events
    ]
    assert "RAPIDS" in warned(path, planned)["other-engine"]


def test_a_store_without_permission_gives_one_error(monkeypatch):
    import fsspec.implementations.memory

    def refuse(*_arguments, **_options):
        raise PermissionError("Access Denied")

    monkeypatch.setattr(fsspec.implementations.memory.MemoryFileSystem, "isdir", refuse)
    assert code_of("memory://logs/app-1") == "file-unreadable"


def test_a_folder_of_logs_names_its_first_log(tmp_path):
    folder = tmp_path / "logs" / "eventlog_v2_app-1"
    folder.mkdir(parents=True)
    (folder / "events_1_app-1").write_bytes(text(two_stages()))
    with pytest.raises(SpillcastError) as raised:
        find_evidence([folder.parent])
    assert str(folder) in raised.value.hint


def test_waits_of_an_executor_are_divided_among_the_tasks_of_their_time(tmp_path):
    """Tasks write 200 MB in 4 s and in 3 s, and one moves 1 GB from 5 s to 10 s."""
    (log := tmp_path / "log").write_bytes(text(two_stages()))
    writer = RecordingWriter(tmp_path / "executor.spill")
    # Their middles are before any task, while the first two run, and while the last does; the end
    # of the first wait and the start of the last are within other tasks.
    spans = ((300_000_000, 0.9), (1_700_000_000, 0.7), (4_600_000_000, 1.0))
    writer.add_waits(waits([(1, "write", 1 << 20, at_ns, round(s * 1e9)) for at_ns, s in spans]))
    recorded = writer.finish(known(11.0, 0, 3))
    begun = datetime.fromtimestamp(BEGIN_MS / 1e3, UTC).isoformat()
    shuffle = TempKind("spark", "shuffle", 100, 400_000_000, 3, 400_000_000, 1.9)
    change(recorded, started_at=begun, recorded_s=11.0, temp_kinds=[shuffle])
    tasks = observed(read_application(log), [recorded]).observed
    shares = (200 / 4) / (200 / 4 + 200 / 3), (200 / 3) / (200 / 4 + 200 / 3)
    assert tasks.coverage == 1.0
    assert tasks.waits_s == pytest.approx([0.7 * shares[0], 0.7 * shares[1], 1.0])

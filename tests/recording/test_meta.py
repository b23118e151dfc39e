"""meta.json: any key that is missing or of another type is refused in one line."""

import json
import shutil
import subprocess
import sys
from functools import reduce
from operator import getitem

import pytest

from cases import cases, nightly
from evidence import recording as made_up_recording
from harness import only_line, spillcast
from spillcast.cli import main
from spillcast.errors import EvidenceUnsuited, InputError
from spillcast.recording import Recording

#: What a recording of a PostgreSQL query has in addition.
QUERY = {
    "engine": {
        "name": "postgres", "version": "18.6", "pid": 4711, "work_mem": "4MB", "query": "select 1",
        "server": {"host": "db01", "port": 5432, "dbname": "erp", "user": "etl"},
        "plan": {"file": "plan.json", "execution_s": 1.9},
    },
    "memory": {
        "limit_bytes": 1 << 30, "peak_rss_bytes": 1 << 20, "group_held_bytes": None,
        "stalled_s": 0.0,
    },
    "server": {
        "backend": 4711, "query_started_at": "2026-11-21T14:17:11.975+00:00",
        "query_elapsed_s": 12.5, "before_recording_s": 2.5, "ended_by": "query", "failure": None,
        "workers": [
            {"pid": 4712, "started_s": -0.5, "attached_s": 0.1,
             "missed": {"reads": 1, "writes": 2, "bytes": 3}, "temp_files": 0}
        ],
        "workers_not_attached": 0,
        "temp_files": [{"tablespace": "pg_default", "peak_bytes": 8192, "peak_files": 1}],
        "table_calls": 12,
    },
    "sampling": {
        "rate_hz": 50, "samples": 9, "ticks": 10, "discarded": 1, "gap_s": 0.2, "gap_from_s": 0.1,
        "client_cpu_s": 0.1, "server_cpu_s": None,
    },
}  # fmt: skip
#: Parts that not every recording has.
OPTIONAL = {"server", "sampling", "sums", "ended_by", "capture.threads_sampled"} | {
    f"engine.{name}" for name in ("version", "server", "pid", "command", "query", "plan")
}
#: Costs that recordings of earlier versions lack.
OPTIONAL |= {
    f"capture.{name}"
    for name in ("calls", "switches", "recorder_memory_bytes", "overhead_low_s", "overhead_high_s")
} | {"capture.call_cost_s", "capture.switch_cost_s"}
OPTIONAL |= {f"capture.{name}" for name in ("io_uring_depth", "io_uring_busy_s", "file_faults")}
OPTIONAL |= {"capture.run_queue_others_s", "capture.file_fault_s", "capture.spun_s"}
OPTIONAL |= {"machine.calibration", "temp_places", "cpu_limits"}
OPTIONAL |= {"memory.group_held_bytes", "memory.stalled_s"}
OPTIONAL |= {
    "temp_before",
    "temp_kinds",
    "inputs",
    "server.workers.temp_files",
    "server.table_calls",
}
OPTIONAL |= {"capture.temp_copies", "capture.temp_copied_bytes"}
OPTIONAL |= {"spilled", "server_connection", "capture.unobserved_processes"}
OPTIONAL |= {f"temp_places.{name}" for name in ("device_name", "mount_point", "mount_options")}
#: Settings, and keys that no reader uses.
FREE = {"engine.exit_status", "engine.work_mem", "engine.plan.file", "engine.plan.execution_s"}
MAY_BE_NEGATIVE = {"server.workers.started_s", "server.workers.attached_s"}


#: Threads that each read the first document of a new process.
AT_ONCE = """
import sys, threading
from spillcast.recording.meta import Meta
text, barrier = open(sys.argv[1]).read(), threading.Barrier(4)
sys.setswitchinterval(1e-6)
read = lambda: (barrier.wait(), Meta.from_json(text))
threads = [threading.Thread(target=read) for _ in range(4)]
for thread in threads: thread.start()
for thread in threads: thread.join()
"""


def test_threads_can_read_their_first_recording_at_once(spilled):
    command = [sys.executable, "-c", AT_ONCE, spilled.path / "meta.json"]
    assert [subprocess.run(command, check=False).returncode for _ in range(5)] == [0] * 5


@pytest.fixture(params=["made up", "samples alone", *nightly("real")])
def run(request, tmp_path):
    """A recording, and its document."""
    path = tmp_path / "run.spill"
    if request.param == "real":
        shutil.copytree(request.getfixturevalue("spilled").path, path)
        return path, json.loads((path / "meta.json").read_text())
    made = made_up_recording(path, [("read", 8192, 9, 1000)], elapsed_s=1.0, cpu_s=0.3)
    document = json.loads((made.path / "meta.json").read_text()) | QUERY
    if request.param == "samples alone":
        document |= {"machine": {}, "temp": None, "other_io": None, "cpu_s": None}
        document["spilled"] = None
        document["capture"] = {"method": "none", "absent_because": "it is elsewhere"}
    write(path, document)
    return path, document


def write(path, document):
    (path / "meta.json").write_text(json.dumps(document))


def keys_of(value, within=()):
    """Every key of a document: the path to its container, and its name."""
    if isinstance(value, dict):
        for name, inner in value.items():
            yield (*within, name)
            yield from keys_of(inner, (*within, name))
    elif isinstance(value, list):
        for at, inner in enumerate(value):
            yield from keys_of(inner, (*within, at))


def named(way):
    return ".".join(part for part in way if isinstance(part, str))


def value_at(document, way):
    return reduce(getitem, way, document)


def kind(document, way):
    return named(way), type(value_at(document, way))


def changed(document, way, *values):
    """A copy with another value at a key, or without it."""
    copy = json.loads(json.dumps(document))
    inner = copy
    for part in way[:-1]:
        inner = inner[part]
    del inner[way[-1]]
    if values:
        inner[way[-1]] = values[0]
    return copy


def unlike(value, name):
    """Values of other types."""
    if isinstance(value, bool) or value is None:
        return ["x" if isinstance(value, bool) else {}, [1]] if name != "memory" else [[1]]
    if isinstance(value, int | float):
        wrong = ["x", {}, float("nan"), True, 10**400]
        return wrong if name in MAY_BE_NEGATIVE else [*wrong, -1]
    return [5, [5] if isinstance(value, str | dict) else "x"]


def refused(path, document, arguments, monkeypatch, capsys):
    write(path, document)
    monkeypatch.setattr(sys, "argv", ["spillcast", *map(str, arguments)])
    with pytest.raises(SystemExit) as exited:
        main()
    answer = capsys.readouterr()
    assert (exited.value.code, answer.out) == (2, "")
    first, *hints = answer.err.splitlines()
    assert first.startswith(f"spillcast: {path / 'meta.json'}: ")
    assert len(hints) == 1
    return first


def verbs(path):
    return (
        ("profile", path),
        ("forecast", path, "--to", "factor:2"),
        ("report", path, "-o", path.with_name("page.html")),
    )


def test_a_start_that_is_not_a_time_is_refused(run, monkeypatch, capsys):
    path, document = run
    refused(path, document | {"started_at": "then"}, verbs(path)[0], monkeypatch, capsys)


def test_a_missing_key_is_named_in_one_line(run, monkeypatch, capsys):
    path, document = run
    needed = [way for way in keys_of(document) if named(way) not in OPTIONAL | FREE]
    assert len(needed) > 40
    for number, way in enumerate(needed):
        arguments = verbs(path)[number % 3]
        first = refused(path, changed(document, way), arguments, monkeypatch, capsys)
        assert named(way).rpartition(".")[2] in first


def test_a_value_of_another_type_is_named_in_one_line(run, spilled, monkeypatch, capsys):
    path, document = run
    real = json.loads((spilled.path / "meta.json").read_text())
    # The other documents are tried with keys that this one lacks or has with another type.
    known = set() if document == real else {kind(real, way) for way in keys_of(real)}
    for way in keys_of(document):
        name = named(way)
        is_tried = name not in FREE and kind(document, way) not in known
        for at, wrong in enumerate(unlike(value_at(document, way), name) if is_tried else ()):
            broken = changed(document, way, wrong)
            if at == 0:
                refused(path, broken, verbs(path)[len(name) % 3], monkeypatch, capsys)
                continue
            # Verbs print the reader's message.
            write(path, broken)
            with pytest.raises(InputError) as refusal:
                Recording.open(path)
            assert str(refusal.value).startswith(f"{path / 'meta.json'}: ")
            assert "\n" not in str(refusal.value)


def test_optional_parts_may_be_missing_and_unknown_keys_are_ignored(run):
    path, document = run
    for way in keys_of(document):
        if named(way) in OPTIONAL | FREE:
            write(path, changed(document, way))
            assert Recording.open(path).elapsed_s == document["elapsed_s"]
    write(path, document | {"weather": {"rain": True}})
    recording = Recording.open(path).meta.to_json()
    assert recording == document | {"weather": {"rain": True}}
    later = json.loads(json.dumps(document))
    later["capture"]["new_count"] = 5
    write(path, later)
    assert Recording.open(path).meta.to_json() == document


@cases("text", ["", "[]", "5", "null", "{", "[" * 100_000, "\udcff"])
def test_a_file_without_a_document_is_refused_in_one_line(tmp_path, text):
    path = tmp_path / "run.spill"
    path.mkdir()
    (path / "meta.json").write_bytes(text.encode("utf-8", "surrogateescape"))
    assert "meta.json" in only_line(spillcast("profile", path), 2)


def test_a_deliberately_delayed_run_is_refused(spilled, tmp_path):
    path = tmp_path / "run.spill"
    shutil.copytree(spilled.path, path)
    document = json.loads((path / "meta.json").read_text())
    write(path, document | {"perturbation": None})
    assert Recording.open(path).meta.temp.reads == document["temp"]["reads"]
    write(path, document | {"perturbation": {"groups": 4}})
    with pytest.raises(EvidenceUnsuited):
        Recording.open(path)

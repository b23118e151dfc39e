"""Parts of a PostgreSQL recording are checked against each other; every lost worker is noticed."""

import json
import os
import re
import shutil
import subprocess
import sys
import threading
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path

import pytest
from bench.capture import workers
from bench.capture.workers import outcome

from cases import cases
from harness import available, ordinary_user
from postgres_rig import JOIN, PARALLEL, SERIAL, SPILLING
from spillcast.engines.postgres.live import record_postgres
from spillcast.errors import EvidenceDamaged
from spillcast.evidence.postgres.spills import recorded_plan
from spillcast.forecast import forecast
from spillcast.recording import Recording
from spillcast.recording.capture import RecordOptions
from spillcast.recording.completeness import checks_of, contradictions_of
from spillcast.recording.schema import seconds_of, totals
from spillcast.storage import Storage
from spillcast.storage.target import resolve


def explained(newest, output, more, capture="auto"):
    settings = {name: str(value) for name, value in {**SPILLING, **more}.items()}
    options = RecordOptions(capture=capture)
    return record_postgres(newest.dsn, output, explain=JOIN, settings=settings, options=options)


@pytest.fixture(scope="module")
def parallel(newest, tmp_path_factory):
    """A recording of a query with two workers, and its plan beside it."""
    available("bpf")
    return explained(newest, tmp_path_factory.mktemp("parallel") / "run.spill", PARALLEL)


@pytest.fixture(scope="module")
def serial(newest, tmp_path_factory):
    """The same without workers; the server lists its temp files."""
    available("bpf")
    return explained(newest, tmp_path_factory.mktemp("serial") / "run.spill", SERIAL)


def refused(recording):
    storage = resolve("factor:2", recording)
    assert isinstance(storage, Storage)
    return forecast(recording, storage).refused


def contradictions(recording):
    return contradictions_of(recording, recorded_plan(recording)[0])


def kept(recording, rows):
    """The recording with a selection of its waits, and without its plan."""
    waits = recording.waits.filter(rows)
    temp, other_io = totals(waits)
    result = Recording(Path("gone.spill"), replace(recording.meta, temp=temp, other_io=other_io))
    result.waits, result.seconds, result.samples = waits, seconds_of(waits), recording.samples
    return result


def test_consistent_parts_give_no_contradiction(parallel, serial):
    by_plan = {"temp blocks read", "temp blocks written"}
    compared = {check.quantity for check in checks_of(parallel, recorded_plan(parallel)[0])}
    assert compared >= by_plan | {"parallel workers with waits"}
    compared = {check.quantity for check in checks_of(serial, recorded_plan(serial)[0])}
    assert compared == by_plan | {"temp files", "bytes written to temp files"}
    assert contradictions(serial) == []
    assert refused(serial) is None


def test_a_worker_without_waits_is_a_contradiction(parallel):
    worker = parallel.meta.server.workers[0].pid
    result = kept(parallel, parallel.waits["session"].values != worker)
    [check] = contradictions(result)
    assert (check.recorded, check.expected) == (1, 2)
    assert check.text in refused(result)


def test_fewer_files_than_the_server_listed_are_a_contradiction(serial):
    [listed] = serial.meta.server.temp_files
    names = serial.temp_waits["file"].unique()
    assert len(names) >= listed.peak_files > 4
    # The server listed the most files at any instant: more in total are no contradiction.
    fewer = replace(listed, peak_files=len(names) - 1)
    server = replace(serial.meta.server, temp_files=[fewer])
    more = Recording(serial.path, replace(serial.meta, server=server))
    assert contradictions(more) == []
    rows = serial.waits["file"].isin(names[:2]) | ~serial.waits["temp"].values
    result = kept(serial, rows)
    checks = {check.quantity: check for check in contradictions(result)}
    assert (checks["temp files"].recorded, checks["temp files"].expected) == (2, listed.peak_files)
    assert checks["bytes written to temp files"].expected == listed.peak_bytes
    assert contradictions(result)[0].text in refused(result)


@cases(("factor", "is_refused"), [(1.1, False), (2, True)])
def test_a_plan_of_another_run_is_a_contradiction(serial, tmp_path, factor, is_refused):
    output = tmp_path / "run.spill"
    shutil.copytree(serial.path, output)
    plan = json.loads((output / "plan.json").read_text())
    was = plan[0]["Plan"]["Temp Read Blocks"]
    plan[0]["Plan"]["Temp Read Blocks"] = round(was * factor)
    (output / "plan.json").write_text(json.dumps(plan))
    recording = Recording.open(output)
    [check] = contradictions(recording)
    assert check.expected == round(was * factor)
    assert check.recorded == pytest.approx(was, abs=2)
    assert (refused(recording) is not None) == is_refused


def test_sizes_of_a_plan_without_buffers_are_no_counts(serial, tmp_path):
    """They are lower bounds of what was written."""
    output = tmp_path / "run.spill"
    shutil.copytree(serial.path, output)
    sort = {"Node Type": "Sort", "Actual Loops": 1, "Actual Rows": 9, "Plan Width": 4}
    on_disk = {"Sort Method": "external merge", "Sort Space Type": "Disk", "Sort Space Used": 8}
    (output / "plan.json").write_text(json.dumps([{"Plan": sort | on_disk, "Execution Time": 9.0}]))
    assert not contradictions(Recording.open(output))


@cases("document", [["x"], 3, [{"Plan": ["Temp Read Blocks"]}]])
def test_a_damaged_plan_of_a_recording_is_refused(serial, tmp_path, document):
    output = tmp_path / "run.spill"
    shutil.copytree(serial.path, output)
    (output / "plan.json").write_text(json.dumps(document))
    with pytest.raises(EvidenceDamaged):
        contradictions(Recording.open(output))


@contextmanager
def reader_delayed():
    """Lets the thread that reads a capture run only occasionally."""
    ended = threading.Event()

    def look():
        while not ended.wait(0.005):
            for task in Path("/proc/self/task").iterdir():
                try:
                    if (task / "comm").read_text() == "spillcast-read\n":
                        os.sched_setscheduler(int(task.name), os.SCHED_IDLE, os.sched_param(0))
                        os.sched_setaffinity(int(task.name), {0})
                except OSError:
                    pass

    watcher = threading.Thread(target=look)
    watcher.start()
    busy = ["taskset", "-c", "0", "sh", "-c", "while :; do :; done"]
    with subprocess.Popen(busy) as spinner:
        try:
            yield
        finally:
            ended.set()
            watcher.join()
            spinner.kill()


@pytest.mark.nightly
def test_losses_of_a_late_reader_are_stated(newest, tmp_path):
    available("perf")
    with reader_delayed():
        run = explained(newest, tmp_path / "run.spill", PARALLEL | {"temp_tablespaces": ""}, "perf")
    assert outcome(run) != "not stated"


def test_every_block_of_many_workers_is_recorded(newest, tmp_path):
    available("perf")
    for count in (1, 4):
        more = PARALLEL | {"temp_tablespaces": "", "max_parallel_workers_per_gather": count}
        run = explained(newest, tmp_path / f"{count}.spill", more, "perf")
        # Root knows a file's name before it is closed, although workers read and close it at once.
        assert run.meta.capture.unknown_file == 0 or os.geteuid() != 0
        late = [worker for worker in run.meta.server.workers if worker.late]
        assert outcome(run) == "equal" or (late and outcome(run) != "not stated")


def test_losses_of_an_unprivileged_user_are_stated():
    available("perf")
    if int(Path("/proc/sys/kernel/perf_event_paranoid").read_text()) > 2:
        pytest.skip("kernel.perf_event_paranoid keeps ordinary users from perf events")
    command = [*ordinary_user(), sys.executable, workers.__file__, "2"]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    kinds = re.findall(r"'([a-z ]+)': (\d+)", done.stdout)
    assert sum(int(count) for _, count in kinds) == 2
    assert "not stated" not in dict(kinds)

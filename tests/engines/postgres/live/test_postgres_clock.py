"""Whenever a recorder attaches to a parallel query, its times are on the query's clock."""

import threading
import time
from functools import partial

import numpy as np
import pytest

from cases import nightly
from harness import partial_folders, until
from postgres_rig import PARALLEL, interrupted_after, once_watched
from spillcast.engines import SessionSelector
from spillcast.engines.postgres.live import record_postgres
from spillcast.forecast import forecast
from spillcast.recording import Recording
from spillcast.storage.target import resolve
from spillcast.units import format_duration

#: Spills for some seconds, in two processes.
EVEN = "select max(t.f) from t " + " ".join(f"join t t{n} using (id)" for n in range(4))
#: The same; its processes wait at the gate at their first rows.
HELD = EVEN.replace("max(t.f)", "max(t.f) filter (where t.id % 16 <> 0 or gate())")
TWO = {**PARALLEL, "max_parallel_workers_per_gather": 1}


def recorded_before(served, client, output, ahead_s):
    """Records from this long before the query begins; 0 is as the recorder begins."""

    def query():
        until(lambda: partial_folders(output), "the attachment")
        time.sleep(ahead_s)
        client.run(EVEN)

    thread = threading.Thread(target=query)
    thread.start()
    try:
        return record_postgres(served.dsn, output, SessionSelector(backend=client.pid))
    finally:
        thread.join()


def recorded_late(served, client, output, late_s, on_status=once_watched):
    """Records from ``late_s`` after the query's start, and from its first rows to its end.

    ``on_status`` is called with the function that opens the gate.
    """
    with served.gate() as gate:
        client.run(HELD)
        served.until_held(client, processes=2)
        time.sleep(late_s)
        wanted = SessionSelector(backend=client.pid)
        return record_postgres(served.dsn, output, wanted, on_status=on_status(gate.open))


def check(recording):
    """Every operation occurs once, within the run, after the previous one of its process."""
    elapsed_s, waits = recording.elapsed_s, recording.temp_waits
    session, start_ns = waits["session"].values, waits["start_ns"].values
    end_ns = start_ns + waits["elapsed_ns"].values
    assert start_ns.min() >= 0
    assert end_ns.max() / 1e9 < 1.1 * elapsed_s + 0.5
    assert recording.waits["start_ns"][0] >= 0
    assert waits.num_rows == recording.meta.temp.operations
    # A wrong clock would put operations before the start, or after the end, at a single instant.
    order = np.lexsort((start_ns, session))
    same = np.diff(session[order]) == 0
    assert (start_ns[order][1:] >= end_ns[order][:-1])[same].all()
    last = max(recording.seconds["second"].to_pylist())
    assert last < 1.1 * elapsed_s + 1
    samples_s = recording.samples["time_ns"].to_numpy() / 1e9
    assert 0 <= samples_s.min() <= samples_s.max() < 1.1 * elapsed_s + 0.5


@pytest.mark.parametrize("ahead_s", [0, *nightly(3)])
def test_attached_before_the_query_times_count_from_its_start(newest, tmp_path, ahead_s):
    output = tmp_path / "run.spill"
    with newest.client(**TWO) as client:
        recorded_before(newest, client, output, ahead_s)
    recording = Recording.open(output)
    check(recording)
    query = recording.meta.server
    # The folder exists some time before the recorder attaches, and a worker may, too.
    assert query.before_recording_s >= 0
    assert not ahead_s or query.before_recording_s < 1e-9
    [worker] = query.workers
    assert abs(worker.attached_s) < 0.5 * recording.elapsed_s
    recorded_s = recording.meta.recorded_s
    assert recording.elapsed_s <= recorded_s
    assert not ahead_s or recorded_s < recording.elapsed_s + ahead_s


@pytest.mark.parametrize("late_s", [0.5, *nightly(1.5)])
def test_attached_late_times_count_from_the_recording(newest, tmp_path, late_s):
    output = tmp_path / "run.spill"
    with newest.client(**TWO) as client:
        recorded_late(newest, client, output, late_s)
    recording = Recording.open(output)
    check(recording)
    query = recording.meta.server
    assert query.before_recording_s >= late_s
    assert query.query_elapsed_s == pytest.approx(
        recording.elapsed_s + query.before_recording_s, abs=0.01
    )
    [worker] = query.workers
    assert worker.started_s < 0 <= worker.attached_s
    # The whole query is known nevertheless.
    answer = forecast(recording, resolve("latency:100us", recording))
    assert answer.baseline_s == query.query_elapsed_s
    assert answer.part is None
    seen, whole = map(format_duration, (recording.elapsed_s, query.query_elapsed_s))
    if answer.refused is None:
        assert f" instead of {whole}, judging by the {seen} recorded, " in answer.sentence()
    else:
        # If other work delays the recorder, it sees a small part, and the interval is too wide.
        assert recording.elapsed_s < 0.5 * query.query_elapsed_s


def test_attached_late_and_ended_early_both_durations_are_reported(newest, tmp_path):
    early = partial(interrupted_after, 500)
    with newest.client(**TWO) as client:
        recording = recorded_late(newest, client, tmp_path / "run.spill", 0.5, early)
    # Its plan would reveal the whole.
    (recording.path / "estimate.json").unlink()
    query = recording.meta.server
    before, seen = map(format_duration, (query.before_recording_s, recording.elapsed_s))
    answer = forecast(recording, resolve("latency:100us", recording))
    if answer.part is None:
        # The bytes that it had written and not yet read revealed the whole.
        assert answer.baseline_s > query.before_recording_s + recording.elapsed_s
        assert f", judging by the {seen} recorded, " in answer.sentence()
    else:
        begins = f"{seen} were recorded of a run that had already run for {before} and went on: on "
        assert answer.sentence().startswith(begins)
    assert query.before_recording_s >= 0.5

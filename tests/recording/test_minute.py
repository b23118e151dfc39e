"""Recordings in bursts at growing distances: how they are merged, and that gaps cost nothing."""

import json
import os
import signal
import subprocess
import sys
import time
from collections import Counter
from dataclasses import replace
from itertools import pairwise

import pytest

from cases import cases
from evidence import recording
from harness import until
from spillcast.cli.recording import TargetOptions, record_minute
from spillcast.errors import SpillcastError
from spillcast.forecast.remaining.progress import progress_of
from spillcast.recording import Recording, minute
from spillcast.recording.capture import CaptureAccount, RecordOptions
from spillcast.recording.meta import CALLS_FILE, ESTIMATE_FILE, KeptWaits, Memory, Temp
from spillcast.recording.observed import CpuLimits, MissedIo, RecordedQuery, Sampling, Worker
from spillcast.recording.record import record_pid

MS = 1_000_000
#: Writes 8 KiB repeatedly.
WRITES = """
import os, sys, time
file = os.open(sys.argv[1], os.O_CREAT | os.O_RDWR)
for at in range(100_000):
    os.pwrite(file, bytes(8192), at * 8192)
    time.sleep(0.002)
"""


def test_gaps_grow_and_fill_the_given_time():
    gaps = minute.gaps_s(None)
    assert len(gaps) == minute.BURSTS - 1
    assert all(later > sooner for sooner, later in pairwise(gaps))
    assert sum(minute.gaps_s(3600)) + minute.BURSTS * minute.BURST_S == pytest.approx(3600)
    assert sum(minute.gaps_s(30)) == 0


def test_bursts_fit_into_a_short_time():
    assert minute.burst_s(None) == minute.burst_s(3600) == minute.BURST_S
    assert minute.BURSTS * minute.burst_s(30) == pytest.approx(30)


def bursts(path, reported, pauses, answer=None):
    """The recordings of bursts with these ends or failures."""
    made = recording(path, [("write", 8192, 5, MS)], elapsed_s=5.0)
    left = iter(reported)

    def burst(_duration_s):
        item = next(left)
        if isinstance(item, BaseException):
            raise item
        result = Recording(path, replace(made.meta, **item))
        result.waits, result.seconds, result.samples = made.waits, made.seconds, made.samples
        return result

    return minute.record_bursts(
        burst, pauses.append, None, [].append if answer is None else answer.append
    )


def on(query_started_at="1", ended_by="duration"):
    query = RecordedQuery(7, query_started_at, None, 10.0, "duration", None, [], 0, [])
    return {"ended_by": ended_by, "server": query}


@cases(
    ("reported", "kept"),
    [
        ([on()] * 12, 12),
        ([on(), on(ended_by="end")], 2),
        ([on(), on(), on(ended_by="interrupt")], 3),
        ([on(), SpillcastError("no query came")], 1),
        ([on(), on(), on(query_started_at="2")], 2),
    ],
)
def test_bursts_end_with_the_run(tmp_path, reported, kept):
    pauses = []
    assert len(bursts(tmp_path / "run.spill", reported, pauses)) == kept
    assert pauses[: len(reported) - 1] == [*minute.gaps_s(None)][: len(reported) - 1]


@cases(
    ("last", "words"),
    [
        (SpillcastError("no query came"), ["the run ended while detached"]),
        (on(query_started_at="2"), ["the query ended", "another began, which is not kept"]),
        (KeyboardInterrupt(), []),
    ],
)
def test_an_early_end_of_the_bursts_is_reported(tmp_path, last, words):
    matches = []
    assert len(bursts(tmp_path / "run.spill", [on(), last], [], matches)) == 1
    assert all(item in " ".join(matches) for item in words)
    assert bool(matches) == bool(words)


def test_samples_of_a_session_are_summed_over_bursts(tmp_path):
    looks = [
        Sampling(50, 3, 4, 1, 0.5, 0.1, 0.25, 0.5),
        Sampling(50, 10, 20, 0, 0.0, 0.1, 0.5, 1.5),
    ]
    matches = [{**on(), "sampling": looks[0]}, {**on(ended_by="end"), "sampling": looks[1]}]
    kept = minute.keep(bursts(tmp_path / "run.spill", matches, []), tmp_path / "part.spill")
    assert kept.meta.sampling == Sampling(50, 13, 24, 1, 0.5, 0.1, 0.75, 2.0)


def test_the_workers_of_all_bursts_are_kept(tmp_path):
    """One worker ran in both bursts of 5 s, one in each alone; times count from the first burst."""
    both, again = Worker(1, -0.5, 0.0, None), Worker(1, -9.0, 0.0, MissedIo(3, 0, 99))
    gone, new = Worker(2, 1.0, 1.1, None), Worker(3, None, 2.0, None)
    matches = []
    for workers, unattached in (((both, gone), 1), ((again, new), 2)):
        query = replace(on()["server"], workers=list(workers), workers_not_attached=unattached)
        matches.append({"ended_by": "duration", "server": query})
    matches[-1]["ended_by"] = "end"
    kept = minute.keep(bursts(tmp_path / "run.spill", matches, []), tmp_path / "part.spill")
    query = kept.meta.server
    assert query.workers == [both, gone, Worker(3, None, 7.0, None)]
    assert query.workers_not_attached == 2


def test_seconds_are_those_of_the_starts_of_waits(tmp_path):
    """The second burst starts at 2.4 s, with waits in the third to fifth second."""
    loads = [("write", 8192, 200, 10 * MS)]
    parts = [recording(tmp_path / f"{n}.spill", loads, elapsed_s=2.4) for n in range(2)]
    kept = minute.keep(parts, tmp_path / "part.spill")
    by_second = Counter()
    for row in kept.seconds.to_pylist():
        by_second[row["second"]] += row["count"]
    began = (kept.waits["start_ns"].values // 1_000_000_000).tolist()
    assert by_second == Counter(began)
    assert by_second[2] == 60


@cases("name", [ESTIMATE_FILE, CALLS_FILE])
def test_the_last_document_of_the_server_is_kept(tmp_path, name):
    loads = [("write", 8192, 5, MS)]
    parts = [recording(tmp_path / f"{n}.spill", loads, elapsed_s=2.0) for n in range(2)]
    (parts[-1].path / name).write_text('{"Plan": 7}')
    kept = minute.keep(parts, tmp_path / "part.spill")
    assert json.loads((kept.path / name).read_text()) == {"Plan": 7}


def test_thinned_out_waits_of_a_burst_are_reported(tmp_path):
    """3 of 5 waits of the second are kept, those of its first two seconds."""
    few = KeptWaits(3, 5, [(0.0, 2.0)], "the disk is full")
    temp = Temp(reads=1, writes=4, bytes=5 * 8192, total_s=0.005)
    matches = [
        {**on(), "raw": KeptWaits(5, 5, None), "temp": temp},
        {**on(ended_by="end"), "raw": few, "temp": temp},
    ]
    first, second = bursts(tmp_path / "run.spill", matches, [])
    second.waits = second.waits.take(slice(3))
    kept = minute.keep([first, second], tmp_path / "part.spill")
    meta = Recording.open(tmp_path / "part.spill").meta
    assert meta.raw == kept.meta.raw
    assert meta.raw == KeptWaits(8, 10, [(0.0, 5.0), (5.0, 7.0)], "the disk is full")
    assert meta.temp == Temp(reads=2, writes=8, bytes=10 * 8192, total_s=0.01)


def test_losses_of_a_burst_count_for_the_whole(tmp_path):
    """Waits add up, peaks do not; what a single burst could not see counts as unseen."""
    seen = CaptureAccount("perf", lost=1, recorder_memory_bytes=70)
    blind = CaptureAccount(
        "perf",
        lost=2,
        io_uring=True,
        io_uring_depth=3,
        mapped_temp_files=["/t/a"],
        threads_sampled=(5, 9),
        unobserved_processes=4,
        recorder_memory_bytes=80,
    )
    matches = [
        {
            **on(),
            "capture": blind,
            "memory": Memory(60, peak_rss_bytes=9, group_held_bytes=55, stalled_s=0.5),
            "cpu_limits": CpuLimits(2, 0.5, 0.1, 1.0, 10),
            "server_connection": True,
        },
        {
            **on(ended_by="end"),
            "capture": seen,
            "memory": Memory(20, peak_rss_bytes=7, group_held_bytes=6, stalled_s=0.25),
            "cpu_limits": CpuLimits(2, 0.5, 0.1, 0.5, 5),
            "server_connection": False,
        },
    ]
    minute.keep(bursts(tmp_path / "run.spill", matches, []), tmp_path / "part.spill")
    meta = Recording.open(tmp_path / "part.spill").meta
    # The first burst left 5 bytes, the second 14.
    assert meta.memory == Memory(60, peak_rss_bytes=9, group_held_bytes=55, stalled_s=0.75)
    assert meta.cpu_limits == CpuLimits(2, 0.5, 0.1, 1.5, 15)
    assert meta.capture == replace(blind, lost=3)
    assert meta.server_connection
    assert meta.unseen.excessive


def test_io_between_bursts_counts_as_done_before(tmp_path, monkeypatch):
    """The file's sizes before and after the last burst are bounds, however busy the machine is."""
    monkeypatch.setattr(minute, "BURSTS", 3)
    temp = tmp_path / "temp"
    temp.mkdir()
    spilled, sizes = temp / "spill.tmp", []

    def burst(_duration_s):
        sizes.append(spilled.stat().st_size)
        result = burst_of(program.pid, temp)
        sizes.append(spilled.stat().st_size)
        return result

    with subprocess.Popen([sys.executable, "-c", WRITES, spilled]) as program:
        try:
            until(spilled.exists, "the first write")
            parts = minute.record_bursts(burst, lambda _gap_s: time.sleep(0.3), None)
        finally:
            program.kill()
    kept = minute.keep(parts, tmp_path / "part.spill")
    recorded = Recording.open(tmp_path / "part.spill")
    assert recorded.waits.num_rows == kept.waits.num_rows
    assert len(recorded.meta.raw.slices_s) == 3
    assert recorded.elapsed_s == pytest.approx(sum(part.elapsed_s for part in parts))
    seen = progress_of(recorded, 1.0)
    last = parts[-1].meta
    recorded_bytes = 8192 * last.temp.writes
    # By the kernel's count all writes of the program are included, seen or not.
    assert last.before.written_bytes + recorded_bytes <= seen.written
    assert sizes[-2] <= last.before.written_bytes
    for written in (seen.written, seen.unread.middle):
        # Bytes written between the attachment and the count are counted twice.
        assert sizes[-2] + recorded_bytes <= written <= sizes[-1] + recorded_bytes
    assert seen.done_s == pytest.approx(last.before.ran_s + last.elapsed_s)


def burst_of(pid, temp):
    recorder = record_pid(pid, None, RecordOptions((temp,), duration_s=0.5))
    while not recorder.poll():
        pass
    return recorder.finish()


class Interrupting:
    """A view that sends SIGINT to this process once: in a burst, or in a pause."""

    def __init__(self, while_detached):
        self._while_detached = while_detached

    def look(self, _recorder, status):
        if not self._while_detached and status["temp_writes"]:
            interrupt()

    def notify(self, text):
        if self._while_detached and text.startswith("detached"):
            interrupt()


def interrupt():
    os.kill(os.getpid(), signal.SIGINT)


@pytest.mark.parametrize("while_detached", [False, True])
def test_a_second_ctrl_c_loses_nothing(tmp_path, monkeypatch, signals_by_default, while_detached):
    """It arrives while the recording is being written."""
    monkeypatch.setattr(minute, "BURST_S", 0.3 if while_detached else 60.0)
    keep = minute.keep

    def interrupted_keep(*arguments, **options):
        interrupt()
        return keep(*arguments, **options)

    monkeypatch.setattr(minute, "keep", interrupted_keep)
    output, spilled = tmp_path / "run.spill", tmp_path / "spilled"
    with subprocess.Popen([sys.executable, "-c", WRITES, spilled]) as running:
        try:
            until(spilled.exists, "the first write")
            options = RecordOptions((tmp_path,))
            view = Interrupting(while_detached)
            record_minute(TargetOptions(pid=running.pid), output, options, view)
        finally:
            running.kill()
    assert Recording.open(output).meta.temp.writes > 0

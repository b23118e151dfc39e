"""Rows of blocked threads, of programs whose waits for each other are known."""

import json
import shutil
from itertools import pairwise
from statistics import median
from types import SimpleNamespace

import pyarrow.parquet as pq
import pytest

from harness import compiled, completed, ordinary_user

MS = 1_000_000
ROUNDS = 40
WORK_US = 3000
#: The program's clocks include interruptions; in that case it is recorded again.
ATTEMPTS = 4
BLOCKED = {"event": "blocked", "op": None, "temp": False, "file": None, "offset": None,
           "bytes": None, "blocked": True}  # fmt: skip


@pytest.fixture(scope="module")
def relay(tmp_path_factory):
    """The program of tests/targets/relay.c."""
    return compiled("relay", tmp_path_factory.mktemp("relay"))


def record(places, relay, way, *options, under=(), rounds=ROUNDS, work_us=WORK_US):
    """Records the program; returns its output, its rows by thread, and the recording."""
    output = places.root / "run.spill"
    command = [relay, way, places.temp / "spill", rounds, work_us]
    requested = ("record", "--temp", places.temp, *options, "-o", output, "--", *command)
    result = completed(*requested, under=under, env=places.env)
    document = json.loads(result.stdout.splitlines()[0])
    rows = pq.read_table(output / "waits.parquet").sort_by("start_ns").to_pylist()
    by_thread = {}
    for row in rows:
        by_thread.setdefault(row["session"], []).append(row)
    return SimpleNamespace(
        main=document["main"],
        elapsed_ns=document["elapsed_ns"],
        workers=[SimpleNamespace(**worker, rows=by_thread[worker["tid"]])
                 for worker in document["workers"]],
        by_thread=by_thread,
        rows=rows,
        output=output,
    )  # fmt: skip


def blocked(rows):
    """The rows in which a thread blocked outside of its I/O."""
    matches = [row for row in rows if row["event"] == "blocked"]
    for row in matches:
        assert row.items() >= BLOCKED.items()
        assert row["elapsed_ns"] >= 0
    return matches


def end_ns(row):
    return row["start_ns"] + row["elapsed_ns"]


needs_wakings = pytest.mark.skipif(bool(not ordinary_user()), reason="wakings are for root")


@needs_wakings
@pytest.mark.parametrize("way", ["token", "pipe"])
def test_threads_that_take_turns_wake_each_other(places, relay, way):
    seen = record(places, relay, way)
    # Shorter waits are for a mutex that was not free yet.
    turns = [
        [row for row in blocked(worker.rows) if row["elapsed_ns"] > WORK_US * 1000 * 0.9][:-1]
        for worker in seen.workers
    ]
    tids = [worker.tid for worker in seen.workers]
    # A thread preempted before it waits may find that its turn has already come.
    pushed = sum(worker.pushed for worker in seen.workers)
    for me, mine in enumerate(turns):
        assert ROUNDS - 2 - 2 * pushed <= len(mine) <= ROUNDS + 1
        assert {row["woken_by"] for row in mine[1:-1]} == {tids[not me]}
        # It waits during the other thread's turn, and at most until it is woken.
        waited_ns = sum(row["elapsed_ns"] for row in mine)
        assert waited_ns < seen.elapsed_ns - seen.workers[me].held_ns + 10 * MS
    in_order = sorted(turns[0] + turns[1], key=end_ns)
    for first, second in pairwise(in_order[1:-1]):
        # A thread is woken when the other has finished the work that it was woken for.
        assert end_ns(second) - end_ns(first) > 0.9 * WORK_US * 1000


@pytest.mark.parametrize("as_user", [False, True])
def test_a_sleeping_thread_has_no_waker(open_places, relay, as_user):
    under = ordinary_user() if as_user else ()
    open_places.root.chmod(0o777)
    program = shutil.copy(relay, open_places.root)
    seen = record(open_places, program, "sleep", under=under)
    [worker] = seen.workers
    # The first sleep follows the I/O, before which a busy machine may also let the thread wait.
    did_io_ns = max(end_ns(row) for row in worker.rows if row["op"])
    later = [row for row in blocked(worker.rows) if row["start_ns"] >= did_io_ns]
    naps = [row for row in later if row["elapsed_ns"] >= WORK_US * 1000 * 0.99]
    # The kernel times a sleep from the call: a thread preempted in it sleeps for less than that.
    # The sleep after the last round is short, unless the thread is woken late.
    assert ROUNDS - worker.pushed <= len(naps) <= ROUNDS + 1
    assert {row["woken_by"] for row in naps} == {None}
    # A busy machine wakes it late, but not every time.
    assert min(row["elapsed_ns"] for row in naps) < 1.5 * WORK_US * 1000
    # It worked before each sleep. The kernel also counts the cost of preemption as its work.
    worked = [row["cpu_before_ns"] for row in naps[1:]]
    assert median(worked) >= (0.9 if worker.pushed else 0.99) * WORK_US * 1000
    assert min(worked) < 1.2 * WORK_US * 1000


@pytest.mark.parametrize("way", ["token", "pipe", "sleep", "spill"])
def test_cpu_before_rows_is_the_cpu_time_of_the_thread(places, relay, way):
    seen = []
    for _ in range(ATTEMPTS):
        seen += [
            [
                sum(row["cpu_before_ns"] for row in worker.rows)
                / (worker.cpu_ns - worker.io_cpu_ns)
                for worker in record(places, relay, way).workers
            ]
        ]
        if seen[-1] == pytest.approx([1] * len(seen[-1]), rel=0.1):
            return
    pytest.fail(f"rows over clocks of the threads: {seen}")


def test_a_blocking_io_call_is_a_single_row(places, relay):
    seen = record(places, relay, "apart")
    for worker in seen.workers:
        calls = [row for row in worker.rows if row["op"]]
        assert len(calls) == 2 * ROUNDS
        for first, second in pairwise(worker.rows):
            assert end_ns(first) <= second["start_ns"]


def test_seconds_include_blocked_rows_and_io_counts_do_not(places, relay):
    seen = record(places, relay, "spill")
    rows = blocked(seen.rows)
    seconds = pq.read_table(seen.output / "seconds.parquet").to_pylist()
    target = [row for row in seconds if row["op"] is None and not row["temp"]]
    assert sum(row["count"] for row in target) == len(rows)
    assert sum(row["total_ns"] for row in target) == sum(row["elapsed_ns"] for row in rows)
    assert all(row["bytes"] == 0 for row in target)
    meta = json.loads((seen.output / "meta.json").read_text())
    other = [row for row in seen.rows if row["op"] and not row["temp"]]
    assert meta["other_io"]["count"] == len(other)
    assert (meta["temp"]["reads"], meta["temp"]["writes"]) == (2 * ROUNDS, 2 * ROUNDS)


def test_preload_has_no_blocked_rows(places, relay):
    seen = record(places, relay, "spill", "--capture", "preload")
    assert all(row["file"] for row in seen.rows)


def test_slices_keep_the_waits_that_start_in_them(places, relay):
    seen = record(places, relay, "spill", "--slices", 2, rounds=300)
    slices = json.loads((seen.output / "meta.json").read_text())["raw"]["slices_s"]
    assert len(slices) == 2
    rows = blocked(seen.rows)
    assert rows
    for row in rows:
        assert any(start <= row["start_ns"] / 1e9 < end for start, end in slices)


def test_a_wait_of_many_seconds_belongs_to_the_second_of_its_start(places, relay):
    seen = record(places, relay, "apart", rounds=1200, work_us=2000)
    # The program's first thread waits for the others from start to end.
    longest = max(blocked(seen.by_thread[seen.main]), key=lambda row: row["elapsed_ns"])
    assert longest["elapsed_ns"] > 2e9
    first_s = [row for row in seen.rows if row["op"] and row["start_ns"] < 1e9]
    seconds = pq.read_table(seen.output / "seconds.parquet").to_pylist()
    counts = [row["count"] for row in seconds if row["op"] and row["second"] == 0]
    assert 0 < len(first_s) == sum(counts)

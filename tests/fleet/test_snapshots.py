"""Activity of a server between snapshots: exact or a lower bound, despite resets and evictions."""

import gzip
import json
import os
import random
import subprocess
import sys
import time
from collections import Counter
from pathlib import Path

import pytest

from cases import cases
from harness import only_line, spillcast
from snapshot_files import BEGAN_S, Server
from spillcast.engines.postgres.rank.history import rank_snapshots
from spillcast.engines.ranking import RankRequest, RateLimit
from spillcast.errors import InputError
from spillcast.evidence.postgres.statements import TEMP_TIMES
from spillcast.fleet.dataset import Dataset, is_dataset
from spillcast.fleet.fleet import fleet
from spillcast.fleet.snapshots import between, chains, periods, read_snapshots

TESTS = Path(__file__).parents[1]


def in_order(folder):
    return [list(periods(chain)) for chain in chains(read_snapshots(Dataset.open(str(folder))))]


def calls(folder):
    counted = Counter()
    for period in (period for chain in in_order(folder) for period in chain):
        for grown in period.statements:
            counted[grown.row["queryid"]] += grown.row["calls"]
    return counted


@cases("seed", range(20))
def test_no_call_counts_twice_and_only_lost_calls_are_missing(tmp_path, seed):
    """Against the truth of a server whose counters are reset, evicted and lost in crashes."""
    drawn, server = random.Random(seed), Server(version=("15.14", "18.1")[seed % 2])
    server.look(tmp_path)
    true, since_look = Counter(), Counter()
    lost = Counter()
    for _ in range(12):
        for _ in range(drawn.randint(0, 6)):
            queryid = str(drawn.randint(1, 4))
            server.call(queryid, ms=drawn.uniform(1, 1000))
            true[queryid] += 1
            since_look[queryid] += 1
            server.wait(drawn.uniform(1, 900))
            event = drawn.random()
            if event < 0.08:
                lost += since_look
                since_look.clear()
                server.rows, server.reset_s = {}, server.clock_s
            elif event < 0.2 and server.rows:
                gone = drawn.choice(list(server.rows))
                lost[gone] += since_look.pop(gone, 0)
                del server.rows[gone]
                server.evictions += 1
            elif event < 0.25:
                lost += since_look
                since_look.clear()
                server.rows, server.databases = {}, {}
                server.started_s = server.reset_s = server.clock_s
            elif event < 0.3:
                server.started_s = server.clock_s
            elif event < 0.35:
                server.clock_s += drawn.uniform(-5000, 5000)
        server.look(tmp_path)
        since_look.clear()
    counted = calls(tmp_path)
    for queryid in true:
        # A statement that was evicted and then ran more often than before counts as a lower bound.
        assert counted[queryid] <= true[queryid]
        if not lost[queryid] and not server.evictions:
            assert counted[queryid] == true[queryid]


def test_two_servers_and_a_standby_are_separate(tmp_path):
    primary = Server()
    standby = Server(name="db2:5432", address="10.0.0.2", started_s=BEGAN_S - 10)
    other = Server(name="db3:5432", address="10.0.0.3", system="7002")
    for at in range(4):
        for number, server in enumerate((primary, standby, other)):
            server.call("1", times=10**number if at else 1000)
            server.wait(60)
            server.look(tmp_path)
    chains = in_order(tmp_path)
    assert [len(chain) for chain in chains] == [3, 3, 3]
    assert calls(tmp_path) == {"1": 3 + 30 + 300}


def test_the_same_server_by_socket_and_by_address_counts_once(tmp_path):
    server = Server()
    for at in range(6):
        server.call("1")
        server.wait(60)
        server.name, server.address = ("laptop:5432", None) if at % 2 else ("db1:5432", "10.0.0.1")
        server.look(tmp_path)
    assert calls(tmp_path) == {"1": 5}


@cases("jump_s", [-7200.0, 7200.0, 3e7])
def test_a_clock_step_changes_neither_sums_nor_the_time_covered(tmp_path, jump_s):
    server = Server()
    for at in range(5):
        server.call("1")
        server.wait(600)
        server.clock_s += jump_s if at == 2 else 0.0
        server.look(tmp_path)
    [periods] = in_order(tmp_path)
    assert [period.length_s for period in periods] == [600.0] * 4
    assert ["clock" in period.events for period in periods] == [False, True, False, False]
    assert calls(tmp_path) == {"1": 4}


def test_a_clock_set_back_during_a_restart_of_the_client_gives_no_time(tmp_path):
    server = Server()
    server.look(tmp_path)
    server.call("1")
    server.clock_s -= 50
    server.look(tmp_path, boot_id="another", boot_s=3.0)
    [[period]] = in_order(tmp_path)
    assert period.length_s is None
    assert "clock" in period.events


def test_an_upgraded_server_continues_with_its_own_counters(tmp_path):
    server = Server()
    server.call("1", times=1000)
    server.look(tmp_path)
    server = Server(system="7009", version="18.1", started_s=BEGAN_S + 60, clock_s=BEGAN_S + 90)
    server.call("9", times=500)
    server.look(tmp_path)
    server.call("9")
    server.look(tmp_path)
    assert calls(tmp_path) == {"9": 1}


def test_a_reset_of_only_the_maximum_times_is_not_a_reset_of_the_counters(tmp_path):
    server = Server(version="18.1")
    server.call("1", ms=500.0, times=100)
    server.look(tmp_path)
    server.call("1", ms=1.0)
    server.rows["1"] |= {"max_exec_time": 1.0, "min_exec_time": 1.0}
    server.look(tmp_path)
    assert calls(tmp_path) == {"1": 1}


def test_an_update_of_the_extension_counts_nothing_twice(tmp_path):
    """It adds columns with the sums of all calls so far, and the start of counting."""
    server = Server(version="18.1")
    server.call("1", times=100)
    added = ("stats_since", "temp_blk_read_time", "parallel_workers_launched")
    before = {name: value for name, value in server.rows["1"].items() if name not in added}
    server.look(tmp_path, rows=[before])
    for _ in range(2):
        server.call("1")
        server.wait(60)
        server.look(tmp_path)
    [[update, later]] = in_order(tmp_path)
    assert calls(tmp_path) == {"1": 2}
    [grown], [grown_later] = update.statements, later.statements
    assert grown.row["temp_blk_write_time"] == grown_later.row["temp_blk_read_time"] == 250.0
    assert grown.row["temp_blk_read_time"] is None


def test_statements_that_become_visible_are_not_new(tmp_path):
    server = Server()
    server.call("1", times=100)
    server.look(tmp_path, rows=[dict(server.rows["1"], queryid=None)])
    server.call("1")
    server.look(tmp_path)
    server.call("1")
    server.look(tmp_path)
    assert calls(tmp_path) == {"1": 1}


def test_a_full_disk_keeps_the_last_snapshot(tmp_path):
    server = Server()
    server.look(tmp_path / "looks")
    code = (
        "import resource; from snapshot_files import Server; "
        "resource.setrlimit(resource.RLIMIT_FSIZE, (100, 100)); "
        f"Server().look({str(tmp_path / 'looks')!r})"
    )
    command = [sys.executable, "-c", code]
    failed = subprocess.run(command, capture_output=True, text=True, cwd=TESTS)
    assert "WriteFailed" in failed.stderr
    assert len(list(read_snapshots(Dataset.open(str(tmp_path / "looks"))))) == 1
    assert not [path for path in tmp_path.rglob("*") if path.name.endswith(".partial")]


def test_leftovers_of_a_killed_snapshot_are_removed_an_hour_later(tmp_path):
    path, _ = Server().look(tmp_path)
    left, now = (Path(f"{path}.{pid}.partial") for pid in (7, 8))
    for partial in (left, now):
        partial.write_bytes(b"half")
    os.utime(left, (time.time() - 4000,) * 2)
    Server().look(tmp_path)
    assert (left.exists(), now.exists()) == (False, True)


def test_a_damaged_snapshot_is_named(tmp_path):
    path, _ = Server().look(tmp_path)
    for content in (b"no gzip", gzip.compress(b"{"), gzip.compress(b'{"taken_s": -1}')):
        with open(path, "wb") as file:
            file.write(content)
        with pytest.raises(InputError, match="000001"):
            list(read_snapshots(Dataset.open(str(tmp_path))))


@cases(
    "changed",
    [
        {"calls": -1},
        {"calls": "7"},
        {"calls": None},
        {"temp_blks_read": 1 << 60},
        {"total_exec_time": None},
        {"query": 5},
        {"queryid": None},
    ],
)
def test_an_impossible_row_is_named_with_its_snapshot(tmp_path, changed):
    server = Server()
    server.call("1")
    server.look(tmp_path)
    server.call("1")
    path, _ = server.look(tmp_path)
    document = json.loads(gzip.decompress(Path(path).read_bytes()))
    document["rows"][0] |= changed
    Path(path).write_bytes(gzip.compress(json.dumps(document).encode()))
    for verb in ("fleet", "postgres"):
        assert "000002" in only_line(spillcast(verb, tmp_path, "--to", "latency:1ms"), 2)


def test_query_texts_are_truncated_before_a_snapshot_gets_large(tmp_path):
    server, drawn = Server(), random.Random(1)
    for queryid in map(str, range(800)):
        server.call(queryid)
        server.rows[queryid]["query"] = "".join(drawn.choices("abcdefghijklmnop ", k=3000))
    _, size = server.look(tmp_path)
    assert size < 100_000
    [look] = read_snapshots(Dataset.open(str(tmp_path)))
    assert len(look.rows) == 800


@cases("unseen", [["times: off"], [{"code": "times", "message": "off"}]])
def test_a_snapshot_with_missing_parts_is_read(tmp_path, unseen):
    path, _ = Server().look(tmp_path)
    document = json.loads(gzip.decompress(Path(path).read_bytes())) | {"unseen": unseen}
    Path(path).write_bytes(gzip.compress(json.dumps(document).encode()))
    assert len(list(read_snapshots(Dataset.open(str(tmp_path))))) == 1


def test_a_folder_with_other_content_is_refused(tmp_path):
    (tmp_path / "letter.txt").write_text("x")
    with pytest.raises(InputError):
        Server().look(tmp_path)
    assert spillcast("postgres", tmp_path, "--alert", "temp > 1G/h").returncode == 2


def test_an_object_store_keeps_snapshots_as_a_folder_does():
    address = "memory://looks-of-a-test"
    server = Server()
    for _ in range(3):
        server.call("1")
        server.wait(60)
        server.look(address)
    assert is_dataset(address)
    assert not is_dataset("memory://nothing-there")
    [periods] = in_order(address)
    assert len(periods) == 2


def test_statements_without_times_take_their_time_on_the_named_storage(tmp_path):
    """512 blocks read and 512 written in 3 s, each of which takes 1 ms."""
    off = {"track_io_timing": "off", "max_parallel_workers_per_gather": "0"}
    server = Server(settings=off)
    for _ in range(2):
        server.call("1", 8, ms=3000.0)
        server.rows["1"] |= {"temp_blk_read_time": 0.0, "temp_blk_write_time": 0.0}
        server.look(tmp_path)
        server.wait(600)
    [row] = fleet(str(tmp_path), "factor:2", origin="latency:1ms").statements
    assert (row.elapsed_s, row.temp_s) == pytest.approx((3.0, 1.024))
    assert row.saved_s == pytest.approx(0.512)


@cases("latency", ["100us", "1us"])
def test_a_saving_below_a_thousandth_counts_as_zero(tmp_path, latency):
    """All 6,144 blocks take at most 0.62 s, today 0.6 s: both below a thousandth of 1,500 s."""
    server = Server(version="18.1")
    server.look(tmp_path)
    server.call("1", 8, ms=500_000.0, times=3)
    server.rows["1"] |= {"temp_blk_read_time": 300.0, "temp_blk_write_time": 300.0}
    server.wait(3600)
    server.look(tmp_path)
    [row] = fleet(str(tmp_path), f"latency:{latency}").statements
    assert (row.saved_s, row.share) == (0.0, 0.0)


@cases("jump_s", [0.0, -7200.0, 7200.0])
@cases("is_reset", [False, True])
def test_sums_between_two_snapshots_cover_the_elapsed_time(tmp_path, jump_s, is_reset):
    """Whatever the server's clock shows; after a reset, the counts since then."""
    server = Server()
    server.look(tmp_path)
    server.wait(600)
    server.clock_s += jump_s
    if is_reset:
        server.rows, server.reset_s = {}, server.clock_s
    server.wait(300)
    server.call("1")
    server.look(tmp_path)
    growth = between(*read_snapshots(Dataset.open(str(tmp_path))))
    assert growth.taken_s - growth.since_s == (300 if is_reset else 900)
    assert [row["calls"] for row in growth.rows] == [1]


def test_a_clock_set_back_gives_no_time_between_snapshots_of_two_machines(tmp_path):
    server = Server()
    server.look(tmp_path)
    server.clock_s -= 50
    server.look(tmp_path, boot_id="another", boot_s=3.0)
    assert between(*read_snapshots(Dataset.open(str(tmp_path)))).since_s is None


@cases(
    ("lacking", "known"),
    [
        ("nothing", [True, True, True]),
        ("times", [True, False, True]),
        ("statements", [True, False, False]),
    ],
)
def test_an_alert_on_an_uncounted_quantity_is_unknown(tmp_path, lacking, known):
    """Before version 15 there are no times, and only an extension counts statements."""
    server = Server(clock_s=time.time() - 7200.0)
    for _ in range(3):
        server.call("1")
        if lacking == "times":
            for name in ("temp_blk_read_time", "temp_blk_write_time"):
                del server.rows["1"][name]
        rows = {"rows": [], "statements_seen": None} if lacking == "statements" else {}
        server.look(tmp_path, **rows)
        if lacking == "times":
            server.rows["1"] |= {"temp_blk_read_time": 0.0, "temp_blk_write_time": 0.0}
        server.wait(3600)
    rules = [RateLimit.of(f"{measure} > 1000/h") for measure in ("files", "time", "new")]
    [ranking] = rank_snapshots(str(tmp_path), RankRequest([]), rules=rules)
    assert [alert.rate is not None for alert in ranking.history.alerts] == known
    assert [bucket.temp_s is not None for bucket in ranking.history.buckets] == [known[1]] * 2


@cases(("timed", "temp_s"), [([1, 1, 1], 1.5), ([0, 0, 1], 0), ([1, 0, 0], 0), ([1, 0, 1], 0)])
def test_times_of_a_part_of_the_calls_are_not_used_for_all(tmp_path, timed, temp_s):
    """For example where track_io_timing was off meanwhile."""
    server = Server()
    server.call("1", ms=0.0)
    server.look(tmp_path)
    for is_timed in timed:
        times = {name: server.rows["1"][name] for name in TEMP_TIMES}
        server.call("1")
        server.rows["1"] |= {} if is_timed else times
        server.wait(60)
        server.look(tmp_path)
    [ranking] = rank_snapshots(str(tmp_path), RankRequest([]))
    [row] = ranking.counted
    assert (row.calls, row.temp_s) == (3, temp_s)


@cases(("toplevel", "twice"), [(True, False), (False, True)])
def test_a_history_with_nested_calls_notes_double_counting(tmp_path, toplevel, twice):
    server = Server()
    for _ in range(2):
        server.call("1")
        server.rows["1"]["toplevel"] = toplevel
        server.wait(60)
        server.look(tmp_path)
    [ranking] = rank_snapshots(str(tmp_path), RankRequest([]))
    assert ("nested" in {note.code for note in ranking.unseen}) == twice

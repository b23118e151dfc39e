"""The savings of a fleet: the forecasts that ``spillcast forecast`` makes, and their sums."""

import io
import itertools
import json
import zipfile

import pytest

from cases import cases, nightly
from evidence import recording as made_up_recording
from fleet_files import IDLE, READ, WRITE, waits, write_fleet, write_trace
from harness import completed, json_of, only_line, spillcast
from oracle_files import make_example
from snapshot_files import Server
from spark_logs import text, two_stages, zstd
from spillcast.errors import EvidenceDamaged
from spillcast.evidence.selection import Selection
from spillcast.fleet import FleetStatement
from spillcast.fleet.facts import unpacked
from spillcast.fleet.fleet import fleet, statements_for_most
from spillcast.fleet.forecasts import clashing
from spillcast.fleet.ingest import ingest


@pytest.fixture(scope="module")
def made(tmp_path_factory):
    folder = tmp_path_factory.mktemp("made")
    traces = write_fleet(folder / "traces")
    ingest([str(traces)], str(folder / "fleet"))
    return folder


@pytest.fixture(scope="module")
def actual(made):
    return fleet(str(made / "fleet"), "latency:150us")


PLAN = {
    "Node Type": "Sort", "Parallel Aware": False, "Plan Rows": 100_000, "Plan Width": 37,
    "Actual Startup Time": 700.0, "Actual Total Time": 900.0, "Actual Rows": 100_000,
    "Actual Loops": 1, "Sort Key": ["k"], "Sort Method": "external merge",
    "Sort Space Used": 4_800, "Sort Space Type": "Disk", "Temp Read Blocks": 600,
    "Temp Written Blocks": 605, "Temp I/O Read Time": 130.0, "Temp I/O Write Time": 120.0,
}  # fmt: skip


def answer(*arguments):
    return json_of(*arguments)


def only_row(*arguments):
    rows = answer("fleet", *arguments)["statements"]
    assert len(rows) == 1
    return rows[0]


def same(row, forecast):
    """Asserts equal numbers; less than a thousandth is not a saving."""
    assert row["elapsed_s"] == forecast["baseline_s"]
    assert row["forecast_s"] == forecast["forecast_s"]
    assert row["interval_s"] == forecast["interval_s"]
    saved_s = forecast["baseline_s"] - forecast["forecast_s"]
    assert row["saved_s"] == (saved_s if abs(saved_s) >= row["elapsed_s"] / 1000 else 0.0)


@pytest.mark.parametrize("to", ["{traced}", *nightly("latency:150us", "factor:7")])
def test_a_statement_of_traces_equals_its_forecast(made, tmp_path, to):
    traced = write_trace(
        tmp_path / "flash.trc",
        [("x", READ, 31, 120), ("x", WRITE, 15, 90), ("x", READ, 15, 80)] * 9,
    )
    to = to.format(traced=traced)
    rows = answer("fleet", made / "fleet", "--to", to)["statements"]
    for row in (rows[0], rows[-1]):
        evidence = made / "traces" / row["database"]
        same(row, answer("forecast", evidence, "--sql-id", row["sql"], "--to", to))


def test_servers_of_a_parallel_statement_take_the_time_of_their_coordinator(tmp_path):
    """On each of two days, four servers read for 8 of the 10 s that the coordinator waits."""
    server = [
        ("x", "PX Deq: Execution Msg", None, 1_000_000),
        ("x", READ, 31, 6_400_000),
        ("x", "latch free", None, 1_600_000),
        ("x", "PX Deq Credit: send blkd", None, 1_000_000),
    ]
    for n in range(10):
        day, made = f"2026-03-0{2 + n // 5}", server
        if n % 5 == 0:
            made = [("x", "PX Deq: Execute Reply", None, 10_000_000)]
        path = write_trace(tmp_path / day / f"{n}.trc", made, day=day, pid=n)
        path.write_text(path.read_text().replace("(35.", f"({35 + n}."))
    document = answer("fleet", tmp_path, "--to", "factor:8")
    [row] = document["statements"]
    assert (row["elapsed_s"], row["temp_s"]) == pytest.approx((20, 16), rel=1e-4)
    assert row["forecast_s"] == pytest.approx(6, rel=1e-4)
    assert [day["temp_s"] for day in document["days"]] == pytest.approx([8, 8], rel=1e-4)
    first = answer("fleet", tmp_path / "2026-03-02", "--to", "factor:8")["statements"][0]
    same(first, answer("forecast", tmp_path / "2026-03-02", "--sql-id", "x", "--to", "factor:8"))


def test_a_recording_equals_its_forecast(spilled, tmp_path):
    ingest([str(spilled.path)], str(tmp_path / "fleet"))
    row = only_row(tmp_path / "fleet", "--to", "catalogue:aws-gp3")
    same(row, answer("forecast", spilled.path, "--to", "catalogue:aws-gp3"))
    assert row["evidence"] == "recording"


def test_a_reason_names_the_recording_and_no_internal_folder(tmp_path):
    calm = made_up_recording(tmp_path / "calm run.spill", [], elapsed_s=3.0)
    ingest([str(calm.path)], str(tmp_path / "fleet"))
    done = spillcast("fleet", tmp_path / "fleet", "--to", "latency:20us", "--json")
    document = json.loads(done.stdout)
    [row] = document["statements"]
    assert row["refused"].startswith("calm run.spill: ")
    # It is listed, but does not count as spilling.
    assert not row["spills"]
    assert [database["statements"] for database in document["databases"]] == [0]


@cases("name", ["", "..", "../x", "/x"])
def test_a_row_is_not_unpacked_outside_of_its_folder(name, tmp_path):
    content = io.BytesIO()
    with zipfile.ZipFile(content, "w") as archive:
        archive.writestr("meta.json", "{}")
    row = {"name": name, "kind": "recording", "evidence": content.getvalue()}
    with pytest.raises(EvidenceDamaged), unpacked(row, Selection(), tmp_path):
        pass
    assert list(tmp_path.iterdir()) == []


def test_the_middle_of_an_unknown_time_is_not_a_saving(tmp_path):
    """The server does not time its I/O: temp I/O took between no time and the whole statement."""
    server = Server(settings={"work_mem": "4096", "track_io_timing": "off"})
    for _ in range(2):
        server.call("1", ms=9000.0)
        server.rows["1"] |= {"temp_blk_read_time": 0.0, "temp_blk_write_time": 0.0}
        server.wait(600)
        server.look(tmp_path)
    row = only_row(tmp_path, "--to", "latency:1us")
    assert (row["forecast_s"], row["saved_s"]) == (None, None)
    low_s, high_s = row["saved_interval_s"]
    assert low_s < 0.1
    assert high_s > 8.0
    [ranked] = answer("postgres", tmp_path, "--to", "latency:1us")["servers"][0]["statements"]
    assert ranked["gains"]["latency:1us"]["interval_s"] == pytest.approx([low_s, high_s], abs=1.0)
    # Nor is it a saving of 0 s for the database or the day.
    document = answer("fleet", tmp_path, "--to", "latency:1us")
    sums = (*document["databases"], *document["days"])
    assert [row["saved_s"] for row in sums] == [None, None]
    for row in sums:
        assert row["saved_interval_s"] == pytest.approx([low_s, high_s])
    # Nor a share of 0 % of all savings.
    assert "%" not in spillcast("fleet", tmp_path, "--to", "latency:1us").stdout


def test_a_statement_with_only_bounds_is_sorted_by_their_middle(tmp_path):
    """Temp I/O takes an unknown part of a query of 9 s, and 250 ms of another query."""
    bounded = {name: value for name, value in PLAN.items() if not name.startswith("Temp I/O")}
    bounded["Actual Total Time"] = 9000.0
    for name, plan in (("a", PLAN), ("b", bounded)):
        document = [{"Plan": plan, "Execution Time": plan["Actual Total Time"] + 10.0}]
        (path := tmp_path / f"{name}.json").write_text(json.dumps(document))
        ingest([str(path)], str(tmp_path / "fleet"), database=name)
    document = answer("fleet", tmp_path / "fleet", "--to", "latency:1us")
    for rows in (document["statements"], document["databases"]):
        first, second = rows
        assert (first["database"], second["database"]) == ("b", "a")
        assert sum(first["saved_interval_s"]) / 2 > second["saved_s"] > first["saved_interval_s"][0]
    assert document["statements_for_most"] == 2


def test_a_plan_equals_its_forecast(tmp_path):
    plan = tmp_path / "plan.json"
    plan.write_text(json.dumps([{"Plan": PLAN, "Planning Time": 0.1, "Execution Time": 910.0}]))
    ingest([str(plan)], str(tmp_path / "fleet"), database="sales")
    row = only_row(tmp_path / "fleet", "--to", "latency:20us")
    same(row, answer("forecast", plan, "--to", "latency:20us"))
    assert row["database"] == "sales"


def test_spark_applications_equal_their_forecasts(tmp_path):
    """A file and a rolled folder of one job, which ran twice; a log without tasks is set aside."""
    logs = tmp_path / "logs"
    rolled = logs / "eventlog_v2_app-2"
    rolled.mkdir(parents=True)
    named = {"spark.app.name": "nightly"}
    first = text(two_stages(properties=named))
    (logs / "app-1").write_bytes(first)
    second = two_stages(properties=named, app="app-2", end_s=12.0)
    for number, part in enumerate((second[:9], second[9:]), 1):
        (rolled / f"events_{number}_app-2.zstd").write_bytes(zstd(text(part)))
    (logs / "app-3").write_bytes(text(two_stages(app="app-3")[:4]))
    disk = "limits:iops=100000,throughput=100MB/s,latency=0.1ms"
    question = ("--from", disk, "--page-cache", "500M", "--to", "tmpfs", "--json")
    alone = [
        json.loads(spillcast("forecast", log, *question).stdout) for log in (logs / "app-1", rolled)
    ]
    done = spillcast("fleet", logs, *question)
    assert "app-3" in done.stderr
    document = json.loads(done.stdout)
    [row] = document["statements"]
    assert (row["database"], row["sql"], row["evidence"]) == ("spark", "nightly", "application")
    assert row["elapsed_s"] == pytest.approx(23.0)
    assert row["forecast_s"] == pytest.approx(sum(entry["forecast_s"] for entry in alone))
    assert document["days"][0]["day"] == "2023-11-14"
    # Event logs have no single operations to simulate there, but the time is known.
    done = spillcast("fleet", logs, "--to", "latency:1ms", "--json")
    [row] = json.loads(done.stdout)["statements"]
    assert (row["forecast_s"], row["elapsed_s"]) == (None, pytest.approx(23.0))


def test_ash_equals_its_forecast(tmp_path):
    make_example(tmp_path)
    done = ingest([str(tmp_path / "ash.csv")], str(tmp_path / "fleet"), database="dwh")
    assert done.set_aside == []
    to = ("--to", tmp_path / "flash.trc")
    for row in answer("fleet", tmp_path / "fleet", *to)["statements"]:
        elapsed = ("--sql-id", row["sql"], "--elapsed", f"{row['elapsed_s']:.6f}")
        alone = answer("forecast", tmp_path / "ash.csv", *elapsed, *to)
        # Sums of microseconds and of millionths of waits, rounded once for each event.
        for key in ("forecast_s", "interval_s"):
            assert row[key] == pytest.approx(alone[key], rel=1e-6)


def test_ash_rows_in_two_exports_count_once(tmp_path):
    """The second export repeats the second half of the first, and continues."""
    make_example(tmp_path / "all")
    whole = tmp_path / "all" / "ash.csv"
    heading, *lines = whole.read_text().lstrip().splitlines(keepends=True)
    third = len(lines) // 3
    (tmp_path / "first.csv").write_text(heading + "".join(lines[: 2 * third]))
    (tmp_path / "second.csv").write_text(heading + "".join(lines[third:]))
    rows = []
    for files in ([whole], [tmp_path / "first.csv", tmp_path / "second.csv"]):
        done = ingest(list(map(str, files)), str(tmp_path / str(len(files))), database="dwh")
        assert done.set_aside == []
        document = answer("fleet", tmp_path / str(len(files)), "--to", "latency:1ms")
        rows.append(document["statements"] + document["days"])
        for row in rows[-1]:
            row.pop("sources", None)
    assert rows[0] == rows[1]


ASH = "SAMPLE_TIME,INST_ID,SESSION_ID,QC_SESSION_ID,EVENT,SQL_ID,SQL_EXEC_ID,TIME_WAITED\n"


def test_instances_of_a_cluster_share_seconds_as_in_forecast(tmp_path):
    """By second: temp, temp on both, temp on half, none. Another statement is serial."""
    rows = [
        *((f"00:00:0{n}.7", 1, 11, 10, READ, "parallel", 1, 900) for n in range(3)),
        ("00:00:01.3", 2, 21, 10, READ, "parallel", 1, 900),
        *((f"00:00:0{n}.3", 2, 21, 10, "", "parallel", 1, 0) for n in (2, 3)),
        ("00:00:06.01", 1, 30, "", READ, "serial", 2, 900),
        ("00:00:06.99", 1, 30, "", READ, "serial", 2, 900),
    ]
    lines = (f"2024-10-14 {','.join(map(str, row))}\n" for row in rows)
    (path := tmp_path / "ash.csv").write_text(ASH + "".join(lines))
    ingest([str(path)], str(tmp_path / "fleet"), database="dwh")
    to = ("--to", "factor:10")
    times_s = {"parallel": (4, 2.5), "serial": (2, 2)}
    for row in answer("fleet", tmp_path / "fleet", *to)["statements"]:
        elapsed_s, temp_s = times_s.pop(row["sql"])
        alone = answer("forecast", path, "--sql-id", row["sql"], "--elapsed", elapsed_s, *to)
        assert (row["elapsed_s"], row["temp_s"]) == pytest.approx((elapsed_s, temp_s))
        for forecast in (row, alone):
            assert forecast["forecast_s"] == pytest.approx(elapsed_s - 0.9 * temp_s)
    assert not times_s


@cases("time", ["14-OCT-24", "14.10.2024 10:02"])
def test_ash_without_seconds_has_no_elapsed_time(tmp_path, time):
    rows = (f"{time},1,30,,{event},x,1,900\n" for event in [READ, READ, READ, "", ""])
    (path := tmp_path / "ash.csv").write_text(ASH + "".join(rows))
    done = ingest([str(path)], str(tmp_path / "fleet"), database="dwh")
    assert [file["file"] for file in done.set_aside] == [str(path)]
    question = ("forecast", path, "--to", "factor:10")
    only_line(spillcast(*question), 2)
    given = json.loads(spillcast(*question, "--elapsed", 5, "--json").stdout)
    assert given["ceiling_s"] == pytest.approx(2)


def test_sums_match_the_waits(actual):
    temp_us, idle_us = 0, 0
    for number in range(24):
        for _, event, _, us in waits(number):
            temp_us += us * (event in {READ, WRITE})
            idle_us += us * (event == IDLE)
    assert sum(row.temp_s for row in actual.statements) == pytest.approx(temp_us / 1e6, abs=1e-9)
    assert sum(row.temp_s for row in actual.databases) == pytest.approx(temp_us / 1e6, abs=1e-9)
    assert sum(row.temp_s for row in actual.days) == pytest.approx(temp_us / 1e6, abs=1e-9)
    assert sum(row.saved_s for row in actual.days) == pytest.approx(actual.saved_s)
    assert sum(row.share for row in actual.statements) == pytest.approx(1)
    assert actual.statements[-1].cumulative_share == pytest.approx(1)
    saved = [row.saved_s for row in actual.statements]
    assert saved == sorted(saved, reverse=True)
    # 150 us for each wait for temp; nothing else changes.
    count = sum(e in {READ, WRITE} for n in range(24) for _, e, _, _ in waits(n))
    assert actual.saved_s == pytest.approx(temp_us / 1e6 - count * 150e-6)
    low, high = actual.saved_interval_s
    assert low < actual.saved_s < high


def test_quantiles_are_over_all_waits(actual):
    row = actual.statements[0]
    number = int(row.database.removeprefix("erp"))
    us = sorted(
        us
        for file in range(number, 24, 3)
        for sql, event, _, us in waits(file)
        if sql == row.sql and event in {READ, WRITE}
    )
    assert row.p50_us == pytest.approx(us[(len(us) - 1) // 2], rel=0.01)
    assert row.p95_us == pytest.approx(us[-(-95 * len(us) // 100) - 1], rel=0.01)


def row_saving(saved_s, share, cumulative):
    return FleetStatement(
        "d", "s", "trace", 1, 9.0, 9.0, 1.0, (1.0, 1.0), saved_s, (0.0, 0.0), None, None, None,
        share, cumulative,
    )  # fmt: skip


@cases(
    ("shares", "count"), [([0.5, 0.3, 0.2], 2), ([0.81, 0.19], 1), ([0.4, 0.3, 0.3], 3), ([], 0)]
)
def test_the_number_of_statements_that_save_most(shares, count):
    rows = [row_saving(share, share, sum(shares[: n + 1])) for n, share in enumerate(shares)]
    assert statements_for_most(rows) == count


def test_a_saved_hour_has_a_price(made, actual):
    priced = fleet(str(made / "fleet"), "latency:150us", cost=90)
    # The traces cover four of thirty days.
    assert priced.cost_per_saved_hour == pytest.approx(90 * 4 / 30 / (actual.saved_s / 3600))
    assert actual.cost_per_saved_hour is None
    for cost in ("nan", "inf"):
        only_line(spillcast("fleet", made / "fleet", "--to", "factor:2", "--cost", cost), 2)


def test_databases_of_the_same_name_are_distinguished(tmp_path):
    for host in ("east", "west"):
        write_trace(tmp_path / f"{host}.trc", waits(1), host=host)
    ingest([str(tmp_path)], str(tmp_path / "fleet"))
    result = fleet(str(tmp_path / "fleet"), "factor:2")
    assert [row.database for row in result.databases] == ["erp@east", "erp@west"]
    assert result.warnings[0].startswith("databases on host east and host west have the same")


def test_instances_of_a_cluster_are_one_database():
    rows = [{"database": "erp", "instance": f"erp{n}", "host": f"db{n}"} for n in range(3)]
    assert clashing(rows) == {}
    rows.append({"database": "erp", "instance": "erp1", "host": "elsewhere"})
    assert clashing(rows) == {"erp": {"db1", "elsewhere"}}


def test_invalid_targets_are_refused_in_one_line(made, tmp_path):
    dataset = made / "fleet"
    assert "probe it once" in only_line(spillcast("fleet", dataset, "--to", tmp_path), 2)
    assert "no such file" in only_line(spillcast("fleet", dataset, "--to", "nowhere"), 2)
    assert "a factor is" in only_line(spillcast("fleet", dataset, "--to", "factor:0"), 2)
    temp_events = spillcast("fleet", dataset, "--to", "factor:2", "--temp-events", "latch*")
    assert "waits for 'latch*'" in only_line(temp_events, 2)


def test_an_unknown_storage_is_named_by_its_option(tmp_path):
    plan = [{"Plan": {k: v for k, v in PLAN.items() if "I/O" not in k}, "Execution Time": 910.0}]
    (tmp_path / "plan.json").write_text(json.dumps(plan))
    known = {"--to": "latency:1ms", "--from": "latency:2ms"}
    for option in known:
        for word in ("nowhere", tmp_path):
            words = itertools.chain(*{**known, option: word}.items())
            line = only_line(spillcast("fleet", tmp_path / "plan.json", *words), 2)
            assert f"{option} {word}: " in line
        for word in ("latency:soon", "limits:iops=0", "catalogue:aws-gp3?iops=1", ""):
            words = itertools.chain(*{**known, option: word}.items())
            only_line(spillcast("fleet", tmp_path / "plan.json", *words), 2)


def test_traces_without_waits_are_refused_without_an_internal_folder(made):
    result = spillcast(
        "fleet", made / "traces", "--to", "latency:1ms", "--temp-events", "read by mail"
    )
    assert result.returncode == 2
    assert "read by mail" in result.stderr
    assert "spillcast-" not in result.stderr


def test_the_table_fits_a_terminal(made):
    result = completed("fleet", made / "fleet", "--to", "latency:150us", "--top", 5)
    assert "of that." in result.stdout
    assert "... and 7 more" in result.stdout
    assert max(map(len, result.stdout.splitlines())) <= 80


def test_evidence_without_a_forecast_keeps_its_elapsed_time(tmp_path):
    made_up_recording(tmp_path / "idle.spill", [], elapsed_s=2.0)
    command = "fleet", tmp_path, "--to", "latency:1ms", "--json"
    [statement] = json.loads(spillcast(*command).stdout)["statements"]
    assert statement["forecast_s"] is None
    assert statement["elapsed_s"] == 2.0


@cases("last, warned", [("*** DUMP FILE SIZE IS LIMITED TO 400000 BYTES ***", 1), ("", 0)])
def test_an_incomplete_trace_is_counted_in_a_warning(tmp_path, last, warned):
    path = write_trace(tmp_path / "t.trc", [("x", READ, 31, 900)] * 99)
    path.write_text(path.read_text() + last + "\n")
    ingest([str(path)], str(tmp_path / "fleet"))
    warnings = fleet(str(tmp_path / "fleet"), "latency:150us").warnings
    assert sum("of 1 file only a part" in warning for warning in warnings) == warned

"""Statements that spill on a server, ranked: by counters, between snapshots, and by logs alone."""

import gzip
import shlex

import pytest

import statement_files
from cases import cases
from harness import completed, environment, json_of, only_line, spillcast, until
from plans import INSTALLATIONS
from postgres_rig import private_server
from spillcast.engines.postgres.rank import _record, of_rows, rows_of, spill_s
from spillcast.engines.postgres.server import make_cluster, serve
from spillcast.engines.ranking import Ranked, RankRequest
from spillcast.evidence.postgres.logs import Logs
from spillcast.fleet.snapshots import Snapshot
from spillcast.workspace import workspace

SETTINGS = {
    "shared_preload_libraries": "pg_stat_statements,auto_explain",
    "track_io_timing": "on",
    "work_mem": "256kB",
    "max_parallel_workers_per_gather": "0",
    "enable_mergejoin": "off",
    "log_temp_files": "0",
    "auto_explain.log_min_duration": "0",
    "auto_explain.log_analyze": "on",
    "auto_explain.log_buffers": "on",
    "auto_explain.log_settings": "on",
    "logging_collector": "on",
    "log_line_prefix": "%m [%p] ",
}
LARGE = "select count(*) from (select id, f from t order by f, id offset 0) s"
MIDDLE = "select max(x.f) from t x join t y using (id) where x.id % 4 = 0"
SMALL = "select count(*) from (select id from t where id % 5 = 0 order by id offset 0) s"
NONE = "select count(*) from t"
#: A message in the log after those of the statements.
WRITTEN = b"all of them are written"
#: Number of calls of each statement: the third spills far less in total than the others.
RUNS = ((LARGE, 4), (MIDDLE, 2), (SMALL, 1), (NONE, 5))
#: Letters in which their texts differ, before any constant.
BEGINNING = 36
TARGETS = ("--to", "factor:10", "--to", "latency:5ms")


@pytest.fixture(scope="module")
def server(tmp_path_factory):
    """A server of the newest version that has run all statements; its log in three formats."""
    logs = {"log_directory": "log", "log_destination": "stderr,csvlog,jsonlog"}
    with workspace() as room, private_server(room, {**SETTINGS, **logs}, INSTALLATIONS[0]) as made:
        with made.connect() as connection:
            connection.execute("create extension pg_stat_statements")
            connection.execute("create role watcher login")
            connection.execute("grant pg_monitor to watcher")
            connection.execute("create role nobody login")
            connection.execute(
                "create table t as select hashint8(i) as id, repeat('x', 40) as f "
                "from generate_series(1, 60000) i"
            )
            connection.execute("analyze t")
            connection.execute("select pg_stat_statements_reset()")
            for query, times in RUNS:
                for _ in range(times):
                    connection.execute(query)
            connection.execute(f"do $$ begin raise log '{WRITTEN.decode()}'; end $$")
        folder = tmp_path_factory.mktemp("logs")
        for file in (room / "postgres" / "data" / "log").iterdir():
            # A separate process writes the logs, and may be in the middle of a message.
            until(lambda: WRITTEN in file.read_bytes(), file)  # noqa: B023
            before, _, _ = file.read_bytes().partition(WRITTEN)
            (folder / file.name).write_bytes(before[: before.rindex(b"\n") + 1])
        yield made, folder


@pytest.fixture(scope="module")
def dsn(server):
    return server[0].dsn.replace("user=postgres", "user=watcher")


def ranked(*arguments):
    return json_of("postgres", *arguments)


def texts(result):
    return [" ".join(item["query"].split())[:BEGINNING] for item in result["statements"]]


def in_order(result):
    return [text for text in texts(result) if "create" not in text]


def check_order(result):
    """Each query that spills, by the saving without spills, which depends on the load."""
    assert set(in_order(result)) == {query[:BEGINNING] for query, _ in RUNS[:3]}
    check_sorted(result)


def check_sorted(result):
    """Sorted by saving, or by the time in temp I/O where the saving is refused."""
    weights = [
        item["no_spill"]["saved_s"] if item["no_spill"] else sum(item["temp_s"]) / 2
        for item in result["statements"]
    ]
    assert weights == sorted(weights, reverse=True)


def by_text(result):
    """The statements by the beginning of their text."""
    return dict(zip(texts(result), result["statements"], strict=True))


def explained(connection, query):
    """Temp blocks of a run, as EXPLAIN counts them."""
    [[[plan]]] = connection.execute(f"explain (analyze, buffers, format json) {query}").fetchall()
    top = plan["Plan"]
    return top["Temp Read Blocks"] + top["Temp Written Blocks"]


def test_the_largest_spills_are_first_with_the_savings_of_fixes(server, dsn):
    ranking = ranked(dsn, *TARGETS)
    check_order(ranking)
    statements = by_text(ranking)
    with server[0].connect() as connection:
        connection.execute("load 'auto_explain'")
        connection.execute("set auto_explain.log_min_duration = -1")
        blocks = [times * explained(connection, query) for query, times in RUNS[:3]]
    for (query, times), temp_blocks in zip(RUNS, blocks, strict=False):
        item = statements[query[:BEGINNING]]
        assert item["temp_bytes"] == 8192 * temp_blocks
        low_s, high_s = item["temp_s"]
        assert item["calls"] == times
        assert 0 < low_s <= high_s <= item["elapsed_s"]
        saved = {name: gain["saved_s"] for name, gain in item["gains"].items()}
        assert 0 < saved["factor:10"] <= item["no_spill"]["saved_s"]
        # A disk of 5 ms is not a fix.
        assert saved.get("latency:5ms", -1.0) < 0
    assert ranking["statements_seen"] > 3


def test_the_ranking_fits_one_screen(dsn):
    result = completed("postgres", dsn, *TARGETS, env=environment(COLUMNS="80"))
    lines = result.stdout.splitlines()
    assert len(lines) < 24
    assert " statements spill, " in lines[0]
    assert "Next, record the first when it runs:" in lines
    assert " --query " in " ".join(lines)


def test_between_two_snapshots_only_the_growth_counts(server, dsn, tmp_path):
    look = tmp_path / "look.json"
    ranked(dsn, "--save", look)
    with server[0].connect() as connection:
        connection.execute(MIDDLE)
    ranking = ranked(dsn, "--since", look)
    assert in_order(ranking) == [MIDDLE[:BEGINNING]]
    assert ranking["statements"][0]["calls"] == 1
    with server[0].connect() as connection:
        connection.execute("select pg_stat_statements_reset()")
        for query, times in RUNS:
            for _ in range(times):
                connection.execute(query)
    # A statement that was reset meanwhile counts from its reset on.
    check_order(ranked(dsn, "--since", look))


def test_snapshots_in_a_folder_give_only_the_growth(server, dsn, tmp_path):
    looks = tmp_path / "looks"
    refused = spillcast("postgres", dsn, "--save", looks, "--since", "1m")
    assert refused.returncode == 2
    for _ in range(2):
        saved = ranked(dsn, "--save", looks, "--redact")
        assert saved["bytes"] == (tmp_path / saved["path"]).stat().st_size
        with server[0].connect() as connection:
            connection.execute(SMALL)
    assert spillcast("postgres", looks).returncode == 0
    ranked(dsn, "--save", looks)
    [result] = ranked(looks)["servers"]
    assert [statement["calls"] for statement in result["statements"]] == [2]
    # A folder of another program is not written to.
    assert spillcast("postgres", dsn, "--save", tmp_path).returncode == 2


def test_a_role_without_access_sees_the_missing_privilege(server):
    nobody = server[0].dsn.replace("user=postgres", "user=nobody")
    result = spillcast("postgres", nobody)
    assert "not available: statements and sessions of others: grant pg_monitor" in result.stdout


def test_plans_in_the_log_give_work_memory(server, dsn):
    ranking = ranked(dsn, "--log", server[1])
    statements = by_text(ranking)
    large, middle, small = (statements[query[:BEGINNING]] for query, _ in RUNS[:3])
    assert middle["work_mem_bytes"] is not None
    # 60,000 rows of 40 letters exceed 4 MB, and a fifth of them without the text does not.
    assert large["work_mem_bytes"] > 4 << 20 > small["work_mem_bytes"]
    # The nodes of the plan of a single call did all of its temp I/O.
    for statement in (large, middle, small):
        assert (
            sum(node["temp_bytes"] for node in statement["nodes"])
            == statement["temp_bytes"] // statement["calls"]
        )


@cases("ending", ["log", "csv", "json"])
def test_logs_alone_give_the_same_ranking(server, tmp_path, ending):
    [file] = server[1].glob(f"*.{ending}")
    (tmp_path / f"server.{ending}.gz").write_bytes(gzip.compress(file.read_bytes()))
    ranking = ranked(tmp_path, *TARGETS)
    check_sorted(ranking)
    assert all(by_text(ranking)[query[:BEGINNING]]["work_mem_bytes"] for query in (LARGE, MIDDLE))


def test_logs_without_spills_name_the_settings(tmp_path):
    (tmp_path / "server.log").write_text("2026-01-01 00:00:00 UTC [7] LOG:  checkpoint starting\n")
    assert "no temp file and no plan in 1 file" in only_line(spillcast("postgres", tmp_path), 2)


def test_a_directory_is_not_probed(dsn, tmp_path):
    message = only_line(spillcast("postgres", dsn, "--to", tmp_path), 2)
    assert f"spillcast probe {tmp_path}" in message


def test_a_snapshot_taken_in_another_time_zone_counts_as_well(dsn, tmp_path):
    kept = tmp_path / "look.json"
    zone = environment(PGTZ="Asia/Tokyo")
    assert spillcast("postgres", dsn, "--save", kept, env=zone).returncode == 0
    assert ranked(dsn, "--since", kept)["statements"] == []


def test_a_snapshot_of_another_server_is_refused(dsn, tmp_path):
    kept = tmp_path / "look.json"
    with workspace() as room, serve(make_cluster(room)) as other:
        spillcast("postgres", other.dsn, "--save", kept)
        assert kept.is_file()
    message = only_line(spillcast("postgres", dsn, "--since", kept), 2)
    assert "is of another server" in message


def test_a_named_storage_replaces_the_advice_to_enable_timing(server):
    untimed = f"{server[0].dsn} options='-c track_io_timing=off'"
    without, named = (ranked(untimed, *more)["unseen"] for more in ((), ("--from", "latency:1ms")))
    codes, kept = ({note["code"] for note in notes} for notes in (without, named))
    assert codes - kept == {"times-off"}


@cases(
    ("query", "pattern"),
    [
        ("select count(*)\nfrom t\n  order by f", r"from t\s+order by f"),
        ("select a where a = $1 order by b, c limit $2", "order by b, c limit"),
        ("/* of the page of users, and more */ select 1 from sales", "from sales"),
        ("select 'a text that is another each time', b from t", "b from t"),
        (f"select {'x' * 50} from t", "select " + "x" * 33),
        ("<insufficient privilege>", None),
    ],
)
def test_the_printed_pattern_matches_the_constant_part_of_a_statement(query, pattern):
    command = _record("DSN", [Ranked("1", query, 1, 1.0, 1, None)])
    assert (command and shlex.split(command)[5]) == pattern


def test_the_setting_that_avoids_spills_is_specific_to_the_statement(server, dsn):
    """Judged by the temp blocks written with a large value of one and a small one of the other."""
    settings = ("work_mem", "maintenance_work_mem")
    least = dict(zip(settings, ("64kB", "1MB"), strict=True))
    statements = (
        "create index spread on t (f, id)",
        "reindex index spread",
        "cluster t using spread",
        "alter table t alter f type varchar(50)",
        "create table ordered as select * from t order by id, f",
    )
    written = "select coalesce(sum(temp_blks_written), 0) from pg_stat_statements where query = %s"
    avoiding = {}
    with server[0].connect() as connection:
        for statement in statements:
            # The others need the index.
            before = [] if "create" in statement else statements[:1]
            for enough in settings:
                [[counted]] = connection.execute(written, [statement]).fetchall()
                with connection.transaction(force_rollback=True):
                    for name in settings:
                        value = "64MB" if name == enough else least[name]
                        connection.execute(f"set local {name} = '{value}'")
                    for text in (*before, statement):
                        connection.execute(text)
                if connection.execute(written, [statement]).fetchall() == [(counted,)]:
                    avoiding[statement] = enough
    assert len(avoiding) == len(statements)
    ranking = ranked(dsn)
    named = {item["query"]: item["memory"] or ranking["memory"] for item in ranking["statements"]}
    assert avoiding.items() <= named.items()


def test_calls_by_other_statements_are_reported_to_count_twice(server, dsn):
    with server[0].connect() as connection:
        connection.execute("select pg_stat_statements_reset()")
        called = "select count(*) from (select * from t order by id offset 0) s"
        for track, twice in (("top", False), ("all", True)):
            connection.execute(f"set pg_stat_statements.track = '{track}'")
            connection.execute(f"do $$ begin execute '{called}'; end $$")
            assert ("nested" in {item["code"] for item in ranked(dsn)["unseen"]}) == twice


def test_where_the_server_does_not_show_its_reset_the_time_is_unknown(server, dsn):
    """Before version 1.9 of the extension; its counts survive the server's restarts."""
    with server[0].connect() as connection:
        connection.execute("create database earlier")
    with server[0].connect(dbname="earlier") as connection:
        connection.execute("create extension pg_stat_statements version '1.8'")
    assert ranked(dsn)["window_s"] > 0
    assert ranked(f"{dsn} dbname=earlier")["window_s"] is None


CALLS, TEMP_S = 4, 1.92

#: Either one process or three: 96 % of the elapsed time, or a third of that.
ROW = statement_files.row(
    calls=CALLS, mean_ms=2000.0, temp_ms=1000 * TEMP_S, max_parallel_workers_per_gather=2
)

#: A plan of auto_explain without a parallel node.
PLAN = {
    "Query Text": statement_files.QUERY,
    "Plan": {
        "Node Type": "Sort", "Actual Loops": 1, "Actual Total Time": 2000.0,
        "Temp Read Blocks": 400, "Temp Written Blocks": 800,
    },
    "Execution Time": 2000.0,
}  # fmt: skip


def gain(target, logs=None, **seen):
    row = {name: value for name, value in ROW.items() if name != "parallel_workers_launched"}
    row |= seen
    [item] = of_rows(rows_of(Snapshot(0.0, None, [row])), logs, RankRequest([target]))
    assert item.refused is None
    return item.gains[target]


@cases("factor", [2, 1000])
def test_bounds_of_a_saving_are_shown_where_the_remaining_time_is_unbounded(factor):
    result = gain(f"factor:{factor}")
    least, most = (CALLS * TEMP_S * (1 - 1 / factor) / processes for processes in (3, 1))
    assert result.saved_s == pytest.approx((least + most) / 2, rel=0.01)
    low_s, high_s = result.interval_s
    assert low_s < least
    assert high_s >= most


def test_samples_of_sessions_give_the_processes():
    """Given enough samples; and never more than there were."""
    wide = gain("factor:1000")
    assert gain("factor:1000", looks=3, workers_seen=0) == wide
    alone = gain("factor:1000", looks=40, workers_seen=0)
    assert alone.saved_s == pytest.approx(CALLS * TEMP_S, rel=0.01)
    two = gain("factor:1000", looks=40, workers_seen=1)
    assert two.saved_s == pytest.approx(CALLS * TEMP_S * 0.75, rel=0.01)
    # Faster storage makes nothing slower.
    assert 0 <= wide.interval_s[0] <= two.interval_s[0] < alone.interval_s[0]


def test_a_plan_in_the_log_gives_the_processes():
    result = gain("factor:1000", Logs(plans=[PLAN]))
    assert result.saved_s == pytest.approx(CALLS * TEMP_S, rel=0.01)
    low_s, high_s = result.interval_s
    assert CALLS * TEMP_S * 0.9 < low_s < result.saved_s < high_s <= CALLS * 2.0


@cases("temp_ms, temp_s", [(0.0, 1.2), (1920.0, 1.92)])
def test_untimed_temp_io_takes_its_time_on_the_named_storage(temp_ms, temp_s):
    """1,200 blocks of 1 ms in each call, from which savings are computed, too."""
    row = statement_files.row(calls=CALLS, temp_ms=temp_ms, max_parallel_workers_per_gather=0)
    request = RankRequest(["factor:1000"], "latency:1ms")
    [item] = of_rows(rows_of(Snapshot(0.0, None, [row])), None, request)
    assert item.temp_s == pytest.approx((CALLS * temp_s, CALLS * temp_s))
    assert item.no_spill.saved_s == pytest.approx(CALLS * temp_s)


def test_a_spill_takes_the_throughput_of_a_volume():
    """AWS: a volume of gp3 has 125 MiB/s, which readahead and writeback reach."""
    for gib in (1, 1024):
        [took_s] = spill_s(gib << 30, RankRequest(["catalogue:aws-gp3"])).values()
        assert took_s == pytest.approx(2 * gib * 1024 / 125, rel=0.05)

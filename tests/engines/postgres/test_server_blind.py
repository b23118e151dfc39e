"""A server with default settings: bytes written by its databases, and settings that show more."""

import json
import shlex
from concurrent.futures import ThreadPoolExecutor
from types import SimpleNamespace

import pytest
from psycopg.conninfo import conninfo_to_dict
from psycopg.errors import QueryCanceled

from cases import cases
from harness import spillcast, until
from plans import INSTALLATIONS
from postgres_rig import copied_cluster
from spillcast.engines.postgres import EXPLAINER, open_session
from spillcast.engines.postgres.rank import enable, rank_postgres
from spillcast.engines.postgres.rank.enable import enable_commands
from spillcast.engines.postgres.server import serve
from spillcast.engines.ranking import Gain, Ranked, RankRequest, ServerRanking
from spillcast.report.html import documents
from spillcast.report.servers import ranking_page
from spillcast.workspace import workspace

SPILLING = "select count(*) from (select i from generate_series(1, 60000) i order by -i offset 0) s"
LOGGED = {"logging_collector": "on", "log_directory": "log", "log_temp_files": "0"}


def spill(connection, query=SPILLING):
    connection.execute("set work_mem = '64kB'")
    connection.execute("set max_parallel_workers_per_gather = 0")
    connection.execute(query)


@pytest.fixture(params=INSTALLATIONS, ids=lambda i: i.version)
def cluster(request):
    with workspace() as room:
        yield copied_cluster(room, request.param)


def test_databases_show_what_statements_do_not(cluster):
    """The commands that enable more are then run, and the same statement is counted."""
    with serve(cluster, LOGGED) as server:
        with server.connect() as connection:
            spill(connection)
        with server.connect() as connection:
            counts = "select temp_files, temp_bytes from pg_stat_database where temp_bytes > 0"
            log = "select pg_read_file(pg_current_logfile())"
            # A session reports its counts when its process ends, which is after the connection
            # does, and the log is written by another process.
            until(lambda: connection.execute(counts).fetchall(), "the counts of the session")
            until(lambda: "temporary" in connection.execute(log).fetchone()[0], "the log")
            [(files, size)] = connection.execute(counts).fetchall()
        result = spillcast("postgres", server.dsn, "--to", "catalogue:aws-gp3", "--json")
        assert result.returncode == 3, result.stderr
        document = json.loads(result.stdout)
        [database] = document["databases"]
        assert (database["temp_files"], database["temp_bytes"]) == (files, size)
        assert 0 < database["active_s"] < 60
        assert database["since_s"] < server_time(server)
        # Any such volume does more than 100 blocks and less than a GiB per second.
        assert 2 * size / 2**30 < database["spill_s"]["catalogue:aws-gp3"] < 2 * size / 8192 / 100
        # A superuser reads the log.
        assert [item["query"] for item in document["statements"]] == [SPILLING]
        assert document["statements"][0]["temp_bytes"] == size
        with server.connect() as connection:
            for statement in statements_of(document["enable"][:-1]):
                connection.execute(statement)
    with serve(cluster) as server, server.connect() as connection:
        [create] = statements_of(document["enable"][-1:])
        connection.execute(create)
        spill(connection)
        again = rank_postgres(server.dsn, RankRequest(["factor:2"]))
        assert SPILLING[:20] in [item.query[:20] for item in again.statements]
        assert not again.enable


def test_what_spills_now_is_named_with_the_command_that_records_it(cluster):
    """A statement and its temp files are counted only at its end."""
    with serve(cluster) as server, server.connect() as connection:
        connection.execute("set work_mem = '64kB'")
        pid = connection.info.backend_pid
        # The sort keeps its temp file until the first row is complete.
        holding = SPILLING.replace("count(*)", "i, pg_sleep(60)")
        with ThreadPoolExecutor() as pool:
            running = pool.submit(connection.execute, holding)
            until(lambda: rank_postgres(server.dsn, RankRequest([])).live, "the spill")
            ranking = rank_postgres(server.dsn, RankRequest([]))
            connection.cancel_safe()
            assert isinstance(running.exception(), QueryCanceled)
    [session] = ranking.live
    assert session.pid == pid
    words = shlex.split(ranking.record)
    assert words[words.index("--backend") + 1] == str(pid)
    assert str(pid) in ranking_page(ranking, 5).parts[0].sentences[0]
    [quiet, busy] = (
        documents.server(each)[0].sentences
        for each in (ServerRanking("db", 60.0, [], [], 0.9), ranking)
    )
    assert quiet != busy


def server_time(server):
    with server.connect() as connection:
        return connection.execute("select extract(epoch from now())::float8").fetchone()[0]


def statements_of(lines):
    """The statements that the commands pass to psql."""
    words = [shlex.split(line, comments=True) for line in lines]
    matches = [line[3::2] for line in words if line[:1] == ["psql"]]
    return [statement for line in matches for statement in line]


def test_statements_of_spillcast_do_not_count(cluster):
    loaded = {"shared_preload_libraries": "pg_stat_statements"}
    with serve(cluster, loaded) as server, server.connect() as connection:
        connection.execute("create extension pg_stat_statements")
        with open_session(server.dsn, EXPLAINER) as ours:
            spill(ours, f"explain (analyze) {SPILLING};")
        assert rank_postgres(server.dsn, RankRequest(["factor:2"])).statements == []
        spill(connection)
        [item] = rank_postgres(server.dsn, RankRequest(["factor:2"])).statements
        assert item.calls == 1


def test_columns_of_version_12_are_ranked(cluster):
    """They remain in a database whose extension was not updated."""
    loaded = {"shared_preload_libraries": "pg_stat_statements"}
    with serve(cluster, loaded) as server, server.connect() as connection:
        connection.execute("create extension pg_stat_statements version '1.7'")
        spill(connection)
        total = "select sum(total_time) / 1e3 from pg_stat_statements"
        before_s = connection.execute(total).fetchone()[0]
        ranking = rank_postgres(server.dsn, RankRequest(["factor:2"]))
        [item] = ranking.statements
        assert item.calls == 1
        assert before_s <= ranking.elapsed_s <= connection.execute(total).fetchone()[0]


def test_commands_keep_loaded_libraries_and_name_the_required_role(cluster):
    """A role that cannot see the list would replace it, and unload libraries that others need."""
    with serve(cluster, {"shared_preload_libraries": "auto_explain"}) as server:
        with server.connect() as connection:
            superuser = connection.info.user
            connection.execute("create role watcher login")
            connection.execute("create role stranger login")
            connection.execute("grant pg_monitor to watcher")
        blind = rank_postgres(f"{server.dsn} user=stranger", RankRequest(["factor:2"])).enable
        assert blind
        assert not statements_of(blind)
        lines = rank_postgres(f"{server.dsn} user=watcher", RankRequest(["factor:2"])).enable
    commands = [shlex.split(line, comments=True) for line in lines]
    dsns = [words[1] for words in commands if words[:1] == ["psql"]]
    assert {conninfo_to_dict(dsn)["user"] for dsn in dsns} == {superuser}
    [preload] = [text for text in statements_of(lines) if "shared_preload" in text]
    assert "'auto_explain', 'pg_stat_statements'" in preload


def test_only_settings_that_need_a_restart_ask_for_one(monkeypatch):
    """Where ALTER SYSTEM is disabled, from PostgreSQL 17 on."""
    info = SimpleNamespace(server_version=170002, parameter_status=lambda _name: "on")
    extensions = ["pg_stat_statements", "plpgsql"]

    def row(_connection, query, *_values):
        return ("off",) if "allow_alter_system" in query else (extensions,)

    monkeypatch.setattr(enable, "row", row)
    settings = {"track_io_timing": "off", "shared_preload_libraries": "pg_stat_statements"}
    lines = enable_commands(SimpleNamespace(info=info), "dbname=dw", settings)
    assert "no restart" in lines[0]
    assert any("track_io_timing = 'on'" in line for line in lines)
    assert not any("then restart" in line for line in lines)


@cases(("provider", "tool"), [("rds", "aws"), ("cloudsql", "gcloud"), ("azure", "az")])
def test_a_managed_server_has_commands_of_its_provider(provider, tool, monkeypatch):
    monkeypatch.setattr(enable, "row", lambda _connection, query: rows_of(query, provider))
    lines = enable_commands(
        None, "dbname=dw", {"track_io_timing": "off", "shared_preload_libraries": ""}
    )
    words = [shlex.split(line, comments=True)[:1] for line in lines]
    *tools, last = [word for [word] in filter(None, words)]
    assert (set(tools), last) == ({tool}, "psql")
    assert not any("ALTER SYSTEM" in line or "pg_ctl" in line for line in lines)


def rows_of(query, provider):
    return (False,) if "aurora" in query else ([provider, "plpgsql"],)


GAIN = Gain(-7.7, (-7.9, -7.5))
SLOWER = ServerRanking(
    "host=db",
    1020.0,
    [Ranked("1", SPILLING, 2, 9.0, 8192, (1.0, 1.0), {"latency:5ms": GAIN}, Gain(1.0, (0.9, 1.1)))],
    ["latency:5ms"],
    0.9,
    record=f"spillcast record --postgres 'host=db{'x' * 90}' --query 'a  b' -o run.spill",
)


def test_slowdowns_and_call_counts_are_shown():
    cells = ranking_page(SLOWER, 10).text(200).split("  ")
    assert any(cell.strip() == "7.70 s slower" for cell in cells)
    assert any(cell.strip() == "2" for cell in cells)
    # 169 calls per day.
    by_day = ranking_page(SLOWER, 10, per_day=True).text(200).split("  ")
    assert any(cell.strip() == "169" for cell in by_day)


def test_the_next_command_is_on_one_line():
    lines = ranking_page(SLOWER, 10).text(40).splitlines()
    assert SLOWER.record in [line.strip() for line in lines]

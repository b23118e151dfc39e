"""A forecast compared with plans of a real server, its counters, and a session's query."""

import json
import re
import subprocess
import time
from contextlib import contextmanager

import pytest

from cases import cases
from evidence import recording
from harness import TIMEOUT_S, completed, only_line, spillcast, started, until, until_attached
from plans import INSTALLATIONS
from postgres_rig import PARALLEL, Client, meta_of, of_debian, private_server, recorder
from spillcast.engines.postgres.rank import NAME
from spillcast.engines.postgres.rank.snapshot import pattern_of
from spillcast.workspace import workspace

SETTINGS = {
    "shared_preload_libraries": "pg_stat_statements",
    "track_io_timing": "on",
    "work_mem": "256kB",
    "max_parallel_workers_per_gather": "0",
}
QUERY = "select count(*) from (select id, f from t where id <> 7 order by f, id offset 0) s"
OTHER = "select count(*) from (select id from t where id % 5 = 0 order by id offset 0) s"
ENOUGH = "set work_mem = '64MB'"


@contextmanager
def with_table(installation, rows):
    """A server that counts statements, with a table."""
    with workspace() as room, private_server(room, SETTINGS, installation) as made:
        with made.connect() as connection:
            connection.execute("create extension pg_stat_statements")
            connection.execute(
                "create table t as select hashint8(i) as id, repeat('x', 40) as f "
                f"from generate_series(1, {rows}) i"
            )
            connection.execute("analyze t")
        yield made


@pytest.fixture(scope="module")
def server():
    """A server of the newest version with a table."""
    with with_table(INSTALLATIONS[0], 60_000) as made:
        yield made


@pytest.fixture
def connection(server):
    """A session, with all statement counters reset."""
    with server.connect() as made:
        made.execute("select pg_stat_statements_reset()")
        yield made


@pytest.fixture(scope="module")
def kept(server, tmp_path_factory):
    """A forecast of a plan that auto_explain logged: it has the text, and no identifier."""
    folder = tmp_path_factory.mktemp("kept")
    with server.connect() as made:
        [[[plan]]] = made.execute(f"explain (analyze, buffers, format json) {QUERY}").fetchall()
    (folder / "plan.json").write_text(json.dumps([{**plan, "Query Text": QUERY}]))
    return forecast(folder / "plan.json")


def forecast(evidence, *options):
    made = completed("forecast", evidence, "--to", "factor:10", *options, "--json")
    path = evidence.with_name("forecast.json")
    path.write_text(made.stdout)
    return path


def checked(*arguments):
    result = spillcast("check", *arguments, "--json")
    assert result.returncode in (0, 1, 3), result.stderr
    return json.loads(result.stdout)


def counted(connection, query, column="mean_exec_time"):
    """A statement's counter of the server."""
    requested = f"select {column} from pg_stat_statements where query like %s"
    [[value]] = connection.execute(requested, [query.split("where")[0] + "%"]).fetchall()
    return value


FORMS = {
    "json": "explain (analyze, buffers, format json) ",
    "text": "explain (analyze, buffers) ",
    "without buffers": "explain (analyze, buffers off) ",
}


@cases("before", ["", ENOUGH, "set track_io_timing = off"])
@cases("form", FORMS)
def test_a_plan_gives_the_actual_time_whether_it_spills_or_is_timed(
    kept, connection, tmp_path, form, before
):
    connection.execute(f"reset all; {before}")
    rows = connection.execute(FORMS[form] + QUERY).fetchall()
    path = tmp_path / "after.txt"
    if form == "json":
        path.write_text(json.dumps(rows[0][0]))
        elapsed_ms = rows[0][0][0]["Execution Time"]
    else:
        path.write_text("\n".join(line for (line,) in rows))
        elapsed_ms = float(rows[-1][0].split()[-2])
    result = checked(kept, path)
    assert result["measured_s"] == pytest.approx(elapsed_ms / 1e3)
    if form == "without buffers":
        assert result["work"] is None
    else:
        assert result["work"] == (0 if before == ENOUGH else 1)
    terms = {term["name"]: term["measured_s"] for term in result["terms"]}
    if form != "without buffers" and not before:
        assert sum(terms.values()) == pytest.approx(result["measured_s"])
    else:
        assert set(terms.values()) == {None}


def test_a_plan_that_was_not_run_is_refused(kept, connection, tmp_path):
    path = tmp_path / "after.txt"
    path.write_text("\n".join(line for (line,) in connection.execute("explain " + QUERY)))
    assert "it was not run" in only_line(spillcast("check", kept, path), 2)


def test_an_export_and_the_server_agree(server, connection, tmp_path):
    """The forecast is of counts; with enough memory, the statement spills no more."""
    connection.execute(QUERY)
    export = "select json_agg(s) from pg_stat_statements s where temp_blks_written > 0"
    [[rows]] = connection.execute(export).fetchall()
    (tmp_path / "rows.json").write_text(json.dumps(rows))
    kept = forecast(tmp_path / "rows.json")
    connection.execute("select pg_stat_statements_reset()")
    assert "has counted no statement" in only_line(spillcast("check", kept, server.dsn), 2)
    connection.execute(ENOUGH)
    connection.execute(QUERY)
    [[rows]] = connection.execute("select json_agg(s) from pg_stat_statements s").fetchall()
    (tmp_path / "after.json").write_text(json.dumps(rows))
    for after in (server.dsn, tmp_path / "after.json"):
        result = checked(kept, after)
        assert result["measured_s"] == pytest.approx(counted(connection, QUERY) / 1e3)
        assert result["work"] == 0


def test_the_statement_is_matched_by_the_text_of_the_forecast(kept, server, connection):
    for query in (QUERY.replace("<> 7", "<> 8"), QUERY.replace(" ", "\n  "), OTHER):
        connection.execute(query)
    assert counted(connection, QUERY, "calls") == 2
    result = checked(kept, server.dsn)
    assert result["measured_s"] == pytest.approx(counted(connection, QUERY) / 1e3)
    terms = {term["name"]: term["measured_s"] for term in result["terms"]}
    assert terms["temp read"] == pytest.approx(
        counted(connection, QUERY, "temp_blk_read_time / calls") / 1e3, rel=0.01
    )


def test_the_statement_is_selected_by_a_pattern(server, connection, tmp_path):
    made = recording(tmp_path / "run.spill", [("read", 8192, 100, 1_000_000)], elapsed_s=1.0)
    kept = forecast(made.path)
    connection.execute(QUERY)
    connection.execute(OTHER)
    result = spillcast("check", kept, server.dsn)
    assert "names no statement that a server counts" in only_line(result, 2)
    actual = checked(kept, server.dsn, "--query", r"select id\s+from t")
    assert actual["measured_s"] == pytest.approx(counted(connection, OTHER) / 1e3)
    queryid = counted(connection, QUERY, "queryid::text")
    actual = checked(kept, server.dsn, "--queryid", queryid)
    assert actual["measured_s"] == pytest.approx(counted(connection, QUERY) / 1e3)
    several = spillcast("check", kept, server.dsn, "--query", "from t")
    assert several.returncode == 2
    assert "2 statements are like 'from t'" in several.stderr
    assert queryid in several.stderr
    broken = spillcast("check", kept, server.dsn, "--query", "(")
    assert "parentheses" in only_line(broken, 2)


LONG = QUERY.replace("offset 0) s", "offset 0) s, pg_sleep(2)")
#: Its text is longer than the part that a session shows.
LONGER = LONG.replace("select id, f", "select id, f" + ", f || id as " + "x" * 40 + "y" * 1000, 1)


@pytest.mark.parametrize(
    ("known_by", "query"),
    [
        ("identifier", LONGER),
        pytest.param("text", LONG, marks=pytest.mark.nightly),
        ("text", LONGER),
        ("text on another server", LONG),
    ],
    ids=lambda item: item if len(item) < 40 else f"{len(item)} letters",
)
def test_the_statement_of_a_recorded_session_is_matched(
    server, connection, tmp_path, query, known_by
):
    if known_by == "text":
        connection.execute("set compute_query_id = off")
    client = Client(connection)
    with recorder(
        tmp_path / "run.spill", "--postgres", server.dsn, "--backend", client.pid
    ) as process:
        until_attached(tmp_path / "run.spill", process)
        client.run(query)
        client.result()
        _, answer = process.communicate(timeout=TIMEOUT_S)
    assert process.returncode == 0, answer
    engine = meta_of(tmp_path / "run.spill")["engine"]
    if known_by == "text":
        assert "queryid" not in engine
        connection.execute("reset compute_query_id")
        connection.execute(query)
    else:
        assert engine["queryid"] == counted(connection, query, "queryid::text")
    kept = forecast(tmp_path / "run.spill")
    if known_by == "text on another server":
        kept.write_text(kept.read_text().replace(engine["queryid"], "4711"))
    assert checked(kept, server.dsn)["measured_s"] == pytest.approx(
        counted(connection, query) / 1e3
    )


@cases("end", ["c", "cd", "cd = 'so", "cd = 7 ord"])
def test_a_truncated_text_matches_the_beginning_of_the_statement(end):
    counted = "select a from t where b = $1 and cd = $2 order by a"
    cut = f"select a from t where b = 'x' and {end}"
    assert re.match(pattern_of(cut, cut=True), counted)
    assert not re.match(pattern_of(cut), counted)
    assert re.match(pattern_of("select a from t wh", cut=True), counted)
    assert not re.match(pattern_of(cut.replace("t where", "u where"), cut=True), counted)


def test_calls_before_a_snapshot_do_not_count(kept, server, connection, tmp_path):
    connection.execute(QUERY)
    before_ms = counted(connection, QUERY)
    look = tmp_path / "look.json"
    assert spillcast("postgres", server.dsn, "--save", look).returncode == 0
    nothing = spillcast("check", kept, server.dsn, "--since", look)
    assert "has counted no statement" in only_line(nothing, 2)
    connection.execute("select pg_sleep(0.2)")
    connection.execute(ENOUGH)
    connection.execute(QUERY)
    result = checked(kept, server.dsn, "--since", look)
    after_ms = counted(connection, QUERY, "total_exec_time") - before_ms
    assert result["measured_s"] == pytest.approx(after_ms / 1e3)
    assert result["work"] == 0


def test_a_session_s_query_is_reported_when_it_ends(kept, server, connection):
    # The query sleeps, because one that ends between two samples is missed.
    slow = QUERY.replace("offset 0) s", "offset 0) s, pg_sleep(2)")
    pid = connection.info.backend_pid
    command = ("check", kept, server.dsn, "--backend", pid, "--json")
    pipes = {"stdout": subprocess.PIPE, "stderr": subprocess.PIPE, "text": True}
    with started(*command, **pipes) as waiting:
        assert f"waiting for the query of session {pid} to end" in waiting.stderr.readline()
        began_s = time.monotonic()
        connection.execute(slow)
        took_s = time.monotonic() - began_s
        document = json.loads(waiting.communicate(timeout=TIMEOUT_S)[0])
    elapsed_s = counted(connection, slow, "total_exec_time") / 1e3
    assert elapsed_s <= document["measured_s"] <= took_s
    blocks = counted(connection, slow, "temp_blks_read + temp_blks_written")
    reported = sum(term["count"] for term in json.loads(kept.read_text())["terms"] if term["op"])
    assert document["work"] == pytest.approx(blocks / reported)


def test_options_for_a_server_need_a_server(kept, tmp_path):
    (tmp_path / "after.json").write_text("{}")
    message = only_line(spillcast("check", kept, tmp_path / "after.json", "--since", "10m"), 2)
    assert "--since is for a server" in message


def test_a_server_s_dsn_may_be_longer_than_a_file_name(kept, server):
    long = f"{server.dsn} options='-c search_path={'x' * 300}'"
    assert "has counted no statement" in only_line(
        spillcast("check", kept, long, "--query", "none is like this"), 2
    )


#: Run with workers, and without.
SHARED = "select max(x.f) from t x join t y using (id)"

ALONE = "select count(*) from (select id, f from t order by f, id offset 0) s"


@pytest.fixture(scope="module")
def old():
    """A server that counts no workers: the oldest installed one."""
    installations = [item for item in of_debian() if float(item.version) < 18]
    if not installations:
        pytest.skip("no PostgreSQL before 18 is installed")
    with with_table(installations[-1], 150_000) as made:
        yield made


def test_sampled_workers_give_the_processes_of_statements(old):
    requested = ("postgres", old.dsn, "--to", "factor:1000", "--since", "4s", "--json")
    with old.connect() as alone, old.connect() as parallel:
        for name, value in PARALLEL.items():
            parallel.execute("select set_config(%s, %s, false)", [name, str(value)])
        # Otherwise the leader does all the work where workers start late, and none may be seen.
        parallel.execute("set parallel_leader_participation = off")
        command = started(*requested, stdout=subprocess.PIPE, text=True)
        began = time.monotonic()
        while command.poll() is None and time.monotonic() - began < 60:
            parallel.execute(SHARED)
            alone.execute(ALONE)
        answer, _ = command.communicate()
    assert command.returncode == 0
    document = json.loads(answer)
    by_text = {item["query"][:10]: item for item in document["statements"]}
    # A single process: its temp I/O took that time. For several only the sum is known.
    low_s, high_s = by_text[ALONE[:10]]["temp_s"]
    assert low_s == high_s
    low_s, high_s = by_text[SHARED[:10]]["temp_s"]
    assert low_s < high_s
    assert "processes" not in {note["code"] for note in document["unseen"]}


def test_a_session_terminated_by_the_server_is_reported_in_a_line(old):
    pipes = {"stdout": subprocess.PIPE, "stderr": subprocess.PIPE, "text": True}
    command = started("postgres", old.dsn, "--since", "60s", **pipes)
    end = "select pg_terminate_backend(pid) from pg_stat_activity where application_name = %s"
    with old.connect() as connection:
        # Sessions are sampled after the first counts.
        until(
            lambda: connection.execute(
                "select 1 from pg_stat_activity "
                "where application_name = %s and query ~ 'leader_pid'",
                [NAME],
            ).fetchone(),
            "a look at the sessions",
        )
        connection.execute(end, [NAME])
    stdout, stderr = command.communicate()
    # In the server's words, or libpq's where the connection ended first.
    ended = subprocess.CompletedProcess([], command.returncode, stdout, stderr)
    assert "\n  start again when the server answers\n" in only_line(ended, 1)

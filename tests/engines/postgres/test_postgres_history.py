"""A drawn load on real servers, looked at again and again: all is found, nothing counts twice."""

import random
from collections import Counter

import pytest

from harness import spillcast
from plans import INSTALLATIONS
from postgres_rig import copied_cluster
from spillcast.engines.history import Rule
from spillcast.engines.postgres.rank.command import request_of, save_look
from spillcast.engines.postgres.rank.history import rank_looks
from spillcast.engines.postgres.server import serve
from spillcast.fleet.fleet import fleet
from spillcast.workspace import workspace

SETTINGS = {
    "shared_preload_libraries": "pg_stat_statements",
    "track_io_timing": "on",
    "work_mem": "128kB",
    "max_parallel_workers_per_gather": "0",
    "random_page_cost": "0.01",
}
#: By a word of their text: one that always spills, one that begins to, and one whose plan changes
#: as its index goes.
STATEMENTS = {
    "steady": "select count(*) steady from (select * from t order by f, id offset 0) s",
    "fresh": "select count(*) fresh from (select * from t where id > 0 order by f offset 0) s",
    "replanned": "select max(f) replanned from ("
    "select * from (select f, part from t where part < 600 order by f, part offset 0) a "
    "union all select * from (select f, id from t order by id offset 0) b) s",
}
LOOKS = 12
FRESH_AT, RESET_AT, LOST_AT, REPLANNED_AT, RESTART_AT = 4, 5, 7, 8, 10
RESET_ONE = """
select pg_stat_statements_reset(userid, dbid, queryid) from pg_stat_statements
where query like '%steady%'
"""


class Load:
    """A server under a drawn load, and how often each statement ran after the first look."""

    def __init__(self, cluster, folder):
        self.cluster, self.folder = cluster, folder
        self.calls, self.lost = Counter(), Counter()
        self.random = random.Random(48)

    def run(self):
        with serve(self.cluster, SETTINGS) as server, server.connect() as connection:
            connection.execute("create extension pg_stat_statements")
            connection.execute(
                "create table t as select hashint8(i) as id, repeat('x', 40) as f, i % 1000 part "
                "from generate_series(1, 6000) i"
            )
            connection.execute("create index by_id on t (id)")
            connection.execute("vacuum analyze t")
            connection.execute(STATEMENTS["steady"])
            for at in range(RESTART_AT):
                self.step(server, connection, at)
        with serve(self.cluster, SETTINGS) as server, server.connect() as connection:
            for at in range(RESTART_AT, LOOKS):
                self.step(server, connection, at)
        return self

    def step(self, server, connection, at):
        if at == RESET_AT:
            connection.execute("select pg_stat_statements_reset()")
        if at == REPLANNED_AT:
            connection.execute("drop index by_id")
        for name, sql in STATEMENTS.items():
            calls = 0 if name == "fresh" and at < FRESH_AT else self.random.randint(1, 3)
            if name == "replanned":
                calls = 1
            for _ in range(calls):
                connection.execute(sql)
            self.calls[name] += calls if at else 0
            if at == LOST_AT and name == "steady":
                # What ran between a look and a reset has been lost.
                connection.execute(RESET_ONE)
                self.lost[name] += calls
        save_look(server.dsn, str(self.folder))


@pytest.fixture(scope="module", params=INSTALLATIONS, ids=lambda made: made.version)
def load(request, tmp_path_factory):
    with workspace() as room:
        cluster = copied_cluster(room, request.param)
        yield Load(cluster, tmp_path_factory.mktemp("load") / "looks").run()


def rank(load, **options):
    request = request_of(["factor:10"], None, 0.9)
    [ranking] = rank_looks(str(load.folder), request, **options)
    return ranking


def named(items):
    """By the word of STATEMENTS that a text has."""
    return {name: item for item in items for name in STATEMENTS if name in item.query}


def test_every_call_that_was_not_lost_counts_once(load):
    ranking = rank(load)
    calls = {name: ranked.calls for name, ranked in named(ranking.statements).items()}
    assert calls == load.calls - load.lost
    # The same sums by time.
    by_time = Counter()
    for bucket in ranking.history.buckets:
        by_time.update(bucket.statements)
    assert by_time == {ranked.queryid: ranked.temp_bytes for ranked in ranking.statements}
    assert ranking.history.lower_bounds > 0


def test_what_happened_is_found(load):
    history = rank(load).history
    assert {"reset", "restart"} <= {event.kind for event in history.events}
    changes = named([change for change in history.changes if change.kind == "new"])
    assert set(changes) == {"fresh"}
    [change] = [change for change in history.changes if change.kind != "new"]
    assert "replanned" in change.query
    # Without the index it reads far fewer blocks of the table and sorts all of its rows.
    assert (change.kind, change.cause) == ("more", "plan")


def test_a_look_is_small_and_costs_the_server_little(load):
    looks = list((load.folder / "looks").rglob("*.json.gz"))
    assert len(looks) == LOOKS
    assert max(look.stat().st_size for look in looks) < 100_000


def test_alerts_are_by_what_was_written(load):
    rules = [Rule.of(text) for text in ("temp > 1M/h", "temp > 1T/d", "new > 0/d", "new > 1/d")]
    ranking = rank(load, rules=rules)
    assert [alert.exceeded for alert in ranking.history.alerts] == [True, False, True, False]
    for rule, status in (("temp > 1M/h", 4), ("temp > 1T/h", 0)):
        assert spillcast("postgres", load.folder, "--alert", rule).returncode == status


def test_a_fleet_reads_the_same_looks(load):
    ranked = {one.queryid: one.elapsed_s for one in rank(load).statements}
    rows = {row.sql: row.elapsed_s for row in fleet(str(load.folder), "factor:10").rows}
    assert rows == pytest.approx(ranked)

"""A random load on two servers, polled every minute: is everything found and nothing counted twice?

``python -m bench history --minutes 60`` polls PostgreSQL of Debian and the embedded one, under a
load with a reset, a reset of one statement that loses calls, a new spiller, a changed plan and a
restart. It prints the counts against the truth, and the cost of a poll by the server's own
accounting.
"""

import argparse
import random
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Sequence
from pathlib import Path
from threading import Thread
from typing import TYPE_CHECKING, Any

from spillcast.engines.postgres.rank import save_snapshot
from spillcast.engines.postgres.rank.history import rank_snapshots
from spillcast.engines.postgres.server import (
    DEBIAN,
    Cluster,
    embedded,
    installed,
    make_cluster,
    serve,
)
from spillcast.engines.ranking import Change, Ranked, RankRequest, ServerRanking
from spillcast.evidence.postgres import MARK
from spillcast.workspace import workspace

if TYPE_CHECKING:
    import psycopg

    Connection = psycopg.Connection[tuple[Any, ...]]

SETTINGS = {
    "shared_preload_libraries": "pg_stat_statements",
    "track_io_timing": "on",
    "work_mem": "128kB",
    "max_parallel_workers_per_gather": "0",
    "random_page_cost": "0.01",
}
#: By a word of their text: one that always spills, one that starts to, and one whose plan changes
#: when its index is dropped.
STATEMENTS = {
    "steady": "select count(*) steady from (select * from t order by f, id offset 0) s",
    "fresh": "select count(*) fresh from (select * from t where id > 0 order by f offset 0) s",
    "replanned": "select max(f) replanned from ("
    "select * from (select f, part from t where part < 600 order by f, part offset 0) a "
    "union all select * from (select f, id from t order by id offset 0) b) s",
}
_TABLE = """
create table t as select hashint8(i) as id, repeat('x', 40) as f, i % 1000 part
from generate_series(1, 6000) i
"""
_RESET_ONE = """
select pg_stat_statements_reset(userid, dbid, queryid) from pg_stat_statements
where query like '%steady%'
"""
_STATEMENTS_MS = (
    "select sum(total_exec_time + total_plan_time) from pg_stat_statements where query ~ %s"
)


class Load:
    """A server under a random load, and how often each statement ran after the first poll."""

    def __init__(
        self, cluster: Cluster, folder: Path, *, looks: int, pace_s: float = 0.0, port: int = 5432
    ) -> None:
        self.cluster, self.folder, self.pace_s = cluster, folder, pace_s
        self.settings = {**SETTINGS, "port": port}
        self.calls, self.lost = Counter[str](), Counter[str]()
        self.looks = looks
        self.fresh_at, self.reset_at, self.lost_at, self.replanned_at, self.restart_at = (
            looks * twelfths // 12 for twelfths in (4, 5, 7, 8, 10)
        )
        #: For each poll, its bytes and the server's counters of its queries.
        self.bytes: list[int] = []
        self.server_ms: list[float] = []
        self.random = random.Random(48)
        self.next_s = time.monotonic()

    def run(self) -> "Load":
        """Runs the load and polls it."""
        self._served(range(self.restart_at))
        self._served(range(self.restart_at, self.looks))
        return self

    def _served(self, steps: Sequence[int]) -> None:
        with (
            serve(self.cluster, self.settings) as server,
            server.connect(port=self.settings["port"]) as connection,
        ):
            if steps[0] == 0:
                for statement in (
                    "create extension pg_stat_statements",
                    _TABLE,
                    "create index by_id on t (id)",
                    "vacuum analyze t",
                    STATEMENTS["steady"],
                ):
                    connection.execute(statement.encode())
            for step in steps:
                self._step(f"{server.dsn} port={self.settings['port']}", connection, step)

    def _step(self, dsn: str, connection: "Connection", step: int) -> None:
        time.sleep(max(0.0, self.next_s - time.monotonic()))
        self.next_s += self.pace_s
        if step == self.reset_at:
            connection.execute("select pg_stat_statements_reset()")
        if step == self.replanned_at:
            connection.execute("drop index by_id")
        for name, sql in STATEMENTS.items():
            calls = 0 if name == "fresh" and step < self.fresh_at else self.random.randint(1, 3)
            for _ in range(calls):
                connection.execute(sql.encode())
            self.calls[name] += calls if step else 0
            if step == self.lost_at and name == "steady":
                # Calls between a poll and a reset are lost.
                connection.execute(_RESET_ONE)
                self.lost[name] += calls
        before_ms = self._statements_ms(connection)
        self.bytes.append(save_snapshot(dsn, str(self.folder))["bytes"])
        self.server_ms.append(self._statements_ms(connection) - before_ms)

    @staticmethod
    def _statements_ms(connection: "Connection") -> float:
        pattern = MARK.replace("*", r"\*")
        ((total_ms,),) = connection.execute(_STATEMENTS_MS, [pattern]).fetchall()
        return float(total_ms or 0.0)


def named(items: Sequence[Ranked | Change]) -> dict[str, Any]:
    """Statements or changes by the word of STATEMENTS in their text."""
    return {name: item for item in items for name in STATEMENTS if name in (item.query or "")}


def problems(load: Load, ranking: ServerRanking) -> list[str]:
    """What the history missed, counted twice or invented."""
    assert ranking.history is not None
    lines = []
    counted = {name: ranked.calls for name, ranked in named(ranking.statements).items()}
    if counted != load.calls - load.lost:
        lines.append(f"counted {counted}, not {dict(load.calls - load.lost)}")
    events = {event.kind for event in ranking.history.events}
    if events != {"reset", "restart"}:
        lines.append(f"events are {sorted(events)}")
    changes = {(c.kind, *named([c]), c.cause) for c in ranking.history.changes}
    fresh = {("new", "fresh", "statement"), ("new", "fresh", None)}
    if len(changes) != 2 or not changes & fresh or ("more", "replanned", "plan") not in changes:
        lines.append(f"changes are {sorted(map(str, changes))}")
    return lines


def main(arguments: list[str]) -> int:
    """Runs the load on both servers concurrently, and compares."""
    parser = argparse.ArgumentParser(prog="python -m bench history")
    parser.add_argument("--minutes", type=int, default=60)
    looks = parser.parse_args(arguments).minutes
    debian = sorted(DEBIAN.glob("*/bin/pg_ctl"))
    installations = [embedded(), *(installed(path.parent) for path in debian[-1:])]
    with workspace() as room, tempfile.TemporaryDirectory() as folder:
        room.chmod(0o711)
        loads = []
        for number, installation in enumerate(installations):
            home = room / str(number)
            home.mkdir(mode=0o711)
            cluster = make_cluster(home, installation)
            made = Load(cluster, Path(folder), looks=looks, pace_s=60.0, port=5433 + number)
            loads.append(made)
        threads = [Thread(target=load.run) for load in loads]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        rankings = rank_snapshots(folder, RankRequest(["factor:10"]))
        wrong = []
        for load, ranking in zip(loads, rankings, strict=True):
            print(
                f"PostgreSQL {load.cluster.installation.version}: {len(load.bytes)} looks of "
                f"{max(load.bytes):,} bytes at most; the server's time for a look "
                f"{sum(load.server_ms) / looks:.1f} ms, at most {max(load.server_ms):.1f} ms; "
                f"{sum(load.calls.values())} calls, {sum(load.lost.values())} lost at a reset"
            )
            wrong += problems(load, ranking)
    print("\n".join(wrong) or "all found, nothing counted twice")
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))

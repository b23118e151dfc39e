"""A PostgreSQL server of each version found, with a role, a database and a place to move to."""

import os
import shutil
import time
from contextlib import redirect_stderr, redirect_stdout, suppress
from io import StringIO
from pathlib import Path
from types import SimpleNamespace

import psycopg
import pytest

from harness import until
from postgres_rig import free_port, of_debian, private_server
from spillcast.cli import run
from spillcast.engines.postgres.server import embedded
from spillcast.workspace import workspace

#: The newest, and with SPILLCAST_SERVERS=all every one that is installed: `make nightly`.
INSTALLATIONS = [embedded(), *(of_debian() if os.environ.get("SPILLCAST_SERVERS") == "all" else [])]

#: What a session sees of a move.
STATE = {
    "settings": (
        "select setdatabase::regclass::text, setrole::regrole::text, setconfig "
        "from pg_db_role_setting order by 1, 2"
    ),
    "tablespaces": (
        "select spcname, coalesce(spcacl, acldefault('t', spcowner))::text, "
        "shobj_description(oid, 'pg_tablespace'), pg_tablespace_location(oid) "
        "from pg_tablespace order by 1"
    ),
    "effective": "show temp_tablespaces",
}
#: Takes back the settings that tests made.
RESET = (
    "alter role all reset all",
    "alter role etl reset all",
    "alter role etl in database dw reset all",
    "alter role postgres reset all",
    "alter database dw reset all",
    "alter role etl nosuperuser nocreatedb",
)


class Moving(SimpleNamespace):
    """A server, and what can be seen of its temp files from outside of spillcast."""

    def rows(self, query, *values, user="postgres", database="postgres"):
        """The rows of a statement, in a session of its own."""
        with self.connect(user, database) as connection:
            cursor = connection.execute(query, values)
            return cursor.fetchall() if cursor.description else []

    def connect(self, user="postgres", database="postgres"):
        dsn = f"{self.dsn} user={user} dbname={database}"
        return psycopg.connect(dsn, autocommit=True)

    def move(self, *arguments, status=0, to=True):
        """Run ``spillcast move postgres`` in this process, and expect a status."""
        answer, complained = StringIO(), StringIO()
        where = ["--to", str(self.to)] if to else []
        line = ["move", "postgres", self.dsn, *where, *arguments]
        with redirect_stdout(answer), redirect_stderr(complained):
            try:
                ended = run(line)
            except SystemExit as exited:
                ended = exited.code
        assert ended == status, complained.getvalue()
        return SimpleNamespace(stdout=answer.getvalue(), stderr=complained.getvalue())

    def reload(self):
        """Have the server read its settings, and wait until new sessions have them."""
        loaded = self.rows("select pg_conf_load_time()")
        self.rows("select pg_reload_conf()")
        until(lambda: self.rows("select pg_conf_load_time()") != loaded, "the settings")

    def state(self):
        """Everything that a move may change, as a new session sees it."""
        with self.connect() as connection:
            seen = {name: connection.execute(query).fetchall() for name, query in STATE.items()}
        return seen | {
            "server": (self.data / "postgresql.auto.conf").read_text(),
            "directories": sorted(
                (str(path), path.stat().st_mode, path.stat().st_uid)
                for path in self.room.glob("*")
                if path.name != "postgres"
            ),
        }

    def is_as(self, before):
        """All is as it was; the server is given time to read its settings again."""
        deadline = time.monotonic() + 60
        while (now := self.state()) != before and time.monotonic() < deadline:
            time.sleep(0.05)
        assert now == before

    def spilling(self, user="postgres", database="postgres"):
        """A session in the middle of a spilling hash join, and the files that it has."""
        connection = self.connect(user, database)
        connection.execute("set work_mem = '64kB'; set enable_mergejoin = off")
        connection.execute("begin")
        connection.execute(
            "declare spill cursor for select a.i from generate_series(1, 50000) a(i) "
            "join generate_series(1, 50000) b(i) on a.i = b.i"
        )
        connection.execute("fetch 1 from spill")
        pid = connection.info.backend_pid
        matches = [
            path
            for top in (self.room, self.data)
            for path in top.rglob(f"pgsql_tmp/pgsql_tmp{pid}.*")
            if top == self.data or self.data not in path.parents
        ]
        return connection, matches


@pytest.fixture(scope="session", params=INSTALLATIONS, ids=lambda i: i.version)
def running(request):
    port = free_port()
    settings = {"listen_addresses": "127.0.0.1", "port": port}
    with workspace() as room, private_server(room, settings, request.param) as server:
        moving = Moving(
            server=server,
            room=room,
            data=room / "postgres" / "data",
            port=port,
            dsn=f"{server.dsn} port={port}",
            to=room / "fast",
        )
        moving.rows("create role etl login")
        moving.rows("create database dw")
        yield moving


@pytest.fixture
def moving(running):
    """The server as new: whatever a test leaves is taken away."""
    yield running
    running.rows("alter system reset all")
    running.reload()
    query = "select quote_ident(spcname) from pg_tablespace where spcname !~ '^pg_'"
    with running.connect() as connection:
        for statement in RESET:
            connection.execute(statement)
        for (name,) in connection.execute(query).fetchall():
            with suppress(psycopg.Error):
                connection.execute(f"drop tablespace {name}")
    for path in Path(running.room).glob("*"):
        if path.name != "postgres":
            shutil.rmtree(path)

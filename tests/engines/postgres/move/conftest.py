"""A PostgreSQL server of each installed version, with a role, a database and a target directory."""

import os
import shutil
import subprocess
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

#: The newest version, and with SPILLCAST_SERVERS=all all installed ones: `make nightly`.
INSTALLATIONS = [embedded(), *(of_debian() if os.environ.get("SPILLCAST_SERVERS") == "all" else [])]

#: The settings of a move that a session sees.
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
#: Resets the settings that tests made.
RESET = (
    "alter role all reset all",
    "alter role etl reset all",
    "alter role etl in database dw reset all",
    "alter role postgres reset all",
    "alter database dw reset all",
    "alter role etl nosuperuser nocreatedb",
)


class Moving(SimpleNamespace):
    """A server, and its temp files as observed without spillcast."""

    def rows(self, query, *values, user="postgres", database="postgres"):
        """The rows of a statement, run in a separate session."""
        with self.connect(user, database) as connection:
            cursor = connection.execute(query, values)
            return cursor.fetchall() if cursor.description else []

    def connect(self, user="postgres", database="postgres"):
        dsn = f"{self.dsn} user={user} dbname={database}"
        return psycopg.connect(dsn, autocommit=True)

    def move(self, *arguments, status=0, to=True):
        """Runs ``spillcast move postgres`` in this process, and asserts its exit status."""
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
        """Reloads the server's settings, and waits until new sessions have them."""
        loaded = self.rows("select pg_conf_load_time()")
        self.rows("select pg_reload_conf()")
        until(lambda: self.rows("select pg_conf_load_time()") != loaded, "the settings")

    def state(self):
        """All that a move may change, as a new session sees it."""
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
        """Asserts the former state, after the server had time to reload its settings."""
        deadline = time.monotonic() + 60
        while (now := self.state()) != before and time.monotonic() < deadline:
            time.sleep(0.05)
        assert now == before

    def spilling(self, user="postgres", database="postgres"):
        """A session in the middle of a spilling hash join, and its temp files."""
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

    def spills_in(self, directory, *who):
        """Asserts that all temp files of such a session are in a directory."""
        connection, files = self.spilling(*who)
        assert files
        assert all(directory in path.parents for path in files)
        connection.close()


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
    """The server in its initial state: changes of a test are undone."""
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


@pytest.fixture
def psql(moving):
    """Runs printed commands in a shell, and asserts that they succeed."""
    programs = moving.server.installation.programs
    if os.geteuid() != 0:
        pytest.skip("the printed commands want root")
    if not (programs / "psql").exists():
        pytest.skip("no psql: install postgresql-client")

    def pasted(text, shell="sh"):
        environ = os.environ | {"PATH": f"{programs}:{os.environ['PATH']}"}
        ran = subprocess.run(
            [shell, "-e"], input=text, env=environ, text=True, capture_output=True, cwd=moving.room
        )
        assert ran.returncode == 0, ran.stderr

    return pasted

"""A PostgreSQL server with a slow tablespace for temp files, its clients, and its recorders."""

import fcntl
import functools
import json
import os
import pickle
import socket
import subprocess
import threading
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field, replace
from pathlib import Path

import psycopg

from emulator import skip_without_fuse
from harness import TIMEOUT_S, started, until
from leftovers import TEMPLATES
from spillcast.engines.postgres import SAMPLER
from spillcast.engines.postgres.server import (
    PrivateServer,
    embedded,
    installed,
    make_cluster,
    serve,
)
from spillcast.storage.emulation import emulate
from spillcast.storage.model import fixed_behaviour
from spillcast.workspace import workspace

ROWS = 150_000
OPERATION_S = 0.0005
JOIN = "select max(x.f) from t x join t y using (id)"
#: The same, waiting at the gate before it begins, and at the gate after a spill that continues.
HELD = f"{JOIN} where (select gate())"
MIDWAY = JOIN.replace("max(x.f)", "max(x.f) filter (where x.id % 16 <> 0 or gate())")
PARALLEL = {
    "max_parallel_workers_per_gather": 2,
    "parallel_setup_cost": 0,
    "parallel_tuple_cost": 0,
    "min_parallel_table_scan_size": 0,
}
SERIAL = {"max_parallel_workers_per_gather": 0}
#: Waits while a file exists, with a deadline; parallel workers may call it.
GATE = f"""
create function gate() returns bool volatile parallel safe language plpgsql as $$
declare
    deadline constant timestamptz := clock_timestamp() + interval '{TIMEOUT_S} s';
begin
    while (pg_stat_file('gate', true)).size is not null loop
        if clock_timestamp() > deadline then
            raise exception 'nobody opened the gate';
        end if;
        perform pg_sleep(0.01);
    end loop;
    return true;
end $$
"""
#: The processes of a session that wait at the gate.
AT_GATE = """
select count(*) from pg_stat_activity
 where (pid = %(pid)s or leader_pid = %(pid)s) and wait_event = 'PgSleep'
"""
#: The last time at which a recorder sampled its session.
LOOKED = """
select state_change from pg_stat_activity
 where application_name = %s and query like '%%a.leader_pid = $1%%' and state = 'idle'
"""
#: Number of samples after which a recorder is known to continue sampling.
LOOKS = 3
#: Ports below those of outgoing connections.
PORTS_FROM = 20_000
ALL_ROLES = "local all all trust\nhost all all all trust\n"
SPILLING = {"work_mem": "128kB", "temp_tablespaces": "slow"}


@functools.cache
def template(installation):
    """A cluster that is never started, one for all workers: initdb takes longer than a copy."""
    TEMPLATES.mkdir(exist_ok=True)
    TEMPLATES.chmod(0o711)
    made = TEMPLATES / f"{installation.version}.pickle"
    with (TEMPLATES / "lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        if not made.exists():
            room = TEMPLATES / installation.version
            room.mkdir()
            made.write_bytes(pickle.dumps(make_cluster(room, installation)))
        return pickle.loads(made.read_bytes())


def copied_cluster(room, installation=None):
    """A cluster in ``room`` with the same system identifier as all others of its version.

    Every user can connect as any role.
    """
    made = template(installation or embedded())
    room.chmod(0o711)
    home = room / "postgres"
    subprocess.run(["cp", "-a", made.home, home], check=True)
    home.chmod(0o755)
    (home / "data" / "pg_hba.conf").write_text(ALL_ROLES)
    return replace(made, home=home)


@contextmanager
def private_server(room, settings=None, installation=None):
    """A server with new data in ``room``, which lets every user connect as any role."""
    with serve(copied_cluster(room, installation), settings) as server:
        yield server


def of_debian():
    """The servers installed by Debian's packages, newest first."""
    matches = [installed(path.parent) for path in Path("/usr/lib/postgresql").glob("*/bin/pg_ctl")]
    return sorted(matches, key=lambda item: float(item.version), reverse=True)


@dataclass
class Client:
    """A session that runs a single statement in a separate thread."""

    connection: psycopg.Connection
    rows: list = field(default_factory=list)
    failure: psycopg.Error | None = None

    def __post_init__(self):
        self.pid = self.connection.info.backend_pid
        self.thread = None

    def run(self, statement):
        self.thread = threading.Thread(target=self._run, args=[statement])
        self.thread.start()

    def begin(self, statement):
        """Runs a statement unless it already runs; an ``on_status`` callback of its recorder."""
        if self.thread is None:
            self.run(statement)

    def _run(self, statement):
        try:
            self.rows = self.connection.execute(statement).fetchall()
        except psycopg.Error as error:
            self.failure = error

    def result(self):
        self.thread.join()
        if self.failure is not None:
            raise self.failure
        return self.rows

    def plan(self):
        """The plan that EXPLAIN returned for the statement."""
        return self.result()[0][0][0]["Plan"]


@dataclass
class Gate:
    """A gate for queries, closed while its file exists."""

    file: Path

    def open(self):
        self.file.unlink(missing_ok=True)

    def close(self):
        self.file.touch()


@dataclass
class Rig:
    """A server, and its DSNs by a socket (``dsn``) and TCP (``tcp``)."""

    server: PrivateServer
    port: int
    room: Path

    @property
    def dsn(self):
        return f"{self.server.dsn} port={self.port}"

    @property
    def tcp(self):
        return f"host=127.0.0.1 port={self.port} user=postgres dbname=postgres"

    def connect(self, **options):
        return psycopg.connect(self.dsn, autocommit=True, **options)

    @contextmanager
    def client(self, **settings):
        """A session that spills slowly; a statement that still runs at its end is cancelled."""
        with self.connect(application_name="client") as connection:
            for name, value in {**SPILLING, **SERIAL, **settings}.items():
                connection.execute("select set_config(%s, %s, false)", [name, str(value)])
            client = Client(connection)
            yield client
            if client.thread is not None:
                if client.thread.is_alive():
                    connection.cancel()
                client.thread.join()

    def until_running(self, client):
        """Waits until a client's statement runs."""
        query = "select state from pg_stat_activity where pid = %s"
        with self.connect() as connection:
            until(
                lambda: connection.execute(query, [client.pid]).fetchone() == ("active",),
                "the query",
            )

    @contextmanager
    def gate(self):
        """A closed gate, at which queries wait until it is opened, at the latest on exit."""
        gate = Gate(self.room / "postgres" / "data" / "gate")
        gate.close()
        try:
            yield gate
        finally:
            gate.open()

    def until_held(self, client, processes=1):
        """Waits until this many processes of a client's statement wait at the gate."""
        with self.connect() as connection:
            until(
                lambda: connection.execute(AT_GATE, {"pid": client.pid}).fetchone() == (processes,),
                "the gate",
            )

    def until_watched(self, process):
        """Waits until the recorder of a session, which has attached before, samples it."""
        looks = set()

        def watched():
            looks.update(connection.execute(LOOKED, [SAMPLER]).fetchall())
            return len(looks) >= LOOKS or process.poll() is not None

        with self.connect() as connection:
            until(watched, "the recorder's looks")

    def allow_only(self, role, method):
        """Requires a role's password, or lets the role connect without one again."""
        file = self.room / "postgres" / "data" / "pg_hba.conf"
        file.write_text(f"local all {role} {method}\n{ALL_ROLES}")
        with self.connect() as connection:
            connection.execute("select pg_reload_conf()")


@contextmanager
def rig(installation, **more):
    """A server of an installation, its table ``t`` and its tablespace ``slow``, a FUSE mount.

    ``more`` are settings of the server.
    """
    skip_without_fuse()
    with workspace() as room:
        port = free_port()
        settings = {"listen_addresses": "127.0.0.1", "port": port, "shared_buffers": "64MB", **more}
        backing, mountpoint = room / "backing", room / "slow"
        with private_server(room, settings, installation) as server:
            for path in (backing, mountpoint):
                path.mkdir()
            server.give(backing)
            with emulate(fixed_behaviour(OPERATION_S, OPERATION_S), mountpoint, backing):
                made = Rig(server, port, room)
                _fill(made, mountpoint)
                yield made


def _fill(made, mountpoint):
    with made.connect() as connection:
        connection.execute(f"create tablespace slow location '{mountpoint}'")
        connection.execute(
            "create table t as select hashint8(i) as id, repeat('x', 40) as f "
            f"from generate_series(1, {ROWS}) i"
        )
        connection.execute("analyze t")
        connection.execute(GATE)


def free_port():
    """A port that no process listens at, from a range that the kernel does not assign meanwhile.

    Each process has ten ports of its own.
    """
    first = PORTS_FROM + os.getpid() % 1000 * 10
    for port in range(first, first + 10):
        with socket.socket() as probe, suppress(OSError):
            probe.bind(("127.0.0.1", port))
            return port
    raise OSError(f"no free port from {first} on")


@contextmanager
def recorder(output, *arguments, under=(), **options):
    """``spillcast record`` in the background, killed at the end if it still runs.

    ``under`` is a command that runs it. Without an ``output`` it discards what it records.
    """
    where = ("--discard",) if output is None else ("-o", output)
    pipes = {"stdout": subprocess.PIPE, "stderr": subprocess.PIPE, "text": True}
    process = started("record", *where, *arguments, under=under, **pipes, **options)
    try:
        yield process
    finally:
        process.kill()
        process.communicate()


def once_watched(action):
    """An ``on_status`` that acts once its recorder has sampled the query."""

    def on_status(_recorder, status):
        if not status["waiting"]:
            action()

    return on_status


def interrupted_after(operations, action):
    """The same, which ends the recording after this many operations on temp files."""
    acts = once_watched(action)

    def on_status(recorder, status):
        acts(recorder, status)
        if status["temp_reads"] + status["temp_writes"] >= operations:
            raise KeyboardInterrupt

    return on_status


def until_kept(output, count):
    """Waits until this many recordings of a server's queries are complete, and none partial."""

    def kept():
        return sorted(path.parent.name for path in output.glob("*.spill/meta.json"))

    try:
        until(lambda: len(kept()) >= count, "the recordings")
    finally:
        assert len(kept()) == count, kept()


def meta_of(output):
    return json.loads((output / "meta.json").read_text())


def everything_in(folder):
    """The bytes of all files of a folder."""
    return b"".join(path.read_bytes() for path in folder.rglob("*") if path.is_file())

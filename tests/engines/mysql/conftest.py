"""A private MariaDB server, and a MySQL server where it is installed, with tables."""

import getpass
import os
import threading
from contextlib import closing, contextmanager
from dataclasses import dataclass
from pathlib import Path

import pymysql
import pytest

from spillcast.engines import SessionSelector
from spillcast.engines.mysql.lab import MariaDbLab, MySqlLab, ServerLab
from spillcast.engines.mysql.record import record_mysql
from spillcast.errors import InputError

ROWS = 60_000
#: About 30 runs of the sort below, merged in two passes. Both statements sleep, because one that
#: ends between two samples is missed.
SORT = (
    "select sleep(0.5), max(sha2(concat(amount01, id), 256)) from "
    "(select amount01, id from t order by amount02, id limit 59000) s"
)
GROUP_BY = (
    "select sleep(0.5), count(*), max(sha2(repeat(pad, 200), 256)) from "
    "(select pad, count(*) from wide group by pad) s"
)
#: How a statement waits, after it has spilled, for the session that holds it.
HELD = "get_lock('gate', 600)"


@dataclass
class Rig:
    """The server and its DSN."""

    lab: ServerLab
    dsn: str
    temp: Path

    @contextmanager
    def session(self, database="lab"):
        with closing(
            pymysql.connect(unix_socket=self.dsn, user="root", database=database, autocommit=True)
        ) as connection:
            cursor = connection.cursor()
            cursor.execute(
                "set sort_buffer_size = 65536, max_heap_table_size = 1048576, "
                "tmp_table_size = 1048576"
            )
            yield cursor

    def recorded(self, statement, output, *, first=None, dsn=None, notify=lambda _text: None):
        """The recording of a statement that begins after its recorder, and the statement's text.

        Another session holds the statement until it was sampled. ``first`` runs before it, with a
        sample between the two.
        """
        statement = statement.replace("sleep(0.5)", HELD)
        with self.session() as cursor, self.session() as gate:
            gate.execute(f"select {HELD}")
            number = cursor.connection.thread_id()

            before = [first] if first else []
            thread = threading.Thread(target=cursor.execute, args=[statement])

            def on_status(_recorder, status):
                if before:
                    cursor.execute(before.pop())
                elif thread.ident is None:
                    thread.start()
                if not status["waiting"]:
                    gate.execute("select release_lock('gate')")

            selector = SessionSelector(number)
            recording = record_mysql(
                dsn or self.dsn, output, selector, notify=notify, on_status=on_status
            )
            thread.join()
        return recording, statement

    @contextmanager
    def repeating(self, statement):
        """Another session, which runs a statement repeatedly."""
        ended = threading.Event()

        def repeat():
            with self.session() as cursor:
                while not ended.is_set():
                    cursor.execute(statement)

        thread = threading.Thread(target=repeat)
        thread.start()
        try:
            yield
        finally:
            ended.set()
            thread.join()


@pytest.fixture(scope="session", params=[MariaDbLab, MySqlLab], ids=lambda lab: lab.engine)
def rig(request, tmp_path_factory):
    room = tmp_path_factory.mktemp(request.param.engine)
    try:
        lab = request.param(room)
    except InputError as error:
        pytest.skip(f"no {request.param.title}: {error}")
    lab.build(ROWS)
    (temp := room / "temp").mkdir()
    with lab.serve(temp, None, "--performance-schema=ON"):
        made = Rig(lab, str(lab.socket), temp)
        if os.geteuid() != 0:
            # A socket alone is a DSN of the user of this process.
            with made.session() as cursor:
                cursor.execute(f"create user {getpass.getuser()}@localhost")
                cursor.execute(
                    f"grant all on *.* to {getpass.getuser()}@localhost with grant option"
                )
        yield made

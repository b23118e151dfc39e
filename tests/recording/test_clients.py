"""A client of a database server does no temp I/O itself: the advice is to record the server."""

import socket
import sys
from dataclasses import replace

from cases import cases
from evidence import known
from harness import spillcast
from spillcast.recording.completeness import server_to_record
from spillcast.recording.meta import ObservedEngine, OtherIO

WAITS = """
import socket, sys, time
server = socket.create_connection(("127.0.0.1", int(sys.argv[1])))
time.sleep(1.5)
"""


@cases("connects", [True, False])
def test_a_program_that_waits_for_a_server_gets_the_advice(tmp_path, connects):
    with socket.create_server(("127.0.0.1", 0)) as server:
        program = WAITS if connects else WAITS.replace("server = socket.create_connection", "print")
        command = [sys.executable, "-S", "-c", program, server.getsockname()[1]]
        result = spillcast("record", "-o", tmp_path / "run.spill", "--", *command)
    assert result.returncode == 0, result.stderr
    assert ("record the server" in result.stdout) == connects


def run(command, **seen):
    return replace(known(10, 0, 0), engine=ObservedEngine("process", command=command), **seen)


def test_a_known_client_is_one_however_short_it_ran():
    assert "psql is only the client" in server_to_record(run(["/usr/bin/psql", "-f", "q.sql"]))
    assert "--postgres" not in server_to_record(run(["sqlplus"]))


def test_a_program_with_its_own_work_is_not_a_client():
    connected = {"server_connection": True}
    assert server_to_record(run(["job"], **connected, cpu_s=1.0))
    assert server_to_record(run(["job"], **connected, cpu_s=9.0)) is None
    assert server_to_record(run(["job"], **connected, cpu_s=1.0, other_io=OtherIO(9, 8.0))) is None
    assert server_to_record(run(["job"], server_connection=False, cpu_s=1.0)) is None

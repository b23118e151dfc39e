"""A move that is killed by SIGKILL at any point is reverted by --revert or completed by --apply."""

import json
import os
import random
import signal
import subprocess
import sys
import time

import pytest

from cases import nightly
from harness import spillcast_command
from kills import KILLS
from spillcast.engines.postgres.server import embedded

#: Other servers do not differ in anything that a kill affects.
pytestmark = pytest.mark.parametrize(
    "running", [embedded()], indirect=True, ids=lambda i: i.version
)
SCOPES = ("role:etl", "server", "session")
#: Forks for each line of its input, and prints how the fork ended. A fork kills itself after some
#: steps; with half a step, within the transaction of the next one.
KILLED = """
import json, os, signal, sys
from pathlib import Path

import psycopg

from spillcast.engines.postgres.move import run
from spillcast.engines.postgres.move.plan import MoveRequest
from spillcast.engines.postgres.move.tablespaces import parse_scope

def kill():
    os.kill(os.getpid(), signal.SIGKILL)

def counted(connection, step):
    global left
    if left == 0:
        kill()
    if left < 1:
        connection.execute("begin")
        for statement in step.sql[:-1]:
            connection.execute(statement.encode())
        kill()
    left -= 1
    do(connection, step)

do, run._run = run._run, counted
run.verified = lambda *_: kill()
for line in sys.stdin:
    what, dsn, to, scope, left = json.loads(line)
    child = os.fork()
    if child:
        print(os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]), flush=True)
    elif what == "apply":
        run.apply_move(dsn, MoveRequest(Path(to), parse_scope(scope)))
        break
    else:
        run.revert_move(dsn, Path(to), None, whole=True)
        break
"""


@pytest.fixture(scope="module")
def killed():
    """Runs up to the given number of steps, or all; returns whether it was killed."""
    command = [sys.executable, "-c", KILLED]
    pipes = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE, "text": True}
    with subprocess.Popen(command, **pipes) as forks:

        def run(moving, subject, scope, steps):
            words = (subject, moving.dsn, str(moving.to), scope, steps)
            print(json.dumps(words), file=forks.stdin, flush=True)
            status = int(forks.stdout.readline())
            assert status in (0, -signal.SIGKILL)
            return status != 0

        yield run


#: Steps of an --apply: mkdir, chown, CREATE TABLESPACE, the transaction, ALTER SYSTEM, reload.
APPLIED = [("role:etl", 1), ("role:etl", 3.5), ("server", 5)]
APPLIED += nightly(*(("role:etl", n) for n in (0, 2, 3, 4)))
APPLIED += nightly(*(("server", n) for n in (3, 3.5, 4, 6)))
APPLIED += nightly(*(("session", n) for n in (2, 3, 4)))


@pytest.mark.parametrize(("scope", "steps"), APPLIED)
def test_a_killed_apply_is_reverted(moving, killed, scope, steps):
    before = moving.state()
    assert killed(moving, "apply", scope, steps)
    assert (moving.state() != before) == (steps > 0)
    moving.move("--revert")
    moving.is_as(before)


@pytest.mark.parametrize(("scope", "steps"), APPLIED)
def test_a_killed_apply_is_completed_by_another(moving, killed, scope, steps):
    before = moving.state()
    assert killed(moving, "apply", scope, steps)
    document = json.loads(moving.move("--for", scope, "--apply", "--json").stdout)
    assert document["verified"]["files"] > 0
    moving.move("--revert")
    moving.is_as(before)


#: Steps of a --revert: the transaction, chmod, DROP TABLESPACE, rmdir; server steps come first.
REVERTED = [("role:etl", 0.5), ("role:etl", 2), ("server", 1)]
REVERTED += nightly(*(("role:etl", n) for n in (0, 1, 3)))
REVERTED += nightly(*(("server", n) for n in (2, 2.5, 3, 4, 5)))
REVERTED += nightly(*(("session", n) for n in (1, 2)))


@pytest.mark.parametrize(("scope", "steps"), REVERTED)
def test_a_killed_revert_is_completed_by_another(moving, killed, scope, steps):
    moving.rows("alter system set temp_tablespaces = 'pg_default'")
    moving.reload()
    before = moving.state()
    moving.move("--for", scope, "--apply")
    assert killed(moving, "revert", scope, steps)
    assert moving.state() != before
    moving.move("--revert")
    moving.is_as(before)


def test_an_existing_directory_is_never_treated_as_created(moving, killed):
    moving.to.mkdir()
    moving.server.give(moving.to)
    before = moving.state()
    for steps in (0, 1, 1.5, 2):
        assert killed(moving, "apply", "role:etl", steps)
        moving.move("--revert")
        moving.is_as(before)


def test_a_move_to_another_place_waits_for_the_interrupted_one(moving, killed):
    # Up to CREATE TABLESPACE; only root's move has a chown before it.
    assert killed(moving, "apply", "role:etl", 3 if os.geteuid() == 0 else 2)
    first, moving.to = moving.to, moving.room / "other"
    try:
        refused = moving.move("--for", "role:etl", "--apply", status=2)
        assert f"a move to {first} was interrupted" in refused.stderr
        assert not moving.to.exists()
    finally:
        moving.to = first
    moving.move("--revert")


@pytest.mark.nightly
def test_a_move_killed_at_any_time_can_be_reverted(moving):
    """The command itself is killed at any time: within its steps, before, or after."""
    chance = random.Random(5)
    before = moving.state()
    command = spillcast_command(
        "move", "postgres", moving.dsn, "--to", moving.to, "--for", "server", "--apply"
    )
    start = time.monotonic()
    assert subprocess.run(command, capture_output=True).returncode == 0
    took_s = time.monotonic() - start
    moving.move("--revert")
    for _ in range(KILLS):
        process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE)
        time.sleep(chance.uniform(0.3, 1.0) * took_s)
        process.kill()
        process.communicate()
        moving.move("--revert")
        moving.is_as(before)

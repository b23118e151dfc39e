"""The whole loop on real engines, with all features available and with almost none."""

import json
import os
import signal
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import pytest
from jsonschema import Draft202012Validator

from harness import TIMEOUT_S, only_line, ordinary_user, refuse_tracing, spillcast, until
from kills import REST, end, moments, processes_of
from spillcast.lab import storages

LOOP = """
import json, signal, sys
from dataclasses import replace
from pathlib import Path
from spillcast.interruptible import interrupt
from spillcast.cli.progress import TerminalStage
from spillcast.engines import duckdb as duckdb_queries
from spillcast.engines.postgres import lab as postgres_queries
from spillcast.lab import storages
from spillcast.lab.case import document
from spillcast.lab.check import run_demo

workloads = {
    "duckdb": replace(duckdb_queries.DEMO, rows=6_000_000, memory="150MB"),
    "postgres": replace(
        postgres_queries.DEMO, sql=postgres_queries.JOIN.format(kept=120_000),
        rows=300_000, memory="1MB",
    ),
}
for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
    signal.signal(number, interrupt)
engine = sys.argv[2]
storages.SHARED_MEMORY = Path(sys.argv[3])
with TerminalStage() as stage:
    demo = run_demo(stage, Path(sys.argv[1]), engine=engine, workload=workloads[engine])
print(json.dumps({"means": demo.means, **document([demo.case])}))
"""
NUMBER, TEXT = {"type": "number"}, {"type": "string"}
CASE = {
    "engine": TEXT, "workload": TEXT, "threads": {"type": "integer"}, "from": TEXT, "to": TEXT,
    "measured_from_s": NUMBER, "measured_to_s": NUMBER, "seed_formula_s": NUMBER,
    "forecast": {"type": "object", "required": ["forecast_s", "interval_s", "terms", "refused"]},
}  # fmt: skip
VERIFY = {
    "type": "object",
    "required": ["schema", "cases"],
    "properties": {
        "schema": {"const": "spillcast.verify/1"},
        "cases": {
            "type": "array",
            "minItems": 1,
            "items": {"type": "object", "required": list(CASE), "properties": CASE},
        },
    },
}
ENGINES = ("duckdb", "postgres")


@pytest.fixture
def memory():
    """A folder of shared memory for one test, separate from other users of it."""
    with tempfile.TemporaryDirectory(dir=storages.SHARED_MEMORY) as folder:
        os.chmod(folder, 0o1777)
        yield Path(folder)


def loop(work, engine, memory, under=()):
    return [*under, sys.executable, "-c", LOOP, str(work), engine, str(memory)]


def run_loop(work, engine, memory, under=()):
    done = subprocess.run(
        loop(work, engine, memory, under),
        capture_output=True,
        text=True,
        timeout=TIMEOUT_S,
        cwd=work,
    )
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout), done.stderr


def check(document):
    Draft202012Validator(VERIFY).validate(document)
    [case] = document["cases"]
    answer = case["forecast"]
    assert answer["refused"] is None
    low, high = answer["interval_s"]
    assert low <= answer["forecast_s"] <= high < case["measured_from_s"]
    assert answer["ceiling_s"] < answer["forecast_s"]
    terms = {"now": "baseline_s", "there": "forecast_s"}
    sums = {at: sum(term[key] for term in answer["terms"]) for at, key in terms.items()}
    assert sums["now"] == pytest.approx(answer["baseline_s"])
    assert sums["there"] == pytest.approx(answer["forecast_s"])
    # The emulated storage takes about 1 ms for each of them; a replay in memory far less.
    for term in answer["terms"]:
        # A single operation may stall anywhere.
        if term["op"] and term["count"] > 20:
            assert term["baseline_s"] > 0.0009 * term["count"] > term["forecast_s"]


@pytest.mark.parametrize("engine", ENGINES)
def test_the_loop_with_all_features(engine, open_places, memory):
    document, words = run_loop(open_places.temp, engine, memory)
    check(document)
    assert "5 the query on" in words
    assert os.listdir(open_places.temp) == []
    assert os.listdir(memory) == []
    assert str(open_places.temp) not in Path("/proc/mounts").read_text()


@pytest.mark.parametrize("engine", ENGINES)
def test_the_loop_for_an_ordinary_user_without_fuse_and_perf_events(engine, open_places, memory):
    under = [*ordinary_user(), *refuse_tracing()]
    document, _ = run_loop(open_places.temp, engine, memory, under)
    assert document["means"] == "preload"
    check(document)
    assert os.listdir(open_places.temp) == []


def test_the_loop_on_postgres_without_perf_events(open_places, memory):
    """Root's server runs as another user, but must report to root's shared memory."""
    document, _ = run_loop(open_places.temp, "postgres", memory, refuse_tracing())
    check(document)
    assert os.listdir(open_places.temp) == []


def test_a_killed_loop_leaves_nothing(open_places, memory):
    """On slow and fast storage, with its server, its mount and its files."""
    for death, after_s in moments("demo", 12):
        running = subprocess.Popen(
            loop(open_places.temp, "postgres", memory),
            stderr=subprocess.PIPE,
            stdout=subprocess.DEVNULL,
            text=True,
        )
        end(running, death, after_s)
        if death is REST:
            running.send_signal(signal.SIGTERM)
        running.communicate()
        until(lambda: not os.listdir(open_places.temp), "the files to be gone")
        until(lambda: str(open_places.temp) not in Path("/proc/mounts").read_text(), "the mount")
        until(lambda: not os.listdir(memory), "shared memory to be free")
        until(lambda: not processes_of(open_places.temp), "the server to end")


def test_a_table_that_takes_minutes_is_interrupted(tmp_path):
    """DuckDB notices a signal late, but an interrupt of its connection at once."""
    making = (
        "import signal, sys; from pathlib import Path; from spillcast.engines.duckdb import *; "
        "from spillcast.interruptible import interrupt; "
        "signal.signal(signal.SIGTERM, interrupt); DuckDbLab(Path(sys.argv[1])).build(10**9)"
    )
    running = subprocess.Popen(
        [sys.executable, "-c", making, tmp_path], stderr=subprocess.PIPE, text=True
    )
    until(lambda: os.listdir(tmp_path), "the database")
    time.sleep(1)
    running.send_signal(signal.SIGTERM)
    _, stderr = running.communicate()
    assert stderr.rstrip().endswith("KeyboardInterrupt")


def test_an_unknown_engine_and_an_inaccessible_directory_are_refused(tmp_path):
    assert spillcast("demo", "--engine", "oracle").returncode == 2
    if os.geteuid() == 0:
        tmp_path.chmod(0o700)
        result = spillcast("demo", "--engine", "postgres", "--work", tmp_path)
        assert "closed to the user" in only_line(result, 2)
        assert os.listdir(tmp_path) == []


def test_missing_packages_are_named_with_the_install_command(tmp_path):
    """As in an environment with only spillcast's own dependencies."""
    code = (
        "import sys, importlib.util as util\n"
        "find = util.find_spec\n"
        "util.find_spec = lambda name, *rest: None if name == 'psycopg' else find(name, *rest)\n"
        "sys.argv = ['spillcast', 'demo', '--engine', 'postgres', '--work', sys.argv[1]]\n"
        "from spillcast.cli import main\n"
        "main()\n"
    )
    command = [sys.executable, "-c", code, str(tmp_path)]
    result = subprocess.run(command, capture_output=True, text=True, timeout=TIMEOUT_S)
    assert "pip install 'spillcast[postgres]'" in only_line(result, 2)
    assert os.listdir(tmp_path) == []

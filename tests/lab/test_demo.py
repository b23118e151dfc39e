"""The whole loop on a real engine, with everything at hand and with next to nothing."""

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from harness import ordinary_user, refuse_perf

LOOP = """
import json, sys
from pathlib import Path
from spillcast.cli.stage import TerminalStage
from spillcast.lab.demo import run_demo
from spillcast.lab.duckdb_queries import HASH_JOIN
from spillcast.lab.workload import Workload

with TerminalStage() as stage:
    demo = run_demo(stage, Path(sys.argv[1]), workload=Workload("hash join", HASH_JOIN, 6_000_000, "150MB"))
print(json.dumps({"means": demo.means, **demo.case.to_json()}))
"""


def run_loop(work, under):
    done = subprocess.run(
        [*under, sys.executable, "-c", LOOP, str(work)],
        capture_output=True,
        text=True,
        timeout=300,
        cwd=work,
    )
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout), done.stderr


def check(case):
    said = case["forecast"]
    assert said["refused"] is None
    low, high = said["interval_s"]
    assert low <= said["forecast_s"] <= high < case["measured_from_s"]
    assert said["ceiling_s"] < said["forecast_s"]
    terms = {"now": "baseline_s", "there": "forecast_s"}
    sums = {at: sum(term[key] for term in said["terms"]) for at, key in terms.items()}
    assert sums["now"] == pytest.approx(said["baseline_s"])
    assert sums["there"] == pytest.approx(said["forecast_s"])
    # The emulated storage takes 1 ms for each of them, and a replay on memory takes far less.
    for term in said["terms"]:
        if term["op"]:
            assert term["baseline_s"] > 0.001 * term["count"] > term["forecast_s"]


def shared_memory():
    return {name for name in os.listdir("/dev/shm") if name.startswith("spillcast-")}


def test_loop_with_all_that_the_machine_offers(tmp_path):
    before = shared_memory()
    case, words = run_loop(tmp_path, [])
    check(case)
    assert "5 the join on" in words
    assert os.listdir(tmp_path) == []
    assert shared_memory() <= before
    assert str(tmp_path) not in Path("/proc/mounts").read_text()


def test_loop_for_an_ordinary_user_without_fuse_and_perf_events(open_places):
    case, _ = run_loop(open_places.temp, [*ordinary_user(), *refuse_perf()])
    assert case["means"] == "preload"
    check(case)
    assert os.listdir(open_places.temp) == []

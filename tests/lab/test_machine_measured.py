"""The machine measured with real work, in small: kept, shown, and told in recordings."""

import json
import signal
import subprocess
import sys

import pytest

from harness import TIMEOUT_S, environment, spillcast, until
from spillcast.engines.registry import engines, lab_of
from spillcast.lab import machine
from spillcast.recording.calibration import kept_calibration

NAMES = {"DuckDB": "duckdb", "PostgreSQL": "postgres"}


@pytest.fixture
def state(tmp_path, monkeypatch):
    """A user who has kept nothing yet."""
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "state"))
    return {"XDG_STATE_HOME": str(tmp_path / "state")}


def test_a_query_of_each_engine_is_measured_and_kept(tmp_path, state):
    work = tmp_path / "work"
    work.mkdir()
    work.chmod(0o755)
    done = spillcast(
        "calibrate",
        "--queries",
        "1",
        "--repeat",
        "1",
        "--work",
        work,
        "--json",
        env=environment(**state),
    )
    assert done.returncode == 0, done.stderr
    found = json.loads(done.stdout)
    runs = [(one["engine"].split()[0], one["storage"]) for one in found["points"]]
    measured = ["DuckDB"] + ["PostgreSQL"] * (not found["skipped"])
    assert runs == [(engine, storage) for engine in measured for storage in machine.STORAGES]
    for fast, near, far in zip(*[iter(found["points"])] * 3, strict=True):
        assert near["latency_s"] >= 0.25e-3
        assert far["latency_s"] >= 1.5e-3
        for one in (fast, near, far):
            assert one["operations"] > 100
            assert one["cpu_per_operation_s"] * one["operations"] == pytest.approx(one["cpu_s"])
            assert one["cpu_s"] <= one["elapsed_s"]
    costs = {one["engine"]: one for one in found["costs"]}
    assert list(costs) == [NAMES[one] for one in measured] + ["any"]
    assert costs["duckdb"]["queries"] == 1
    assert costs["any"]["queries"] == len(measured)
    assert len(found["chases"]) == 42
    assert list(work.iterdir()) == []
    shown = spillcast("calibrate", "--show", "--json", env=environment(**state))
    assert json.loads(shown.stdout) == found
    assert [one.shares for one in kept_calibration().costs] == [
        one["shares"] for one in found["costs"]
    ]


def test_nothing_kept_is_an_error_that_names_the_verb(state):
    done = spillcast("calibrate", "--show", env=environment(**state))
    assert done.returncode == 2
    assert "spillcast calibrate" in done.stderr


def test_ctrl_c_leaves_nothing(tmp_path, state):
    command = [sys.executable, "-m", "spillcast", "calibrate", "--work", str(tmp_path)]
    process = subprocess.Popen(command, env=environment(**state), stderr=subprocess.PIPE)
    until(lambda: list(tmp_path.glob("spillcast-*/*.db")), "a table")
    process.send_signal(signal.SIGINT)
    process.communicate(timeout=TIMEOUT_S)
    assert process.returncode == 130
    assert list(tmp_path.glob("spillcast-*")) == []
    assert kept_calibration() is None


def test_queries_of_a_calibration_are_not_those_of_a_verification():
    labs = [lab_of(engine.name) for engine in engines("lab")]
    for lab in (lab for lab in labs if hasattr(lab, "calibrating")):
        verified = {" ".join(one.sql.split()) for one in lab.verified(1)}
        names = [one.name for one in lab.calibrating()]
        assert verified.isdisjoint(" ".join(one.sql.split()) for one in lab.calibrating())
        assert len(set(names)) == len(names) >= 3

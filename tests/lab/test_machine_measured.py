"""A small calibration with real work: saved, shown, and used in recordings."""

import json
import signal
import subprocess
import sys

import pytest

from harness import TIMEOUT_S, environment, json_of, spillcast, until
from spillcast.engines.registry import engines, lab_of
from spillcast.lab import machine
from spillcast.recording.calibration import kept_calibration

NAMES = {"DuckDB": "duckdb", "PostgreSQL": "postgres"}


@pytest.fixture
def state(tmp_path, monkeypatch):
    """The environment of a user without a calibration."""
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "state"))
    return {"XDG_STATE_HOME": str(tmp_path / "state")}


def test_a_query_of_each_engine_is_measured_and_saved(tmp_path, state):
    work = tmp_path / "work"
    work.mkdir()
    work.chmod(0o755)
    document = json_of(
        "calibrate",
        "--queries",
        "1",
        "--repeat",
        "1",
        "--work",
        work,
        env=environment(**state),
    )
    runs = [(item["engine"].split()[0], item["storage"]) for item in document["points"]]
    measured = ["DuckDB"] + ["PostgreSQL"] * (not document["skipped"])
    assert runs == [(engine, storage) for engine in measured for storage in machine.STORAGES]
    for fast, near, far in zip(*[iter(document["points"])] * 3, strict=True):
        assert near["latency_s"] >= 0.25e-3
        assert far["latency_s"] >= 1.5e-3
        for item in (fast, near, far):
            assert item["operations"] > 100
            assert item["cpu_per_operation_s"] * item["operations"] == pytest.approx(item["cpu_s"])
            assert item["cpu_s"] <= item["elapsed_s"]
    costs = {item["engine"]: item for item in document["costs"]}
    assert list(costs) == [NAMES[item] for item in measured] + ["any"]
    assert costs["duckdb"]["queries"] == 1
    assert costs["any"]["queries"] == len(measured)
    assert list(work.iterdir()) == []
    shown = spillcast("calibrate", "--show", "--json", env=environment(**state))
    assert json.loads(shown.stdout) == document
    assert [item.shares for item in kept_calibration().costs] == [
        item["shares"] for item in document["costs"]
    ]


def test_a_missing_calibration_is_an_error_that_names_the_verb(state):
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


def test_calibration_and_verification_use_different_queries():
    labs = [lab_of(engine.name) for engine in engines("lab")]
    for lab in (lab for lab in labs if hasattr(lab, "calibrating")):
        verified = {" ".join(item.sql.split()) for item in lab.verified(1)}
        names = [item.name for item in lab.calibrating]
        assert verified.isdisjoint(" ".join(item.sql.split()) for item in lab.calibrating)
        assert len(set(names)) == len(names) >= 3

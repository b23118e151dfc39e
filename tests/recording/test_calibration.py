"""A calibration is saved as a whole, and is valid only on the unchanged machine."""

import json
import time

import pytest

from cases import cases
from harness import environment, error_code, spillcast
from spillcast.errors import PathMissing
from spillcast.recording.calibration import (
    CALIBRATION_SCHEMA,
    CalibratedOn,
    Calibration,
    CalibrationRun,
    WaitCost,
    calibration_path,
    is_old,
    keep,
    kept_calibration,
)

POINT = CalibrationRun(
    "Paper 1.0", "join", "tmpfs", 0, 500, 5e-6, 4e-6, 6e-6, 0.5, 1e-3, 0.6, 0.0, 0.7
)
COSTS = [
    WaitCost("paper", 2, 0.3, [1e-5, 1e-3], [1e-3], [[0.5, 0.1]]),
    WaitCost("any", 4, 0.5, [1e-5, 1e-3], [1e-3], [[0.6, 0.2]]),
]


@pytest.fixture
def path(tmp_path, monkeypatch):
    """The calibration file of a user who has none yet."""
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "state"))
    return tmp_path / "state" / "spillcast" / "calibration.json"


def calibration(costs=COSTS):
    source = CalibratedOn.this_machine()
    slow = CalibrationRun(**{**vars(POINT), "storage": "latency:1ms", "latency_s": 1e-3})
    return Calibration(
        CALIBRATION_SCHEMA, time.time(), 99.5, source, costs, [POINT, slow], ["X: lacks"]
    )


def test_a_saved_calibration_is_loaded(path):
    assert kept_calibration() is None
    made = calibration()
    assert keep(made) == path == calibration_path()
    assert kept_calibration() == made
    assert [item.name for item in path.parent.iterdir()] == [path.name]


def test_a_recording_gets_only_the_fit():
    made = calibration()
    reported = made.for_recordings
    assert (reported.costs, reported.measured_at_s) == (COSTS, made.measured_at_s)
    assert [reported.cost_of(engine, None).engine for engine in ("paper", "process")] == [
        "paper",
        "any",
    ]
    assert calibration(costs=[]).for_recordings is None


@cases("damage", [b"", b"{", b"[]", b"\xff\xfe", b'{"schema": 1}', b"[" * 100_000])
def test_a_damaged_file_is_ignored(path, damage):
    keep(calibration())
    path.write_bytes(damage)
    assert kept_calibration() is None
    keep(calibration())
    assert kept_calibration() is not None


@cases(
    "changed", [{"kernel": "2.6.32"}, {"cpu": "another"}, {"cpus": 4096}, {"spillcast": "0.0.1"}]
)
def test_a_calibration_of_another_machine_or_version_is_ignored(path, changed):
    keep(calibration())
    kept = json.loads(path.read_text())
    path.write_text(json.dumps(kept | {"machine": kept["machine"] | changed}))
    assert kept_calibration() is None
    path.write_text(json.dumps(kept | {"schema": "spillcast.calibration/2"}))
    assert kept_calibration() is None


def test_a_calibration_is_old_after_thirty_days():
    assert not is_old(time.time() - 29 * 86_400)
    assert is_old(time.time() - 31 * 86_400)


def test_a_failed_save_keeps_the_previous_calibration(path, monkeypatch):
    first = calibration()
    keep(first)
    monkeypatch.setattr("spillcast.recording.calibration.written", lambda _: {"bad": object()})
    with pytest.raises(TypeError):
        keep(calibration())
    assert kept_calibration() == first
    assert [item.name for item in path.parent.iterdir()] == [path.name]


def test_a_folder_that_cannot_be_written_is_noticed_before_the_work(tmp_path):
    (tmp_path / "file").touch()
    for state in (tmp_path / "file", "/proc/nowhere"):
        refused = spillcast("calibrate", "--json", env=environment(XDG_STATE_HOME=str(state)))
        assert error_code(refused) == "output-unwritable"
        assert "XDG_STATE_HOME" in json.loads(refused.stdout)["hint"]


def test_a_user_without_a_home_gets_an_error(monkeypatch):
    monkeypatch.delenv("XDG_STATE_HOME", raising=False)

    def homeless():
        raise RuntimeError("Could not determine home directory.")

    monkeypatch.setattr("pathlib.Path.home", homeless)
    with pytest.raises(PathMissing, match="home"):
        calibration_path()
    assert kept_calibration() is None

"""Files of earlier versions are readable: tests/fixtures holds an unchanged set of each version."""

import json

import pytest

from cases import cases
from harness import completed
from oracle_files import ROOT
from spillcast.recording import Recording
from spillcast.storage import Storage

VERSIONS = sorted((ROOT / "tests" / "fixtures").iterdir(), key=lambda path: path.name)


@pytest.mark.parametrize("version", VERSIONS, ids=lambda path: path.name)
def test_a_recording_is_fully_read(version):
    recording = Recording.open(version / "recording")
    # The counts that the recorded program printed.
    assert (recording.meta.temp.reads, recording.meta.temp.writes) == (120, 80)
    assert len(recording.temp_waits) == 200
    assert recording.seconds["count"].to_numpy().sum() == recording.meta.raw.rows_seen


@pytest.mark.parametrize("version", VERSIONS, ids=lambda path: path.name)
def test_a_storage_and_a_recording_are_forecast(version):
    storage = Storage.load(version / "storage.json")
    assert sum(group.count for group in storage.of("write")) == 80
    result = completed(
        "forecast", version / "recording", "--to", version / "storage.json", "--json"
    )
    then = json.loads((version / "forecast.json").read_text())
    assert json.loads(result.stdout)["baseline_s"] == pytest.approx(then["baseline_s"], rel=0.2)


@cases("version", VERSIONS)
@cases("name", ["forecast.json", "profile.json"])
def test_a_document_is_reported(version, name, tmp_path):
    page = tmp_path / "page.html"
    completed("report", version / name, "-o", page)
    assert page.stat().st_size > 5_000

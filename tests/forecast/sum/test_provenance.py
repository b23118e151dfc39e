"""When and where a storage was measured is saved with it, and shown where it matters."""

import json
import os
import platform
import subprocess
from dataclasses import replace
from datetime import UTC, datetime, timedelta

import pytest

from cases import cases
from evidence import change, recording
from harness import completed, only_line, probed_grid, spillcast, spillcast_command
from spillcast._core import __version__
from spillcast.forecast import forecast
from spillcast.recording import Recording
from spillcast.recording.meta import Machine
from spillcast.storage import Storage
from spillcast.storage.observed import observed

LOADS = [("read", 8192, 400, 900_000), ("write", 8192, 400, 400_000)]
CODES = {"stale", "another-host", "another-mount"}


@pytest.fixture(scope="module")
def probed(tmp_path_factory):
    """A directory, the storage.json of its probe, and the times before and after the probe."""
    folder = tmp_path_factory.mktemp("probed")
    path = folder / "storage.json"
    before = datetime.now(UTC).replace(microsecond=0)
    probed_grid(folder, path)
    return folder, path, before, datetime.now(UTC)


@pytest.fixture
def run(tmp_path):
    """A recording of this host."""
    made = recording(tmp_path / "run.spill", LOADS, elapsed_s=1.0, cpu_s=0.3)
    change(made, machine=Machine(host=platform.node()))
    return made


def reported(run, storage):
    return {w.code: w.message for w in forecast(run, storage).warnings if w.code in CODES}


def changed(probed, **parts):
    storage = Storage.load(probed[1])
    return replace(storage, provenance=replace(storage.provenance, **parts))


def days_ago(days):
    return (datetime.now(UTC) - timedelta(days=days)).isoformat(timespec="seconds")


def test_a_probe_records_when_where_and_with_what(probed):
    folder, path, before, after = probed
    known = json.loads(path.read_text())["provenance"]
    assert before <= datetime.fromisoformat(known["measured_at"]) <= after
    assert known["measured_at"].endswith("+00:00")
    assert known["host"] == platform.node()
    assert known["kernel"] == os.uname().release
    assert known["spillcast"] == __version__
    assert known["directory"] == str(folder.resolve())
    requested = ["findmnt", "-n", "-o", "MAJ:MIN,FSTYPE,TARGET,OPTIONS", "-T", folder]
    result = subprocess.run(requested, capture_output=True, text=True)
    if result.returncode:
        pytest.skip("no findmnt")
    device, filesystem, point, options = result.stdout.split()
    assert (known["device"], known["filesystem"]) == (device, filesystem)
    assert known["mount_point"] == point
    assert set(known["mount_options"].split(",")) == set(options.split(","))


def test_a_recording_has_the_provenance_of_its_temp_files(spilled):
    known = observed(Recording.open(spilled.path)).provenance
    assert known.host == platform.node()
    assert known.spillcast == __version__
    result = subprocess.run(
        ["findmnt", "-n", "-o", "FSTYPE,TARGET", "-T", spilled.places.temp],
        capture_output=True, text=True,
    )  # fmt: skip
    if result.returncode:
        pytest.skip("no findmnt")
    assert [known.filesystem, known.mount_point] == result.stdout.split()


def test_a_recent_local_measurement_gives_no_warning(probed, run):
    assert reported(run, Storage.load(probed[1])) == {}


def test_storage_without_provenance_is_read(probed, run, tmp_path):
    document = json.loads(probed[1].read_text())
    del document["provenance"]
    path = tmp_path / "old.json"
    path.write_text(json.dumps(document))
    storage = Storage.load(path)
    assert storage.provenance is None
    assert "provenance" not in storage.to_json()
    assert reported(run, storage) == {}


@cases(("days", "codes"), [(29, set()), (30, set()), (32, {"stale"})])
def test_an_old_measurement_is_a_warning(probed, run, days, codes):
    answer = reported(run, changed(probed, measured_at=days_ago(days)))
    assert set(answer) == codes
    assert not codes or f"are {days} days old" in answer["stale"]


def test_a_measurement_on_another_host_is_a_warning(probed, run):
    answer = reported(run, changed(probed, host="db-7"))
    assert set(answer) == {"another-host"}
    assert (
        f"on host db-7, and the query was recorded on host {platform.node()}"
        in (answer["another-host"])
    )
    # Recorded on the host of the measurement: no warning, whichever host this is.
    change(run, machine=Machine(host="db-7"))
    assert reported(run, changed(probed, host="db-7")) == {}
    # If the host of the recording is not known, this host counts.
    change(run, machine=Machine())
    assert "this runs" in reported(run, changed(probed, host="db-7"))["another-host"]


@cases("part", [{"mount_options": "rw,sync"}, {"mount_point": "/x"}, {"filesystem": "xfs"}])
def test_a_measurement_on_another_mount_is_a_warning(probed, run, part):
    answer = reported(run, changed(probed, **part))
    assert set(answer) == {"another-mount"}
    assert next(iter(part.values())) in answer["another-mount"]
    # Mounts of another host are not compared.
    assert set(reported(run, changed(probed, host="db-7", **part))) == {"another-host"}


def test_a_mount_over_a_probed_directory_is_a_warning(probed, tmp_path):
    """With a real mount in a separate mount namespace."""
    own_mounts = ["unshare", "--mount", "bash", "-ec"]
    if os.geteuid() or subprocess.run([*own_mounts, "true"], capture_output=True).returncode:
        pytest.skip("mounts are refused here")
    folder, path, *_ = probed
    made = recording(tmp_path / "run.spill", LOADS, elapsed_s=1.0, cpu_s=0.3)
    copy = tmp_path / "storage.json"
    copy.write_bytes(path.read_bytes())
    command = spillcast_command("forecast", made.path, "--to", copy, "--json")
    script = f'mount -t tmpfs tmpfs {folder}; exec "$@"'
    done = subprocess.run([*own_mounts, script, "bash", *command], capture_output=True, text=True)
    codes = {item["code"]: item["message"] for item in json.loads(done.stdout)["warnings"]}
    assert "is tmpfs at" in codes["another-mount"]


@cases("known", [{"measured_at": "yesterday"}, {"host": 7}, {"mount_point": ["x"]}, [], "x"])
def test_a_damaged_provenance_is_refused(probed, tmp_path, known):
    document = json.loads(probed[1].read_text()) | {"provenance": known}
    path = tmp_path / "damaged.json"
    path.write_text(json.dumps(document))
    assert "damaged" in only_line(spillcast("storage", "show", path), 2)


def test_provenance_is_shown_but_a_redacted_page_lacks_the_host(probed, tmp_path):
    document = json.loads(probed[1].read_text())
    document["provenance"] |= {"host": "db-7", "measured_at": days_ago(40)}
    path = tmp_path / "storage.json"
    path.write_text(json.dumps(document))
    shown = " ".join(spillcast("storage", "show", path).stdout.split())
    assert f"measured at {days_ago(40)[:10]}" in shown
    assert "on host db-7" in shown
    document["provenance"]["measured_at"] = "2026-11-01T01:30:00+02:00"
    path.write_text(json.dumps(document))
    shown = " ".join(spillcast("storage", "show", path).stdout.split())
    assert "measured at 2026-10-31 23:30 UTC" in shown
    document["provenance"]["measured_at"] = days_ago(40)
    path.write_text(json.dumps(document))
    made = recording(tmp_path / "run.spill", LOADS, elapsed_s=1.0, cpu_s=0.3)
    answer = tmp_path / "forecast.json"
    answer.write_text(spillcast("forecast", made.path, "--to", path, "--json").stdout)
    for more, shown in ([], True), (["--redact"], False):
        page = tmp_path / "page.html"
        completed("report", made.path, path, answer, "--to", path, "-o", page, *more)
        assert ("db-7" in page.read_text()) is shown
        assert ("days old" in page.read_text()) is shown

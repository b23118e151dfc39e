"""The cost of observing: measured on this machine, cached for a day, and stored in recordings."""

import json
import os
import random
import subprocess
import sys
import time
from dataclasses import replace
from pathlib import Path

import pytest

from harness import TIMEOUT_S, available, completed, ordinary_user, refuse_perf, spill_in
from spillcast.recording.calibration import cost_of, kept_cost
from spillcast.recording.capture import AUTO, SOURCES
from spillcast.recording.recording import Recording


@pytest.fixture
def cache(tmp_path, monkeypatch):
    """An empty cache of this test."""
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    return tmp_path / "cache" / "spillcast"


@pytest.fixture(params=SOURCES)
def source(request, cache):
    """Each capture source that is available here."""
    return available(request.param)


def record(places, *options, under=(), name="run.spill"):
    """Records the spill program; returns the capture account of the recording."""
    output = places.root / name
    command = spill_in(places)
    done = completed(
        "record", *options, "-o", output, "--", *command,
        under=under, env=places.env | {"XDG_CACHE_HOME": os.environ["XDG_CACHE_HOME"]},
    )  # fmt: skip
    return Recording.open(output).meta.capture, done


def children():
    """The running children of this process."""
    return Path(f"/proc/self/task/{os.getpid()}/children").read_text().split()


def test_a_call_and_a_switch_cost_some_time(source, cache):
    before = children()
    result = cost_of(source)
    assert 0 < result.call_low_s <= result.call_s <= result.call_high_s < 1e-3
    switch = (result.switch_low_s, result.switch_s, result.switch_high_s)
    if source == "preload":
        assert switch == (None, None, None)
    else:
        assert 0 < switch[0] <= switch[1] <= switch[2] < 1e-3
    assert children() == before
    assert [path.name for path in cache.iterdir()] == [f"capture-cost-{source}.json"]


def test_the_cost_is_cached_for_minutes(source, cache, monkeypatch):
    assert kept_cost(source) is None
    result = cost_of(source)
    monkeypatch.setattr(
        "spillcast.recording.calibration.measured_cost", lambda *_: pytest.fail("measured")
    )
    assert cost_of(source) == kept_cost(source) == result
    (path,) = cache.iterdir()
    kept = json.loads(path.read_text())
    for changed in (
        {"measured_at_s": time.time() - 86_401},
        {"measured_at_s": time.time() + 3_600},
        {"setting": kept["setting"] | {"boot": "another"}},
        {"setting": kept["setting"] | {"kernel": "2.6.32"}},
        {"setting": kept["setting"] | {"cpu": "another"}},
        {"setting": kept["setting"] | {"spillcast": "0.0.1"}},
    ):
        path.write_text(json.dumps(kept | changed))
        assert kept_cost(source) is None
    path.write_text(json.dumps(kept))
    assert kept_cost(source) == result


def test_a_cost_older_than_minutes_is_measured_again(cache, monkeypatch):
    """The end of a recording needs the present cost; for its start the cost of the day suffices."""
    source = available("preload")
    first = cost_of(source)
    (path,) = cache.iterdir()
    path.write_text(json.dumps(json.loads(path.read_text()) | {"measured_at_s": time.time() - 601}))
    assert kept_cost(source) == first
    monkeypatch.setattr("spillcast.recording.calibration.measured_cost", lambda *_: None)
    assert cost_of(source) == first
    again = replace(first, call_s=2 * first.call_s)
    monkeypatch.setattr("spillcast.recording.calibration.measured_cost", lambda *_: again)
    assert cost_of(source) == kept_cost(source) == again


@pytest.mark.parametrize(
    "damage", [b"", b"{", b"[]", b"\xff\xfe", b'{"schema": 1}', b"[" * 100_000]
)
def test_a_damaged_cache_is_measured_again(cache, damage):
    source = available("preload")
    cache.mkdir(parents=True)
    path = cache / "capture-cost-preload.json"
    path.write_bytes(damage)
    assert kept_cost(source) is None
    result = cost_of(source)
    assert result is not None
    assert kept_cost(source) == result
    assert list(cache.iterdir()) == [path]


def test_without_a_cache_folder_the_cost_is_measured_and_not_kept(tmp_path, monkeypatch):
    (tmp_path / "file").write_text("")
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "file"))
    source = available("preload")
    assert cost_of(source) is not None
    assert kept_cost(source) is None


def test_another_set_of_calls_has_a_separate_cost(cache):
    cost_of(available("preload"))
    few = ["pread64", "pwrite64"]
    assert kept_cost("preload", few) is None
    cost_of("preload", few)
    assert len(list(cache.iterdir())) == 2


def test_a_failed_measurement_gives_no_cost(cache, monkeypatch):
    source = available("preload")
    monkeypatch.setattr("sys.executable", "/nonexistent")
    assert cost_of(source) is None
    assert not cache.exists()


def test_a_killed_measurement_leaves_nothing(cache):
    code = (
        "from spillcast.recording.calibration import measured_cost\n"
        "while True: print(measured_cost('preload').call_s, flush=True)"
    )
    rng = random.Random(1)
    for _ in range(5):
        measuring = subprocess.Popen([sys.executable, "-c", code], stdout=subprocess.PIPE)
        measuring.stdout.readline()
        time.sleep(rng.uniform(0, 0.1))
        measuring.kill()
        # End of file means that no process has it open any more.
        measuring.communicate(timeout=TIMEOUT_S)


@pytest.mark.parametrize("name", SOURCES)
def test_a_recording_states_its_cost(places, cache, name):
    available(name)
    capture, done = record(places, "--capture", name)
    switches_s = 0.0 if capture.switches is None else capture.switches * capture.switch_cost_s
    lost_s = capture.calls * capture.call_cost_s + switches_s
    assert capture.overhead_s == pytest.approx(lost_s)
    # Other work on the machine may hide the cost of single calls, so the lower bound may be 0.
    assert 0 <= capture.overhead_low_s <= capture.overhead_s <= capture.overhead_high_s
    assert capture.overhead_s > 0
    # The minimum memory of Python and Arrow.
    assert capture.tracer_cpu_s > 0
    assert 10 << 20 < capture.recorder_memory_bytes < 1 << 30
    assert "overhead" in done.stdout
    (path,) = cache.iterdir()
    kept, at_ns = path.read_text(), path.stat().st_mtime_ns
    again, _ = record(places, "--capture", name, name="again.spill")
    assert again.call_cost_s == capture.call_cost_s
    assert (path.read_text(), path.stat().st_mtime_ns) == (kept, at_ns)


#: Calls on a file, a device and a pipe, sleeps, and the kernel's count of context switches.
BUSY = """
import os, resource, sys, tempfile, time
file, zero, pipe = tempfile.TemporaryFile(), os.open("/dev/zero", os.O_RDONLY), os.pipe()
for _ in range(1000):
    os.pwrite(file.fileno(), b"x" * 512, 0)
    os.read(zero, 512)
    os.write(pipe[1], b"x")
    os.read(pipe[0], 1)
for _ in range(300):
    time.sleep(1e-4)
used = resource.getrusage(resource.RUSAGE_SELF)
print(used.ru_nvcsw + used.ru_nivcsw)
"""


@pytest.mark.parametrize(("name", "calls"), [("perf", 4_000), ("preload", 1_000)])
def test_calls_and_switches_on_any_kind_of_file_are_counted(places, name, calls):
    available(name)
    output = places.root / "busy.spill"
    command = [sys.executable, "-I", "-S", "-c", BUSY]
    done = completed("record", "--capture", name, "-o", output, "--", *command, env=places.env)
    capture = Recording.open(output).meta.capture
    # The interpreter's start makes some hundred calls.
    assert calls <= capture.calls < calls + 1_000
    if name == "preload":
        assert capture.switches is None
    else:
        switches = int(done.stdout.splitlines()[0])
        assert switches >= 300
        assert switches - 10 <= capture.switches <= switches + 50


def test_an_ordinary_user_without_a_home_can_record(open_places, monkeypatch):
    monkeypatch.setenv("XDG_CACHE_HOME", "/proc/nowhere")
    capture, _ = record(open_places, "--capture", AUTO, under=[*ordinary_user(), *refuse_perf()])
    assert capture.method == "preload"
    assert capture.overhead_s > 0

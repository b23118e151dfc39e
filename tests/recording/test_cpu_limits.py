"""Limits of a process's CPU time: real control groups, and what recordings have of them."""

import json
import os
import subprocess
import sys

import pytest
from bench.cpu_group import NoCpuGroup, cpu_group, inside, limit

from cases import cases
from harness import completed, spill_in
from spillcast.errors import EvidenceDamaged
from spillcast.recording import Recording
from spillcast.recording.meta import Meta
from spillcast.recording.observed import CpuLimits

#: CPU weight that puts a group before all others, so that only its quota limits it.
FIRST = 200_000
BURN = "import time\nwhile time.process_time() < 0.5: pass"


@pytest.fixture
def limited():
    """A real group with a quota of 0.4 CPUs."""
    try:
        with cpu_group(0.4, FIRST) as folder:
            yield folder
    except NoCpuGroup as error:
        pytest.skip(f"no CPU cgroup can be made here: {error}")


def recorded(output, *words, **options):
    """The CPU limits in the recording of a command or a process."""
    completed("record", "-o", output, "--json", *words, anew=True, **options)
    return json.loads((output / "meta.json").read_text())["cpu_limits"]


def test_a_real_quota_and_its_throttling_are_recorded(limited, places):
    with inside(limited):
        limits = recorded(places.root / "run.spill", "--", sys.executable, "-c", BURN)
    assert limits["cpus"] == len(os.sched_getaffinity(0))
    assert (limits["quota_cpus"], limits["period_s"]) == (0.4, 0.1)
    # 0.5 s of CPU time are 12.5 times 40 ms: about ten times it waits for the next 100 ms.
    assert limits["throttled_periods"] >= 8
    assert limits["throttled_s"] > 0


def test_a_recording_holds_the_quota_that_was_in_force(limited, places):
    output = places.root / "run.spill"
    command = spill_in(places)
    with inside(limited):
        limits = recorded(output, "--temp", places.temp, "--", *command, env=places.env)
    assert (limits["quota_cpus"], limits["period_s"]) == (0.4, 0.1)
    assert limits["throttled_s"] is not None
    assert Recording.open(output).meta.cpu_limits == CpuLimits(**limits)


def test_the_quota_of_a_parent_group_applies(limited, places):
    below = limited / "below"
    below.mkdir()
    sleeping = subprocess.Popen(["sleep", "600"])
    words = ["--pid", str(sleeping.pid), "--duration", "1s"]
    try:
        (below / "cgroup.procs").write_text(str(sleeping.pid))
        assert recorded(places.root / "above.spill", *words)["quota_cpus"] == 0.4
        limit(below, 0.3)
        assert recorded(places.root / "own.spill", *words)["quota_cpus"] == 0.3
    finally:
        sleeping.kill()
        sleeping.wait()
        below.rmdir()


@cases("wrong", [{"quota_cpus": 0.4}, {"quota_cpus": 0.0, "period_s": 0.1}, {"cpus": 0}])
def test_impossible_limits_are_damage(spilled, tmp_path, wrong):
    document = Recording.open(spilled.path).meta.to_json()
    document["cpu_limits"] |= wrong
    with pytest.raises(EvidenceDamaged, match=r"damaged: .*cpu_limits"):
        Meta.from_json(json.dumps(document))


def test_a_recording_without_limits_is_read(spilled):
    document = Recording.open(spilled.path).meta.to_json()
    del document["cpu_limits"]
    assert Meta.from_json(json.dumps(document)).cpu_limits == CpuLimits()

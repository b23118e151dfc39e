"""What limits a process's CPU time: real control groups, and made-up trees of both versions."""

import json
import os
import subprocess
import sys

import pytest
from bench.cpu_group import NoCpuGroup, cpu_group, inside, limit
from cgroup_files import group, own_group

from harness import spillcast, target
from spillcast import _core
from spillcast.errors import EvidenceDamaged
from spillcast.recording import Recording
from spillcast.recording.meta import Meta
from spillcast.recording.observed import CpuLimits

#: Shares with which a group goes before all others, so that only its quota holds it back.
FIRST = 200_000
BURN = "import time\nwhile time.process_time() < 0.5: pass"


def limits(watch):
    return CpuLimits(*watch.limits)


@pytest.fixture
def limited():
    """A real group that may have 0.4 CPUs."""
    try:
        with cpu_group(0.4, FIRST) as folder:
            yield folder
    except NoCpuGroup as error:
        pytest.skip(f"no CPU cgroup can be made here: {error}")


def test_a_real_quota_and_its_throttling_are_seen(limited):
    with inside(limited):
        burning = subprocess.Popen([sys.executable, "-c", BURN])
    watch = _core.CpuWatch(burning.pid)
    assert limits(watch) == CpuLimits(len(os.sched_getaffinity(0)), 0.4, 0.1, 0.0, 0)
    burning.wait()
    watch.look()
    # 0.5 s of CPU time are 12.5 times 40 ms: some ten times it waits for the next 100 ms.
    assert limits(watch).throttled_periods >= 8
    assert limits(watch).throttled_s > 0
    assert limits(watch).quota_cpus == 0.4


def test_a_recording_holds_the_quota_that_was_in_force(limited, places):
    output = places.root / "run.spill"
    with inside(limited):
        command = target("spill", "--file", places.temp / "spill", "--base", places.base)
        arguments = ["record", "-o", output, "--temp", places.temp, "--json", "--", *command]
        assert spillcast(*arguments, anew=True, env=places.env).returncode == 0
    limits = json.loads((output / "meta.json").read_text())["cpu_limits"]
    assert (limits["quota_cpus"], limits["period_s"]) == (0.4, 0.1)
    assert limits["throttled_s"] is not None
    assert Recording.open(output).meta.cpu_limits == CpuLimits(**limits)


def test_a_process_bound_to_a_cpu_may_run_on_one():
    bound = subprocess.Popen(["taskset", "-c", str(min(os.sched_getaffinity(0))), "sleep", "60"])
    try:
        watch = _core.CpuWatch(bound.pid)
        while limits(watch).cpus != 1:
            watch.look()
        bound.kill()
        bound.wait()
        watch.look()
        assert limits(watch) == CpuLimits(1)
    finally:
        bound.kill()


def test_limits_of_version_1_are_found(tmp_path):
    source = own_group(tmp_path, "cpu")
    period, quota = "cpu.cfs_period_us", "cpu.cfs_quota_us"
    stat = "nr_periods 9\nnr_throttled {}\nthrottled_time {}"
    group(source, {quota: 50_000, period: 100_000, "cpu.stat": stat.format(3, 2_000_000_000)})
    watch = _core.CpuWatch(os.getpid(), tmp_path)
    assert limits(watch).quota_cpus == 0.5
    group(source, {"cpu.stat": stat.format(8, 3_500_000_000)})
    watch.look()
    assert (limits(watch).throttled_s, limits(watch).throttled_periods) == (1.5, 5)
    group(source, {quota: -1})
    assert limits(_core.CpuWatch(os.getpid(), tmp_path)).quota_cpus is None


def test_limits_of_version_2_are_found(tmp_path):
    source = own_group(tmp_path, "")
    stat = "usage_usec 7\nnr_throttled {}\nthrottled_usec {}"
    group(source, {"cpu.max": "150000 100000", "cpu.stat": stat.format(2, 500_000)})
    watch = _core.CpuWatch(os.getpid(), tmp_path)
    assert limits(watch) == CpuLimits(len(os.sched_getaffinity(0)), 1.5, 0.1, 0.0, 0)
    group(source, {"cpu.stat": stat.format(4, 750_000)})
    watch.look()
    assert (limits(watch).throttled_s, limits(watch).throttled_periods) == (0.25, 2)
    group(source, {"cpu.max": "max 100000"})
    assert limits(_core.CpuWatch(os.getpid(), tmp_path)).quota_cpus is None


def test_the_quota_of_a_group_above_holds_too(limited):
    below = limited / "below"
    below.mkdir()
    sleeping = subprocess.Popen(["sleep", "60"])
    try:
        (below / "cgroup.procs").write_text(str(sleeping.pid))
        assert limits(_core.CpuWatch(sleeping.pid)).quota_cpus == 0.4
        limit(below, 0.3)
        assert limits(_core.CpuWatch(sleeping.pid)).quota_cpus == 0.3
    finally:
        sleeping.kill()
        sleeping.wait()
        below.rmdir()


@pytest.mark.parametrize(
    "wrong", [{"quota_cpus": 0.4}, {"quota_cpus": 0.0, "period_s": 0.1}, {"cpus": 0}]
)
def test_limits_that_cannot_be_are_damage(spilled, tmp_path, wrong):
    document = Recording.open(spilled.path).meta.to_json()
    document["cpu_limits"] |= wrong
    with pytest.raises(EvidenceDamaged, match=r"damaged: .*cpu_limits"):
        Meta.from_json(json.dumps(document), "meta.json")


def test_a_recording_of_before_reads_without_limits(spilled):
    document = Recording.open(spilled.path).meta.to_json()
    del document["cpu_limits"]
    assert Meta.from_json(json.dumps(document), "x").cpu_limits == CpuLimits()

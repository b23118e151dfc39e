"""What a test session leaves is seen, and programs of the tests end with their parents."""

import os
import subprocess

import pytest

import leftovers
from harness import target, until


def test_a_process_of_the_session_is_seen():
    with subprocess.Popen(["sleep", "60"]) as process:
        until(lambda: (process.pid, "sleep 60") in leftovers.processes(), "the process")
        process.kill()
    assert process.pid not in dict(leftovers.processes())


def test_a_process_of_another_session_is_not():
    others = os.environ | {leftovers.VARIABLE: "another"}
    with subprocess.Popen(["sleep", "60"], env=others) as process:
        assert process.pid not in dict(leftovers.processes())
        process.kill()


@pytest.mark.parametrize(
    ("name", "is_left"),
    [("spillcast-probe-0-{}", True), ("spillcast-{}-temp", True), ("system.slice", False)],
)
def test_a_control_group_without_its_maker_is_seen(tmp_path, name, is_left):
    with subprocess.Popen(["true"]) as ended:
        pass
    for pid in (ended.pid, os.getpid()):
        (tmp_path / "below" / name.format(pid)).mkdir(parents=True, exist_ok=True)
    gone = tmp_path / "below" / name.format(ended.pid)
    assert list(leftovers.groups(tmp_path)) == ([str(gone)] if is_left else [])


@pytest.mark.parametrize("told", [False, True])
def test_a_crowd_ends_with_its_parent(tmp_path, told):
    command = target("crowd", "--children", 3, tmp_path / "spill")
    pipes = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE}
    with subprocess.Popen(command, text=True, **pipes) as parent:
        pids = {int(pid) for pid in parent.stdout.readline().split()}
        if told:
            parent.stdin.write("go\n")
            parent.stdin.flush()
            until(lambda: len(list(tmp_path.iterdir())) == 4, "the spill")
        parent.kill()
    until(lambda: not pids & dict(leftovers.processes()).keys(), "the children to end")

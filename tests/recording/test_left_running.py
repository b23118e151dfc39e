"""A command whose processes go on after its end, as those of a daemon: that is said."""

import pytest

from harness import available, completed

WRITES = "import os; os.write(os.open('spilled', os.O_CREAT | os.O_WRONLY), bytes(9))"


@pytest.mark.parametrize("capture", ["bpf", "perf"])
def test_what_a_command_leaves_behind_is_told(tmp_path, capture):
    options = ["--capture", available(capture), "--temp", tmp_path, "-o", tmp_path / "run.spill"]
    left = ["sh", "-c", "sleep 3 >/dev/null 2>&1 &"]
    nothing = completed("record", *options, "--", *left, cwd=tmp_path)
    assert "left 1 process running" in nothing.stderr
    assert "--pid" in nothing.stderr
    script = f'python3 -S -c "{WRITES}"; {left[-1]}'
    some = completed("record", *options, "--force", "--", "sh", "-c", script, cwd=tmp_path)
    assert "left 1 process running" in some.stderr


def test_one_that_ends_with_all_it_started_leaves_nothing(tmp_path):
    script = f'python3 -S -c "{WRITES}"; sleep 0.1 & wait'
    options = ["--temp", tmp_path, "-o", tmp_path / "run.spill"]
    result = completed("record", *options, "--", "sh", "-c", script, cwd=tmp_path)
    assert "running" not in result.stderr

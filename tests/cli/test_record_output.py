"""What a recorded command writes into a file stays its output alone."""

import subprocess

from harness import TIMEOUT_S, environment, spillcast_command


def test_the_summary_stays_out_of_a_file(tmp_path):
    command = spillcast_command("record", "-o", tmp_path / "run.spill", "--", "seq", "3")
    with (tmp_path / "numbers").open("w") as numbers:
        done = subprocess.run(
            command,
            stdout=numbers,
            stderr=subprocess.PIPE,
            text=True,
            timeout=TIMEOUT_S,
            env=environment(),
        )
    assert done.returncode == 0
    assert (tmp_path / "numbers").read_text().split() == ["1", "2", "3"]
    assert "run.spill" in done.stderr

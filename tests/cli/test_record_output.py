"""A recorded command keeps its output in a file for itself, and passes its end on."""

import signal
import subprocess

from harness import TIMEOUT_S, spillcast, started


def test_the_summary_stays_out_of_a_file(tmp_path):
    command = ("record", "-o", tmp_path / "run.spill", "--", "seq", "3")
    with (tmp_path / "numbers").open("w") as numbers:
        recorder = started(*command, stdout=numbers, stderr=subprocess.PIPE, text=True)
    _, messages = recorder.communicate(timeout=TIMEOUT_S)
    assert recorder.returncode == 0
    assert (tmp_path / "numbers").read_text().split() == ["1", "2", "3"]
    assert "run.spill" in messages


def test_a_signal_without_a_name_ends_a_command(tmp_path):
    number = signal.SIGRTMIN + 1
    command = ("sh", "-c", f"echo spill > {tmp_path}/file; kill -{number} $$")
    done = spillcast("record", "-o", tmp_path / "run.spill", "--", *command)
    assert done.returncode == 128 + number
    assert str(int(number)) in done.stderr.replace(str(tmp_path), "")
    assert (tmp_path / "run.spill" / "meta.json").exists()


def test_a_reader_that_ends_early_leaves_the_recording_and_its_summary(tmp_path):
    recording = tmp_path / "run.spill"
    command = ("record", "-o", recording, "--", "sh", "-c", "yes | head -c 9M; exit 7")
    shown = started(*command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    shown.stdout.close()
    _, messages = shown.communicate(timeout=TIMEOUT_S)
    assert shown.returncode == 7, messages
    assert (recording / "meta.json").exists()
    assert f"forecast {recording}" in messages or f"profile {recording}" in messages


def test_output_that_cannot_be_written_fails_but_keeps_the_recording(tmp_path):
    command = ("record", "-o", tmp_path / "run.spill", "--", "true")
    with open("/dev/full", "w") as full:
        recorder = started(*command, stdout=full, stderr=subprocess.PIPE)
    _, messages = recorder.communicate(timeout=TIMEOUT_S)
    assert recorder.returncode == 1
    assert (tmp_path / "run.spill" / "meta.json").exists()
    assert b"temp I/O" in messages

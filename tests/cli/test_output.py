"""JSON output, and the output when a stream is closed."""

import json
import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from cases import cases
from harness import TIMEOUT_S, spillcast, spillcast_command, started
from spillcast.cli.output import emit
from spillcast.recording import Recording
from statement_files import export, row


def test_json_keeps_the_order_of_keys_and_escapes_control_characters(capsys):
    document = {"z": [1, None, {"path": Path("/x")}], "a": "ä\x7f\x1b\n", "empty": []}
    emit(document)
    printed = capsys.readouterr().out
    assert printed.strip().replace("\n", "").isprintable()
    assert printed.isascii()
    assert list(json.loads(printed).items()) == [
        *{**document, "z": [1, None, {"path": "/x"}]}.items()
    ]


def test_json_has_null_for_values_that_are_not_numbers(capsys):
    emit({"ratios": [float("inf"), {"x": float("nan")}, 0.5], "infinity": "Infinity"})
    document = json.loads(capsys.readouterr().out, parse_constant=pytest.fail)
    assert document == {"ratios": [None, {"x": None}, 0.5], "infinity": "Infinity"}


@cases("closed", ["<&-", ">&-", "2>&-", "<&- >&- 2>&-"])
def test_a_recording_with_a_closed_stream_succeeds(tmp_path, closed):
    # The process lives on, so that the name of its file can be read.
    written = (
        "import os, time; os.write(os.open('spilled', os.O_CREAT | os.O_WRONLY), bytes(9)); "
        "time.sleep(0.5)"
    )
    command = [sys.executable, "-S", "-c", written]
    requested = spillcast_command("record", "--temp", ".", "-o", "run.spill", "--", *command)
    ran = subprocess.run(
        ["sh", "-c", f'exec "$@" {closed}', "sh", *requested],
        cwd=tmp_path,
        capture_output=True,
        text=True,
    )
    assert (ran.returncode, "Traceback" in ran.stderr) == (0, False), ran.stderr
    assert Recording.open(tmp_path / "run.spill").meta.temp.writes == 1


@cases(
    "words",
    [
        ["engines"],
        ["engines", "--json"],
        ["storage", "list", "--json"],
        ["--version"],
        ["forecast", "x", "--json"],
    ],
)
def test_unreadable_output_gives_no_traceback(words):
    """The status is a shell's for a program that SIGPIPE ended; for a full disk it is 1."""
    reader, closed = os.pipe()
    os.close(reader)
    full = os.open("/dev/full", os.O_WRONLY)
    for stdout, status in ((closed, 128 + signal.SIGPIPE), (full, 1)):
        with started(*words, stdout=stdout, stderr=subprocess.PIPE, text=True) as process:
            _, stderr = process.communicate()
        os.close(stdout)
        assert process.returncode == status, stderr
        assert "Exception" not in stderr
        if stdout == full:
            assert sum("stdout" in line for line in stderr.splitlines()) == 1


def test_a_refused_forecast_is_one_document(tmp_path):
    """The target was measured with reads alone, but the statements also write."""
    target = tmp_path / "reads.json"
    group = {
        "op": "read", "size_class_bytes": 8192, "depth": 1, "count": 9, "bytes": 73728,
        "total_ns": 900, "latency_ns": [100], "latency_count": [9], "block_count": [9],
        "block_mean_ns": [100],
    }  # fmt: skip
    document = {"schema": "spillcast.storage/1", "name": "reads", "source": "probe"}
    target.write_text(json.dumps(document | {"groups": [group], "facts": {}}))
    rows = export(tmp_path / "statements.csv", 16, row())
    result = spillcast("forecast", rows, "--to", target, "--json")
    assert result.returncode == 3
    parsed = json.loads(result.stdout)
    assert (parsed["schema"], parsed["forecast_s"]) == ("spillcast.forecast/1", None)
    assert "writes" in parsed["refused"]


def test_the_summary_is_not_in_a_redirected_file(tmp_path):
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

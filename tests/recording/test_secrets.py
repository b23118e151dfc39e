"""No secret of a command line is in its recording, the output about it or its page."""

import json
import subprocess
import sys

from harness import completed, environment, spillcast, started, target, until

SECRET = "Zq7xHunter2"
WAYS = {
    "beside -p": [f"-p{SECRET}"],
    "assigned": [f"--password={SECRET} and {SECRET}"],
    "after its name": ["--db-password", f"{SECRET} {SECRET}"],
    "variable": [f"PGPASSWORD={SECRET}"],
    "address": [f"postgres://etl:{SECRET}@db:5432/dw"],
    "connection string": [f"host=db password='{SECRET} {SECRET}' dbname=dw"],
    "statement": [f"alter role etl password '{SECRET}'", f"alter user x identified by {SECRET}"],
    "token": ["--token", SECRET, f"api_key:{SECRET}", f"Authorization: Bearer {SECRET}"],
}
#: Reads and writes a temp file until its input ends, if it has one; its arguments mean nothing.
PROGRAM = """
import os, sys, tempfile
with tempfile.NamedTemporaryFile() as file:
    for _ in range(50):
        os.pwrite(file.fileno(), bytes(8192), 0)
    print("ready", flush=True)
    sys.stdin.read()
    for _ in range(50):
        os.pread(file.fileno(), 8192, 0)
"""


def bytes_of(folder):
    return b"".join(path.read_bytes() for path in folder.rglob("*") if path.is_file())


def reported(run, folder):
    """Everything visible of a recording: its bytes, and the output of verbs."""
    page = folder / "page.html"
    shown = [bytes_of(run)]
    for line in (
        ["profile", run, "--by", "file", "--json"],
        ["forecast", run, "--to", "latency:150us", "--json"],
        ["report", run, "-o", page],
    ):
        done = spillcast(*line)
        shown.append((done.stdout + done.stderr).encode())
    return b"".join([*shown, page.read_bytes()])


def test_secrets_of_a_command_are_removed(tmp_path):
    run = tmp_path / "run.spill"
    # Each secret differs, as one that is recognised is removed from all texts.
    words = [
        word.replace(SECRET, f"{name[-3:]}{SECRET}") for name, way in WAYS.items() for word in way
    ]
    done = completed(
        "record", "-o", run, "--", sys.executable, "-c", PROGRAM, *words,
        env=environment(TMPDIR=tmp_path, MY_PASSWORD=SECRET[::-1]),
    )  # fmt: skip
    seen = reported(run, tmp_path) + (done.stdout + done.stderr).encode()
    # The environment has a different secret, which is removed from all texts.
    assert SECRET.encode() not in seen
    assert SECRET[::-1].encode() not in seen
    struck = json.loads((run / "meta.json").read_text())["engine"]["command"]
    assert sum("***" in word for word in struck) >= len(WAYS)


def test_secrets_of_a_running_process_are_removed(tmp_path):
    run = tmp_path / "run.spill"
    words = [word for way in WAYS.values() for word in way]
    process = subprocess.Popen(
        [sys.executable, "-c", PROGRAM, *words],
        stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, env=environment(TMPDIR=tmp_path),
    )  # fmt: skip
    process.stdout.readline()
    pipes = {"stdout": subprocess.PIPE, "stderr": subprocess.PIPE, "text": True}
    recorder = started("record", "-o", run, "--pid", process.pid, **pipes)
    until(lambda: recorder.poll() is not None or any(tmp_path.glob("*run.spill*")), "the recorder")
    process.communicate("")
    answer = recorder.communicate()
    assert recorder.returncode == 0, answer
    assert SECRET not in "".join(answer)
    assert SECRET.encode() not in reported(run, tmp_path)


def test_a_rehearsal_of_a_command_with_removed_secrets_is_refused(tmp_path):
    """What was removed cannot be run again, and is not guessed."""
    run = tmp_path / "run.spill"
    command = target("spill", "--file", tmp_path / "temp", "--base", tmp_path / "base")
    (tmp_path / "base").write_bytes(bytes(512 * 101))
    completed("record", "-o", run, "--", "env", f"DB_PASSWORD={SECRET}", *command)
    refused = spillcast("forecast", run, "--to", tmp_path, "--rehearse", "1s")
    message = " ".join((refused.stdout + refused.stderr).split())
    assert "secrets" in message
    assert "--command" in message

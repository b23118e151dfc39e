"""A recording, what is printed of it and its page hold no secret that a command line carried."""

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
#: Reads and writes a temp file, until its input ends where it has one; its arguments mean nothing.
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
    """All that can be seen of a recording: its bytes, and what verbs say of it."""
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


def test_a_command(tmp_path):
    run = tmp_path / "run.spill"
    # Each is another, for what is known of one may be struck out of all.
    words = [
        word.replace(SECRET, f"{name[-3:]}{SECRET}") for name, way in WAYS.items() for word in way
    ]
    done = completed(
        "record", "-o", run, "--", sys.executable, "-c", PROGRAM, *words,
        env=environment(TMPDIR=tmp_path, MY_PASSWORD=SECRET[::-1]),
    )  # fmt: skip
    seen = reported(run, tmp_path) + (done.stdout + done.stderr).encode()
    # That of the environment is another, for it is struck out of all texts.
    assert SECRET.encode() not in seen
    assert SECRET[::-1].encode() not in seen
    struck = json.loads((run / "meta.json").read_text())["engine"]["command"]
    assert sum("***" in word for word in struck) >= len(WAYS)


def test_a_process_that_runs_already(tmp_path):
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


def test_a_command_that_is_rehearsed_without_its_secret_is_refused(tmp_path):
    """What was struck out cannot be run again, and is not guessed."""
    run = tmp_path / "run.spill"
    command = target("spill", "--file", tmp_path / "temp", "--base", tmp_path / "base")
    (tmp_path / "base").write_bytes(bytes(512 * 101))
    completed("record", "-o", run, "--", "env", f"DB_PASSWORD={SECRET}", *command)
    refused = spillcast("forecast", run, "--to", tmp_path, "--rehearse", "1s")
    message = " ".join((refused.stdout + refused.stderr).split())
    assert "secrets" in message
    assert "--command" in message

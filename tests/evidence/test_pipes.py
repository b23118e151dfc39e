"""Evidence on standard input or in a process substitution gives the answer of a file."""

import gzip
import json
import os
import subprocess
import sys

import pytest

from harness import TIMEOUT_S, spillcast, started
from oracle_files import READ, blocks, write_trace
from text_plan import TEXT_PLAN

#: Bytes of a text that exceeds a pipe's capacity.
WAITS, BYTES = 3_000, 200_000
TARGETS = ("--to", "latency:1ms", "--json")


def ran(*arguments, content=None, stdin=subprocess.PIPE, **options):
    """Exit status and output of spillcast with ``content`` in a pipe."""
    pipes = {"stdin": stdin, "stdout": subprocess.PIPE, "stderr": subprocess.PIPE}
    with started(*arguments, **pipes, **options) as process:
        printed = process.communicate(content, timeout=TIMEOUT_S)
    return process.returncode, *printed


def answer(*arguments, **options):
    status, stdout, stderr = ran(*arguments, **options)
    assert status == 0, stderr
    return json.loads(stdout)


def answer_of_file(*arguments):
    """The answer when the evidence is a file."""
    done = spillcast(*arguments)
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout)


@pytest.fixture
def plan(tmp_path):
    path = tmp_path / "plan.txt"
    path.write_text(TEXT_PLAN)
    return path


@pytest.fixture
def trace(tmp_path):
    return write_trace(tmp_path / "run.trc", [(READ, 1_000, blocks(31))] * WAITS)


def piped(content, *arguments):
    """The answer when ``content`` is in a pipe."""
    return answer(*arguments, content=content)


def test_a_storage_in_a_pipe(plan, tmp_path):
    path = tmp_path / "storage.json"
    path.write_text(spillcast("storage", "show", "catalogue:aws-gp3", "--json").stdout)
    expected = answer_of_file("forecast", plan, "--to", path, "--json")
    with path.open("rb") as file:
        forecast = ("forecast", plan, "--to", "/dev/stdin", "--json")
        assert piped(file.read(), *forecast)["forecast_s"] == expected["forecast_s"]


def test_a_plan_in_a_pipe(plan):
    expected = answer_of_file("forecast", plan, *TARGETS)["forecast_s"]
    assert expected is not None
    for content in (plan.read_bytes(), gzip.compress(plan.read_bytes())):
        assert piped(content, "forecast", "-", *TARGETS)["forecast_s"] == expected
    assert piped(plan.read_bytes(), "forecast", "/dev/stdin", *TARGETS)["forecast_s"] == expected
    with plan.open("rb") as file:
        assert answer("forecast", "-", *TARGETS, stdin=file)["forecast_s"] == expected


def test_a_plan_in_a_process_substitution(plan):
    read, write = os.pipe()
    os.write(write, plan.read_bytes())
    os.close(write)
    piped = answer("forecast", f"/dev/fd/{read}", *TARGETS, pass_fds=[read])
    assert piped["forecast_s"] == answer_of_file("forecast", plan, *TARGETS)["forecast_s"]


def test_a_report_of_a_plan_in_a_pipe(plan, tmp_path):
    page = tmp_path / "page.html"
    report = piped(plan.read_bytes(), "report", "-", *TARGETS, "-o", page)
    assert report["answer"] == answer_of_file("report", plan, *TARGETS, "-o", page)["answer"]


def test_a_trace_in_a_pipe(trace):
    profile = piped(trace.read_bytes(), "profile", "-", "--json")
    (row,) = (row for row in profile["rows"] if row["event"] == READ)
    assert (row["count"], row["total_us"]) == (WAITS, 1_000 * WAITS)


LONG = """
import sys
from spillcast.evidence import open as opened
opened.TEXT_BYTES_MAX = 1000
from spillcast.cli import main
sys.argv = ["spillcast", *sys.argv[1:]]
main()
"""


def long(content, *arguments):
    """The result of a run that keeps at most 1,000 bytes of its input."""
    return subprocess.run(
        [sys.executable, "-c", LONG, *arguments],
        input=content,
        capture_output=True,
        timeout=TIMEOUT_S,
    )


def test_a_trace_that_is_too_long_to_keep_is_streamed(trace):
    content = trace.read_bytes()
    assert len(content) > BYTES
    done = long(content, "profile", "-", "--json")
    assert done.returncode == 0, done.stderr
    (row,) = (row for row in json.loads(done.stdout)["rows"] if row["event"] == READ)
    assert (row["count"], row["total_us"]) == (WAITS, 1_000 * WAITS)


def test_a_pipe_that_is_opened_twice_is_kept_once(trace):
    twice = (
        "import os\n"
        "from spillcast.evidence import open as opened\n"
        "opened.TEXT_BYTES_MAX = 1000\n"
        "inodes = [os.stat(opened.rereadable('-')).st_ino for _ in range(2)]\n"
        "print(inodes[0] == inodes[1], len(open(0, 'rb').read()))\n"
    )
    content = trace.read_bytes()
    done = subprocess.run(
        [sys.executable, "-c", twice], input=content, capture_output=True, timeout=TIMEOUT_S
    )
    assert done.stdout.split() == [b"True", str(len(content)).encode()], done.stderr


def test_a_plan_that_is_too_long_to_keep_is_refused(plan):
    done = long(plan.read_bytes() + b"\n" * BYTES, "forecast", "-", *TARGETS)
    assert done.returncode == 2
    assert b"/dev/stdin" in done.stderr
    assert b"Traceback" not in done.stderr


def test_an_empty_pipe_is_refused():
    status, _, stderr = ran("forecast", "-", content=b"")
    assert status == 2
    assert b"empty" in stderr
    assert b"Traceback" not in stderr

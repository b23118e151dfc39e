"""What is recorded of a program that does exactly N reads and M writes is exactly that."""

import json
import os
import sys
from collections import Counter

import pytest

from harness import account_of, available, environment, expected_rows, rows, spillcast, target
from spillcast.recording import Recording

READS, WRITES = 60, 40
CAPTURES = ["bpf", "perf", "preload"]


def observe(places, capture, name, *options):
    """Record the spill program; returns its account, the rows of its files, and the recording."""
    file = places.temp / "spill"
    plan = ("--file", file, "--base", places.base, "--reads", READS, "--writes", WRITES)
    output = places.root / f"{name}.spill"
    command = target("spill", *plan, *options)
    result = spillcast("record", "--capture", capture, "-o", output, "--", *command, env=places.env)
    assert result.returncode == 0, result.stderr
    account = account_of(result.stdout)
    files = {operation[5] for operation in account["account"]}
    return account, rows(output, files=files), output


SHAPES = {
    "one thread": ((), 1),
    "threads and child, sequential too": (("--threads", 3, "--fork", "--sequential"), 4),
    "unlinked": (("--unlink", "--threads", 3, "--fork", "--sequential"), 4),
}


@pytest.mark.parametrize("capture", CAPTURES)
@pytest.mark.parametrize("shape", SHAPES)
def test_rows_are_the_programs_own_account(places, capture, shape):
    options, workers = SHAPES[shape]
    account, seen, _ = observe(places, capture, "run", *options)
    assert seen == expected_rows(account, base=places.base)
    events = Counter()
    for (_, event, _, _, _, file, _), count in seen.items():
        events[event, file == str(places.base)] += count
    assert events["pread64", False] == READS * workers
    assert events["pwrite64", False] == WRITES * workers
    assert events["pread64", True] == READS // 4 * workers


#: Too short to be looked at in /proc: their files are those that the shell has given them.
SHORT_ONES = "for i in $(seq 30); do head -c 50000 /dev/zero > a; tr x y < a > b; done"


def test_a_shells_short_programs_are_seen_whole(tmp_path):
    available("bpf")
    result = spillcast(
        *("record", "--json", "--capture", "bpf", "--temp", tmp_path),
        *("-o", tmp_path.parent / f"{tmp_path.name}.spill"),
        *("--", "sh", "-c", f"cd {tmp_path}; {SHORT_ONES}"),
        env=environment(TMPDIR=str(tmp_path)),
    )
    assert result.returncode == 0, result.stderr
    seen = json.loads(result.stdout)["temp"]
    # head writes 50,000 bytes; tr reads them, and writes them again.
    assert seen["bytes"] == 30 * 3 * 50_000


@pytest.mark.parametrize("capture", CAPTURES)
def test_names_that_are_no_text_are_recorded_and_read(tmp_path, capture):
    odd = tmp_path / os.fsdecode(b"odd \xff")
    odd.mkdir()
    program = (
        "import os, sys; f = os.open(sys.argv[1], os.O_CREAT | os.O_WRONLY); os.write(f, b'1')"
    )
    result = spillcast(
        *("record", "--capture", capture, "--temp", odd, "-o", tmp_path / "odd.spill"),
        *("--", sys.executable, "-c", program, odd / "spilled"),
    )
    assert result.returncode == 0, result.stderr
    meta = Recording.open(tmp_path / "odd.spill").meta
    assert meta.temp.writes == 1
    assert meta.engine.command[-1] == str(tmp_path / "odd \ufffd" / "spilled")

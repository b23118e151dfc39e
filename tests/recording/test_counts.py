"""What is recorded of a program that does exactly N reads and M writes is exactly that."""

from collections import Counter

import pytest

from harness import account_of, expected_rows, rows, spillcast, target

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
    "four threads": (("--threads", 4), 4),
    "forked child": (("--fork",), 2),
    "threads and child, sequential too": (("--threads", 3, "--fork", "--sequential"), 4),
    "unlinked": (("--unlink", "--threads", 2, "--sequential"), 2),
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


@pytest.mark.parametrize("shape", ["four threads", "threads and child, sequential too"])
def test_both_captures_agree(places, shape):
    options, _ = SHAPES[shape]
    anonymous = []
    for capture in CAPTURES:
        _, seen, _ = observe(places, capture, capture, "--unlink", *options)
        without_session = Counter()
        for row, count in seen.items():
            without_session[row[1:]] += count
        anonymous.append(without_session)
    assert anonymous[0] == anonymous[1]

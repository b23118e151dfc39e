"""Reruns the tests that failed in the last run, alone; names those that pass now as flaky.

More than FLAKY_MAX failures do not count as flaky, and are not rerun.
"""

import json
import sys
from pathlib import Path

import pytest

FLAKY_MAX = 3
LAST_FAILED = Path(".pytest_cache/v/cache/lastfailed")


def last_failed():
    """The names of the tests that failed in the last run."""
    try:
        return sorted(json.loads(LAST_FAILED.read_text()))
    except FileNotFoundError:
        return []


def main():
    failed = last_failed()
    if not 0 < len(failed) <= FLAKY_MAX:
        print(f"\n{len(failed)} tests failed; from 1 to {FLAKY_MAX} are run again")
        return 1
    status = pytest.main(["--last-failed", "--last-failed-no-failures", "none"])
    flaky = [name for name in failed if name not in last_failed()]
    print(f"\n{len(flaky)} flaky tests, at most {FLAKY_MAX}:", *flaky, sep="\n  ")
    return int(status)


if __name__ == "__main__":
    sys.exit(main())

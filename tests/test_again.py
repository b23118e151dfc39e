"""A retry names the tests that pass the second time, and forgives only a few."""

import subprocess
import sys
from pathlib import Path

import pytest

AGAIN = Path(__file__).parent / "again.py"
#: Tests that fail in the first run only, and one that always fails.
TESTS = """
from pathlib import Path
import pytest

@pytest.mark.parametrize("number", range({flaky}))
def test_flaky(number):
    mark = Path(f"ran-{{number}}")
    ran = mark.exists()
    mark.touch()
    assert ran

@pytest.mark.parametrize("number", range({broken}))
def test_broken(number):
    assert False
"""


def run(folder, *words):
    return subprocess.run([sys.executable, *words], cwd=folder, capture_output=True, text=True)


@pytest.mark.parametrize(("flaky", "broken", "status"), [(3, 0, 0), (4, 0, 1), (1, 1, 1)])
def test_a_few_flaky_tests_are_named_and_more_fail(tmp_path, flaky, broken, status):
    (tmp_path / "pytest.ini").touch()
    (tmp_path / "test_it.py").write_text(TESTS.format(flaky=flaky, broken=broken))
    first = run(tmp_path, "-m", "pytest", "-q", "-p", "no:xdist")
    assert first.returncode == (1 if flaky + broken else 0)
    again = run(tmp_path, AGAIN)
    assert again.returncode == status
    if flaky + broken <= 3:
        report = again.stdout.split("flaky tests, at most 3")[-1]
        assert report.count("test_it.py::test_flaky[") == flaky
        assert "test_broken" not in report

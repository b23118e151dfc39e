"""Starting: what is large and not used is not imported."""

import sys

import pytest

from harness import spillcast


@pytest.mark.parametrize("verb", [("forecast", "--to", "latency:1ms"), ("profile",)])
def test_pandas_is_not_imported_where_it_is_installed(spilled, verb):
    pytest.importorskip("pandas")
    verb, *options = verb
    under = ("env", "PYTHONPROFILEIMPORTTIME=1")
    done = spillcast(verb, spilled.path, *options, under=under)
    assert done.returncode == 0, done.stderr
    imported = {line.rpartition("|")[2].strip() for line in done.stderr.splitlines()}
    assert {"pyarrow", "numpy"} <= imported
    assert not [name for name in imported if name.startswith("pandas.")]


def test_one_who_calls_it_from_python_has_pandas():
    pytest.importorskip("pandas")
    import pandas as pd

    import spillcast.forecast  # noqa: F401

    assert pd is sys.modules["pandas"]

"""The generated example, made once for all tests."""

import pytest

from oracle_files import make_example


@pytest.fixture(scope="session")
def example(tmp_path_factory):
    """A folder with ash.csv, hdd.trc and flash.trc; tests must not change it."""
    return make_example(tmp_path_factory.mktemp("oracle"))

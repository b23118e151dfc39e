"""Real PostgreSQL servers for the tests of recording them."""

import functools
from contextlib import ExitStack

import pytest

from postgres_rig import of_debian, rig
from spillcast.engines.postgres.server import embedded


@pytest.fixture(scope="session")
def rigs():
    """The server of an installation, one for all tests."""
    with ExitStack() as stack:
        yield functools.cache(lambda installation: stack.enter_context(rig(installation)))


@pytest.fixture(scope="session", params=[embedded(), *of_debian()], ids=lambda i: i.version)
def served(request, rigs):
    """Every PostgreSQL that is installed on this machine."""
    return rigs(request.param)


@pytest.fixture(
    scope="session",
    params=[embedded(), *(pytest.param(i, marks=pytest.mark.nightly) for i in of_debian())],
    ids=lambda i: i.version,
)
def served_nightly(request, rigs):
    """The newest one, and nightly the others."""
    return rigs(request.param)


@pytest.fixture(scope="session")
def newest(rigs):
    """The newest one alone, where versions do not differ."""
    return rigs(embedded())

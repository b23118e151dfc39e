"""Real PostgreSQL servers for the tests of recording them."""

import functools
from contextlib import ExitStack

import pytest

from cases import nightly
from postgres_rig import of_debian, rig
from spillcast.engines.postgres.server import embedded


@pytest.fixture(scope="session")
def rigs():
    """Server of an installation, shared by all tests."""
    with ExitStack() as stack:
        yield functools.cache(lambda installation: stack.enter_context(rig(installation)))


@pytest.fixture(
    scope="session",
    params=[embedded(), *nightly(*of_debian())],
    ids=lambda i: i.version,
)
def served_nightly(request, rigs):
    """The newest PostgreSQL, and in nightly runs all others that are installed."""
    return rigs(request.param)


@pytest.fixture(scope="session")
def newest(rigs):
    """Only the newest server, for tests that do not depend on the version."""
    return rigs(embedded())

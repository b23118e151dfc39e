"""Real PostgreSQL servers for the tests of recording them."""

import pytest

from postgres_rig import of_debian, rig
from spillcast.engines.postgres.server import embedded


@pytest.fixture(scope="session", params=[embedded(), *of_debian()], ids=lambda i: i.version)
def served(request):
    """Every PostgreSQL that is installed here."""
    with rig(request.param) as made:
        yield made


@pytest.fixture(scope="session")
def newest():
    """The newest one alone, where versions do not differ."""
    with rig(embedded()) as made:
        yield made

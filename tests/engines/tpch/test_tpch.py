"""TPC-H loaded at a small scale: engines agree, tables are cold when asked, what is missing is told."""

import ctypes
import mmap
from dataclasses import replace

import pytest

from spillcast.engines.duckdb.tpch import DuckDbTpch
from spillcast.engines.held_process import ROWS_KEPT
from spillcast.engines.tpch import data, temperature
from spillcast.errors import InputError

#: Scale factor 0.02.
ROWS = 120_000


def rows_of(lab, number, temp, **changes):
    """A query's rows, by number and letter case as engines write them alike."""
    [query] = [one for one in lab.verified(1) if one.name == f"tpch Q{number}"]
    temp.mkdir(exist_ok=True)
    with lab.hold(replace(query, rows=ROWS, **changes), temp, {}) as held:
        held.start()
        return held.result().rows


@pytest.fixture(scope="module")
def room(tmp_path_factory):
    if data.generator() is None:
        pytest.skip("tpchgen-cli is not installed")
    room = tmp_path_factory.mktemp("tpch")
    for above in (room, *room.parents[:2]):
        above.chmod(0o711)
    return room

"""A rehearsal in an experiment: a whole query or its start, and its process ends."""

from dataclasses import replace

import pytest

from spillcast.engines import LabQuery
from spillcast.engines.duckdb import SORT, DuckDbLab
from spillcast.errors import RehearsalFailed
from spillcast.lab.run import run_recorded
from spillcast.lab.storages import Emulated, emulated, plain
from spillcast.workspace import workspace
from spillcast_lab.partial_runs import rehearse

QUERY = LabQuery("sort", SORT, 1_000_000, "30MB")
OPERATION_S = 0.01


@pytest.fixture(scope="module")
def rehearsed():
    """The recording of the query, and a function that rehearses it in a slow place for a time."""
    with workspace() as room:
        engine = DuckDbLab(room)
        engine.build(QUERY.rows)
        _, like = run_recorded(engine, QUERY, plain("disk", room / "temp"), room / "run.spill")
        with emulated(Emulated("slow", OPERATION_S, OPERATION_S), room, room) as slow:
            yield like, lambda s, query=QUERY: rehearse(engine, query, slow, like, s, room)


@pytest.mark.nightly
def test_the_start_of_a_query_is_rehearsed(rehearsed):
    """Sequential writes of 10 ms: at most 100 a second."""
    like, attempt = rehearsed
    done = attempt(1.0)
    assert not done.ended
    assert 0 < done.operations <= 1.1 / OPERATION_S < like.meta.temp.operations
    assert all(group.mean_s >= OPERATION_S for group in done.groups.values())


def test_a_whole_query_is_rehearsed(rehearsed):
    like, attempt = rehearsed
    done = attempt(100.0)
    assert done.ended
    assert done.elapsed_s > done.operations * OPERATION_S
    assert done.operations == pytest.approx(like.meta.temp.operations, rel=0.1)


def test_a_rehearsal_without_temp_io_fails(rehearsed):
    _, attempt = rehearsed
    with pytest.raises(RehearsalFailed, match="no temp I/O"):
        attempt(60.0, replace(QUERY, memory="2GB"))

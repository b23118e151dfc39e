"""A rehearsal in an experiment: all of a query, or its first moments, and its process is gone."""

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
OPERATION_S = 0.05


@pytest.fixture(scope="module")
def rehearsed():
    """What rehearses the query in a slow place for so long; what it is like."""
    with workspace() as room:
        engine = DuckDbLab(room)
        engine.build(QUERY.rows)
        _, like = run_recorded(engine, QUERY, plain("disk", room / "temp"), room / "run.spill")
        with emulated(Emulated("slow", OPERATION_S, OPERATION_S), room, room) as slow:
            yield like, lambda s, query=QUERY: rehearse(engine, query, slow, like, s, room)


@pytest.mark.nightly
def test_the_first_seconds(rehearsed):
    """Of writes that take 50 ms, one after the other, at most 20 a second are done."""
    like, attempt = rehearsed
    done = attempt(3.0)
    assert not done.ended
    assert 0 < done.recording.meta.temp.operations <= 3.1 / OPERATION_S < like.meta.temp.operations
    assert all(group.mean_s >= OPERATION_S for group in done.groups.values())
    assert like.path.stem in done.recording.path.name


def test_the_whole_query(rehearsed):
    like, attempt = rehearsed
    done = attempt(100.0)
    assert done.ended
    assert done.recording.elapsed_s > done.recording.meta.temp.operations * OPERATION_S
    assert done.recording.meta.temp.operations == pytest.approx(like.meta.temp.operations, rel=0.1)


def test_nothing_was_spilled(rehearsed):
    _, attempt = rehearsed
    with pytest.raises(RehearsalFailed, match="no temp I/O"):
        attempt(60.0, replace(QUERY, memory="2GB"))

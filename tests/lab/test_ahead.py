"""An experiment's recording uses the query's clock, and its table is made once."""

import pytest

from cases import cases
from spillcast.engines import LabQuery
from spillcast.engines.duckdb import SORT, DuckDbLab
from spillcast.lab.run import run_recorded
from spillcast.lab.storages import plain
from spillcast.recording import Recording
from spillcast.workspace import workspace

QUERY = LabQuery("sort", SORT, 1_000_000, "30MB")


@pytest.fixture(scope="module")
def engine():
    """DuckDB with its table, and a directory for temp files."""
    with workspace() as room:
        made = DuckDbLab(room)
        made.build(QUERY.rows)
        yield made, plain("disk", room / "temp")


@cases("ahead_s", [0.0, 3.0])
@pytest.mark.nightly
def test_times_count_from_the_query(engine, tmp_path, ahead_s):
    ran, written = run_recorded(
        engine[0], QUERY, engine[1], tmp_path / "run.spill", ahead_s=ahead_s
    )
    recording = Recording.open(written.path)
    waits, seconds = recording.temp_waits, recording.seconds
    meta = recording.meta
    ends_s = (waits["start_ns"].to_numpy() + waits["elapsed_ns"].to_numpy()) / 1e9
    assert waits["start_ns"][0] >= 0
    assert 0.1 * ran.elapsed_s < ends_s.max() < ran.elapsed_s + 1
    assert waits.num_rows == meta.temp.operations
    assert max(seconds["second"].to_pylist()) <= ran.elapsed_s + 1
    assert ran.elapsed_s < meta.recorded_s
    assert not ahead_s or meta.recorded_s < ran.elapsed_s + ahead_s
    assert (meta.elapsed_s, meta.ended_by) == (ran.elapsed_s, "end")


def test_a_table_is_made_once(tmp_path):
    lab = DuckDbLab(tmp_path)
    made = []
    for _ in range(2):
        lab.build(10)
        made += [(path, path.stat().st_mtime_ns) for path in tmp_path.glob("*.db")]
    assert len(set(made)) == 1

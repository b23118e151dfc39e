"""An experiment's recording is on the query's clock, however long before the recorder came."""

from cases import cases
from spillcast.engines.duckdb import SORT, DuckDbLab
from spillcast.engines.engine import Workload
from spillcast.lab.run import run_recorded
from spillcast.lab.storages import plain
from spillcast.recording import Recording
from spillcast.workspace import workspace

QUERY = Workload("sort", SORT, 1_000_000, "30MB")


@cases("ahead_s", [0.0, 3.0])
def test_times_count_from_the_query(ahead_s):
    with workspace() as room:
        engine = DuckDbLab(room)
        engine.build(QUERY.rows)
        place = plain("disk", room / "temp")
        ran, written = run_recorded(engine, QUERY, place, room / "run.spill", ahead_s=ahead_s)
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

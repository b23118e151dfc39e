"""DuckDB queries seen for their first part; the full recording shows what really remained."""

import pyarrow as pa
import pytest

from cases import cases
from spillcast.engines import LabQuery
from spillcast.engines.duckdb import HASH_JOIN, WINDOW
from spillcast.engines.registry import lab_of
from spillcast.forecast import forecast
from spillcast.lab.run import run_recorded
from spillcast.lab.storages import named_places
from spillcast.storage.observed import observed
from spillcast_lab.partial_runs import attached

ROWS = 1_000_000
QUERIES = (
    LabQuery("window", WINDOW, ROWS, "18MB"),
    LabQuery("hash join", HASH_JOIN, ROWS, "24MB"),
)


@pytest.fixture(scope="module")
def runs(tmp_path_factory):
    """Recordings of entire runs, which read nearly all that they wrote."""
    room = tmp_path_factory.mktemp("duckdb")
    lab = lab_of("duckdb")(room)
    lab.build(ROWS)
    with named_places(["latency:2ms"], room) as [slow]:
        return [
            run_recorded(lab, query, slow, room / f"{number}.spill")[1]
            for number, query in enumerate(QUERIES)
        ]


def moved(recording, op):
    waits = pa.table(recording.temp_waits)
    return sum(row["bytes"] or 0 for row in waits.to_pylist() if row["op"] == op)


@cases("share", [0.2, 0.4, 0.6, 0.8, 0.95])
def test_the_bounds_contain_what_really_remained(runs, share):
    open_ended = []
    for run in runs:
        part = attached(run, 0.0, share * run.elapsed_s)
        if not part.temp_waits.num_rows:
            continue
        left = forecast(part, observed(run)).to_come
        remained = {op: moved(run, op) - moved(part, op) for op in ("read", "write")}
        # Some blocks are never read.
        near = 0.15 * moved(run, "write")
        assert left.reads_bytes.low <= remained["read"] + near
        assert left.writes_bytes.low <= remained["write"] + near
        open_ended.append(left.open_ended)
        if left.open_ended:
            # The rest runs faster than the part if the machine was busy until then.
            assert left.elapsed_s.low <= 1.5 * (1 - share) * run.elapsed_s
        else:
            assert left.writes_bytes.high >= remained["write"] - near
    # Near the end the last stretch of reads bounds the rest, unless load on the machine moved the
    # cut.
    assert share < 0.9 or not all(open_ended)

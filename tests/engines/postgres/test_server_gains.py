"""What a server's statement would gain, where its counts do not tell how many processes it had."""

import pytest

import statement_files
from cases import cases
from spillcast.engines.postgres.rank import of_rows, rows_of
from spillcast.engines.ranking import RankRequest
from spillcast.evidence.postgres.logs import Logs
from spillcast.fleet.snapshots import Snapshot

CALLS, TEMP_S = 4, 1.92
#: Of one process or of three: 96 % of the elapsed time, or a third of that.
ROW = statement_files.row(
    calls=CALLS, mean_ms=2000.0, temp_ms=1000 * TEMP_S, max_parallel_workers_per_gather=2
)
#: A plan of auto_explain without a parallel node.
PLAN = {
    "Query Text": statement_files.QUERY,
    "Plan": {
        "Node Type": "Sort", "Actual Loops": 1, "Actual Total Time": 2000.0,
        "Temp Read Blocks": 400, "Temp Written Blocks": 800,
    },
    "Execution Time": 2000.0,
}  # fmt: skip


def gain(target, logs=None, **seen):
    row = {name: value for name, value in ROW.items() if name != "parallel_workers_launched"}
    row |= seen
    [item] = of_rows(rows_of(Snapshot(0.0, None, [row])), logs, RankRequest([target]))
    assert item.refused is None
    return item.gains[target]


@cases("factor", [2, 1000])
def test_bounds_of_what_is_saved_are_told_where_those_of_the_time_left_tell_nothing(factor):
    result = gain(f"factor:{factor}")
    least, most = (CALLS * TEMP_S * (1 - 1 / factor) / processes for processes in (3, 1))
    assert result.saved_s == pytest.approx((least + most) / 2, rel=0.01)
    low_s, high_s = result.interval_s
    assert low_s < least
    assert high_s >= most


def test_looks_at_its_sessions_tell_the_processes():
    """Often enough; and never more of them than there were."""
    wide = gain("factor:1000")
    assert gain("factor:1000", looks=3, workers_seen=0) == wide
    alone = gain("factor:1000", looks=40, workers_seen=0)
    assert alone.saved_s == pytest.approx(CALLS * TEMP_S, rel=0.01)
    two = gain("factor:1000", looks=40, workers_seen=1)
    assert two.saved_s == pytest.approx(CALLS * TEMP_S * 0.75, rel=0.01)
    # Faster storage makes nothing slower.
    assert 0 <= wide.interval_s[0] <= two.interval_s[0] < alone.interval_s[0]


def test_a_plan_in_the_log_tells_the_processes():
    result = gain("factor:1000", Logs(plans=[PLAN]))
    assert result.saved_s == pytest.approx(CALLS * TEMP_S, rel=0.01)
    low_s, high_s = result.interval_s
    assert CALLS * TEMP_S * 0.9 < low_s < result.saved_s < high_s <= CALLS * 2.0


@cases("temp_ms", [0.0, 1920.0])
def test_its_temp_io_takes_what_it_takes_on_the_named_storage(temp_ms):
    """1,200 blocks of 1 ms in each call, of which gains are computed as well."""
    row = statement_files.row(calls=CALLS, temp_ms=temp_ms, max_parallel_workers_per_gather=0)
    request = RankRequest(["factor:1000"], "latency:1ms")
    [item] = of_rows(rows_of(Snapshot(0.0, None, [row])), None, request)
    assert item.temp_s == pytest.approx((CALLS * 1.2, CALLS * 1.2))
    assert item.no_spill.saved_s == pytest.approx(CALLS * 1.2)

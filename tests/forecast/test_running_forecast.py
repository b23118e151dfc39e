"""The forecast of a running query: of the whole if its length is known; more certain over time."""

from dataclasses import replace

import pytest

from evidence import known, table
from harness import completed, target
from spillcast.forecast.ask import RunningForecast
from spillcast.forecast.remaining import hints_of
from spillcast.forecast.remaining.progress import progress_of
from spillcast.recording import Recording, live
from spillcast.recording.live import Running
from spillcast.recording.schema import WAITS, seconds_of

ROWS = 600_000


@pytest.fixture(scope="module")
def sorted_by_duckdb(tmp_path_factory):
    """A recording of a whole sort."""
    room = tmp_path_factory.mktemp("sorted")
    (room / "temp").mkdir()
    command = target("duckdb_sort", room / "temp", ROWS)
    completed("record", "-o", room / "run.spill", "--temp", room / "temp", "--", *command)
    return Recording.open(room / "run.spill")


def by_then(recording, share):
    """What a recorder has after a share of the run, with no end recorded."""
    until_s = share * recording.elapsed_s
    made = Running()
    waits = recording.waits
    made.add_waits(waits.filter(waits["start_ns"].values < until_s * 1e9))
    seconds = recording.seconds
    made.add_seconds(seconds.filter(seconds["second"].values < until_s))
    meta = replace(recording.meta, elapsed_s=until_s, recorded_s=until_s, ended_by="interrupt")
    return made.recording(meta)


def starts(waits):
    return waits["start_ns"].to_pylist()


def test_the_forecast_covers_the_whole_run_and_gets_more_certain(sorted_by_duckdb):
    """An earlier run gives the total; here it is the run itself."""
    whole = sorted_by_duckdb
    live = RunningForecast("factor:1", known=hints_of([whole.path]))
    open_s = []
    # On a busy machine the sort may start to spill late.
    begin = min(starts(whole.temp_waits)) / 1e9 / whole.elapsed_s
    for spilled in (0.3, 0.6, 0.85):
        share = begin + spilled * (1 - begin)
        part = by_then(whole, share)
        live.look(lambda part=part: part, last=True)
        assert live.latest.baseline_s == pytest.approx(whole.elapsed_s, rel=0.1)
        assert live.latest.to_come.done_s == pytest.approx(share * whole.elapsed_s)
        left = live.latest.to_come.elapsed_s
        open_s.append(left.high - left.low)
    assert open_s[-1] < open_s[0]
    # On a busy machine a number may be refused, which is then kept as None.
    assert len(live.half_widths) == 3
    live.look(lambda: whole, last=True)
    assert live.latest.to_come is None


def test_a_bounded_number_of_waits_in_memory_gives_the_same_forecast(tmp_path, monkeypatch):
    """4000 blocks are written and 1000 read in 20 s: 2 ms each, with gaps of 2 ms."""
    writes = [("write", n) for n in range(4000)]
    operations = [*writes, *[("read", n) for n in range(1000)]]
    made = [
        (op, block, round((at + 0.5) * 0.004 * 1e9)) for at, (op, block) in enumerate(operations)
    ]
    waits = table(
        [
            {
                "start_ns": start_ns, "elapsed_ns": 2_000_000, "session": 1, "event": f"p{op}64",
                "op": op, "temp": True, "file": "/t/pgsql_tmp7.0", "offset": block * 8192,
                "bytes": 8192,
            }
            for op, block, start_ns in made
        ],
        WAITS,
    )  # fmt: skip
    meta = replace(known(20.0, 1000, 4000), ended_by="interrupt")

    def seen_with(rows_max):
        monkeypatch.setattr(live, "ROWS_MAX", rows_max)
        held = Running()
        for begin in range(0, len(made), 100):
            held.add_waits(waits.take(slice(begin, begin + 100)))
        held.add_seconds(seconds_of(waits))
        result = held.recording(meta)
        return progress_of(result, 1.0)

    seen, fewer = seen_with(10**6), seen_with(1500)
    assert seen.bytes == {"read": 1000 * 8192, "write": 4000 * 8192}
    assert fewer.bytes == seen.bytes
    assert fewer.done_s == seen.done_s
    assert fewer.unread.middle == pytest.approx(3000 * 8192, rel=0.01)
    for op in seen.bytes:
        assert fewer.rates[op].io_s == pytest.approx(0.002 / 8192, rel=0.01)
        assert fewer.rates[op].rest_s == pytest.approx(0.002 / 8192, rel=0.05)

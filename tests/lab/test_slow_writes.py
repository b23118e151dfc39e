"""Fast reads and slow writes make a spill slower: forecast, then measured for real."""

import pytest

from spillcast.engines import LabQuery
from spillcast.engines.duckdb import SORT, DuckDbLab
from spillcast.forecast import forecast
from spillcast.lab.run import run, run_recorded
from spillcast.lab.storages import Emulated, emulated
from spillcast.storage.probe import probe
from spillcast.workspace import workspace

DISK = Emulated("disk", read_s=0.001, write_s=0.0005)
FLASH = Emulated("flash", read_s=0.0002, write_s=0.004)
QUERY = LabQuery("sort", SORT, 2_000_000, "60MB")


@pytest.fixture(scope="module")
def pair():
    """A sort recorded on the disk: the forecast for the flash, and both elapsed times."""
    with workspace() as room:
        engine = DuckDbLab(room)
        engine.build(QUERY.rows)
        with (
            emulated(DISK, room, room) as disk,
            emulated(FLASH, room, room) as flash,
        ):
            source, recording = run_recorded(engine, QUERY, disk, room / "disk.spill")
            answer = forecast(recording, probe(flash.directory, recording))
            target = run(engine, QUERY, flash)
        yield answer, source.elapsed_s, target.elapsed_s


def test_the_forecast_is_slower(pair):
    answer, _, _ = pair
    assert answer.speedup < 1
    reads, writes = (
        [term for term in answer.terms if term.op == op] for op in ("read", "write")
    )  # fmt: skip
    assert sum(t.forecast_s for t in reads) < sum(t.baseline_s for t in reads)
    assert sum(t.forecast_s for t in writes) > sum(t.baseline_s for t in writes)


def test_the_measured_time_is_longer(pair):
    _, source_s, target_s = pair
    assert target_s > source_s

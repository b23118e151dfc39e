"""Fast reads and slow writes make a spill slower: forecast, then measured for real."""

import pytest

from spillcast.engines.duckdb import Query
from spillcast.forecast import forecast
from spillcast.lab.run import run, run_recorded
from spillcast.lab.storages import Emulated, emulated
from spillcast.lab.workloads import SORT, build_table
from spillcast.lab.workspace import workspace
from spillcast.storage.probe import probe

DISK = Emulated("disk", read_s=0.001, write_s=0.0005)
FLASH = Emulated("flash", read_s=0.0002, write_s=0.004)


@pytest.fixture(scope="module")
def pair():
    """A sort recorded on the disk: the forecast for the flash, and both elapsed times."""
    with workspace() as room:
        database = room / "t.db"
        build_table(database, 2_000_000)

        def backing(name):
            (room / name).mkdir()
            return room / name

        with (
            emulated(DISK, room, backing("below-disk")) as disk,
            emulated(FLASH, room, backing("below-flash")) as flash,
        ):

            def query(place):
                return Query(SORT, database, place.directory, "60MB")

            here, recording = run_recorded(query(disk), disk, room / "disk.spill")
            said = forecast(recording, probe(flash.directory, recording))
            there = run(query(flash), flash)
        yield said, here.elapsed_s, there.elapsed_s


def test_the_forecast_says_slower(pair):
    said, _, _ = pair
    assert said.speedup < 1
    reads, writes = (
        [term for term in said.terms if term.op == op] for op in ("read", "write")
    )  # fmt: skip
    assert sum(t.forecast_s for t in reads) < sum(t.baseline_s for t in reads)
    assert sum(t.forecast_s for t in writes) > sum(t.baseline_s for t in writes)


def test_it_is_slower(pair):
    _, here_s, there_s = pair
    assert there_s > here_s

"""What remains to be written while the scan of a table feeds the spill."""

import pytest
from part_recordings import BLOCK, DATA, FILE, SAME, blocks, recorded

from spillcast.forecast import forecast
from spillcast.recording.observed import SizedFile


def test_what_a_scan_feeds_comes_as_fast_as_it_did(tmp_path):
    """A table of 4000 blocks, a quarter of it read, a block written for each two."""
    operations = []
    for n in range(1000):
        operations += [("read", DATA, n)] + [("write", FILE, n // 2)] * (n % 2)
    part = recorded(tmp_path / "part.spill", operations, inputs=[SizedFile(DATA, 4000 * BLOCK)])
    low, centre, _ = blocks(forecast(part, SAME).to_come.writes_bytes)
    assert low < 1500
    assert centre == pytest.approx(1500, rel=0.1)


def test_what_memory_held_when_the_spill_began_may_be_written_first(tmp_path):
    """Of a table of 4000 blocks 800 are read: 600 without a write, 600 beside the last 200.

    At the rate of the last 200 another 9600 follow; at that of all 800, only 2400.
    """
    scan = [("read", DATA, n) for n in range(600)]
    for n in range(200):
        scan += [("write", FILE, 3 * n + m) for m in range(3)] + [("read", DATA, 600 + n)]
    part = recorded(tmp_path / "part.spill", scan, inputs=[SizedFile(DATA, 4000 * BLOCK)])
    low, centre, _ = blocks(forecast(part, SAME).to_come.writes_bytes)
    assert low <= 600 / 800 * 3200
    assert centre == pytest.approx(9600, rel=0.1)

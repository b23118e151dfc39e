"""What remains to be written while the scan of a table feeds the spill."""

import pytest
from part_recordings import BLOCK, DATA, FILE, SAME, blocks, recorded

from spillcast.forecast import forecast
from spillcast.recording.observed import SizedFile


def test_a_scan_continues_to_feed_the_spill_at_its_rate(tmp_path):
    """A table of 4000 blocks, a quarter of it read; one block is written per two blocks read."""
    operations = []
    for n in range(1000):
        operations += [("read", DATA, n)] + [("write", FILE, n // 2)] * (n % 2)
    part = recorded(tmp_path / "part.spill", operations, inputs=[SizedFile(DATA, 4000 * BLOCK)])
    low, centre, _ = blocks(forecast(part, SAME).to_come.writes_bytes)
    assert low < 1500
    assert centre == pytest.approx(1500, rel=0.1)


def test_held_memory_may_have_been_written_at_the_start_of_the_spill(tmp_path):
    """800 blocks of a table of 4000 are read: 600 without a write, 600 written beside the last 200.

    At the rate of the last 200 reads another 9600 writes follow; at the rate of all 800, only 2400.
    """
    scan = [("read", DATA, n) for n in range(600)]
    for n in range(200):
        scan += [("write", FILE, 3 * n + m) for m in range(3)] + [("read", DATA, 600 + n)]
    part = recorded(tmp_path / "part.spill", scan, inputs=[SizedFile(DATA, 4000 * BLOCK)])
    low, centre, _ = blocks(forecast(part, SAME).to_come.writes_bytes)
    assert low <= 600 / 800 * 3200
    assert centre == pytest.approx(9600, rel=0.1)

"""A forecast against a catalogue's row: slow writes are seen, nothing is claimed to be measured."""

import pytest

from evidence import recording
from spillcast.forecast import forecast
from spillcast.storage.catalogue import lookup

K = 1024
M = 1 << 20


def half_width(answer):
    low, high = answer.interval_s
    return (high - low) / 2 / answer.forecast_s


@pytest.fixture
def write_heavy(tmp_path):
    """A spill on the kernel's default disk: 256 KiB at 178.1 MB/s are 1.472 ms sequentially.

    20,000 writes and 2,000 reads, all sequential (offsets 1 MiB apart would not be: 1 MiB sizes).
    """
    write_ns = round(M / 178.1e6 * 1e9)
    read_ns = round(M / 174.0e6 * 1e9)
    loads = [("write", M, 5000, write_ns), ("read", M, 500, read_ns)]
    return recording(tmp_path / "hdd.spill", loads, elapsed_s=40.0)


def test_an_ssd_with_slow_writes_makes_a_write_heavy_spill_slower(write_heavy):
    answer = forecast(write_heavy, lookup("intel-ssdpekka256g7"))
    # The drive writes 115.5 to 119.7 MB/s: 5,000 MiB take 44 to 45.5 s instead of 29.4 s.
    assert answer.speedup < 1
    write = next(term for term in answer.terms if term.op == "write")
    assert 43 < write.forecast_s < 47
    back = forecast(write_heavy, lookup("linux-hdd"))
    assert back.forecast_s == pytest.approx(40.0, rel=0.02)


def test_it_says_that_nothing_was_measured_and_how_far_it_may_be_off(write_heavy):
    answer = forecast(write_heavy, lookup("intel-ssdpekka256g7"))
    (warning,) = [w for w in answer.warnings if w.code == "not-measured"]
    assert "nothing was measured" in warning.message
    assert "iocost" in warning.message
    assert half_width(answer) > 0.15

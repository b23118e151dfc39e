"""Impossible sizes in damaged trace lines count as unknown sizes."""

from cases import cases
from harness import completed
from oracle_files import READ, blocks, write_trace

GOOD = [(READ, 900, blocks(31))] * 40
#: More than 32 bits hold, and a negative size.
IMPOSSIBLE = [(1 << 63) - 1, 1 << 33, -1]


@cases("count", IMPOSSIBLE)
@cases("target", ["catalogue:linux-hdd", "latency:5us", "there"])
def test_a_forecast_uses_the_undamaged_lines(tmp_path, count, target):
    (tmp_path / "there").mkdir()
    trace = write_trace(tmp_path / "a.trc", [*GOOD, (READ, 900, blocks(count))])
    result = completed("forecast", trace, "--to", target, "--block", "8K", cwd=tmp_path)
    assert "of this query" in result.stdout


@cases("count", IMPOSSIBLE)
def test_a_cache_and_a_probe_skip_damaged_lines(tmp_path, count):
    trace = write_trace(tmp_path / "a.trc", [*GOOD, (READ, 900, blocks(count))])
    result = completed("cache", trace, "--size", "1G")
    assert "1 operation without file and offset" in result.stdout
    completed("probe", tmp_path, "--like", trace)

"""A forecast for a cache in front of a disk: shares of flash and disk, by arithmetic."""

import pytest

from cases import cases
from evidence import recording, storage
from spillcast.errors import InputError
from spillcast.forecast import forecast
from spillcast.storage.target import resolve

SIZE = 256 << 10
FLASH = {("read", SIZE): 100_000, ("write", SIZE): 200_000}
DISK = {("read", SIZE): 9_000_000, ("write", SIZE): 4_000_000}
#: The rest of 10 s, which no storage changes.
REST_S = 10 - 400 * 0.005 - 400 * 0.002


@pytest.fixture
def run(tmp_path, monkeypatch):
    """400 writes, then reads elsewhere in the same file, so that none hits written data."""
    monkeypatch.chdir(tmp_path)
    storage(FLASH, name="flash").save(tmp_path / "flash.json")
    storage(DISK, name="disk").save(tmp_path / "disk.json")
    loads = [("write", SIZE, 400, 5_000_000), ("read", SIZE, 400, 2_000_000)]
    return recording(tmp_path / "run.spill", loads, elapsed_s=10.0, cpu_s=6.0)


def test_a_cache_that_holds_everything_has_the_latency_of_flash(run):
    target = resolve("cache:flash.json+disk.json?size=2T", run)
    answer = forecast(run, target)
    assert answer.forecast_s == pytest.approx(REST_S + 400 * (0.0001 + 0.0002), rel=0.001)
    assert target.facts["read_share_from_flash"] == 1.0


@cases("size", ["128M", "128M&policy=keep", "128M&policy=s3fifo", "2T&policy=bypass"])
def test_data_not_written_before_or_not_cached_is_read_from_the_disk(run, size):
    target = resolve(f"cache:flash.json+disk.json?size={size}", run)
    assert target.facts["read_share_from_flash"] == 0.0
    answer = forecast(run, target)
    reads = [term for term in answer.terms if term.op == "read"]
    assert sum(t.forecast_s for t in reads) == pytest.approx(400 * 0.009, rel=0.001)


@cases(
    "text",
    [
        "cache:flash.json?size=2T",
        "cache:flash.json+disk.json",
        "cache:flash.json+disk.json?size=0",
        "cache:flash.json+disk.json?size=1G&policy=mru",
        "cache:flash.json+disk.json?size=1G&colour=red",
        "cache:flash.json+nope.json?size=2T",
    ],
)
def test_an_invalid_cache_is_refused(run, text):
    with pytest.raises(InputError) as refused:
        resolve(text, run)
    # Not an option of another command.
    assert str(refused.value).startswith("--to cache:")

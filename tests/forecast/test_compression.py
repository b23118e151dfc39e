"""Blocks that DuckDB compresses where writes are slow: how many elsewhere, at what CPU time."""

import sys
import tempfile
from pathlib import Path

import duckdb
import pytest

from emulator import Emulator, skip_without_fuse
from evidence import CAPTURE, seconds, storage, table
from harness import spillcast
from spillcast.forecast import forecast
from spillcast.forecast.compression import compression
from spillcast.forecast.latency import latencies
from spillcast.forecast.load import temp_load
from spillcast.recording import Recording
from spillcast.recording.schema import WAITS_SCHEMA
from spillcast.recording.writer import RecordingWriter

US, MS = 1_000, 1_000_000
WHOLE, SMALL = 262_144, 131_072
#: CPU time before a write of a block as it is, and of a compressed one; and after a read of each.
WRITE_NS, WRITE_SMALL_NS, READ_NS, READ_SMALL_NS = 100 * US, 500 * US, 50 * US, 250 * US
BLOCKS = 1000
ATTEMPTS = 4


def spill(path, share, latency_ns, *, file="duckdb_temp_7_0_storage_{}-0.tmp"):
    """Blocks written and then read by one thread, so many of them compressed."""
    small = round(BLOCKS * share)
    writer, rows, now_ns, cpu_ns = RecordingWriter(path), [], 0, 0
    for op in ("write", "read"):
        for number in range(BLOCKS):
            size = SMALL if number * small // BLOCKS < (number + 1) * small // BLOCKS else WHOLE
            if op == "write":
                cpu_ns += WRITE_SMALL_NS if size == SMALL else WRITE_NS
            now_ns += cpu_ns
            rows.append(
                {
                    "start_ns": now_ns, "elapsed_ns": latency_ns, "session": 1, "op": op,
                    "event": f"p{op}64", "temp": True, "bytes": size, "cpu_before_ns": cpu_ns,
                    "file": "/t/" + file.format("S128K" if size == SMALL else "DEFAULT"),
                }
            )  # fmt: skip
            now_ns += latency_ns
            cpu_ns = 0
            if op == "read":
                cpu_ns = READ_SMALL_NS if size == SMALL else READ_NS
    counts = {SMALL: small, WHOLE: BLOCKS - small}
    parts = [(op, size, n, latency_ns) for op in ("write", "read") for size, n in counts.items()]
    writer.add_waits(table(rows, WAITS_SCHEMA))
    writer.add_seconds(seconds(parts, 1))
    meta = {
        "elapsed_s": now_ns / 1e9,
        "cpu_s": sum(row["cpu_before_ns"] for row in rows) / 1e9,
        "machine": {},
        "temp": {"reads": BLOCKS, "writes": BLOCKS},
        "capture": CAPTURE,
    }
    return writer.finish(meta)


def there(latency_ns):
    return storage({(op, size): latency_ns for op in ("write", "read") for size in (SMALL, WHOLE)})


def test_what_compressing_costs_is_read_off_the_recording(tmp_path):
    run = spill(tmp_path / "run.spill", 0.5, 80 * US)
    found = compression(run, temp_load(run))
    assert found.share == 0.5
    assert found.write_cpu_s == pytest.approx((WRITE_SMALL_NS - WRITE_NS) / 1e9)
    assert found.read_cpu_s == pytest.approx((READ_SMALL_NS - READ_NS) / 1e9, rel=0.01)


@pytest.mark.parametrize(
    ("here_ns", "share", "there_ns", "expected"),
    [
        # Compressing takes 400 us: it is worth it where a write takes longer than that.
        (80 * US, 0.5, 390 * US, 0.5),
        (80 * US, 0.5, 410 * US, 0.625),
        (80 * US, 0.4, 2 * MS, 0.5),
        (2 * MS, 0.625, 80 * US, 0.5),
        (2 * MS, 0.7, 5 * MS, 0.7),
    ],
)
def test_the_rule(tmp_path, here_ns, share, there_ns, expected):
    """Half is tried where compressing is not worth it, half to three quarters where it is."""
    run = spill(tmp_path / "run.spill", share, here_ns)
    loads = temp_load(run)
    adapts, found = compression(run, loads), latencies(there(there_ns), loads, 1.0)
    assert adapts.share_there(found) == pytest.approx(expected, rel=0.01)
    more = BLOCKS * (expected - share)
    counts = {(load.op, load.size_class_bytes): load.count for load in adapts.loads_there(found)}
    for op in ("write", "read"):
        assert counts[op, SMALL] == pytest.approx(BLOCKS * expected, abs=2)
        assert counts[op, WHOLE] == pytest.approx(BLOCKS * (1 - expected), abs=2)
    each_s = (WRITE_SMALL_NS - WRITE_NS + READ_SMALL_NS - READ_NS) / 1e9
    assert adapts.cpu_s(found) == pytest.approx(more * each_s, abs=0.002)


def test_the_forecast_holds_fewer_and_says_so(tmp_path):
    run = spill(tmp_path / "run.spill", 0.625, 2 * MS)
    said = forecast(run, there(80 * US))
    each_s = (WRITE_SMALL_NS - WRITE_NS + READ_SMALL_NS - READ_NS) / 1e9
    by_hand_s = run.meta["cpu_s"] - 0.125 * BLOCKS * each_s + 2 * BLOCKS * 80e-6
    assert said.forecast_s == pytest.approx(by_hand_s, rel=0.01)
    (words,) = (w.message for w in said.warnings if w.code == "compression")
    assert "compress less" in words
    assert "50%" in words
    assert "62%" in words


def test_what_is_not_duckdb_or_shows_one_kind_is_left_alone(tmp_path):
    other = spill(tmp_path / "other.spill", 0.5, MS, file="base/pgsql_tmp/pgsql_tmp7.0")
    assert compression(other, temp_load(other)) is None
    whole = spill(tmp_path / "whole.spill", 0.01, MS)
    assert compression(whole, temp_load(whole)) is None


QUERY = """
import sys, duckdb
db = duckdb.connect(config={"threads": 1, "memory_limit": "100MB", "temp_directory": sys.argv[1]})
db.execute(
    "select sum(hash(h, v, n)) from (select v, h, row_number() over (order by h) n from "
    "(select range v, hash(range)::varchar h from range(1500000)))"
).fetchall()
"""


def compressed_share(places, directory):
    output = places.root / f"{directory.name}.spill"
    command = [sys.executable, "-c", QUERY, str(directory)]
    result = spillcast("record", "-o", output, "--temp", directory, "--", *command, env=places.env)
    assert result.returncode == 0, result.stderr
    run = Recording.open(output)
    return compression(run, temp_load(run)).share


def test_a_real_duckdb_compresses_half_of_its_blocks_at_least_and_more_on_slow_storage(
    places, tmp_path
):
    skip_without_fuse()
    assert duckdb.__version__ >= "1.2"
    with Emulator(tmp_path, "--read", "200us", "--write", "3ms").ready() as emulator:
        # On a machine whose memory is kept busy by others, writing there is slow, too.
        for _ in range(ATTEMPTS):
            with tempfile.TemporaryDirectory(dir="/dev/shm") as memory:
                fast = compressed_share(places, Path(memory))
            slow = compressed_share(places, emulator.mountpoint)
            # Some blocks are no smaller when compressed.
            if 0.4 < fast < 0.6 and 0.5 < slow < 0.8 and slow > fast:
                return
    pytest.fail(f"{fast:.0%} of the blocks in memory, {slow:.0%} on slow storage")

"""Storage with stated limits and catalogue rows: operations wait for the saturated limit."""

from dataclasses import replace

import pytest

from cases import cases
from evidence import recording, storage, warned
from spillcast.evidence.counts import PROFILE, Counts, OpCounts
from spillcast.forecast import forecast
from spillcast.storage import Limit, Storage
from spillcast.storage.catalogue import lookup
from spillcast.storage.source import PROBE
from spillcast.storage.storage import bytes_limit, operations_limit

K = 1024
M = 1 << 20
MS = 1_000_000


def limited(latencies, *limits, **more):
    bare = storage(latencies)
    return Storage("rented", PROBE, bare.groups, bare.facts, list(limits), **more)


@pytest.fixture
def baseline(tmp_path):
    """10 s: 5 s of 1,000 random reads of 8 KiB, 2 s of 500 sequential writes of 1 MiB."""
    loads = [("read", 8 * K, 1000, 5 * MS), ("write", M, 500, 4 * MS)]
    return recording(tmp_path / "r.spill", loads, elapsed_s=10.0)


LATENCY = {("read", 8 * K): MS, ("write", M): MS}


#: The cost of an operation exceeds its latency: 2 ms a read, 1 ms a write and 1 ms per MiB.
DEVICE = Limit(
    "device", read_random_ns=2 * MS, write_sequential_ns=MS, write_ns_per_byte=MS / M,
    write_random_ns=50 * MS, read_sequential_ns=9,
)  # fmt: skip


@cases(
    ("limits", "waits_s", "is_limited"),
    [
        # An operation waits for its own cost before its latency.
        ([DEVICE], 1000 * 0.003 + 500 * 0.003, False),
        # With two limits it waits for the longer one.
        (
            [operations_limit(500), bytes_limit("throughput", 250 * M)],
            1000 * 0.003 + 500 * (0.004 + 0.001),
            False,
        ),
        # 1,500 operations at 100 a second take 15 s, of which a burst of 600 saves 6.
        ([operations_limit(100, burst=600)], 9, True),
        # A burst that covers everything costs nothing.
        ([operations_limit(100, burst=1500)], 1.5, False),
        # A read is one operation, a write of 1 MiB four: 3,000 operations, four at once.
        ([replace(operations_limit(500, burst=4), operation_bytes=256 * K)], 6, True),
    ],
)
def test_operations_wait_for_limits(baseline, limits, waits_s, is_limited):
    """3 s stay. The first operation on a file has no predecessor, so its pattern is not known."""
    answer = forecast(baseline, limited(LATENCY, *limits))
    assert answer.forecast_s == pytest.approx(3 + waits_s, rel=1e-3)
    assert ("limit" in warned(answer)) == is_limited


def test_threads_share_a_server(tmp_path):
    # Two parallel threads wait half as long, unless one server serves them in turn.
    loads = [("read", M, 1000, 5 * MS)]
    baseline = recording(tmp_path / "r.spill", loads, elapsed_s=10.0, sessions=2)
    shared = {("read", M): 2 * MS}
    both = forecast(baseline, limited(shared)).forecast_s
    item = forecast(baseline, limited(shared, servers=1)).forecast_s
    assert item - both == pytest.approx(2.0, rel=0.01)


@pytest.fixture
def write_heavy(tmp_path):
    """A spill on the kernel's default disk: 256 KiB at 178.1 MB/s take 1.472 ms sequentially.

    20,000 writes and 2,000 reads, all sequential (offsets 1 MiB apart need sizes of 1 MiB).
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


def test_a_row_of_the_catalogue_warns_of_its_error(write_heavy):
    answer = forecast(write_heavy, lookup("intel-ssdpekka256g7"))
    (warning,) = [w for w in answer.warnings if w.code == "not-measured"]
    assert "nothing was measured" in warning.message
    assert "iocost" in warning.message
    assert answer.half_width > 0.15


@cases("processes", [0.4, 1.4, 1.6, 2.0])
@cases(("other_s", "latency_us"), [(0, 1), (2, 20), (2, 100), (4, 200), (9, 100)])
def test_any_mean_number_of_processes_shares_the_throughput_of_a_storage(
    processes, other_s, latency_us
):
    """50,000 operations of 8 KiB: 100 MiB/s serve 12,800 of them a second.

    Each process needs ``other_s`` and the latency of its share of the operations.
    """
    half = OpCounts(25_000, 25_000 * 8 * K, round(processes * 5e9))
    counts = Counts(
        elapsed_s=10.0 + other_s, reads=half, writes=half, source=PROFILE, processes=processes
    )
    answer = forecast(counts, f"limits:iops=100000,throughput=100MiB/s,latency={latency_us}us")
    alone_s = other_s + 50_000 * latency_us / 1e6 / processes
    assert answer.forecast_s == pytest.approx(max(50_000 / 12_800, alone_s), rel=0.03)


@cases(
    ("target", "least_s"),
    [
        ("limits:throughput=100MiB/s,latency=1us", 50_000 / 12_800 - 0.1),
        ("limits:iops=20000,latency=1us", 50_000 / 20_000 - 0.1),
        ("limits:iops=9000,throughput=100MiB/s,latency=5us", 50_000 / 9_000 - 0.1),
    ],
)
def test_an_interval_begins_where_the_stated_limits_admit_the_io(target, least_s):
    """50,000 operations of 8 KiB; a limit admits a tenth of a second of its rate at once."""
    half = OpCounts(25_000, 25_000 * 8 * K, 5_000_000_000)
    counts = Counts(elapsed_s=10.0, reads=half, writes=half, source=PROFILE)
    answer = forecast(counts, target)
    assert answer.interval_s[0] == pytest.approx(least_s)
    assert answer.interval_s[0] <= answer.forecast_s <= answer.interval_s[1]


def test_an_interval_of_an_assumed_latency_has_no_such_beginning():
    half = OpCounts(25_000, 25_000 * 8 * K, 5_000_000_000)
    counts = Counts(elapsed_s=10.0, reads=half, writes=half, source=PROFILE)
    answer = forecast(counts, "limits:throughput=100GiB/s,latency=100us")
    assert 50_000 * 8 * K / (100 << 30) < answer.interval_s[0] < answer.forecast_s < 5.1

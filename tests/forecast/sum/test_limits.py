"""Storage that states limits: operations wait for their cost, the run for what is saturated."""

from dataclasses import replace

import pytest

from evidence import recording, storage
from spillcast.forecast import forecast
from spillcast.storage import Limit, Storage
from spillcast.storage.source import PROBE
from spillcast.storage.storage import bytes_limit, operations_limit

K = 1024
M = 1 << 20
MS = 1_000_000


def codes(answer):
    return [warning.code for warning in answer.warnings]


def limited(latencies, *limits, **more):
    bare = storage(latencies)
    return Storage("rented", PROBE, bare.groups, bare.facts, list(limits), **more)


@pytest.fixture
def baseline(tmp_path):
    """10 s: 5 s of 1,000 random reads of 8 KiB, 2 s of 500 sequential writes of 1 MiB."""
    loads = [("read", 8 * K, 1000, 5 * MS), ("write", M, 500, 4 * MS)]
    return recording(tmp_path / "r.spill", loads, elapsed_s=10.0)


LATENCY = {("read", 8 * K): MS, ("write", M): MS}


def test_an_operation_waits_for_its_own_cost_before_its_latency(baseline):
    # 3 s stay; a read takes 2 + 1 ms, a write 1 + 1 ms and 1 ms for a MiB at 1 ns a byte.
    device = Limit(
        "device", read_random_ns=2 * MS, write_sequential_ns=MS, write_ns_per_byte=MS / M,
        write_random_ns=50 * MS, read_sequential_ns=9,
    )  # fmt: skip
    answer = forecast(baseline, limited(LATENCY, device))
    # The first operation on a file follows nothing that it could be told from.
    assert answer.forecast_s == pytest.approx(3 + 1000 * 0.003 + 500 * 0.003, rel=1e-3)
    assert "limit" not in codes(answer)


def test_of_two_limits_an_operation_waits_for_the_longer(baseline):
    limits = operations_limit("iops", 500), bytes_limit("throughput", 250 * M)
    answer = forecast(baseline, limited(LATENCY, *limits))
    assert answer.forecast_s == pytest.approx(3 + 1000 * 0.003 + 500 * (0.004 + 0.001))


def test_a_burst_lets_operations_go_until_it_is_used_up(baseline):
    # 1,500 operations at 100 a second take 15 s, of which a burst of 600 saves 6.
    volume = operations_limit("iops", 100, burst=600)
    answer = forecast(baseline, limited(LATENCY, volume))
    assert answer.forecast_s == pytest.approx(3 + 9, rel=1e-3)
    assert "limit" in codes(answer)


def test_a_burst_that_holds_everything_costs_nothing(baseline):
    answer = forecast(baseline, limited(LATENCY, operations_limit("iops", 100, burst=1500)))
    assert answer.forecast_s == pytest.approx(3 + 1.5)


def test_a_large_operation_counts_as_several(baseline):
    # Reads are one operation each, writes of 1 MiB are four: 3,000 at 500 a second, four at once.
    volume = replace(operations_limit("iops", 500, burst=4), operation_bytes=256 * K)
    answer = forecast(baseline, limited(LATENCY, volume))
    assert answer.forecast_s == pytest.approx(3 + 6, rel=2e-3)


def test_threads_share_a_server(tmp_path):
    # Two threads: at once they wait half as long, unless one server serves them in turn.
    loads = [("read", M, 1000, 5 * MS)]
    baseline = recording(tmp_path / "r.spill", loads, elapsed_s=10.0, sessions=2)
    shared = {("read", M): 2 * MS}
    both = forecast(baseline, limited(shared)).forecast_s
    item = forecast(baseline, limited(shared, servers=1)).forecast_s
    assert item - both == pytest.approx(2.0, rel=0.01)

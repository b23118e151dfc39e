"""Which limit binds, by arithmetic: operations wait for the longer of two limits and a latency."""

from dataclasses import replace

import pytest

from cases import cases
from evidence import storage
from spillcast.forecast.binding import LATENCY, MEMORY, QUEUE, Binding, BindingWait, binding_of
from spillcast.storage import Limit

OPERATIONS, SIZE = 1000, 1 << 20


def limited(seconds_of):
    """A storage on which each limit alone lets OPERATIONS of SIZE take the given time."""
    ns = {name: s / OPERATIONS * 1e9 for name, s in seconds_of.items()}
    limits = [
        Limit(name, read_ns_per_byte=ns[name] / SIZE)
        if name == "throughput"
        else Limit(name, read_random_ns=ns[name])
        for name in ns
    ]
    return replace(storage({("read", SIZE): 1_000_000}), limits=limits, servers=2)


def simple(latency_s, memory_s=0.0, queue_s=0.0):
    """The time of a query whose operations wait for the slowest limit and then for the rest."""

    def outcome_on(target):
        reads_s = {
            limit.name: OPERATIONS * (limit.read_random_ns + SIZE * limit.read_ns_per_byte) / 1e9
            for limit in target.limits
        }
        slowest = max(reads_s, key=reads_s.get)
        times_s = {
            slowest: reads_s[slowest],
            LATENCY: latency_s * target.groups[0].total_ns / target.groups[0].count / 1e6,
            QUEUE: queue_s * 2 / target.servers,
            MEMORY: memory_s,
        }
        causes_s = {cause: s for cause, s in times_s.items() if s}
        return sum(causes_s.values()), causes_s

    return outcome_on


@cases(
    ("limits_s", "others_s", "bound_by", "saved_s"),
    [
        # Twice the IOPS saves half of 100 s, half the latency saves 1 s of 2 s.
        ({"iops": 100.0, "throughput": 20.0}, {"latency_s": 2.0}, ["iops"], 50.0),
        ({"iops": 20.0, "throughput": 100.0}, {"latency_s": 2.0}, ["throughput"], 50.0),
        ({"iops": 10.0, "throughput": 1.0}, {"latency_s": 80.0}, ["latency"], 40.0),
        ({"iops": 10.0, "throughput": 1.0}, {"latency_s": 1.0, "queue_s": 60.0}, ["queue"], 30.0),
        # Raising one alone saves nothing, or 5 s of the 50 s that raising both saves.
        ({"iops": 100.0, "throughput": 100.0}, {"latency_s": 2.0}, ["iops", "throughput"], 50.0),
        ({"iops": 100.0, "throughput": 95.0}, {"latency_s": 2.0}, ["iops", "throughput"], 50.0),
        # Raised alone, it saves 30 s of the 50 s.
        ({"iops": 100.0, "throughput": 70.0}, {"latency_s": 2.0}, ["iops"], 30.0),
        # A limit that no operation waits for is not worth raising, in a short run either.
        (
            {"device time": 1e-6, "iops": 0.1, "throughput": 0.099},
            {"latency_s": 0.002},
            ["iops", "throughput"],
            0.05,
        ),
        # Both together save less than half the latency does, or little where memory answers.
        ({"iops": 30.0, "throughput": 30.0}, {"latency_s": 80.0}, ["latency"], 40.0),
        ({"iops": 4.0, "throughput": 4.0}, {"latency_s": 0.0, "memory_s": 96.0}, [], 0.0),
        ({"iops": 0.2, "throughput": 0.0}, {"latency_s": 0.1, "memory_s": 99.7}, [], 0.1),
    ],
)
def test_the_binding_causes_are_those_whose_doubling_saves_most(
    limits_s, others_s, bound_by, saved_s
):
    binding = binding_of(limited(limits_s), simple(**others_s))
    assert list(binding.bound_by) == bound_by
    assert binding.saved_s == pytest.approx(saved_s)
    longest_s = max(limits_s.values())
    assert sum(wait.elapsed_s for wait in binding.waits) == pytest.approx(
        longest_s + sum(others_s.values())
    )


def test_each_limit_states_its_rate_in_its_unit():
    limits_s = {"iops": 0.5, "throughput": 0.25}
    for slowest in limits_s:
        target = limited({**limits_s, slowest: 2.0})
        [wait] = [w for w in binding_of(target, simple(0.1)).waits if w.cause == slowest]
        rates = {"iops": (500.0, None), "throughput": (None, 500.0 * SIZE)}
        assert (wait.operations_per_s, wait.bytes_per_s) == rates[slowest]


def test_the_sentence_names_what_binds_and_what_other_limits_save():
    waits = [
        BindingWait(cause="iops", elapsed_s=9.0, operations_per_s=3000.0, saved_s=4.0),
        BindingWait(cause="throughput", elapsed_s=1.0, bytes_per_s=125.0 * SIZE, saved_s=0.01),
        BindingWait(cause="burst credits", elapsed_s=1.0, operations_per_s=100.0, saved_s=1.0),
        BindingWait(cause=LATENCY, elapsed_s=1.0, saved_s=0.5),
        BindingWait(cause=MEMORY, elapsed_s=1.0),
    ]
    both = Binding(bound_by=["iops"], saved_s=4.0, waits=waits)
    bound, others = both.text.partition("saves")[::2]
    assert "+3,000 IOPS" in bound
    assert others.strip().split(", ") == ["4 s", "+125 MiB/s nothing", "+100 IOPS 1 s"]
    # Burst credits that save nothing are not suggested.
    waits[2] = replace(waits[2], saved_s=0.0)
    assert "100 IOPS" not in replace(both, waits=waits).text
    pair = replace(both, bound_by=["iops", "throughput"], saved_s=5.0).text
    assert "+3,000 IOPS and +125 MiB/s together save 5 s" in pair
    assert "IOPS" not in replace(both, bound_by=[], saved_s=0.0).text
    # A limit of both operations and bytes has no single rate.
    mixed = BindingWait(cause="disk credits", elapsed_s=1.0, saved_s=1.0)
    assert "disk credits" in replace(both, bound_by=["disk credits"], waits=[mixed]).text

"""Every policy has the hits and misses of a slow and obvious implementation."""

import pytest
from hypothesis import given
from hypothesis import strategies as st
from slow_policies import POLICIES, Keep, stack_distances

from io_made_up import access, all_hits, hits, of_keys, requests

KEYS = st.lists(st.integers(0, 30), max_size=300)


@pytest.mark.parametrize("policy", POLICIES)
@given(KEYS, st.integers(1, 25))
def test_a_policy_hits_like_its_slow_version(policy, keys, lines):
    slow = POLICIES[policy](lines)
    expected = sum(slow.access(key) for key in keys)
    assert all_hits(of_keys(keys).simulate(policy, lines)) == expected


@pytest.mark.parametrize("policy", POLICIES)
@given(KEYS, st.integers(1, 25))
def test_a_second_run_starts_with_the_cache_of_the_first(policy, keys, lines):
    slow = POLICIES[policy](lines)
    expected = [sum(slow.access(key) for key in keys) for _ in range(2)]
    outcome = of_keys(keys).simulate(policy, lines, runs=2)
    assert [all_hits(outcome, run) for run in range(2)] == expected


@pytest.mark.parametrize("policy", ["lru", "fifo", "sieve", "s3fifo"])
@given(st.lists(st.tuples(st.integers(0, 20), st.booleans()), max_size=300), st.integers(1, 15))
def test_lines_overwritten_on_the_disk_are_removed(policy, uses, lines):
    slow, expected = POLICIES[policy](lines), 0
    for key, write in uses:
        if write:
            slow.discard(key)
        else:
            expected += slow.access(key)
    rows = [access(key, cls="temp write" if write else "temp read") for key, write in uses]
    assert all_hits(requests(rows).simulate(policy, lines)) == expected


@given(st.lists(st.tuples(st.integers(0, 20), st.booleans()), max_size=300), st.integers(1, 15))
def test_arc_never_exceeds_its_size(uses, lines):
    rows = [access(key, cls="temp write" if write else "temp read") for key, write in uses]
    assert sum(requests(rows).simulate("arc", lines)["cached_lines"]) <= lines


@st.composite
def accesses(draw):
    rows, time_s = [], 0
    for _ in range(draw(st.integers(0, 150))):
        time_s += draw(st.sampled_from([0, 1, 40, 100]))
        cls = draw(st.sampled_from(["scan", "read", "temp write", "temp read"]))
        temp = cls.startswith("temp")
        key = draw(st.integers(0, 9)) + (100 if temp else 0)
        ends = temp and draw(st.booleans())
        rows.append(access(key, time_s, 9 if temp else key % 3, key % 2, cls, ends))
    return rows


@given(accesses(), st.integers(1, 12), st.sampled_from([0.0, 0.25, 0.5, 1.0]))
def test_keep_follows_the_rules_of_exadata(rows, lines, temp_share):
    slow = Keep(lines, kept=(1,), temp_share=temp_share, unread_s=90)
    expected = {}
    for row in rows:
        hit = slow.access(row)
        # A write is not a hit, and always goes to the cache if that has its line or free space.
        counted = hit and row.cls != "temp write"
        key = row.object, row.cls
        expected[key] = expected.get(key, 0) + counted
    requested = {"kept": [1], "temp_share": temp_share, "unread_s": 90, "temp_writes": True}
    assert hits(requests(rows).simulate("keep", lines, **requested)) == expected


@given(KEYS)
def test_the_curve_equals_lru_at_every_size(keys):
    curve = of_keys([*keys, 31]).curve()
    sizes = [1, 2, 3, 5, 8, 13, 21, 40]
    simulated = [all_hits(of_keys([*keys, 31]).simulate("lru", size)) for size in sizes]
    ratios = curve.miss_ratios(sizes)
    assert ratios == pytest.approx([1 - n / (len(keys) + 1) for n in simulated])
    distances = [d for d in stack_distances([*keys, 31]) if d is not None]
    expected = [1 - sum(d < size for d in distances) / (len(keys) + 1) for size in sizes]
    assert ratios == pytest.approx(expected)
    assert curve.lines == len({*keys, 31})


def test_the_curve_of_many_lines_equals_lru():
    """Enough lines that times are renumbered more than once."""
    keys = [(i * i * 7919) % 20011 for i in range(150_000)]
    requests_ = of_keys(keys)
    curve = requests_.curve()
    for size in (1, 100, 5000, 9000, 20011):
        expected = 1 - all_hits(requests_.simulate("lru", size)) / len(keys)
        assert curve.miss_ratios([size]) == pytest.approx([expected])


def test_temp_data_is_removed_when_its_query_ends():
    spill = [access(k, cls="temp write", query=1) for k in range(4)]
    back = [access(k, cls="temp read", query=1, ends_query=k == 3) for k in range(4)]
    again = [access(k, cls="temp read", query=2) for k in range(4)]
    outcome = requests([*spill, *back, *again]).simulate("keep", 10, temp_writes=True)
    assert hits(outcome)[0, "temp read"] == 4
    assert outcome["cached_lines"] == []


def test_only_evicted_dirty_lines_are_written_back():
    spill = [access(k, cls="temp write") for k in range(10)]
    outcome = requests(spill).simulate("lru", 4, temp_writes=True)
    assert outcome["runs"][0]["lines_written_back"] == 6
    assert requests(spill).simulate("lru", 4)["runs"][0]["lines_written_back"] == 0


def test_without_temp_writes_a_spill_goes_to_the_disk():
    spill = [access(k, cls="temp write") for k in range(10)]
    back = [access(k, cls="temp read") for k in range(10)]
    outcome = requests([*spill, *back]).simulate("lru", 20)
    writes, reads = sorted(outcome["runs"][0]["accounts"], key=lambda a: a["class"] != "temp write")
    assert writes["disk_write_bytes"] == writes["bytes"]
    assert writes["flash_write_bytes"] == 0
    assert reads["hits"] == 0
    assert reads["flash_write_bytes"] == reads["bytes"]


def test_a_scan_evicts_lines_of_others_and_bypass_does_not():
    """Ten lines are used repeatedly, with a scan of a hundred between."""
    once = [access(k) for k in range(10)]
    scan = [access(100 + k, object_=1, cls="scan") for k in range(100)]
    rows = requests([*once, *scan, *once])
    polluted = rows.simulate("lru", 10, alone=True)["runs"][0]["accounts"]
    of_read = next(a for a in polluted if a["class"] == "read")
    assert (of_read["hits"], of_read["alone_hits"]) == (0, 10)
    bypassed = rows.simulate("bypass", 10, alone=True)["runs"][0]["accounts"]
    assert next(a for a in bypassed if a["class"] == "read")["hits"] == 10

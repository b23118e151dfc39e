"""What a probe left open is a warning, by the facts that it kept."""

import pytest

from spillcast.forecast.warnings import probe_warnings, size_warnings
from spillcast.forecast.workload.load import Load

#: 1,000 reads of 1 MB in all.
LOADS = [Load("read", 1024, 1000, 1_000_000, 1.0)]


def codes(facts):
    return [warning.code for warning in probe_warnings(facts, LOADS)]


@pytest.mark.parametrize(
    ("facts", "expected"),
    [
        ({}, []),
        ({"steps_from": "counts", "steps_replayed": 500}, ["synthetic-io"]),
        ({"steps_replayed": 10, "steps_skipped": 30}, ["budget"]),
        # Where nothing was replayed, nothing was disturbed.
        ({"steps_replayed": 10, "others_cpu_share": 0.9}, ["disturbed"]),
        ({"others_cpu_share": 0.9}, []),
        ({"prefilled_bytes": 99_000}, []),
        ({"prefilled_bytes": 101_000}, ["prefilled"]),
        ({"byte_share": 0.5, "working_set_bytes": 3 << 30}, ["byte-budget"]),
        ({"memory_bound_reason": "no rights", "page_cache_bytes": None}, ["page-cache"]),
        ({"network": True, "filesystem": "nfs"}, ["network"]),
        ({"network": True, "filesystem": None}, ["network"]),
        # A document may hold null for a fact that is not known.
        (dict.fromkeys(("steps_replayed", "steps_skipped", "prefilled_bytes", "byte_share")), []),
    ],
)
def test_each_fact_has_its_warning(facts, expected):
    assert codes(facts) == expected


def test_a_trace_has_no_counts_to_compare_a_probe_of_counts_with():
    [made_up] = probe_warnings({"steps_from": "counts", "steps_replayed": 500})
    assert made_up.code == "synthetic-io"


def test_a_share_of_the_steps_and_the_budget_for_all_are_named():
    [skipped] = probe_warnings({"steps_replayed": 10, "steps_skipped": 30})
    assert "25%" in skipped.message
    facts = {"byte_share": 0.5, "working_set_bytes": (3 << 30) - 1, "memory_bound": True}
    [budget] = probe_warnings(facts)
    assert "--budget 3G" in budget.message
    assert "not tested" not in budget.message


def test_sizes_beyond_and_between_the_measured_ones():
    assert [warned.code for warned in size_warnings("its", 0.0, 0.0, 0.1)] == []
    [beyond] = size_warnings("its", 0.5, 0.0, 0.1)
    assert beyond.code == "extrapolated"
    assert "50%" in beyond.message
    assert [warned.code for warned in size_warnings("its", 0.0, 0.5, 0.1)] == ["sizes"]

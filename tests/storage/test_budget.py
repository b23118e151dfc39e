"""What a probe may take is said in one word, and a replay too large for it is a fair share."""

import os

import pytest

from cases import cases
from spillcast.errors import OptionInvalid
from spillcast.forecast import forecast
from spillcast.storage.free_space import ALL_FREE, Budget, parse_budget
from spillcast.storage.probe import probe
from spills import MIB, recording, written_and_read


@cases(
    ("text", "time_s", "count"),
    [
        ("60s", 60, None),
        ("90", 90, None),
        ("2m", 120, None),
        ("1.5h", 5400, None),
        ("4G", 60, 4 << 30),
        ("512M", 60, 512 << 20),
        ("10MB", 60, 10 << 20),
        ("1.5GiB", 60, 3 << 29),
        ("2m,2M", 120, 2 << 20),
        ("4G, 30s", 30, 4 << 30),
    ],
)
def test_a_budget_is_time_or_bytes_or_both(text, time_s, count):
    assert parse_budget(text) == Budget(time_s, count)


@cases("text", ["", "soon", "60s,", "60s,2m", "1G,2G", "60s,1G,1G", "-1s", "1X"])
def test_what_is_no_budget_is_named(text):
    with pytest.raises(OptionInvalid) as caught:
        parse_budget(text)
    assert f"--budget {text}" in caught.value.message


def test_bytes_are_by_default_a_tenth_of_what_is_free(tmp_path):
    stats = os.statvfs(tmp_path)
    tenth = pytest.approx(stats.f_bavail * stats.f_frsize / 10, rel=0.2)
    assert Budget().limits(tmp_path) == {"budget_s": 60, "budget_bytes": tenth}
    assert Budget(5, 7).limits(tmp_path) == {"budget_s": 5, "budget_bytes": 7}
    assert ALL_FREE.limits(tmp_path)["budget_bytes"] is None


@pytest.fixture(scope="module")
def large(tmp_path_factory):
    """160 MiB in two files, written and read back."""
    path = tmp_path_factory.mktemp("large") / "large.spill"
    return recording(path, written_and_read(80 * MIB, files=2), gap_ns=0)


def test_a_spatial_share_is_replayed_and_said(large, tmp_path):
    storage = probe(tmp_path, large, budget=Budget(bytes=64 * MIB))
    facts = storage.facts
    assert facts["working_set_bytes"] == 160 * MIB
    kept = facts["byte_share"] * 160 * MIB
    # Whole regions of 16 MiB: as many as there is room for.
    assert kept == 64 * MIB
    steps = {group.op: group.count for group in storage.groups}
    assert steps == {"write": kept / (256 << 10), "read": kept / (256 << 10)}
    # Every read of what is kept follows its write.
    assert facts["prefilled_bytes"] == 0
    warned = {w.code: w.message for w in forecast(large, storage).warnings}
    assert "40.0%" in warned["byte-budget"]
    assert "was not tested" in warned["byte-budget"]
    assert "--budget 1G" in warned["byte-budget"]


def test_what_fits_is_replayed_whole_without_a_word(large, tmp_path):
    storage = probe(tmp_path, large, budget=Budget(bytes=160 * MIB))
    assert storage.facts["byte_share"] == 1
    assert "byte-budget" not in {w.code for w in forecast(large, storage).warnings}


def test_a_budget_without_room_for_a_region_is_refused(large, tmp_path):
    with pytest.raises(OptionInvalid, match="more, as in --budget"):
        probe(tmp_path, large, budget=Budget(bytes=MIB))


def test_a_network_is_named(large, tmp_path):
    storage = probe(tmp_path, large, budget=Budget(bytes=16 * MIB))
    assert storage.facts["network"] is False
    storage.facts["filesystem"], storage.facts["network"] = "nfs4", True
    warned = {w.code: w.message for w in forecast(large, storage).warnings}
    assert warned["network"].startswith("nfs4 is network storage")

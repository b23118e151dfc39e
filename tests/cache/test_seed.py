"""seeds/004: a scan of 76 GiB on a quarter rack, without KEEP, with KEEP, and when cached."""

import pytest

from harness import json_of

GIB, MIB = 1 << 30, 1 << 20
SCANNED_BYTES = 81_920_516_096
HITS = 61_209
DISK = "4.26G/s"
#: Flash is read at 9.02 GiB/s; its write rate of 3.42 GiB/s is stated, not measured.
FLASH = "9.02G/s,3.42G/s"
#: cachedSize of one of the three cells.
CELL_BYTES = 27_409_580_032


@pytest.fixture(scope="module")
def scan(tmp_path_factory):
    path = tmp_path_factory.mktemp("seed") / "ckbig.csv"
    rows = (
        f"CKBIG,{at},{min(MIB, SCANNED_BYTES - at)},scan" for at in range(0, SCANNED_BYTES, MIB)
    )
    path.write_text("\n".join(["object,offset,bytes,class", *rows]) + "\n")
    return path


def simulated(scan, *arguments):
    requested = (
        "--size",
        "1T",
        "--line",
        "1M",
        "--policy",
        "keep",
        "--disk",
        DISK,
        "--flash",
        FLASH,
    )
    return json_of("cache", scan, *requested, *arguments)["cache"]


@pytest.fixture(scope="module")
def kept(scan):
    share = HITS * MIB / SCANNED_BYTES
    return simulated(scan, "--keep", "CKBIG", "--from-flash", share, "--cells", 3)


def test_without_keep_scans_bypass_the_flash(scan):
    cache = simulated(scan)
    for run in cache["runs"]:
        assert run["hit_ratio"] == 0
        assert run["elapsed_s"] == pytest.approx(17.91, rel=0.002)
    assert cache["cached"] == []


def test_the_populating_run_takes_the_published_time(kept):
    assert kept["without"]["elapsed_s"] == pytest.approx(17.91, rel=0.002)
    assert kept["runs"][0]["hit_ratio"] == 0
    assert kept["runs"][0]["flash_write_bytes"] == SCANNED_BYTES
    assert kept["runs"][0]["elapsed_s"] == pytest.approx(22.31, rel=0.05)


def test_the_run_from_disk_and_flash_takes_the_published_time(kept):
    run = kept["runs"][1]
    assert run["flash_read_bytes"] == HITS * MIB
    assert run["elapsed_s"] == pytest.approx(6.63, rel=0.03)
    assert run["read_bytes_per_s"] / GIB == pytest.approx(11.5, rel=0.01)


def test_three_cells_hold_the_segment(kept):
    [cached] = kept["cached"]
    assert cached["bytes_per_cell"] * 3 == pytest.approx(CELL_BYTES * 3, rel=0.005)

"""The simulator against a real cache: Linux's page cache, limited in size, on an emulated disk.

The emulation counts what reaches the disk; the simulator uses a recording of the same run. Linux
keeps two lists of pages, so it is close to LRU but not exactly LRU.
"""

import os
import sys

import pytest

from cases import cases
from emulator import skip_without_fuse
from harness import spillcast, target
from spillcast.cache.rows import of_recording
from spillcast.recording import Recording
from spillcast.storage.emulation import emulate
from spillcast.storage.model import fixed_behaviour
from spillcast.workspace import NoMemoryGroup, memory_group, workspace

PAGE, PAGES = 4096, 4096
TIMES = 3
#: The group's own structures and pages in flight take a little of its limit.
NEAR = 0.025


def hit_ratios(pattern, cached_pages):
    """The share of page reads served by the page cache, and the share for each simulated policy."""
    skip_without_fuse()
    with workspace() as room:
        backing, mountpoint = room / "backing", room / "mount"
        backing.mkdir()
        mountpoint.mkdir()
        if pattern != "spill":
            (backing / "data").write_bytes(os.urandom(PAGES * PAGE))
        disk = fixed_behaviour(1e-4, 1e-4)
        try:
            with (
                emulate(disk, mountpoint, backing, page_cache=True) as mount,
                memory_group(cached_pages * PAGE) as group,
            ):
                read = ("--pages", PAGES, "--pattern", pattern, "--times", TIMES, "--group", group)
                command = target("read_file", mountpoint / "data", *read)
                recorded = spillcast(
                    "record", "--temp", mountpoint, "-o", room / "run.spill", "--", *command
                )
                operations = {done["op"]: done for done in mount.result().operations}
        except NoMemoryGroup as none:
            pytest.skip(f"no memory cgroup: {none}")
        assert recorded.returncode == 0, recorded.stderr
        rows = of_recording(Recording.open(room / "run.spill"), only_temp=True)
    reads = TIMES * PAGES
    real = 1 - operations["read"]["bytes"] / PAGE / reads
    requests = rows.requests(PAGE)
    simulated = {
        policy: hit_ratio(requests.simulate(policy, cached_pages, temp_writes=True), reads)
        for policy in ("lru", "fifo", "sieve", "s3fifo", "arc")
    }
    print(
        f"{pattern}, {cached_pages} of {PAGES} pages: {real:.4f} real,", simulated, file=sys.stderr
    )
    return real, simulated


def hit_ratio(outcome, reads):
    of_reads = [a for a in outcome["runs"][0]["accounts"] if a["class"] == "temp read"]
    assert sum(a["requests"] for a in of_reads) == reads
    return sum(a["hits"] for a in of_reads) / reads


@cases("cached_pages", [PAGES // 4, PAGES // 2])
@pytest.mark.nightly
def test_reads_by_a_power_law_hit_like_lru(cached_pages):
    real, simulated = hit_ratios("zipf", cached_pages)
    assert simulated["lru"] == pytest.approx(real, abs=NEAR)
    # A policy that ignores how recently a page was used is further off.
    assert abs(simulated["lru"] - real) < abs(simulated["fifo"] - real)


@cases("pattern", ["scan", "spill"])
@pytest.mark.nightly
def test_a_scan_and_a_spill_that_fit_are_cached(pattern):
    real, simulated = hit_ratios(pattern, 2 * PAGES)
    # The spill is written to the cache, so its first read hits, too.
    expected = 1.0 if pattern == "spill" else 1 - 1 / TIMES
    assert real == pytest.approx(expected, abs=0.01)
    assert simulated["lru"] == pytest.approx(expected)


@cases("pattern", ["scan", "spill"])
def test_a_scan_and_a_spill_that_do_not_fit_never_hit(pattern):
    real, simulated = hit_ratios(pattern, PAGES // 2)
    assert real == pytest.approx(0, abs=0.05)
    assert simulated["lru"] == 0

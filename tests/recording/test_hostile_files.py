"""Files that never end, never start or are much larger than they look are refused at once."""

import gzip
import os
import time
from itertools import product

import pytest

from cases import cases, nightly
from fuzz.mutate import zstd
from spillcast.cache.evidence import read_requests
from spillcast.errors import (
    EvidenceDamaged,
    EvidenceIncomplete,
    FileTooLarge,
    PathUnusable,
)
from spillcast.evidence.open import find_evidence, read_figures
from spillcast.evidence.oracle.ash import read_ash
from spillcast.evidence.oracle.trace import profile_traces

HEADING = "SAMPLE_TIME,SESSION_ID,SESSION_STATE,EVENT\n"


@cases("name", ["x.trc", "x.csv", "x.json", "x.txt", "x"])
def test_pipes_and_devices_are_refused_unread(tmp_path, name):
    pipe, device = tmp_path / name, tmp_path / f"device-{name}"
    os.mkfifo(pipe)
    device.symlink_to("/dev/zero")
    for path in (pipe, device):
        for read in (find_evidence, read_requests):
            with pytest.raises(PathUnusable) as refused:
                read([str(path)])
            assert str(path) in str(refused.value)


@cases("ending", [".gz", ".zst"])
def test_compressed_zeros_are_refused_in_little_memory(tmp_path, ending):
    """Half a GiB of zeros; resident memory grows by a fraction of that."""
    nothing, path = bytes(1 << 23), tmp_path / f"x.trc{ending}"
    path.write_bytes((gzip.compress(nothing) if ending == ".gz" else zstd(nothing)) * 64)
    before = resident_bytes()
    with pytest.raises(EvidenceDamaged):
        profile_traces([path], ["event"])
    assert resident_bytes() - before < 1 << 27


def resident_bytes():
    with open("/proc/self/status") as status:
        lines = dict(line.split(":", 1) for line in status)
    return int(lines["VmHWM"].split()[0]) << 10


@cases(("char", "heading"), product([",", "x", " ", '"', "\t", ";"], ["", HEADING]))
def test_a_line_without_an_end_is_refused_quickly(tmp_path, char, heading):
    path = tmp_path / "ash.csv"
    path.write_text(heading + char * 20_000_000)
    began = time.process_time()
    with pytest.raises(EvidenceDamaged):
        read_ash([path])
    assert time.process_time() - began < 3


@cases("kind", ["CALL     COUNT       CPU    ELAPSED       DISK", "TKPROF: Release 19"])
def test_lines_of_blanks_are_refused_quickly_by_the_tkprof_reader(tmp_path, kind):
    path = tmp_path / "run.txt"
    path.write_text(f"TKPROF: Release 19\n{kind}\n  a{' ' * 70_000}x\n" * 3)
    began = time.process_time()
    with pytest.raises(EvidenceIncomplete):
        read_figures([str(path)])
    assert time.process_time() - began < 3


@pytest.mark.parametrize(
    "heading", ["TKPROF: Release 19", *nightly("WORKLOAD REPOSITORY report for")]
)
@pytest.mark.parametrize("text", ["<td>" * 1_100_000, " " * 34_000_000], ids=["tags", "blanks"])
def test_a_file_larger_than_any_report_is_refused_quickly(tmp_path, heading, text):
    path = tmp_path / "run.txt"
    path.write_text(f"{heading}\n{text}\n")
    began = time.process_time()
    with pytest.raises(FileTooLarge):
        read_figures([str(path)])
    assert time.process_time() - began < 3

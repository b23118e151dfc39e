"""Databend's plans: real ones against a recording of the same run, and damaged ones."""

import json
import re

import pytest

from cases import cases
from harness import spillcast
from spillcast.errors import (
    EvidenceAmbiguous,
    EvidenceContradictory,
    EvidenceDamaged,
    EvidenceIncomplete,
    NoTempIo,
)

MIB = 1 << 20
#: As the Python package databend 1.2.453 printed it, with two threads.
SORT = """\
┌──────────────────────────────────────────────────────────────────────┐
│                                explain                               │
│                                String                                │
├──────────────────────────────────────────────────────────────────────┤
│ 'Sort'                                                               │
│ '├── output columns: [numbers.number (#0), k (#1), h (#2)]'          │
│ '├── sort keys: [k ASC NULLS LAST, h ASC NULLS LAST]'                │
│ '├── estimated rows: 3000000.00'                                     │
│ '├── cpu time: 17.718137004s'                                        │
│ '├── wait time: 13.40387536s'                                        │
│ '├── output rows: 3 million'                                         │
│ '├── output bytes: 95.16 MiB'                                        │
│ '├── numbers spilled by write: 210'                                  │
│ '├── bytes spilled by write: 1.02 GiB'                               │
│ '├── spilled time by write: 15.278s'                                 │
│ '├── numbers spilled by read: 210'                                   │
│ '├── bytes spilled by read: 1.02 GiB'                                │
│ '├── spilled time by read: 150ms'                                    │
│ '├── memory usage: 134.47 MiB'                                       │
│ '└── TableScan'                                                      │
│ '    ├── table: default.system.numbers'                              │
│ '    ├── estimated rows: 3000000.00'                                 │
│ '    ├── cpu time: 18.515403ms'                                      │
│ '    └── bytes scanned: 22.89 MiB'                                   │
└──────────────────────────────────────────────────────────────────────┘
"""
GROUPS = """\
AggregateFinal
├── group by: [k]
├── estimated rows: 4000000.00
├── cpu time: 4.156000258s
├── wait time: 850.390857ms
├── numbers spilled by read: 1792
├── bytes spilled by read: 145.09 MiB
├── spilled time by read: 2.396s
└── AggregatePartial
    ├── group by: [k]
    ├── estimated rows: 4000000.00
    ├── cpu time: 10.266591553s
    ├── wait time: 1.165467821s
    ├── numbers spilled by write: 14
    ├── bytes spilled by write: 145.09 MiB
    ├── spilled time by write: 1.403s
    └── memory usage: 71.42 MiB

27 rows explain in 8.526 sec. Processed 0 rows, 0 B (0 row/s, 0 B/s)
"""
#: databend pull request 16580: a window that spilled to object storage, and to a local disk.
WINDOW = """\
Window
├── estimated rows: 600037902.00
├── cpu time: {cpu_s}s
├── wait time: {wait_s}s
├── numbers {place} spilled by write: {writes}
├── bytes {place} spilled by write: {gib} GiB
├── {place} spilled time by write: {write_s}s
├── numbers {place} spilled by read: {reads}
├── bytes {place} spilled by read: {gib} GiB
└── {place} spilled time by read: {read_s}s
46 rows explain in {elapsed_s} sec.
"""
REMOTE = WINDOW.format(place="remote", cpu_s=186.2, wait_s=361.997, writes=128, gib=8.45,
                       write_s=212.578, reads=1792, read_s=131.925, elapsed_s=62.413)  # fmt: skip
LOCAL = WINDOW.format(place="local", cpu_s=166.383, wait_s=82.414, writes=112, gib=8.41,
                      write_s=37.682, reads=1506, read_s=16.454, elapsed_s=28.618)  # fmt: skip


@cases(
    ("text", "reads", "writes", "mib", "busy_s"),
    [
        # Recordings of both plans, with bpf: 630 reads and 630 writes; 1,792 reads and 84 writes.
        (SORT, 630, 630, 1.02 * 1024, 31.14),
        (GROUPS, 1792, 84, 145.09, 16.44),
    ],
)
def test_calls_and_bytes_match_a_recording(figures, text, reads, writes, mib, busy_s):
    result = figures(text, elapsed_s=16.0)
    most = result.io_bounds.upper
    assert (most.reads.count, most.writes.count) == (reads, writes)
    assert result.io_bounds.lower.writes.count in (210, 14)
    for moved in (result.reads, result.writes):
        assert moved.bytes == pytest.approx(mib * MIB, abs=1)
    assert result.processes == pytest.approx(max(1.0, busy_s / 16.0), rel=1e-3)


def test_the_calls_of_small_files_are_known(figures):
    """210 files of half a MiB each, which one call reads or writes."""
    result = figures(SORT.replace("1.02 GiB", "105 MiB "), elapsed_s=16.0)
    assert (result.reads.count, result.writes.count, result.io_bounds) == (210, 210, None)


def test_time_bounds_contain_the_recorded_time(figures):
    # The recording of a similar sort: 8.434 s in its plan, 2.16 s of reads and writes.
    time = figures(SORT.replace("15.278s", "8.196s").replace("150ms", "238ms"),
                  elapsed_s=12.38).time_bounds  # fmt: skip
    assert time.lower < 2.16 < time.upper
    assert time.upper == pytest.approx(8.434)
    assert figures(GROUPS).elapsed_s == 8.526


def test_a_published_case(figures, tmp_path):
    (remote := tmp_path / "remote.txt").write_text(REMOTE)
    (local := tmp_path / "local.txt").write_text(LOCAL)
    result = spillcast("forecast", remote, "--to", local, "--json")
    assert result.returncode in (0, 3), result.stderr
    low_s, high_s = json.loads(result.stdout)["interval_s"]
    assert low_s <= 28.618 <= high_s
    assert [bool(figures(text).notes) for text in (REMOTE, LOCAL)] == [True, False]


def test_quoted_lines_and_tables_of_other_clients_are_read(figures):
    quoted = "".join(f"> {line}\n" for line in GROUPS.splitlines())
    drawn = "".join(f"| {line:60} |\n" for line in GROUPS.splitlines()[:-2])
    whole = figures(GROUPS)
    assert figures(quoted).reads == figures(drawn, elapsed_s=8.526).reads == whole.reads


@cases(
    ("text", "error"),
    [
        (SORT, EvidenceIncomplete),
        (GROUPS.partition("    └──")[0], EvidenceIncomplete),
        (GROUPS.replace("├── spilled time by write", "...\n    ├── other"), EvidenceIncomplete),
        (GROUPS + "\n·\n27 rows\n(10 shown)\n", EvidenceIncomplete),
        ("Sort\n├── estimated rows: 3.00\n└── Scan\n    └── estimated rows: 3.00\n",
         EvidenceIncomplete),
        ("Sort\n├── estimated rows: 3.00\n├── cpu time: 5ms\n└── output rows: 3\n", NoTempIo),
        (GROUPS.replace("by write", "by wrote"), EvidenceContradictory),
        (GROUPS.replace("numbers spilled by write: 14", "numbers spilled by write: 0"),
         EvidenceDamaged),
        (GROUPS.replace(": 1792", ": ,"), EvidenceDamaged),
        (re.sub(r"(bytes spilled by write: )[\d.]+", r"\1,", GROUPS), EvidenceDamaged),
        (re.sub(r"(cpu time: )[\d.]+", r"\1.", GROUPS), EvidenceDamaged),
        (GROUPS + GROUPS, EvidenceAmbiguous),
    ],
)  # fmt: skip
def test_damaged_incomplete_and_repeated_plans_are_refused(figures, text, error):
    with pytest.raises(error):
        figures(text)

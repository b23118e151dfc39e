"""Spooled session statistics: intervals, numbers, and whether flash served temp I/O."""

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from spillcast.errors import EvidenceIncomplete
from spillcast.evidence.oracle.collected import read_statistics, temp_on_flash

READS = "physical reads"
TEMP_READS = "physical reads direct temporary tablespace"
READ_REQUESTS = "physical read IO requests"
FLASH_READS = "cell flash cache read hits for temp IO"
WRITES = "physical writes"
TEMP_WRITES = "physical writes direct temporary tablespace"
WRITE_REQUESTS = "physical write IO requests"
FLASH_WRITES = "cell writes to flash cache for temp IO"


def spooled(tmp_path, *intervals):
    """A table as printed: aligned by spaces, not underlined, digits in groups."""
    text = ""
    for values in intervals:
        text += (
            f"{'STATISTIC NAME':50}{'VALUE':>20}{'VALUE per sec':>20}{'VALUE accumulated':>24}\n"
        )
        for name, value in values.items():
            text += f"{name:50}{value:>20,}{value // 3:>20,}{value * 7:>24,}\n"
        text += "\n"
    path = tmp_path / "statistics.txt"
    path.write_text(text)
    return path


def test_intervals_and_numbers(tmp_path):
    values = {READS: 105_899, FLASH_READS: 0}
    statistics = read_statistics(spooled(tmp_path, values, values))
    rows = [tuple(row.values()) for row in statistics.rows.to_pylist()]
    assert rows == [
        (0, READS, 105_899, 35_299, 741_293),
        (0, FLASH_READS, 0, 0, 0),
        (1, READS, 105_899, 35_299, 741_293),
        (1, FLASH_READS, 0, 0, 0),
    ]
    assert statistics.total(READS) == 2 * 105_899
    assert statistics.total("not there") == 0


def test_intervals_in_parquet(tmp_path):
    columns = {"NAME": [READS, FLASH_READS], "VALUE": [105_899, 0]}
    pq.write_table(pa.table(columns), tmp_path / "statistics.parquet")
    assert read_statistics(tmp_path / "statistics.parquet").total(READS) == 105_899


def test_a_probe_phase_served_by_flash(tmp_path):
    """1,796 requests, all of them for temp and all of them hits; there are no writes."""
    probe = {FLASH_READS: 1_796, READ_REQUESTS: 1_796, READS: 55_676, TEMP_READS: 55_676}
    result = temp_on_flash(read_statistics(spooled(tmp_path, probe | {WRITES: 0})))
    assert result == {"read": 1.0}


def test_a_build_phase_served_by_flash(tmp_path):
    """Each write goes to two mirrors, so there are twice as many; table reads are not temp I/O."""
    build = {FLASH_WRITES: 2_522, WRITE_REQUESTS: 1_261, WRITES: 39_091, TEMP_WRITES: 39_091}
    build |= {READS: 105_899, TEMP_READS: 0, READ_REQUESTS: 983, FLASH_READS: 0}
    result = temp_on_flash(read_statistics(spooled(tmp_path, build)))
    assert result == {"write": 1.0}


def test_temp_on_disk_and_half_on_flash(tmp_path):
    """Temp has half the blocks of 1,000 requests, so 500 are for temp; 250 of them are hits."""
    values = {READ_REQUESTS: 1_000, READS: 31_000, TEMP_READS: 15_500, FLASH_READS: 250}
    values |= {WRITE_REQUESTS: 10, WRITES: 310, TEMP_WRITES: 310, FLASH_WRITES: 0}
    result = temp_on_flash(read_statistics(spooled(tmp_path, values)))
    assert result == {"read": 0.5, "write": 0.0}


def test_damage_is_named(tmp_path):
    path = tmp_path / "statistics.csv"
    path.write_text("NAME,VALUE,PER_SECOND,ACCUMULATED\nphysical reads,####,1,2\ncut,1\n")
    statistics = read_statistics(path)
    assert [row["value"] for row in statistics.rows.to_pylist()] == [None]
    assert sorted(damage.line for damage in statistics.damaged) == [2, 3]


def test_another_file_is_refused(tmp_path):
    path = tmp_path / "ash.csv"
    path.write_text("SAMPLE_TIME,EVENT\n1,2\n")
    with pytest.raises(EvidenceIncomplete):
        read_statistics(path)

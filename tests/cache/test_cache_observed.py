"""Counts of v$mystat and CellCLI as evidence: the published sessions, and damaged listings."""

import pytest

from harness import json_of, only_line, spillcast
from spillcast.cache.evidence import read_requests
from spillcast.errors import EvidenceIncomplete

MIB = 1 << 20
STATS = """
SQL> select name, value from v$mystat ms, v$statname sn where ms.statistic# = sn.statistic#

NAME                                                                     VALUE
---------------------------------------------------------------- -------------
physical read total bytes                                        {:>13}
cell flash cache read hits                                       {:>13}

"""
SCAN = "SQL> select count(*) from ckbig;\n\n  20000000\n\nElapsed: 00:00:{}\n"
#: seeds/004: from disk, filling the cache, and from both; the last in a separate session.
SESSIONS = (
    STATS.format(0, 0)
    + SCAN.format("17.91")
    + STATS.format(81921196032, 0)
    + STATS.format(0, 0)
    + SCAN.format("22.31")
    + STATS.format(81920647168, 259)
    + SCAN.format("06.63")
    + STATS.format(81920516096, 61209)
    + "\nElapsed: 00:00:00.00\n"
)
CONTENT = """CellCLI> list flashcachecontent where objectNumber = 115825 detail;
         cachedKeepSize:         27370684416
         cachedSize:             27409580032
         hitCount:               {}
         missCount:              {}
         objectNumber:           115825
         tableSpaceNumber:       8
"""


@pytest.fixture
def write(tmp_path):
    def written(text):
        path = tmp_path / "session.txt"
        path.write_text(text)
        return path

    return written


def test_the_published_sessions_give_their_simulation_options(write):
    path = write(SESSIONS)
    notes = read_requests([str(path)]).notes
    assert [note.split(":")[1].strip() for note in notes[:3]] == [
        "76.3 GiB of scan, 0.00% flash, in 17.9 s",
        "76.3 GiB of scan, 0.33% flash, in 22.3 s",
        "76.3 GiB of scan, 78.35% flash, in 6.63 s",
    ]
    assert "--flash 9.02G/s and --disk 2.49G/s, --from-flash 0.7835" in notes[2]
    words = ("--size", "1T", "--line", "1M", "--policy", "keep", "--keep", "scan")
    rates = ("--flash", "9.02G/s,3.42G/s", "--disk", "4.26G/s", "--from-flash", "0.7835")
    cache = json_of("cache", path, *words, *rates)["cache"]
    assert cache["without"]["elapsed_s"] == pytest.approx(17.91, rel=0.002)
    assert cache["runs"][0]["elapsed_s"] == pytest.approx(22.31, rel=0.05)
    assert cache["runs"][1]["elapsed_s"] == pytest.approx(6.63, rel=0.03)


def test_two_listings_of_a_cell_give_its_hits_and_misses(write):
    path = write(CONTENT.format(141814, 174408) + CONTENT.format(161972, 180627))
    requests = read_requests([str(path)], line_bytes=MIB)
    # 20,158 hits and 6,219 misses, of 1 MiB each.
    assert list(requests.objects) == ["115825"]
    assert requests.notes[0] == f"measured: {26377 / 1024:.1f} GiB of 115825, 76.42% flash"


def test_a_metric_history_of_two_cells(write):
    line = "{}: {:<24}FLASHCACHE      {:,} IO requests      2024-10-14T{}:00:00+02:00\n"
    text = "".join(
        line.format(cell, name, value, hour)
        for cell in ("cel01", "cel02")
        for hour, (hits, misses) in (("10", (1_000, 50)), ("11", (7_144, 2_098)))
        for name, value in (("FC_IO_RQ_R", hits), ("FC_IO_RQ_R_MISS", misses))
    )
    requests = read_requests([str(write(text))], line_bytes=MIB)
    # 6,144 hits and 2,048 misses in each.
    assert requests.notes[0] == "measured: 16 GiB of flash cache, 75.00% flash"


def of_cell(cell, listing):
    """A listing in dcli's format, with the cell's name at the start of each line."""
    return "".join(f"{cell}: {line}\n" for line in listing.splitlines()[1:])


def test_listings_of_two_cells_add_up(write):
    """The counts of one cell are compared only with that cell's."""
    before, after = (
        of_cell("cel01", CONTENT.format(*first)) + of_cell("cel02", CONTENT.format(*second))
        for first, second in (((100, 50), (4_000, 900)), ((6_244, 2_098), (10_144, 2_948)))
    )
    requests = read_requests([str(write(before + after))], line_bytes=MIB)
    # 6,144 hits and 2,048 misses in each.
    assert requests.notes[0] == "measured: 16 GiB of 115825, 75.00% flash"
    with pytest.raises(EvidenceIncomplete):
        read_requests([str(write(before))])


def test_objects_with_equal_numbers_in_other_databases_or_tablespaces_differ(write):
    def listing(*entries):
        text = ""
        for database, tablespace, *counts in entries:
            entry = CONTENT.format(*counts).replace("hitCount", f"dbID: {database}\n  hitCount")
            text += entry.replace("tableSpaceNumber:       8", f"tableSpaceNumber: {tablespace}")
        return text

    before = listing((1, 8, 2_000, 10), (2, 8, 9_000, 900), (2, 9, 10_000, 1_000))
    with pytest.raises(EvidenceIncomplete):
        read_requests([str(write(before))])
    after = listing((1, 8, 5_072, 1_034), (2, 8, 9_000, 900), (2, 9, 13_072, 2_024))
    requests = read_requests([str(write(before + after))], line_bytes=MIB)
    # 3,072 hits and 1,024 misses in each of two.
    assert requests.notes[0] == "measured: 8 GiB of 115825, 75.00% flash"


def test_a_falling_metric_was_reset_to_zero(write):
    """2,048 hits and 1,024 misses, and after a restart of the cell 4,096 and 1,024."""
    line = "{:<24}FLASHCACHE      {:,} MB      2024-10-14T{}\n"
    counts = {"FC_IO_BY_R": (9_000, 11_048, 4_096), "FC_IO_BY_R_MISS": (7_000, 8_024, 1_024)}
    hours = ("10:00:00+02:00", "11:00:00+02:00", "10:00:00")
    text = "".join(
        line.format(name, count, hour)
        for name, history in counts.items()
        for count, hour in zip(history, hours, strict=True)
    )
    requests = read_requests([str(write(text))], line_bytes=MIB)
    assert requests.notes[0] == "measured: 8 GiB of flash cache, 75.00% flash"


def test_listings_without_growth_are_refused(write):
    for text in (STATS.format(0, 0), CONTENT.format(5, 5), CONTENT.format(5, 5)[:200]):
        with pytest.raises(EvidenceIncomplete):
            read_requests([str(write(text))])
    huge = STATS.format(0, 0) + STATS.format("9" * 40, 1)
    message = only_line(spillcast("cache", write(huge)), 2)
    assert "is not a count" in message

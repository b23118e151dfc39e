"""Shares of waits beside shares of time, and named peaks of a trace's latencies."""

import json
import random

import pytest

from cases import cases
from evidence import recording
from harness import spillcast
from oracle_files import READ, WRITE, blocks, write_trace
from spillcast import profile

IDLE = "SQL*Net message from client"


def test_shares_are_of_waits_and_of_time(tmp_path):
    """Three reads of 1 ms, one write of 6 ms, and 1 ms of the client's think time."""
    waits = [(READ, 1_000, blocks(1))] * 3 + [(WRITE, 6_000, blocks(1))]
    path = write_trace(tmp_path / "x.trc", [*waits, (IDLE, 1_000, "p1=1 p2=2 p3=3")])
    call = "EXEC #7:c=5,e=9,p=0,cr=0,cu=0,mis=0,r=0,dep=0,og=1,plh=0,tim=1010000\n"
    with path.open("a") as file:
        file.write(call)
    for where in (None, "true"):
        rows = {row["event"]: row for row in profile(path, where=where).rows}
        assert rows[READ]["count_share"] == pytest.approx(3 / 5)
        assert rows[WRITE]["count_share"] == pytest.approx(1 / 5)
        assert rows[WRITE]["share"] == pytest.approx(6 / 10)
    rows = {row["event"]: row for row in profile(path).rows}
    assert rows["CPU: EXEC"]["count_share"] is None
    (row,) = [row for row in profile(path, by=["op"]).rows if row["op"] == "read"]
    assert row["count_share"] == pytest.approx(3 / 5)
    shown = spillcast("profile", path, "--markdown").stdout
    assert "of waits" in shown
    assert "60.00 %" in shown


def lognormal(draws, count, median_us):
    return [max(1, round(draws.lognormvariate(0, 0.15) * median_us)) for _ in range(count)]


def test_the_peak_of_stalls_is_named(tmp_path):
    """Of 2,000 reads of some 150 us, one in twenty stalls for some 9 ms."""
    draws = random.Random(7)
    lengths = lognormal(draws, 1_900, 150) + lognormal(draws, 100, 9_000)
    path = write_trace(tmp_path / "x.trc", [(READ, us, blocks(31)) for us in lengths])
    shown = " ".join(spillcast("profile", path, "--histogram").stdout.split())
    assert "A, B: 95 % around 150 us, 5 % between" in shown
    assert "A far second peak may be a stall" in shown
    bars = spillcast("profile", path, "--histogram").stdout.splitlines()
    assert sum(line.endswith("  A") for line in bars) == 1
    assert sum(line.endswith("  B") for line in bars) == 1


def test_a_single_peak_is_not_reported(tmp_path):
    lengths = lognormal(random.Random(7), 500, 150)
    path = write_trace(tmp_path / "x.trc", [(READ, us, blocks(31)) for us in lengths])
    assert "around" not in spillcast("profile", path, "--histogram").stdout


def test_the_share_is_a_column_in_every_format(tmp_path):
    path = write_trace(tmp_path / "x.trc", [(READ, 1_000, blocks(1))] * 3)
    document = json.loads(spillcast("profile", path, "--json").stdout)
    assert document["rows"][0]["count_share"] == 1.0
    heading, row = spillcast("profile", path, "--csv").stdout.splitlines()[:2]
    assert dict(zip(heading.split(","), row.split(","), strict=True))["count_share"] == "1.0"


@cases("options", [{}, {"by": ["op"]}, {"by": ["blocks"]}, {"by": ["op || 'x'"]}, {"by": ["call"]}])
def test_times_beyond_the_elapsed_time_are_a_warning(tmp_path, options):
    """A wait of a day, by a digit too many, in a session of three ms."""
    path = write_trace(tmp_path / "x.trc", [(READ, 1_000, blocks(1))] * 3)
    call = "EXEC #7:c=5,e=9,p=0,cr=0,cu=0,mis=0,r=0,dep=0,og=1,plh=0,tim=1010000\n"
    with path.open("a") as file:
        file.write(call)
    whole = profile(path, **options).warnings
    path.write_text(path.read_text().replace("ela= 1000 ", "ela= 86400000000 ", 1))
    damaged = profile(path, **options).warnings
    assert len(set(damaged) - set(whole)) == 1, damaged


def test_cpu_waits_without_rows_are_named(tmp_path):
    """Of 2 s, 0.1 s are reads and 0.5 s CPU; for 1.3 s threads waited for a CPU."""
    path = tmp_path / "run.spill"
    recording(path, [("read", 8192, 100, 1_000_000)], elapsed_s=2.0, cpu_s=0.5,
              run_queue_delay_s=1.3)  # fmt: skip
    rows = profile(path).rows
    assert sum(row["total_us"] for row in rows) == pytest.approx(0.6e6, rel=0.01)
    assert any("1.30 s" in warning for warning in profile(path).warnings)
    assert not profile(path, by=["op"]).warnings


def test_the_first_rows_of_a_recording_are_shares_of_the_sum_of_all(tmp_path):
    """Two threads read for 8 s and write for 6 s in 20 s: 28 s in total."""
    loads = [("read", 8192, 8000, 1_000_000), ("write", 8192, 6000, 1_000_000)]
    recording(tmp_path / "run.spill", loads, elapsed_s=20.0, sessions=2)
    whole = profile(tmp_path / "run.spill")
    first = whole.top(1)
    assert len(whole.rows) > 1
    assert first.elapsed_text() == whole.elapsed_text()
    assert "28" in first.elapsed_text()

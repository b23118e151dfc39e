"""A part of a trace: from and up to a time, by its clock or since its beginning."""

import json

import pytest

from cases import cases
from harness import spillcast
from oracle_files import READ, blocks, write_trace
from spillcast import profile
from spillcast.errors import EvidenceIncomplete, EvidenceMixed, SelectionEmpty
from spillcast.evidence.selection import Filter

#: Twenty waits of a second each; the trace's first line is at 20:26:02.412, and tim 1 s.
WAITS = [(READ, 1_000_000, blocks(n)) for n in range(1, 21)]


@pytest.fixture
def trace(tmp_path):
    return write_trace(tmp_path / "x.trc", WAITS)


def of(path, since=None, until=None, by=("event",)):
    return profile(path, by=by, chosen=Filter(since=since, until=until))


@cases(
    ("since", "until", "waits"),
    [
        ("5s", None, 16),
        (None, "5s", 5),
        ("5s", "9s", 5),
        ("0s", "20s", 20),
        ("20:26:12.412", None, 11),
        ("20:26:12.412", "20:26:13.5", 2),
        ("2024-09-03 20:26:12.412", "2024-09-03T20:26:13.5", 2),
    ],
)
def test_waits_that_end_in_the_window_count(trace, since, until, waits):
    result = of(trace, since, until)
    (row,) = [row for row in result.rows if row["event"] == READ]
    assert row["count"] == waits
    # A wait that began before counts completely, as it does in the sum.
    assert result.elapsed_s == pytest.approx(waits)
    sizes = of(trace, since, until, by=["blocks + 0"])
    assert sum(row["count"] for row in sizes.rows) == waits


@cases(("since", "waits"), [("22:00", 5), ("01:00", 2)])
def test_a_time_without_a_date_takes_the_day_that_has_it(tmp_path, since, waits):
    """Six waits of an hour, from 20:26 to 02:26 of the next day."""
    hours = [(READ, 3_600_000_000, blocks(n)) for n in range(1, 7)]
    result = of(write_trace(tmp_path / "x.trc", hours), since)
    assert [row["count"] for row in result.rows if row["event"] == READ] == [waits]


def test_a_time_needs_its_date_where_the_clock_was_set_back(tmp_path):
    path = write_trace(tmp_path / "x.trc", [(READ, 1_000_000, blocks(1))])
    text = path.read_text()
    path.write_text(text.replace("tim=", "tim=172800") + text.splitlines()[-1])
    with pytest.raises(EvidenceMixed):
        of(path, "20:30")


def test_calls_outside_the_window_do_not_count(tmp_path):
    path = tmp_path / "calls.trc"
    call = "EXEC #7:c={c},e={c},p=0,cr=0,cu=0,mis=0,r=0,dep={dep},og=1,plh=0,tim={tim}\n"
    lines = [(1, 5, 1_000_000), (0, 9, 1_000_010), (1, 70, 3_000_000), (0, 100, 3_000_100)]
    path.write_text("".join(call.format(dep=dep, c=c, tim=tim) for dep, c, tim in lines))
    (row,) = [row for row in of(path, "1s").rows if row["count"]]
    assert (row["count"], row["total_us"]) == (2, 100)


def test_an_empty_window_is_refused(trace):
    with pytest.raises(SelectionEmpty):
        of(trace, "21s")
    with pytest.raises(SelectionEmpty):
        of(trace, "21:00")


def test_a_trace_without_wall_clock_times(tmp_path):
    header = "PARSING IN CURSOR #7 len=1 dep=0 uid=1 oct=3 lid=1 tim=5 hv=1 ad='0' sqlid='x'\nx\n"
    path = write_trace(tmp_path / "x.trc", WAITS, header=f"{header}END OF STMT\n")
    assert of(path, "15s").rows[0]["count"] == 6
    with pytest.raises(EvidenceIncomplete):
        of(path, "20:26")


def test_the_command(trace):
    result = spillcast("profile", trace, "--since", "5s", "--until", "9s", "--json")
    assert json.loads(result.stdout)["rows"][0]["count"] == 5
    result = spillcast("profile", trace, "--since", "never")
    assert result.returncode == 2
    assert "never" in result.stderr
    result = spillcast("profile", trace, "--sql-id", "4q7zf0d2m8kcx")
    assert result.returncode == 2
    assert "--where" in result.stderr

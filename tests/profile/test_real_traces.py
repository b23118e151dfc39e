"""Real traces: counts and times that were computed by hand, or by a slow reader here."""

import re
from collections import defaultdict

import pytest

from cases import cases
from harness import only_line, spillcast
from oracle_files import READ, WRITE, real
from spillcast.errors import InputError
from spillcast.profile import DIMENSIONS, profile

CLIENT = "SQL*Net message from client"
SLOW = "jks_ot_cdb1_3802_12ms_010.trc"
EXCERPT = "mvelikikh_direct_path_temp_excerpt_19c.txt"
RECURSIVE = "techwanker_dev18b_ora_813.trc"
SINGLE_SESSION = [SLOW, "jks_ot_combine_main.trc", "jks_demos_js12c1_ora_21055.trc", RECURSIVE]


def by_event(path, **options):
    return {row["event"]: row for row in profile(path, **options).rows}


def test_all_waits_and_the_time_of_the_dominant_event():
    rows = by_event(real(SLOW))
    waits = [row for event, row in rows.items() if row["count"] and not event.startswith("CPU: ")]
    assert sum(row["count"] for row in waits) == 20_067
    client = rows[CLIENT]
    assert (client["count"], client["total_us"], client["idle"]) == (10_027, 127_966_267, True)


def test_each_event_against_a_slow_reader():
    path = real(SLOW)
    slow = defaultdict(list)
    for line, text in enumerate(path.read_text().splitlines(), start=1):
        if match := re.match(r"WAIT #\d+: nam='(.*?)' ela= *(\d+) ", text):
            slow[match[1]].append((int(match[2]), line))
    rows = by_event(path)
    assert {e for e in rows if not e.startswith(("CPU: ", "unaccounted"))} == set(slow)
    for event, waits in slow.items():
        lengths = sorted(us for us, _ in waits)
        row = rows[event]
        assert (row["count"], row["total_us"]) == (len(waits), sum(lengths))
        assert (row["min_us"], row["max_us"]) == (lengths[0], lengths[-1])
        # The median is in a bucket of the histogram, which is 1 % wide.
        assert row["p50_us"] == pytest.approx(lengths[(len(lengths) - 1) // 2], rel=0.011)
        path_text, line = row["longest_at"].rsplit(":", 1)
        assert (lengths[-1], int(line)) in waits
        assert path_text == str(path)


@cases("name", SINGLE_SESSION)
def test_every_dimension_has_the_same_sum(name):
    path = real(name)
    whole = profile(path)
    unaccounted = sum(r["total_us"] for r in whole.rows if r["event"] == "unaccounted-for")
    total = sum(row["total_us"] for row in whole.rows) - unaccounted
    assert sum(row["share"] for row in whole.rows) == pytest.approx(1)
    for dimension in DIMENSIONS:
        rows = profile(path, by=[dimension]).rows
        expected = total + (unaccounted if dimension == "event" else 0)
        assert sum(row["total_us"] for row in rows) == expected, dimension
    finer = profile(path, by=["event", "sql", "second"]).rows
    assert sum(row["total_us"] for row in finer) == total + unaccounted


def test_recursive_cpu_is_counted_once():
    """Calls of depth 0 include the CPU time of the calls that they made."""
    path = real(RECURSIVE)
    calls = re.findall(
        r"^(?:PARSE|EXEC|FETCH|CLOSE) #\d+:c=(\d+),e=\d+,.*?dep=(\d+)",
        path.read_text(errors="replace"),
        re.MULTILINE,
    )
    twice = sum(int(cpu) for cpu, _ in calls)
    once = sum(int(cpu) for cpu, depth in calls if depth == "0")
    result = sum(
        row["total_us"] for event, row in by_event(path).items() if event.startswith("CPU: ")
    )
    # A child's clock may tick when its parent's did not: by less than 1 % in total.
    assert result == pytest.approx(once, rel=0.01)
    assert result < 0.6 * twice


def test_a_file_that_is_not_a_trace_is_refused():
    error = only_line(spillcast("profile", real("jks_lgwr_17884.trc")), 2)
    assert "no waits and no calls of an extended SQL trace" in error


def test_waits_in_other_text_are_read_only_on_request():
    path = real(EXCERPT)
    with pytest.raises(InputError, match="--lenient"):
        profile(path)
    rows = by_event(path, lenient=True)
    assert (rows[WRITE]["count"], rows[READ]["count"]) == (52, 4)
    assert rows[WRITE]["total_us"] == pytest.approx(35_800, abs=50)
    assert rows[READ]["total_us"] == pytest.approx(1_800, abs=50)

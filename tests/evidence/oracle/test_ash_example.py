"""The generated Oracle example has the figures that it is made for, on every run."""

import re
import subprocess
import sys
from pathlib import Path

import pytest

from cases import cases
from spillcast.evidence.oracle.ash import read_ash
from spillcast.evidence.oracle.ash_profile import profile_ash, wall_clock_share

MAKE = Path(__file__).parents[3] / "examples" / "oracle" / "make_example.py"
READ = "direct path read temp"
SIZE_MAX = 1_500_000


def make(directory):
    subprocess.run([sys.executable, MAKE, directory], check=True)
    return {path.name: path.read_bytes() for path in directory.iterdir()}


@pytest.fixture(scope="module")
def example(tmp_path_factory):
    directory = tmp_path_factory.mktemp("example")
    make(directory)
    return directory


def waits(path):
    """Returns each wait as (event, us, parameters)."""
    result = re.findall(r"^WAIT #\d+: nam='(.*?)' ela= (\d+) (.*)$", path.read_text(), re.MULTILINE)
    return [(event, int(us), parameters) for event, us, parameters in result]


def test_generation_is_reproducible(example, tmp_path):
    files = make(tmp_path)
    assert files == {path.name: path.read_bytes() for path in example.iterdir()}
    assert sorted(files) == ["ash.csv", "flash.trc", "hdd.trc"]
    assert sum(map(len, files.values())) < SIZE_MAX


def test_samples(example):
    ash = read_ash(example / "ash.csv")
    assert (ash.source, ash.damaged, ash.notes) == ("V$", [], [])
    rows = {row["event"]: row for row in profile_ash(ash).to_pylist()}
    assert {event: (row["count"], round(100 * row["share"], 2)) for event, row in rows.items()} == {
        "ASM IO for non-blocking poll": (5, 0.65),
        "direct path write temp": (12, 1.55),
        "(on CPU)": (338, 43.73),
        READ: (418, 54.08),
    }
    read, write = rows[READ], rows["direct path write temp"]
    of = ("min_us", "max_us", "mean_us")
    assert [read[key] for key in of] == [2_595, 415_850, 19_305]
    assert [write[key] for key in of] == [187, 656, 446]
    # ASH's mean is twice the trace's; without its length bias they agree within two errors.
    assert abs(read["latency_us"] - 8_999) < 2 * read["latency_error_us"]
    clock = wall_clock_share(ash)
    assert (clock.share, clock.elapsed_s) == (pytest.approx(430 / 773), 773)


@cases(("name", "mean_us", "blocks"), [("hdd", 8_999, 31), ("flash", 150, 15)])
def test_traces(example, name, mean_us, blocks):
    reads = [wait for wait in waits(example / f"{name}.trc") if wait[0] == READ]
    assert len(reads) > 500
    assert sum(us for _, us, _ in reads) == mean_us * len(reads)
    assert all(f"block cnt={blocks} " in parameters for _, _, parameters in reads)


@cases(
    ("name", "percent"),
    [
        ("hdd", {READ: 96.96, "direct path write temp": 0.72}),
        ("flash", {READ: 31.51, "local write wait": 42.58, "cell smart table scan": 10.07}),
    ],
)
def test_events_have_their_share_of_the_time(example, name, percent):
    """Within a fifth of a percent of the total, as rare events are rounded to a whole wait."""
    result = waits(example / f"{name}.trc")
    total = sum(us for _, us, _ in result)
    for event, share in percent.items():
        part = 100 * sum(us for wait, us, _ in result if wait == event) / total
        assert part == pytest.approx(share, abs=0.2)


def test_only_flash_waits_for_local_writes(example):
    assert {"local write wait"} <= {event for event, _, _ in waits(example / "flash.trc")}
    assert "local write wait" not in {event for event, _, _ in waits(example / "hdd.trc")}

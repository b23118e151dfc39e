"""Runs beside each other on a page, and beside a target's latencies: the drawn figures."""

import json
import re

import pytest

from harness import completed, only_line, spillcast
from oracle_files import make_example
from spillcast.profile import timeline
from spillcast.report.html import TableCells, runs
from spillcast.report.html.inputs import Histogram, RunContents


@pytest.fixture(scope="module")
def example(tmp_path_factory):
    return make_example(tmp_path_factory.mktemp("example"))


def run(name, totals_s, *, time_s=10.0, latencies=()):
    return RunContents(
        name=name, kind="traces", elapsed_s=time_s, time_s=time_s, sessions_are="sessions",
        timeline=timeline.Timeline(1.0, totals_s, {}), latencies=latencies,
    )  # fmt: skip


def histogram(label, ns, count):
    return Histogram(label, "read", [ns], [count])


def test_a_single_run_is_not_compared():
    titles = [section.title for section in runs.sections([run("a", {"CPU": 4.0})], None)]
    assert "Runs side by side" not in titles


def test_bars_add_up_to_each_run():
    item = run(
        "disk", {"CPU": 4.0, "temp reads": 5.0}, latencies=[histogram("temp reads", 9000, 7)]
    )
    reads, writes = histogram("temp reads", 150, 7), histogram("temp writes", 9, 1)
    totals_s = {"CPU": 4.0, "temp reads": 1.0}
    other = run("flash", totals_s, time_s=5.0, latencies=[reads, writes])
    section, *_ = runs.sections([item, other], None)
    bars, overlay = section.figures
    table = TableCells.of(bars.table)
    assert table.header == ["run", "time", "CPU", "temp reads", "idle, or not accounted for"]
    assert table.rows[0] == ["disk", "10 s", "4 s, 40 %", "5 s, 50 %", "1 s, 10 %"]
    assert table.rows[1][1:4] == ["5 s", "4 s, 80 %", "1 s, 20 %"]
    # Only one of them has writes.
    assert overlay.title == "Temp reads"
    assert "disk: 7 operations, mean 9 us; flash: 7 operations" in overlay.caption


def test_bars_of_very_different_runs_are_shares():
    for short_s, are_shares in ((1.0, False), (0.1, True)):
        ran = [run("run", {"CPU": s}, time_s=s, latencies=[]) for s in (4.0, short_s)]
        section, *_ = runs.sections(ran, None)
        assert bool(section.figures[0].caption) == are_shares


def test_each_input_is_a_run(example, tmp_path):
    page = tmp_path / "page.html"
    files = (example / "hdd.trc", example / "flash.trc")
    assert spillcast("report", *files, "-o", page).returncode == 0
    assert "Runs side by side" not in page.read_text()
    completed("report", "--each", *files, "-o", page)
    text = " ".join(re.sub(r"<[^<>]*>", " ", page.read_text()).split()).replace("\u00a0", " ")
    assert "Runs side by side" in text
    assert "hdd.trc: 797 operations, mean 9.00 ms; flash.trc: 738 operations, mean 150 us" in text
    message = only_line(spillcast("report", "--each", *files, "--to", "factor:2", "-o", page), 2)
    assert "--each compares runs" in message


def test_a_trace_beside_a_probed_storage(example, tmp_path):
    """The storage is not a trace, although a file or a directory has its name."""
    probed = tmp_path / "there"
    probed.mkdir()
    probe = ("probe", probed, "--like", example / "hdd.trc", "--budget", "1s,64M")
    assert spillcast(*probe, "-o", tmp_path / "there.json").returncode == 0
    for target in (probed, tmp_path / "there.json"):
        to = ("--to", target, "--budget", "1s,64M", "-o", tmp_path / "page.html", "--json")
        result = completed("report", example / "hdd.trc", *to)
        assert f"Forecast: {probed}" in " ".join(json.loads(result.stdout)["answer"])

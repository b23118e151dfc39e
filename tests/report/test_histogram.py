"""A histogram is drawn to scale, on a logarithmic axis, in the available width."""

import numpy as np
import pytest

from cases import cases
from spillcast import report
from spillcast.report import histogram_text, sparkline

BLOCKS = dict(zip("▏▎▍▌▋▊▉█", range(1, 9), strict=True))


@pytest.fixture(autouse=True)
def _utf_8(monkeypatch):
    monkeypatch.setattr(report, "_blocks_are_printed", lambda: True)


def eighths(line):
    """Length of a bar in eighths of a column."""
    return sum(BLOCKS.get(letter, 0) for letter in line)


@cases("width", [60, 80, 120, 200])
def test_bars_are_to_scale_and_lines_fit(width):
    text = histogram_text([110_000, 210_000, 510_000], [1000, 500, 1], width=width)
    lines = text.splitlines()
    assert max(map(len, lines)) <= width
    bars = [eighths(line) for line in lines if eighths(line)]
    assert bars == [bars[0], round(bars[0] / 2), 1]
    assert len(lines[0]) > width - 8


def test_every_operation_is_in_the_bin_of_its_latency():
    rng = np.random.default_rng(1)
    ns = np.unique(np.round(1e5 * rng.lognormal(0, 3, 3000)).astype(int))
    lines = histogram_text(ns.tolist(), [1] * len(ns)).splitlines()
    drawn = [int(line.split("|")[1].split()[-3].replace(",", "")) for line in lines if "%" in line
             and "<" not in line] + [int(line.split("<")[0].split()[-1]) for line in lines
             if "<" in line]  # fmt: skip
    assert sum(drawn) == len(ns)


def test_labels_are_at_1_2_and_5_and_where_bins_begin():
    text = histogram_text([t * 10_000 for t in range(4, 130)], [1] * 126)
    labels = [line.split("|")[0].strip() for line in text.splitlines()]
    assert [label for label in labels if label] == ["40 us", "50 us", "100 us", "200 us", "500 us",
                                                    "1 ms"]  # fmt: skip


def test_a_wide_gap_takes_a_single_line():
    lines = histogram_text([100_000, 1_000_000_000], [3, 1]).splitlines()
    assert [line.strip().split("|")[0].strip() for line in lines] == ["100 us", "...", "1 s"]


def test_marks_are_beside_their_bins():
    lines = histogram_text([150_000, 800_000], [9, 1], marks={151_000: "A", 810_000: "B"})
    marked = [line for line in lines.splitlines() if line.endswith(("  A", "  B"))]
    assert ["125 us" in marked[0], "800 us" in marked[1]] == [True, True]


def test_ascii_where_blocks_cannot_be_printed(monkeypatch):
    monkeypatch.setattr(report, "_blocks_are_printed", lambda: False)
    text = histogram_text([100_000, 200_000], [100, 1])
    assert text.isascii()
    assert text.count("#") > 10


@cases("ns", [0, 1, 9, 10, 99_999, 100_000, 999_999_999, 3_600_000_000_000])
def test_any_latency_has_a_bin(ns):
    (line,) = histogram_text([ns], [5]).splitlines()
    assert "100.0 %" in line


def test_a_sparkline_is_as_high_as_its_values_and_blank_for_missing_ones():
    assert sparkline([1, 2, 4, 8, 0, 0.001, 8]) == "▁▂▄█ ▁█"
    assert sparkline([0, 0, 5]) == "  █"
    assert sparkline([]) == ""

"""Ticks of charts: few and round, from zero to longer than any run."""

import re
from importlib.resources import files
from itertools import pairwise, product

import pytest

from cases import cases
from spillcast.profile.timeline import STATES
from spillcast.report.html.axes import clock, duration_ticks, fitting_durations
from spillcast.report.html.charts import SERIES, STATE_COLOURS, Bar, ReferenceLine, bars, unbroken


@cases(("exponent", "first"), product(range(-9, 19), [1.0, 3.1, 7.7]))
def test_few_ticks_for_any_duration(exponent, first):
    most_s = first * 10.0**exponent
    ticks = duration_ticks(most_s)
    assert ticks[0] == 0
    assert 0.4 * most_s < ticks[-1] <= most_s * 1.001
    assert 2 <= len(ticks) <= 8
    assert exponent < -4 or len({clock(tick) for tick in ticks}) == len(ticks)


@cases(("exponent", "first"), product(range(-9, 12), [1.0, 1.9, 3.1, 5.5, 7.7, 9.63]))
def test_ticks_of_an_axis_fit_on_a_phone_and_reach_far(exponent, first):
    """280 px, with letters of 7.2 px: labels are centred, but the last one ends at its tick."""
    max_s = first * 10.0**exponent
    ticks = fitting_durations(max_s)
    assert len(ticks) >= 2
    assert ticks[-1][0] >= 0.4 * max_s
    ends = 0.0
    for number, (value, label) in enumerate(ticks):
        width, at = 7.2 * len(label), 280 * value / max_s
        left = at if number == 0 else at - width if at > 0.9 * 280 else at - width / 2
        assert left >= ends
        ends = left + width


def test_bars_much_longer_than_today_exceed_the_axis():
    """The axis ends at three times today's 10 s, so that today is a third of it."""
    rows = [
        Bar("today", "10 s", {"CPU": 4.0, "read": 6.0}),
        Bar("an hour", "1 h", {"CPU": 4.0, "read": 3596.0}, (1800.0, 7200.0)),
        Bar("fast", "5 s", {"CPU": 4.0, "read": 1.0}, (4.5, 6.0)),
    ]
    limit = ReferenceLine("the limit", 3.0)
    html = bars(rows, {"CPU": "cpu", "read": "read"}, limit=limit, today=10.0).html
    _, *tracks = html.split('class="track"')
    ends = []
    for track in tracks:
        parts = re.findall(r'class="bar" x="([\d.]+)%".*?width="([\d.]+)%"', track)
        ends.append(sum(map(float, parts[-1])))
        assert ">".join(track.split(">")[:-1]).count('class="rule dashed"') == 1
        assert 'x1="10%" x2="10%" y2="100%"' in track
    assert ends == pytest.approx([100 / 3, 100, 100 / 6], abs=0.01)
    assert [track.count("M0 -5L5 0L0 5z") for track in tracks] == [0, 1, 0]
    # An interval completely beyond the axis is not drawn at its end.
    assert [track.count('class="interval"') for track in tracks] == [0, 0, 1]


@cases(
    ("text", "breaks"),
    [
        ("5 min 50 s (4 min 43 s to 6 min 11 s)", 1),
        ("1 h 49 min to 2 h 20 min", 0),
        ("~ 6.98 s", 0),
        ("-4 min 48 s to 15.4 s", 0),
        ("1 GiB to 2 GiB", 0),
        ("the 3 s to come", 3),
    ],
)
def test_quantities_and_intervals_are_not_broken(text, breaks):
    assert unbroken(text).count(" ") == breaks


def contrast(first, second):
    """Contrast ratio of two colours by WCAG 2.2, from 1 to 21."""
    luminances = []
    for colour in (first, second):
        parts = [int(colour[at : at + 2], 16) / 255 for at in (1, 3, 5)]
        linear = [p / 12.92 if p <= 0.04045 else ((p + 0.055) / 1.055) ** 2.4 for p in parts]
        luminances.append(0.2126 * linear[0] + 0.7152 * linear[1] + 0.0722 * linear[2])
    return (max(luminances) + 0.05) / (min(luminances) + 0.05)


def test_adjacent_parts_differ_on_grey_paper_and_lines_from_the_page():
    css = (files("spillcast.report.html") / "style.css").read_text()
    light, dark = dict[str, str](), dict[str, str]()
    for name, colour in re.findall(r"--([\w-]+): (#\w{6});", css):
        (dark if name in light else light)[name] = colour
    for before, after in pairwise(STATES):
        pair = light[STATE_COLOURS[before]], light[STATE_COLOURS[after]]
        assert contrast(*pair) > 1.4, (before, after)
    for scheme in (light, dark):
        assert min(contrast(scheme[name], scheme["page"]) for name in SERIES) >= 3

"""Durations and sizes as people type them, with suggestions where the meaning is unclear."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from cases import cases
from spillcast.errors import OptionInvalid
from spillcast.units import (
    format_count,
    format_duration,
    format_speedup,
    parse_bytes,
    parse_duration_s,
    parse_factor,
    parse_latency_s,
)

M = 1 << 20


@cases(
    ("text", "seconds"),
    [
        ("150us", 150e-6), ("150 µs", 150e-6), ("150 μs", 150e-6), ("9 ms", 9e-3), ("60", 60),
        ("1.5h", 5400), ("2m", 120), ("773.5s", 773.5), ("30 sec", 30), ("2 minutes", 120),
        # Formats of psql and SQL*Plus, of people, and of our own output.
        ("12:53", 773), ("12:53.250", 773.25), ("00:12:53.04", 773.04), ("1:03:20", 3800),
        ("12m53s", 773), ("12 min 53 s", 773), ("1 h 03 min", 3780), ("2h10m", 7800),
        ("2H 10M 5S", 7805), ("90:00", 5400), ("0", 0), ("0 s", 0), ("1d2h", 93600),
        ("1s500ms", 1.5),
    ],
)  # fmt: skip
def test_durations_in_many_forms_are_read(text, seconds):
    assert parse_duration_s(text) == pytest.approx(seconds, rel=1e-12)
    assert parse_duration_s(f" {text} ") == pytest.approx(seconds, rel=1e-12)


@cases(
    "text",
    ["", "soon", "-1", "1:2", "12:61", "1:75:00", "1:", "2h10", "10m2h", "5s5s", "5x", "1.2.3s",
     "5 parsecs", "ms", "1e3", "0x10", "inf", "nan"],
)  # fmt: skip
def test_an_invalid_duration_is_named_with_its_option(text):
    with pytest.raises(OptionInvalid) as caught:
        parse_duration_s(text, "--elapsed")
    assert caught.value.message == f"--elapsed: '{text}' is not a duration"
    assert "2m" in caught.value.hint


@given(st.floats(1e-9, 1e7) | st.just(0.0))
def test_every_printed_duration_is_read(seconds):
    # Three digits, or whole seconds and minutes above that.
    step = 60 if seconds >= 3600 else 1 if seconds >= 99 else max(seconds / 100, 1e-9)
    assert parse_duration_s(format_duration(seconds)) == pytest.approx(seconds, abs=step / 2 * 1.01)


@given(st.floats(1e-9, 1e7))
def test_a_negative_duration_is_the_positive_one_with_a_sign(seconds):
    """-126 s are -2 min 06 s: minutes are not rounded down for negative values."""
    assert format_duration(-seconds) == f"-{format_duration(seconds)}"
    assert format_duration(-126.0) == format_duration(np.float64(-126.0)) == "-2 min 06 s"


@given(st.floats(1e-9, 1e7), st.floats(1e-9, 1e7))
def test_printed_durations_keep_their_order(item, other):
    low, high = sorted((item, other))
    printed = [parse_duration_s(format_duration(seconds)) for seconds in (low, high)]
    assert printed[0] <= printed[1] * (1 + 1e-12)


@cases(
    ("text", "meant"),
    [("150", "150us or 150ms"), ("9", "9us or 9ms"), ("0.15", "0.15ms or 0.15s")],
)
def test_a_latency_without_a_unit_is_refused(text, meant):
    with pytest.raises(OptionInvalid) as caught:
        parse_latency_s(text, f"--to latency:{text}")
    assert caught.value.message == f"--to latency:{text}: '{text}' has no unit"
    assert caught.value.hint == f"write {meant}"


def test_a_latency_with_a_unit_is_a_duration():
    assert parse_latency_s("150us") == pytest.approx(150e-6)
    assert parse_latency_s("0") == 0


@cases(
    ("text", "count"),
    [("256K", 256 << 10), ("1.5 GiB", 3 << 29), ("200MB", 200 * M), ("8192", 8192), ("0", 0),
     ("2t", 2 << 40), ("1048576 B", M)],
)  # fmt: skip
def test_sizes_in_many_forms_are_read(text, count):
    assert parse_bytes(text) == count


def test_a_size_without_a_unit_is_refused():
    with pytest.raises(OptionInvalid) as caught:
        parse_bytes("64", "--memory")
    assert caught.value.message == "--memory: '64' has no unit"
    assert caught.value.hint == "write one of 64K, 64M, 64G"


@cases("text", ["9" * 400, "9" * 20 + "T", "9000T"])
def test_impossible_sizes_are_refused(text):
    with pytest.raises(OptionInvalid):
        parse_bytes(text)


@cases(
    ("read", "text", "meant"),
    [(parse_bytes, "1,5G", "1.5G"), (parse_duration_s, "0,5 s", "0.5 s")],
)
def test_a_decimal_comma_is_refused_with_a_point_in_the_hint(read, text, meant):
    with pytest.raises(OptionInvalid) as caught:
        read(text)
    assert caught.value.hint == f"write {meant}, with a point"


@cases(("read", "text"), [(parse_bytes, "1,024MB"), (parse_duration_s, "1,062.4s")])
def test_a_comma_between_thousands_is_no_decimal_one(read, text):
    with pytest.raises(OptionInvalid) as caught:
        read(text)
    assert "1.0" not in caught.value.hint


@cases(
    ("count", "noun", "text"),
    [
        (1, "operation", "1 operation"), (0, "wait", "0 waits"), (12_000, "wait", "12,000 waits"),
        (2, "query", "2 queries"), (2, "delay", "2 delays"), (3, "process", "3 processes"),
        (2, "batch", "2 batches"), (1, "process", "1 process"),
    ],
)  # fmt: skip
def test_the_noun_agrees_with_the_count(count, noun, text):
    assert format_count(count, noun) == text


@cases(
    ("parse", "text", "why"),
    [
        (parse_duration_s, "99999999h", "--elapsed: '99999999h' is longer than 300 years"),
        (parse_latency_s, "61m", "--elapsed: '61m' is longer than an hour"),
        (parse_factor, "1e-300", "from 1e-9 to 1e9"),
        (parse_factor, "1e300", "from 1e-9 to 1e9"),
    ],
)
def test_absurd_values_are_refused(parse, text, why):
    with pytest.raises(OptionInvalid) as caught:
        parse(text, "--elapsed")
    assert why in caught.value.message


@cases(
    ("seconds", "text"),
    [(14.04, "14.0 s"), (13.97, "14.0 s"), (0.99978, "1.00 s"), (14.0, "14 s"), (0.012, "12 ms")],
)
def test_only_exact_durations_have_fewer_than_three_digits(seconds, text):
    assert format_duration(seconds) == text


def test_a_speedup_of_zero_is_printed_as_zero():
    assert format_speedup(0) == "0x"

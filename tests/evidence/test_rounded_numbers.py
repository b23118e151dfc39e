"""Rounded numbers of reports, with the bounds that rounding leaves."""

import pytest

from cases import cases
from spillcast.errors import InputError
from spillcast.evidence.numbers import number_of, rounded_number, seconds_of


@cases(
    ("text", "value", "half"),
    [
        ("48511", 48511, 0),
        ("1,234,567", 1_234_567, 0),
        ("1 234 567", 1_234_567, 0),
        ("12.5", 12.5, 0.05),
        (".5", 0.5, 0.05),
        # K is rounded to a thousand, or with a decimal to a hundred; for bytes it is 1,024.
        ("12K", 12_000, 500),
        ("28.9K", 28_900, 50),
        ("3M", 3_000_000, 500_000),
        ("2KB", 2048, 512),
        ("2KiB", 2048, 512),
        ("47GB", 47 * 2**30, 2**29),
        ("1.5E+3", 1500, 50),
        ("412.3ms", 0.4123, 0.00005),
        ("8.00us", 8e-6, 5e-9),
        ("209s", 209, 0),
        ("30%", 30, 0),
    ],
)
def test_a_number_is_within_half_a_unit_of_its_last_digit(text, value, half):
    number = number_of(text)
    assert (number.value, number.low, number.high) == pytest.approx(
        (value, value - half, value + half)
    )


@cases("text", ["", "-", "12x", "1,2,3", "K", "1.2.3", "four", "1 23"])
def test_text_that_is_not_a_number(text):
    assert number_of(text) is None
    assert seconds_of(text) is None


@cases("text", ["1E30", "9" * 40])
def test_impossibly_large_counts_are_refused(text):
    with pytest.raises(ValueError, match=text):
        number_of(text)


@cases(
    ("text", "value", "half"),
    [
        ("00:00:29.20", 29.2, 0.005),
        ("00:12:53", 773, 0.5),
        ("+1 02:03:04.5", 93784.5, 0.05),
        ("00:00:00.2", 0.2, 0.05),
        ("0:00:29,25", 29.25, 0.005),
        # Times and percentages are rounded also where they are printed as integers.
        ("209s", 209, 0.5),
        ("820", 820, 0.5),
        ("8.00us", 8e-6, 5e-9),
    ],
)
def test_times_are_rounded_to_their_last_digit(text, value, half):
    number = seconds_of(text)
    assert (number.value, number.low, number.high) == pytest.approx(
        (value, value - half, value + half)
    )


def test_no_bound_is_negative():
    assert (rounded_number("0").low, rounded_number("0").high) == (0, 0.5)
    assert (seconds_of("00:00:00").low, seconds_of("00:00:00").high) == (0, 0.5)
    assert rounded_number("0.25").high == pytest.approx(0.255)


def test_sums_products_and_ratios_keep_the_bounds():
    left, right = number_of("2.0"), number_of("4.0")
    assert (left + right).low == pytest.approx(1.95 + 3.95)
    assert (left * right).high == pytest.approx(2.05 * 4.05)
    ratio = left / right
    assert (ratio.value, ratio.low, ratio.high) == pytest.approx((0.5, 1.95 / 4.05, 2.05 / 3.95))
    assert (left * 3).low == pytest.approx(3 * 1.95)
    nothing = left / number_of("0")
    assert (nothing.value, nothing.low, nothing.high) == (0, 0, float("inf"))


#: 10,000 reads and 3,000 writes of 0.3 ms, by an NLS with decimal commas and no leading zeros.
COMMAS = """\
"EVENT","TOTAL_WAITS","TIME_WAITED","AVERAGE_WAIT","TIME_WAITED_MICRO"
"direct path read temp",10000,300,",03",3000000
"direct path write temp",3000,90,",03",900000
"log file sync",12,12,"1,04",125000
"""
BARS = """\
EVENT                  | TOTAL_WAITS | TIME_WAITED | AVERAGE_WAIT
-----------------------+-------------+-------------+-------------
direct path read temp  |       10000 |         300 |          ,03
direct path write temp |        3000 |          90 |          ,03
log file sync          |          12 |          13 |         1,04
"""
LESS = """\
EVENT                   TOTAL_WAITS TIME_WAITED AVERAGE_WAIT
----------------------- ----------- ----------- ------------
direct path read temp         10000         300          ,03
direct path write temp         3000          90          ,03
"""
#: The same waits, as a script prints those of a session, with times to a hundredth of a second.
PRINTED = """\
                              Total      Waited     Average
Waited for                    Waits    for (ms)   Wait (ms)
----------------------- ----------- ----------- -----------
direct path read temp        10,000    3,000.00         .30
direct path write temp        3,000      900.00         .30
os thread startup                 1       20.00       17.30
"""
#: The same waits below a statement whose lines begin with commas.
BELOW_SQL = f"""\
select region
{"".join(f"      ,{number} as n{number}{chr(10)}" for number in range(40))}  from t order by 1

{PRINTED}"""


@cases("text", [COMMAS, BARS, LESS, PRINTED, BELOW_SQL])
def test_waits_below_one_unit_may_omit_the_zero(figures, text):
    result = figures(text, elapsed_s=10)
    assert (result.reads.count, result.writes.count) == (10_000, 3_000)
    assert result.total_s == pytest.approx(3.9, rel=1e-3)


@cases(
    ("name", "per_s"),
    [
        ("TIME_WAITED", 100),
        ("TIME_WAITED_CS", 100),
        ("TIME_WAITED_HSECS", 100),
        ("TIME_WAITED_NS", 1e9),
        ("TIME_WAITED_MICRO", 1e6),
        ("TIME_WAITED_MS", 1e3),
        ("TIME_WAITED_SECONDS", 1),
        ("TIME_WAIT_SEC", 1),
        ("TIME_WAITED_MINUTES", 1 / 60),
        ("TIME_WAITED_HOURS", 1 / 3600),
    ],
)
def test_the_name_of_a_column_of_times_tells_its_unit(figures, name, per_s):
    """Percentages and means have similar names."""
    text = f"EVENT,PCT_WAITS,TOTAL_WAITS,PCT_TIME_WAITED,AVG_TIME_WAITED_MS,{name}\n"
    text += f"direct path read temp,61.2,9434,50.1,763.2,{7200 * per_s:g}\n"
    text += f"direct path write temp,38.8,1368,25.1,2631.6,{3600 * per_s:g}\n"
    result = figures(text, elapsed_s=20_000)
    assert (result.reads.count, result.total_s) == (9434, pytest.approx(10_800))


@cases("name", ["TIME_WAITED_MIN", "TIME_WAITED_RATIO", "TIME_WAITED_STDDEV", "TIME_WAITED_DAYS"])
def test_a_column_of_times_without_a_known_unit_is_no_total(figures, name):
    text = f"EVENT,TOTAL_WAITS,{name}\ndirect path read temp,9434,72\n"
    with pytest.raises(InputError):
        figures(text, elapsed_s=20_000)

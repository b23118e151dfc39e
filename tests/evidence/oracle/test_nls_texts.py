"""Times and numbers of ASH as sessions of any NLS language and territory print them."""

from datetime import datetime, timedelta

from hypothesis import given
from hypothesis import strategies as st

from cases import cases
from spillcast.evidence.oracle.spooled import parse_integer, parse_time_ns

NOON_MS = datetime(2024, 10, 14, 12, 34, 56, 789_000)
NOON = NOON_MS.replace(microsecond=0)
TIMES = {
    "2024-10-14 12:34:56.789": NOON_MS,
    "2024-10-14 12:34:56,789000000": NOON_MS,
    "2024-10-14T12:34:56.789": NOON_MS,
    "2024-10-14T12:34:56Z": NOON,
    "2024-10-14T12:34:56+02:00": NOON - timedelta(hours=2),
    "2024-10-14 12:34:56.789 -0730": NOON_MS + timedelta(hours=7, minutes=30),
    "2024-10-14 12:34:56 Europe/Berlin": NOON,
    "14-OCT-24 12.34.56.789 PM": NOON_MS,
    "14-OCT-24 12.34.56.789000 AM": NOON_MS - timedelta(hours=12),
    "14-OCT-24 01.34.56.789 PM": NOON_MS + timedelta(hours=1),
    "14-Oct-2024 12:34:56": NOON,
    "14-OKT-24 12:34:56,789": NOON_MS,
    "14-MRZ-24 12:34:56,789": NOON_MS.replace(month=3),
    "14-DÉC. -24 12:34:56,789": NOON_MS.replace(month=12),
    "14-JUIL.-24 12:34:56,789": NOON_MS.replace(month=7),
    "14-JUIN -24 12:34:56,789": NOON_MS.replace(month=6),
    "14-DIC-24 12:34:56,789": NOON_MS.replace(month=12),
    "14-ДЕК-24 12.34.56.789": NOON_MS.replace(month=12),
    "14-10月-24 12.34.56.789000000 下午": NOON_MS,
    "14-10월-24 01.34.56.789000 오후": NOON_MS + timedelta(hours=1),
    "14-10月-24 12.34.56.789 午前": NOON_MS - timedelta(hours=12),
    "14.10.24 12:34:56,789000": NOON_MS,
    "14.10.2024 12:34": NOON.replace(second=0),
    "2024/10/14": datetime(2024, 10, 14),
    "2024/10/14 12:34:56": NOON,
    "14/10/2024 12:34:56": NOON,
    "14-OCT-24": datetime(2024, 10, 14),
    "14 OCT 2024 12:34:56": NOON,
    "14-MRT-24 12:34:56": NOON.replace(month=3),
    "14-HUHTI-24 12:34:56": NOON.replace(month=4),
    "14-NİS-24 12:34:56": NOON.replace(month=4),
}


@cases("text", TIMES)
def test_times(text):
    since = TIMES[text] - datetime(1970, 1, 1)
    assert parse_time_ns(text) == round(since / timedelta(microseconds=1)) * 1000


@cases("text", ["", "yesterday", "2024-13-14", "31-FEB-24", "2024-10-14 24:00:00"])
def test_invalid_times_are_none(text):
    assert parse_time_ns(text) is None


@given(st.datetimes(datetime(2000, 1, 1), datetime(2099, 12, 31)))
def test_any_time_in_any_format(time):
    time = time.replace(microsecond=time.microsecond // 1000 * 1000)
    wanted = round((time - datetime(1970, 1, 1)) / timedelta(microseconds=1)) * 1000
    for form in ("%Y-%m-%d %H:%M:%S.%f", "%d-%b-%y %I.%M.%S.%f %p", "%d.%m.%Y %H:%M:%S,%f"):
        assert parse_time_ns(time.strftime(form)) == wanted


NUMBERS = {
    "19305": 19_305,
    " 19305 ": 19_305,
    "19,305": 19_305,
    "1.234.567": 1_234_567,
    "1.234,5": 1_234,
    "19305,25": 19_305,
    "19305.75": 19_306,
    "-1": -1,
    "1.4E+14": 140_000_000_000_000,
    "1,5E+03": 1_500,
    "##########": None,
    "n/a": None,
    "1e400": None,
}


@cases("text", NUMBERS)
def test_numbers(text):
    assert parse_integer(text) == NUMBERS[text]


@given(st.integers(-(10**15), 10**15), st.sampled_from(",.'"))
def test_grouped_numbers(number, separator):
    assert parse_integer(f"{number:,}".replace(",", separator)) == number

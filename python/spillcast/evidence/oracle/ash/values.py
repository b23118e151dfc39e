"""Numbers and timestamps in the forms that Oracle's clients and spreadsheets write them."""

import re
from collections.abc import Iterable
from datetime import UTC, datetime, timedelta

_INT64_MAX = (1 << 63) - 1
_GROUPED = re.compile(r"([+-]?\d{1,3}(?:([.,' \u00a0])\d{3})(?:\2\d{3})*)(?:(?!\2)[.,](\d+))?")

# English names and the German ones that differ, by their first three letters.
_MONTHS = {
    **{"jan": 1, "feb": 2, "mar": 3, "apr": 4, "may": 5, "jun": 6},
    **{"jul": 7, "aug": 8, "sep": 9, "oct": 10, "nov": 11, "dec": 12},
    **{"mrz": 3, "mär": 3, "mai": 5, "okt": 10, "dez": 12},
}
_TIMESTAMP = re.compile(
    r"""(?P<first>\d{1,4}) [-/. ] (?P<second>\d{1,2}|[^\W\d_]{3,9}\.?) [-/. ] (?P<third>\d{1,4})
    (?: [T\s]+ (?P<hour>\d{1,2}) [:.] (?P<minute>\d{2})
        (?: [:.] (?P<second_of_minute>\d{2}) (?: [.,:] (?P<fraction>\d{1,9}) )? )?
        (?: \s* (?P<half>[AP])\.?M\.? )?
        (?: \s* (?P<zone> Z | UTC | GMT | [+-]\d{2}:?\d{2} | [A-Z]\w+(?:/\w+)+ ) )?
    )?""",
    re.VERBOSE | re.IGNORECASE,
)
_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)


def parse_integer(text: str) -> int | None:
    """The whole number nearest to ``19305``, ``19,305``, ``1.9305E+04`` or ``19305,25``.

    All numbers that ASH holds are whole, so one separator before three digits groups thousands.
    None where it is not a number, as ``####`` is that SQL*Plus prints for one too wide.
    """
    text = text.strip()
    try:
        return _within(int(text))
    except ValueError:
        pass
    if grouped := _GROUPED.fullmatch(text):
        digits = grouped[1].replace(grouped[2], "")
        text = f"{digits}.{grouped[3] or 0}"
    try:
        return _within(round(float(text.replace(",", "."))))
    except (ValueError, OverflowError):
        return None


def _within(number: int) -> int | None:
    return number if abs(number) <= _INT64_MAX else None


def month_comes_first(texts: Iterable[str]) -> bool:
    """Whether dates such as ``10/14/2024`` are among ``texts``; else the day is taken as first."""
    for text in texts:
        match = _TIMESTAMP.match(text)
        if match and len(match["first"]) < 3 and match["second"].isdecimal():
            if int(match["second"]) > 12:
                return True
            if int(match["first"]) > 12:
                return False
    return False


def parse_time_ns(text: str, *, month_first: bool = False) -> int | None:
    """Nanoseconds since 1970 of a date and time; None where it is none.

    Read are ``2024-10-14 12:34:56.789``, ``2024-10-14T12:34:56Z``, ``14-OCT-24 12.34.56.789 PM``,
    ``14.10.24 12:34:56,789000``, ``2024/10/14`` and their like. Offsets from UTC are applied;
    names of zones are not, as only the differences of times are used.
    """
    match = _TIMESTAMP.fullmatch(text.strip())
    if match is None:
        return None
    try:
        date = _date(match["first"], match["second"], match["third"], month_first=month_first)
        clock = timedelta(
            hours=_hour(int(match["hour"] or 0), match["half"]),
            minutes=int(match["minute"] or 0),
            seconds=int(match["second_of_minute"] or 0),
        )
        since = date + clock - _offset(match["zone"]) - _EPOCH
    except (ValueError, KeyError, OverflowError):
        return None
    fraction_ns = int((match["fraction"] or "0").ljust(9, "0"))
    return _within((since.days * 86_400 + since.seconds) * 1_000_000_000 + fraction_ns)


def has_clock(text: str) -> bool:
    """Whether a time of day stands behind the date."""
    match = _TIMESTAMP.fullmatch(text.strip())
    return match is not None and match["hour"] is not None


def _date(first: str, second: str, third: str, *, month_first: bool) -> datetime:
    if len(first) == 4:
        year, month, day = first, second, third
    elif month_first:
        month, day, year = first, second, third
    else:
        day, month, year = first, second, third
    number = int(month) if month.isdecimal() else _MONTHS[month[:3].lower()]
    full_year = int(year) + (2000 if len(year) <= 2 else 0)
    return datetime(full_year, number, int(day), tzinfo=UTC)


def _hour(hour: int, half: str | None) -> int:
    if hour > 23 or (half and not 1 <= hour <= 12):
        raise ValueError(hour)
    if half is None:
        return hour
    return hour % 12 + (12 if half.upper() == "P" else 0)


def _offset(zone: str | None) -> timedelta:
    if zone is None or zone[0] not in "+-":
        return timedelta()
    minutes = int(zone[1:3]) * 60 + int(zone[-2:])
    return timedelta(minutes=-minutes if zone[0] == "-" else minutes)

"""Reads printed numbers and durations with their rounding bounds, and compares them."""

import re
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from spillcast.errors import EvidenceContradictory, EvidenceDamaged, OptionInvalid
from spillcast.gate import COUNT_MAX

#: A number with an exponent or a suffix such as K, and a unit of time or bytes.
_NUMBER = re.compile(
    r"((?:\d+(?:[,']\d{3})*|\d{1,3}(?: \d{3})+)?(?:\.\d*)?)(?:[eE]([+-]?\d{1,2}))?"
    r"\s*([KMGTPE]?)i?(B|us|µs|ms|ns|s|%)?"
)
_CLOCK = re.compile(r"[+-]?(?:(\d+) )?(\d+):([0-5]\d):([0-5]\d(?:[.,]\d+)?)")
#: The leading characters of a text that decide whether it has decimal commas.
_JUDGED_LENGTH = 1 << 20
_SUFFIXES = " KMGTPE"
SECONDS = {"s": 1.0, "ms": 1e-3, "us": 1e-6, "µs": 1e-6, "ns": 1e-9}
#: Numbers in a text, and forms that imply a decimal comma or a decimal point. A comma at the start
#: of a line belongs to SQL.
_TOKEN = re.compile(
    r"(?:^[ \t]++,\d++|(?<![\w.,:/#*-])\d[\d.,]*\d"
    r"|(?:(?<=\s\s)|(?<=[|;>])|(?<=[|;]\s)|(?<=[\s|;,]\")),\d++)"
    r"(?=(?:[KMGTP]?i?B?|[num]?s)?(?![\w.,:/-]))",
    re.MULTILINE,
)
_COMMA_FORM = re.compile(r"\d{1,3}(?:\.\d{3})*(?:,\d+)?|\d*,\d+")
_UNAMBIGUOUS = (
    r"\d{{1,3}}(?:{1}\d{{3}})+{0}\d+|\d{{1,3}}(?:{1}\d{{3}}){{2,}}"
    r"|\d+{0}(?:\d{{1,2}}|\d{{4,}})|\d{{4,}}{0}\d+"
)
_ONLY_COMMA = re.compile(_UNAMBIGUOUS.format(",", r"\.") + r"|,\d+")
_ONLY_POINT = re.compile(_UNAMBIGUOUS.format(r"\.", ","))
#: The tolerance beyond rounding: means of means, and clocks that are read one after the other.
TOLERANCE = 0.02


@dataclass(frozen=True)
class Number:
    """A number with the bounds that its rounding allows."""

    value: float
    low: float
    high: float

    @classmethod
    def of(cls, value: "Number | float") -> "Number":
        """A Number unchanged, or a float as an exact Number."""
        return value if isinstance(value, Number) else cls(value, value, value)

    def __float__(self) -> float:
        return float(self.value)

    def __mul__(self, other: "Number | float") -> "Number":
        other = Number.of(other)
        return Number(self.value * other.value, self.low * other.low, self.high * other.high)

    def __neg__(self) -> "Number":
        return Number(-self.value, -self.high, -self.low)

    def __add__(self, other: "Number") -> "Number":
        return Number(self.value + other.value, self.low + other.low, self.high + other.high)

    def __truediv__(self, other: "Number") -> "Number":
        low = self.low / other.high if other.high else 0.0
        high = self.high / other.low if other.low > 0 else float("inf")
        return Number(self.value / other.value if other.value else 0.0, low, high)

    @property
    def width(self) -> float:
        """The difference of the bounds."""
        return self.high - self.low

    @property
    def spread(self) -> float:
        """The difference of the bounds as a share of the value."""
        return self.width / self.value if self.value else float("inf")

    @property
    def is_count(self) -> bool:
        """Whether it is a count, such as 6, 6.00 or 6.1K; 6.1 is not, and 6.000 may be 6000."""
        may_be_grouped = self.value < 1000 and round(self.width, 6) == 1e-3
        return self.low <= round(self.value) <= self.high and not may_be_grouped


ZERO = Number.of(0.0)

#: Relations between two figures by name: a description, and whether the figures are equal; if not,
#: the left one is at most the right one.
RELATIONS = {
    "count-mean-total": ("the waits of an event times their mean are its total", True),
    "share-of-db-time": ("a percentage of DB time is that part of it", True),
    "part-of-whole": ("a part is at most its whole", False),
    "sum-of-parts": ("parts that make up a whole add up to it", True),
    "children-of-parent": ("a line of a plan holds the figures of those below it", False),
    "blocks-of-operations": ("each operation moves at least one block", False),
    "elapsed-in-span": ("no wait of a session is longer than its run", False),
    "time-at-once": ("processes together take at most the elapsed time times them", False),
    "sources-of-disk": ("row sources read at most what the column disk counts", False),
}


@dataclass(frozen=True)
class FigureCheck:
    """Two figures, each with a description, and the name of their relation in RELATIONS."""

    relation: str
    left: Number | float
    left_words: str
    right: Number | float
    right_words: str

    @property
    def holds(self) -> bool:
        """Whether the relation holds within the bounds of rounding and TOLERANCE."""
        _, equal = RELATIONS[self.relation]
        left, right = map(Number.of, (self.left, self.right))
        at_most = left.low * (1 - TOLERANCE) <= right.high
        return at_most and (not equal or right.low * (1 - TOLERANCE) <= left.high)


def number_of(text: str, *, step: int = 1000) -> Number | None:
    """The number in ``28.9K``, ``12K``, ``1,234.5``, ``.5`` or ``48511``; None for other text.

    ``step`` is the value of K, except before B, where it is 1,024. Times are in seconds. A percent
    sign is ignored.
    """
    match = _NUMBER.fullmatch(text.strip())
    if match is None or not re.search(r"\d", match[1]):
        return None
    digits = re.sub(r"[,' ]", "", match[1])
    factor = 10.0 ** int(match[2] or 0)
    if match[3]:
        factor *= float((1024 if match[4] == "B" else step) ** _SUFFIXES.index(match[3]))
    factor *= SECONDS.get(match[4], 1.0)
    decimals = len(digits.partition(".")[2])
    value = float(digits) * factor
    if abs(value) > COUNT_MAX:
        raise ValueError(f"{text} is neither a count nor a size")
    # Whole counts are exact.
    half = 0.5 * 10.0**-decimals * factor if decimals or factor != 1.0 else 0.0
    return Number(value, max(value - half, 0.0), value + half)


def rounded_number(text: str) -> Number | None:
    """The number of a time or a percentage, which counts as rounded even if it is whole."""
    number = number_of(text)
    if number is None or number.low != number.high:
        return number
    return Number(number.value, max(number.value - 0.5, 0.0), number.value + 0.5)


def seconds_of(text: str) -> Number | None:
    """Seconds in ``00:00:29.20``, ``209s``, ``8.00us`` or ``820``; None for other text."""
    if clock := _CLOCK.fullmatch(text.strip()):
        days, hours, minutes = (float(part or 0) for part in clock.groups()[:3])
        seconds = float(clock[4].replace(",", "."))
        value = 86_400 * days + 3600 * hours + 60 * minutes + seconds
        half = 0.5 * 10.0 ** -len(re.sub(r"^\d+[.,]?", "", clock[4]))
        return Number(value, max(value - half, 0.0), value + half)
    return rounded_number(text)


def amount(value: Any, name: str, max_value: float = COUNT_MAX) -> float:
    """A count, size or time in a document, a number or its text. ValueError for other values."""
    try:
        number = -1.0 if isinstance(value, bool) else float(value)
    except (TypeError, ValueError):
        number = -1.0
    if not 0 <= number <= max_value:
        raise ValueError(f"{name} is {str(value)[:40]}, and not a number up to {max_value:.3g}")
    return value if isinstance(value, int | float) else number


def whole(value: Any, name: str, max_value: float = COUNT_MAX) -> int:
    """An ``amount`` that is whole."""
    if (number := amount(value, name, max_value)) != int(number):
        raise ValueError(f"{name} is {value}, which is no whole number")
    return int(number)


def unix_time_s(text: Any) -> float | None:
    """Unix time of an ISO timestamp, of the local zone if it names none; None for another value."""
    try:
        return datetime.fromisoformat(str(text)).timestamp()
    except ValueError:
        return None


def quantity_of(parse: Callable[[str, str], float], text: str, name: str) -> float:
    """The size or time ``name`` in a file, by a parser of options. EvidenceDamaged."""
    try:
        return parse(text, name)
    except OptionInvalid as error:
        raise EvidenceDamaged(error.message) from error


def value_of(number: Number | None) -> float | None:
    """The value of a number, or None."""
    return None if number is None else number.value


def with_decimal_points(text: str) -> str:
    """The text with ``1,234.5`` for ``1.234,5`` if most numbers have a decimal comma."""
    start = text[:_JUDGED_LENGTH]
    tokens = [token for token in _TOKEN.findall(start) if "." in token or "," in token]
    commas = sum(_ONLY_COMMA.fullmatch(token) is not None for token in tokens)
    points = sum(_ONLY_POINT.fullmatch(token) is not None for token in tokens)
    if commas <= points:
        return text
    swapped = str.maketrans(".,", ",.")
    return _TOKEN.sub(
        lambda match: match[0].translate(swapped) if _COMMA_FORM.fullmatch(match[0]) else match[0],
        text,
    )


def check_all(checks: Iterable[FigureCheck], hint: str | None = None) -> None:
    """Raises EvidenceContradictory for the first two figures that contradict each other."""
    for check in checks:
        if not check.holds:
            raise EvidenceContradictory(
                f"{check.left_words} and {check.right_words} contradict each "
                f"other: {RELATIONS[check.relation][0]} ({check.relation})",
                hint,
            )

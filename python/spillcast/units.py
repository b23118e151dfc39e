"""Parses and formats durations, sizes and rates."""

import re
from collections.abc import Sequence

from spillcast.errors import OptionInvalid

DAY_S = 86_400.0
_SECONDS = {
    **dict.fromkeys(("ns", "nsec", "nanoseconds"), 1e-9),
    **dict.fromkeys(("us", "usec", "usecs", "microseconds"), 1e-6),
    **dict.fromkeys(("ms", "msec", "msecs", "milliseconds"), 1e-3),
    **dict.fromkeys(("s", "sec", "secs", "second", "seconds"), 1.0),
    **dict.fromkeys(("m", "min", "mins", "minute", "minutes"), 60.0),
    **dict.fromkeys(("h", "hr", "hrs", "hour", "hours"), 3600.0),
    **dict.fromkeys(("d", "day", "days"), DAY_S),
}
_BYTES = {"": 1, "b": 1, "k": 1 << 10, "m": 1 << 20, "g": 1 << 30, "t": 1 << 40}
#: Upper limit of a size: larger than any storage.
_BYTES_MAX = 8 << 50
#: A size without a unit is in bytes; a smaller number is assumed to lack its unit.
_BARE_BYTES_MIN = 512
_DURATIONS = "write for example 150us, 9ms, 60s, 12m53s or 12:53"
#: Upper limits of plausible durations (300 years), latencies and factors.
DURATION_MAX_S, _LATENCY_MAX_S, _FACTOR_MAX = 1e10, 3600.0, 1e9
_NUMBER = r"\d+(?:\.\d+)?"
_PART = re.compile(rf"(?<!\d)({_NUMBER})\s*+([a-z]+)\s*")
#: Minutes and seconds, or hours before them, as psql and SQL*Plus print them.
_CLOCK = re.compile(r"(?:(\d+):)?(\d+):([0-5]\d(?:\.\d+)?)")


def parse_duration_s(text: str, option: str = "") -> float:
    """Seconds from ``150us``, ``9 µs``, ``12m53s``, ``1 h 03 min``, ``1:03:20`` or a bare ``60``.

    Reads all output of ``format_duration``. InputError names ``option``.
    """
    seconds = _duration_s(text)
    if seconds is None:
        message = f"{_named(option)}'{text}' is not a duration"
        raise OptionInvalid(message, _decimal_point(text, _DURATIONS))
    if seconds > DURATION_MAX_S:
        raise OptionInvalid(f"{_named(option)}'{text}' is longer than 300 years", _DURATIONS)
    return seconds


def parse_latency_s(text: str, option: str = "") -> float:
    """Seconds of one operation, from ``150us`` or ``9 ms``.

    InputError for a bare number, which is ambiguous.
    """
    seconds = parse_duration_s(text, option)
    if seconds and re.fullmatch(_NUMBER, text.strip()):
        units = ("us", "ms") if seconds >= 1 else ("ms", "s")
        meant = " or ".join(f"{text.strip()}{unit}" for unit in units)
        raise OptionInvalid(f"{_named(option)}'{text}' has no unit", f"write {meant}")
    if seconds > _LATENCY_MAX_S:
        message = f"{_named(option)}'{text}' is longer than an hour"
        raise OptionInvalid(
            message, "it is what one operation takes: write for example 150us or 9ms"
        )
    return seconds


def _duration_s(text: str) -> float | None:
    """Seconds, or None for text that is not a duration. Units go from large to small, each once."""
    # Unicode has two letters mu: the micro sign, and the Greek letter.
    text = text.strip().lower().replace("\u00b5", "u").replace("\u03bc", "u")
    if re.fullmatch(_NUMBER, text):
        return float(text)
    if clock := _CLOCK.fullmatch(text):
        hours, minutes, seconds = (float(part or 0) for part in clock.groups())
        return 3600 * hours + 60 * minutes + seconds if clock[1] is None or minutes < 60 else None
    parts = _PART.findall(text)
    if not parts or "".join(f"{a}{b}" for a, b in parts) != re.sub(r"\s", "", text):
        return None
    scales = [_SECONDS.get(unit, 0.0) for _, unit in parts]
    if 0.0 in scales or sorted(set(scales), reverse=True) != scales:
        return None
    return sum(float(number) * scale for (number, _), scale in zip(parts, scales, strict=True))


def parse_factor(text: str, option: str) -> float:
    """The number after ``factor:``. InputError, which names ``option``, if it is invalid."""
    try:
        factor = float(text)
    except ValueError:
        factor = 0.0
    if not 1 / _FACTOR_MAX <= factor <= _FACTOR_MAX:
        message = f"{option}: a factor is a number above 0, from 1e-9 to 1e9"
        raise OptionInvalid(message, "for example factor:60")
    return factor


def parse_bytes(text: str, option: str = "") -> int:
    """Bytes from ``256K``, ``1.5 GiB`` or ``200MB``; units are powers of 1024.

    InputError, which names ``option``, for text that is not a size, and for a bare number that is
    too small to be one in bytes.
    """
    match = re.fullmatch(rf"\s*({_NUMBER})\s*+([kmgt]?)(?:i?b)?\s*", text.lower())
    if match is None:
        hint = _decimal_point(text, "write for example 256K, 200M or 10G")
        raise OptionInvalid(f"{_named(option)}'{text}' is not a size", hint)
    if re.fullmatch(_NUMBER, text.strip()) and 0 < float(match[1]) < _BARE_BYTES_MIN:
        meant = ", ".join(f"{match[1]}{unit}" for unit in "KMG")
        message = f"{_named(option)}'{text}' has no unit"
        raise OptionInvalid(message, f"write one of {meant}")
    size_bytes = float(match[1]) * _BYTES[match[2]]
    if size_bytes > _BYTES_MAX:
        raise OptionInvalid(f"{_named(option)}'{text}' is more than 8 PiB")
    return round(size_bytes)


def parse_rate(text: str, option: str = "") -> float:
    """Operations per second from ``12000``, ``16k``, ``1.5M`` or ``12,000 IOPS``. InputError."""
    match = re.fullmatch(
        rf"\s*((?:\d{{1,3}}(?:,\d{{3}})+)|{_NUMBER})\s*+([km]?)\s*+(?:iops|/s)?\s*", text.lower()
    )
    if match is None:
        raise OptionInvalid(
            f"{_named(option)}'{text}' is not a rate", "write for example 12000 or 12k"
        )
    return float(match[1].replace(",", "")) * {"": 1.0, "k": 1e3, "m": 1e6}[match[2]]


def parse_bytes_per_s(text: str, option: str = "") -> float:
    """Bytes per second from ``500MiB/s``, ``1000 MB/s``, ``1GB/s`` or ``4Gbit/s``. InputError.

    MB and GB are powers of 1000, as vendors state rates; MiB, GiB, M and G are powers of 1024.
    """
    match = re.fullmatch(
        rf"\s*({_NUMBER})\s*+([kmgt])(i?b|bit|)(?:ytes?)?\s*+(?:/\s*s(?:ec)?|ps)?\s*", text.lower()
    )
    if match is None:
        hint = _decimal_point(text, "write for example 500MiB/s or 1GB/s")
        raise OptionInvalid(f"{_named(option)}'{text}' is not a rate of bytes", hint)
    base = 1000.0 if match[3] in ("b", "bit") else 1024.0
    bytes_per_s = float(match[1]) * base ** (" kmgt".index(match[2]))
    return bytes_per_s / 8 if match[3] == "bit" else bytes_per_s


def _named(option: str) -> str:
    return f"{option}: " if option else ""


def _decimal_point(text: str, hint: str) -> str:
    """``hint``, or the number with a decimal point if its only mark is a comma."""
    number = re.fullmatch(r"(\s*\d+),(\d+)([^.,]*)", text)
    # A comma before three digits may also separate thousands.
    if number is None or (len(number[2]) == 3 and len(number[1].strip()) < 4):
        return hint
    return f"write {'.'.join(number.group(1, 2)).strip()}{number[3].rstrip()}, with a point"


def format_duration(seconds: float) -> str:
    """A duration with three significant digits: ``150 us``, ``9.04 ms``, ``-5 min 48 s``."""
    sign, size = "-" if seconds < 0 else "", abs(seconds)
    if size >= 3599.5:
        minutes = round(size / 60)
        return f"{sign}{minutes // 60} h {minutes % 60:02d} min"
    if size >= 99.95:
        whole_s = round(size)
        return f"{sign}{whole_s // 60} min {whole_s % 60:02d} s"
    for unit, scale in (("s", 1.0), ("ms", 1e-3), ("us", 1e-6)):
        if size >= 0.9995 * scale:
            return f"{sign}{_three_digits(size / scale)} {unit}"
    return "0 s" if size < 5e-10 else f"{sign}{size * 1e9:.0f} ns"


def format_interval(bounds_s: Sequence[float]) -> str:
    """The ends of an interval of durations: ``5 min 30 s to 6 min 12 s``."""
    return " to ".join(map(format_duration, bounds_s))


def format_estimate(seconds: float, bounds_s: Sequence[float] | None) -> str:
    """A duration with its interval, if known: ``5 min 50 s (5 min 30 s to 6 min 12 s)``."""
    text = format_duration(seconds)
    return text if bounds_s is None else f"{text} ({format_interval(bounds_s)})"


def format_bytes(count: float) -> str:
    """A size in powers of 1024 with three significant digits: ``256 KiB``, ``1.52 GiB``."""
    for unit, scale in (("TiB", 1 << 40), ("GiB", 1 << 30), ("MiB", 1 << 20), ("KiB", 1 << 10)):
        if count >= scale:
            return f"{_three_digits(count / scale)} {unit}"
    return f"{count:.0f} B"


def format_share(share: float, digits: int = 0) -> str:
    """A share in percent: ``12 %``, or ``12.3 %`` with ``digits`` 1."""
    return f"{100 * share:.{digits}f} %"


def format_count(count: int, noun: str) -> str:
    """A number and its noun: ``1 wait``, ``12,000 waits``, ``2 queries``."""
    if count == 1:
        return f"1 {noun}"
    if re.search("[^aeiou]y$", noun):
        return f"{count:,} {noun[:-1]}ies"
    return f"{count:,} {noun}" + ("es" if re.search("(s|x|ch|sh)$", noun) else "s")


def format_setting(size: int) -> str:
    """Bytes as PostgreSQL writes a setting: ``64MB``, ``1536kB``."""
    for unit, scale in (("GB", 1 << 30), ("MB", 1 << 20)):
        if size % scale == 0 and size:
            return f"{size // scale}{unit}"
    return f"{size // 1024}kB"


def format_mount_size(size: int) -> str:
    """Bytes in the notation of mount(8): ``8G``, ``1280M``."""
    return f"{size >> 30}G" if size % (1 << 30) == 0 else f"{size >> 20}M"


def interval_name(confidence: float) -> str:
    """The name of an interval of this confidence: ``90 % interval``."""
    return f"{100 * confidence:.3g} % interval"


def format_speedup(ratio: float) -> str:
    """A ratio of elapsed times: ``2.23x``, ``59x``, ``0.0025x``."""
    if 0 < abs(ratio) < 0.0995:
        return f"{ratio:.2g}x"
    return f"{_three_digits(ratio)}x"


def _three_digits(value: float) -> str:
    decimals = 2 if abs(value) < 9.995 else 1 if abs(value) < 99.95 else 0
    is_whole = abs(value - round(value)) <= 1e-6 * abs(value)
    return f"{value:.{0 if is_whole else decimals}f}"
